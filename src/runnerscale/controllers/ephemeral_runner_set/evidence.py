"""Retired runners: kept as evidence for a while, then deleted.

Which are kept is the failure policy's business, whose memory they are. What a retired runner
leaves at GitHub and on nodes is its own controller's (`ephemeral_runner/retired.py`).

Pure. Design section 5: by default 10 minutes, at most 5 of a set.
"""

from runnerscale.controllers.ephemeral_runner_set.failure_policy import EVIDENCE_TTL_S, Verdict
from runnerscale.controllers.ephemeral_runner_set.snapshot import Action, DeleteRunner, Snapshot
from runnerscale.controllers.stages import Stage


def stage(seen: Snapshot, verdict: Verdict) -> Stage[Action]:
    """Delete what is evidence no longer."""
    gone = [r for r in seen.retired if r.uid not in verdict.keep]
    ages = [seen.now_s - r.since_s for r in seen.retired if r.uid in verdict.keep]
    left = [EVIDENCE_TTL_S - age_s for age_s in ages if age_s < EVIDENCE_TTL_S]
    return Stage(
        tuple(DeleteRunner(r.name, uid=r.uid, why="retired") for r in gone),
        again_s=min(left, default=None),
    )
