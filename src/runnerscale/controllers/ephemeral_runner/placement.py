"""Third stage: a node for the pod.

A pod that no node took in time ends the runner, with the scheduler's own words. A node that
turned the pod down before anything ran (out of cpu, shutting down) is the one case in which a
pod is made again with the same JIT config: the pod is still there to prove that no container
started. Slower each time, a few times, and only while this process remembers the whole story.

Pure. Contract: resources-and-controllers T148; design section 3; issue log 11, 119.
"""

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    DeletePod,
    Ending,
    How,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    JIT_CONFIG_RENEWED_AFTER_S,
    PLACED_WITHIN_S,
    POD_RETURNED_MAX,
    TOLD_AFTER_S,
)
from runnerscale.controllers.ephemeral_runner.pod_view import PodView
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot, Where, where


def look(seen: Snapshot) -> Step:
    """Wait for a node, for so long."""
    pod = seen.pod
    if pod is None:
        return NOTHING
    match where(seen):
        case Where.UNPLACED:
            return _wait(seen, pod)
        case Where.REFUSED:
            return _refused(seen, pod)
        case _:
            return NOTHING


def _wait(seen: Snapshot, pod: PodView) -> Step:
    age_s = seen.now_s - pod.created_s
    if age_s < TOLD_AFTER_S:
        return Step(again_s=TOLD_AFTER_S - age_s)
    words = pod.unplaced or "the scheduler has not spoken yet"
    if age_s >= PLACED_WITHIN_S:
        happened = f"no node took its pod in {int(age_s)} s ({words})"
        why = trouble(Reason.POD_NOT_PLACED, about=seen.about, happened=happened)
        return Step(ending=Ending(How.FAILED, why))
    waits = trouble(
        Reason.POD_NOT_PLACED, about=seen.about, happened=f"no node takes its pod yet ({words})"
    )
    return Step(again_s=PLACED_WITHIN_S - age_s, troubles=(waits,))


def _refused(seen: Snapshot, pod: PodView) -> Step:
    runner, hand = seen.runner, seen.hand
    why = trouble(
        Reason.POD_REFUSED_BY_NODE,
        about=seen.about,
        happened=f"a node turned its pod down ({pod.reason}: {pod.message})".replace(": )", ")"),
    )
    noted = pod.uid in runner.failures
    too_often = len(runner.failures) - noted >= POD_RETURNED_MAX
    known = hand.issued_s is not None and seen.now_s - hand.issued_s < JIT_CONFIG_RENEWED_AFTER_S
    if runner.has_job or too_often or not known:
        return Step(ending=Ending(How.DISTURBED, why))
    if not noted:
        # Stored before the pod goes, by its uid: what is seen twice is counted once.
        return Step(troubles=(why,), failed_pod=pod.uid)
    return Step((DeletePod(runner.ref, pod.uid, grace_s=0),), troubles=(why,))
