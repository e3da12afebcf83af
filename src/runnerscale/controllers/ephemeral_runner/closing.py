"""How a decided ending is carried out, so that no order of crashes leaves it half done.

Finished: the object is deleted, without a word. Disturbed: GitHub forgets the runner, the
reason is stored (the set reads it and replaces the runner at once), the object is deleted.
Failed or outdated: the verdict is stored, and `retired.py` takes over. While the runner may
still live, GitHub is asked to forget it before anything else, because what it forgot can get
no job; if it says that a job runs, the ending is off. Each write carries the version that it
was decided on: a job that was stored meanwhile makes a conflict, and another plan.

Pure. Design section 4.
"""

from msgspec.structs import replace

from runnerscale.api.phase import RunnerPhase
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    DeleteRunner,
    Ending,
    How,
    PatchStatus,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    JOB_RELEASED_WITHIN_S,
    JOB_STILL_RUNNING_AGAIN_S,
)
from runnerscale.controllers.ephemeral_runner.deregistration import remove
from runnerscale.controllers.ephemeral_runner.snapshot import Removal, Snapshot
from runnerscale.controllers.ephemeral_runner.status import verdict

PHASES = {How.FAILED: RunnerPhase.FAILED, How.OUTDATED: RunnerPhase.OUTDATED}


def close(seen: Snapshot, ending: Ending) -> Step:
    """The next step of an ending."""
    runner = seen.runner
    if ending.how is How.FINISHED or ending.trouble is None:
        return Step((DeleteRunner(runner.ref),))
    troubles = (ending.trouble,)
    if not ending.harmless:
        asked = _take_off_the_market(seen, ending)
        if asked is not NOTHING:
            return replace(asked, troubles=(*troubles, *asked.troubles))
    how = ending.how
    if how is How.DISTURBED and seen.had_job:
        how = How.FAILED  # GitHub knows of a job that was never stored
    if how is How.DISTURBED:
        if runner.reason != ending.trouble.reason:
            return Step((_verdict(seen, ending, phase=None),), troubles=troubles)
        delete = DeleteRunner(runner.ref, resource_version=runner.resource_version)
        return Step((delete,), troubles=troubles)
    return Step((_verdict(seen, ending, phase=PHASES[how]),), troubles=troubles)


def _take_off_the_market(seen: Snapshot, ending: Ending) -> Step:
    """Ask GitHub to forget the runner; NOTHING: it did, or its word is not needed."""
    talk = seen.hand.talk
    if not seen.registered_id or talk.removal in (Removal.FORGOTTEN, Removal.ABSENT):
        return NOTHING
    if talk.removal is Removal.BUSY:
        due_s = talk.removal_s + JOB_STILL_RUNNING_AGAIN_S - seen.now_s
        if not seen.pod_alive or _given_up(seen):
            return NOTHING
        return Step(again_s=due_s) if due_s > 0 else remove(seen)
    if not seen.pod_alive and (ending.how is not How.DISTURBED or talk.trouble is not None):
        return NOTHING  # nothing runs: `deregistration.py` has time, and need not be waited for
    return remove(seen)


def _given_up(seen: Snapshot) -> bool:
    """The pod is past its own end for so long that GitHub must have let go of its job."""
    going_s = seen.pod.going_s if seen.pod else None
    return going_s is not None and seen.now_s - going_s >= JOB_RELEASED_WITHIN_S


def _verdict(seen: Snapshot, ending: Ending, *, phase: RunnerPhase | None) -> PatchStatus:
    assert ending.trouble is not None, "only a finished runner has none"
    return verdict(seen, ending.trouble, phase=phase)
