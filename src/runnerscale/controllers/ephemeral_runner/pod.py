"""Second stage: the pod is made, or it is decided that it cannot be.

A refusal that may pass (quota, webhook, a service account that is not there yet, rights) is
waited for while the JIT config is good; one that cannot (validation, Pod Security, an unknown
priority class) ends the runner at once, in the server's own words. That a pod of that name is
there already is success if it is ours.

Pure. Contract: resources-and-controllers 4.4.2; issue log 12, 13, 23.
"""

from dataclasses import dataclass

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    CreatePod,
    Ending,
    How,
    Refused,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    JIT_CONFIG_RENEWED_AFTER_S,
    POD_REFUSED_AGAIN_S,
)
from runnerscale.controllers.ephemeral_runner.jit_secret import template_hash
from runnerscale.controllers.ephemeral_runner.snapshot import (
    PodPast,
    Refusal,
    Snapshot,
    Where,
    where,
)
from runnerscale.controllers.ephemeral_runner.status import told

HAPPENED = "Failed to create the pod: "  # upstream's words, which dashboards look for


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a refusal means."""

    reason: Reason
    passing: bool  # it may go away by itself, or by what a person does elsewhere


# The first text that is found in the server's words decides.
PASSING = (
    ("exceeded quota", Verdict(Reason.QUOTA_EXCEEDED, passing=True)),
    ("is being terminated", Verdict(Reason.DELETION_WAITS, passing=True)),
    ("admission webhook", Verdict(Reason.INVALID_POD, passing=True)),
    ("failed calling webhook", Verdict(Reason.INVALID_POD, passing=True)),
    ("error looking up service account", Verdict(Reason.INVALID_POD, passing=True)),
    ("cannot create resource", Verdict(Reason.RIGHTS_MISSING, passing=True)),
)
FINAL = Verdict(Reason.INVALID_POD, passing=False)


def look(seen: Snapshot) -> Step:
    """Make the pod as soon as registration, Secret and stored id are there."""
    hand, runner = seen.hand, seen.runner
    if where(seen) is not Where.NOT_MADE or not hand.secret:
        return NOTHING
    if runner.runner_id == 0 or runner.runner_id != seen.registered_id:
        return NOTHING  # stored first: see `registration.py`
    refusal = hand.refusal
    # What a node said when it refused the last pod is in the status until the next one is there.
    troubles = told(seen) if hand.pod is PodPast.RETURNED else ()
    if refusal is not None:
        troubles = (refusal.trouble,)
    if refusal is not None and refusal.final:
        return Step(ending=Ending(How.FAILED, refusal.trouble, harmless=True))
    if hand.issued_s is None or seen.now_s - hand.issued_s >= JIT_CONFIG_RENEWED_AFTER_S:
        return _too_late(seen)
    wait_s = max(hand.pod_not_before_s, refusal.not_before_s if refusal else 0.0) - seen.now_s
    if wait_s > 0:
        return Step(again_s=wait_s, troubles=troubles)
    template = hand.template_hash or (template_hash(hand.jit) if hand.jit else "")
    return Step((CreatePod(runner.ref, template),), troubles=troubles)


def _too_late(seen: Snapshot) -> Step:
    refusal = seen.hand.refusal
    if refusal is not None and refusal.trouble.reason is Reason.INVALID_POD:
        return Step(ending=Ending(How.FAILED, refusal.trouble, harmless=True))
    if refusal is not None and refusal.trouble.reason is Reason.QUOTA_EXCEEDED:
        return Step(ending=Ending(How.DISTURBED, refusal.trouble, harmless=True))
    happened = "its pod could not be made while its start-up configuration was good"
    if seen.hand.pod is PodPast.RETURNED:
        happened = "no node took its pod while its start-up configuration was good"
    why = trouble(Reason.JIT_CONFIG_EXPIRED, about=seen.about, happened=happened)
    return Step(ending=Ending(How.DISTURBED, why, harmless=True))


def refusal(answer: Refused, *, about: str, at_s: float) -> Refusal:
    """What the API server's no to a Secret or pod means."""
    verdict = verdict_on(answer.words)
    happened = HAPPENED + answer.words
    return Refusal(
        trouble(verdict.reason, about=about, happened=happened),
        not_before_s=at_s + POD_REFUSED_AGAIN_S,
        final=not verdict.passing,
    )


def verdict_on(words: str) -> Verdict:
    """Whether the server's no may pass."""
    return next((verdict for text, verdict in PASSING if text in words), FINAL)
