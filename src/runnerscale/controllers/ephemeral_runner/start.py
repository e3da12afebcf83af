"""Fourth stage: the runner's container starts, on a node that was found.

What can never become true (an image name nobody can parse, an image that is not there) ends
the runner at once; what may (a registry that is away, a missing config map) after a deadline
that says what it waited for. Init containers that must succeed and did not end it, too.

A JIT config that somebody deleted is one of the first kind: GitHub gave it out only once. A node
that does not find it may just be behind; so the API server itself is asked before it is believed.

Pure. Contract: resources-and-controllers 4.4.3 P5, W26; issue log 14, 15, 30.
"""

from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    CheckSecret,
    Ending,
    How,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    IMAGE_WITHIN_S,
    JIT_SECRET_ASKED_EVERY_S,
    STARTED_WITHIN_S,
    TOLD_AFTER_S,
)
from runnerscale.controllers.ephemeral_runner.pod_view import (
    RUNNER_CONTAINER,
    Exit,
    PodView,
    Waiting,
)
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot, Where, where

PULL_FAILS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
NEVER_PULLED = frozenset({"InvalidImageName", "ErrImageNeverPull"})
NOT_THERE = ("not found", "manifest unknown", "does not exist")  # in the registry's words
NO_CONFIG = "CreateContainerConfigError"  # what its environment refers to is not there
PATIENT = frozenset({"ContainerCreating", "PodInitializing"})  # nothing is wrong


def look(seen: Snapshot) -> Step:
    """Wait for the container, for as long as what it waits for deserves."""
    pod = seen.pod
    if pod is None or where(seen) is not Where.STARTING or pod.placed_s is None:
        return NOTHING
    if pod.failed is not None:
        return Step(ending=Ending(How.FAILED, failed_beside(seen, pod.failed)))
    age_s = seen.now_s - pod.placed_s
    hopeless = next((item for item in pod.waiting if is_hopeless(item)), None)
    if hopeless is not None:
        return Step(ending=Ending(How.FAILED, _image(seen, hopeless, Reason.IMAGE_INVALID), True))
    pulling = next((item for item in pod.waiting if item.reason in PULL_FAILS), None)
    if pulling is not None:
        why = _image(seen, pulling, Reason.IMAGE_UNAVAILABLE)
        if age_s >= IMAGE_WITHIN_S:
            return Step(ending=Ending(How.FAILED, why))
        return Step(again_s=IMAGE_WITHIN_S - age_s, troubles=(why,))
    return _quiet(seen, pod, age_s)


def _quiet(seen: Snapshot, pod: PodView, age_s: float) -> Step:
    held = next((item for item in pod.waiting if item.reason not in PATIENT), None)
    if held is None and age_s < STARTED_WITHIN_S:
        return Step(again_s=STARTED_WITHIN_S - age_s)
    words = f"{held.container}: {held.reason}: {held.message}" if held else pod.message
    happened = "the runner's container does not start" + (f" ({words.rstrip(': ')})" * bool(words))
    why = trouble(Reason.POD_NOT_STARTED, about=seen.about, happened=happened)
    if age_s >= STARTED_WITHIN_S:
        return Step(ending=Ending(How.FAILED, why))
    if age_s < TOLD_AFTER_S:  # such as a Secret that the node has not seen yet
        return Step(again_s=TOLD_AFTER_S - age_s)
    left_s = STARTED_WITHIN_S - age_s
    if _misses_its_jit_config(seen, pod):
        return _look_for_the_jit_config(seen, why, left_s=left_s)
    return Step(again_s=left_s, troubles=(why,))


def _misses_its_jit_config(seen: Snapshot, pod: PodView) -> bool:
    """In the node's words, which name the Secret whether all of it is missing or its key."""
    return any(
        item.container == RUNNER_CONTAINER
        and item.reason == NO_CONFIG
        and seen.runner.ref.name in item.message
        for item in pod.waiting
    )


def _look_for_the_jit_config(seen: Snapshot, why: Trouble, *, left_s: float) -> Step:
    hand, ref = seen.hand, seen.runner.ref
    if hand.secret_lost:
        happened = "the Secret with its start-up configuration was deleted before its pod read it"
        lost = trouble(Reason.JIT_CONFIG_EXPIRED, about=seen.about, happened=happened)
        return Step(ending=Ending(How.DISTURBED, lost))
    if hand.secret_seen_s is not None:
        wait_s = hand.secret_seen_s + JIT_SECRET_ASKED_EVERY_S - seen.now_s
        if wait_s > 0:
            return Step(again_s=min(wait_s, left_s), troubles=(why,))
    return Step((CheckSecret(ref),), again_s=left_s, troubles=(why,))


def is_hopeless(waiting: Waiting) -> bool:
    """An image that no amount of waiting brings."""
    if waiting.reason in NEVER_PULLED:
        return True
    words = waiting.message.lower()
    return waiting.reason in PULL_FAILS and any(text in words for text in NOT_THERE)


def failed_beside(seen: Snapshot, failed: Exit) -> Trouble:
    """A container that the runner needs has failed."""
    words = f": {failed.reason}" if failed.reason and failed.reason != "Error" else ""
    happened = (
        f"container {failed.container} ended with exit code {failed.code}{words}{failed.last_words}"
    )
    return trouble(Reason.INIT_CONTAINER_FAILED, about=seen.about, happened=happened)


def _image(seen: Snapshot, waiting: Waiting, reason: Reason) -> Trouble:
    happened = f"image {waiting.image} of container {waiting.container}: {waiting.reason}"
    if waiting.message not in ("", waiting.reason):
        happened += f": {waiting.message}"
    return trouble(reason, about=seen.about, happened=happened)
