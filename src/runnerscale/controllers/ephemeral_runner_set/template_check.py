"""Whether the API server would take the pod that this set's runners get.

Asked by a dry run before the first runner is made from a spec, so that quota, Pod Security,
webhooks and typing errors are heard in the server's own words, and not as a row of failed
runners. Refused: nothing is made until the spec changes or a slow probe succeeds. An idle
runner of the spec before is not exchanged for one of a spec that cannot work.

Pure; the dry run itself is in `apply.py`. Design section 5.
"""

from runnerscale.api.conditions import TEMPLATE_ACCEPTED
from runnerscale.api.reasons import Reason
from runnerscale.controllers.conditions import find
from runnerscale.controllers.ephemeral_runner_set.failure_policy import SLOW_PROBE, Verdict
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    Check,
    CheckTemplate,
    Refused,
    Snapshot,
    Template,
)
from runnerscale.controllers.ephemeral_runner_set.wanted import missing
from runnerscale.controllers.stages import Stage

# Refusals of a dry run that say nothing about the template itself.
QUOTA_WORDS = "exceeded quota"
NO_DRY_RUN_WORDS = "does not support dry run"
GOING_WORDS = "is being terminated"


def stage(seen: Snapshot, verdict: Verdict) -> Stage[Action]:
    """Check when somebody is about to be made from it, or was refused long enough ago."""
    template = seen.template
    if template.check is Check.REFUSED:
        wait_s = template.again_s - seen.now_s
        troubles = (template.trouble,) if template.trouble else ()
        if wait_s > 0:
            return Stage(troubles=troubles, again_s=wait_s)
        return Stage((CheckTemplate(),), troubles)
    if template.check is Check.ACCEPTED or not is_needed(seen, verdict):
        return Stage()
    return Stage((CheckTemplate(),))


def is_needed(seen: Snapshot, verdict: Verdict) -> bool:
    """Somebody is to be made from the template, or it was refused before this process began."""
    condition = find(seen.item.status.conditions, TEMPLATE_ACCEPTED)
    was_refused = condition is not None and condition.status == "False"
    exchange = any(not r.current and not r.has_job for r in seen.runners)
    return was_refused or exchange or missing(seen, cap=verdict.cap) > 0


def may_use(seen: Snapshot) -> bool:
    """Whether runners may be made from it."""
    return seen.template.check is Check.ACCEPTED


def learned(before: Template, answer: object, *, now_s: float) -> Template:
    """What is known after a dry run."""
    if not isinstance(answer, Refused):
        return Template(Check.ACCEPTED)
    failures = before.failures + 1
    again_s = now_s + SLOW_PROBE.delay_s(failures - 1)
    return Template(Check.REFUSED, answer.trouble, again_s=again_s, failures=failures)


def says_something(words: str) -> bool:
    """Whether a refusal is about the template; a full quota or a going namespace is not."""
    return not any(part in words for part in (QUOTA_WORDS, NO_DRY_RUN_WORDS, GOING_WORDS))


REASON = Reason.TEMPLATE_REFUSED
