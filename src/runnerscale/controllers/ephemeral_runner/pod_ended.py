"""Last stage of a life: the container ended, or its pod is going, gone or lost.

Exit 0 after a job is the one good end, and asks nobody. Exit 0 without a stored job is judged
by GitHub once: it forgets a runner whose job is done. Everything else ends the runner for
good, since its JIT config is spent: with a job, or by its own fault, it is kept as evidence;
disturbed while idle, it is replaced. A pod that somebody deletes under a busy runner may still
finish its job within its grace period, so that is waited for.

Pure. Contract: resources-and-controllers 4.4.3, W26, W35; design section 5; issue log 1-6, 127.
"""

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    AskRunner,
    CheckPod,
    Ending,
    How,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    EXIT_JUDGED_WITHIN_S,
    POD_STUCK_AFTER_S,
)
from runnerscale.controllers.ephemeral_runner.pod_view import Exit, PodView
from runnerscale.controllers.ephemeral_runner.snapshot import (
    Omen,
    Removal,
    Snapshot,
    Where,
    where,
)
from runnerscale.controllers.ephemeral_runner.start import failed_beside

EXIT_OUTDATED = 7
# What runners write when GitHub refuses their version; some versions exit 0 after it.
VERSION_REFUSED = (
    "is deprecated and cannot receive messages",
    "runner version is deprecated",
    "runner version is too old",
)
OUTDATED_WORDS = "Runner is deprecated"  # upstream's text, which people search for
DELETED = Omen(Reason.POD_LOST, "somebody deleted its pod")
FINISHED = Step(ending=Ending(How.FINISHED))

NODE_GONE = frozenset({"NodeLost", "DeletionByTaintManager", "DeletionByPodGC"})
PUSHED_OUT = frozenset(
    {
        "Evicted",
        "Preempting",
        "Shutdown",
        "NodeShutdown",
        "Terminated",
        "EvictionByEvictionAPI",
        "PreemptionByScheduler",
        "PreemptionByKubeScheduler",
        "TerminationByKubelet",
    }
)


def look(seen: Snapshot) -> Step:
    """How the runner ended, if it did."""
    match where(seen):
        case Where.LOST:
            return _lost(seen)
        case Where.GOING:
            assert seen.pod is not None, "what is going is there"
            return _going(seen, seen.pod)
        case _:
            return NOTHING


def _going(seen: Snapshot, pod: PodView) -> Step:
    if pod.exit is not None:
        return _exited(seen, pod, pod.exit)
    if pod.over:
        return _over(seen, pod)
    if not seen.busy:
        return _disturbed(seen, omen_of(pod) or DELETED)
    left_s = (pod.going_s or 0.0) + POD_STUCK_AFTER_S - seen.now_s
    if left_s > 0:  # it may yet finish its job
        return Step(again_s=left_s)
    return _failed(seen, Omen(Reason.NODE_LOST, "its pod is to end, but its node says nothing"))


def _exited(seen: Snapshot, pod: PodView, exit_: Exit) -> Step:
    if exit_.code == EXIT_OUTDATED or (not seen.had_job and says_outdated(exit_)):
        why = trouble(Reason.OUTDATED, about=seen.about, happened=OUTDATED_WORDS)
        return Step(ending=Ending(How.OUTDATED, why))
    if exit_.code == 0:
        return _exited_well(seen, pod, exit_)
    if exit_.reason == "OOMKilled":
        happened = f"container {exit_.container} used more memory than it may"
        return _failed(seen, Omen(Reason.OUT_OF_MEMORY, happened))
    omen = omen_of(pod) or seen.hand.omen
    if omen is not None:
        return _failed(seen, omen) if seen.had_job else _disturbed(seen, omen)
    words = f" ({exit_.reason})" if exit_.reason not in ("", "Error") else ""
    happened = f"container {exit_.container} ended with exit code {exit_.code}{words}"
    happened += exit_.last_words
    return _exited_badly(seen, happened)


def _exited_badly(seen: Snapshot, happened: str) -> Step:
    """A runner whose registration goes ends with an error, too, and that is nobody's failure.

    Our own set takes registrations of idle runners away, and may be killed before it has
    deleted them: the next process must not hold that against the template. A GitHub that does
    not answer is not waited for: then it is a failure, as it mostly is.
    """
    if not seen.had_job and seen.registered_id:
        known, ask = _still_known(seen)
        silent = seen.hand.talk.trouble is not None
        if ask is not None and not silent:
            return ask
        if not known and not silent:
            gone = f"{happened}, and GitHub does not know it any more"
            return _disturbed(seen, Omen(Reason.REGISTRATION_LOST, gone))
    return _failed(seen, Omen(Reason.RUNNER_FAILED, happened))


def _exited_well(seen: Snapshot, pod: PodView, exit_: Exit) -> Step:
    if seen.had_job or not seen.registered_id:
        return FINISHED
    known, ask = _still_known(seen)
    if ask is not None:
        return ask
    if not known:
        return FINISHED
    omen = omen_of(pod) or seen.hand.omen
    if omen is not None:  # told to stop, and stopped in order
        return _disturbed(seen, omen)
    happened = "the runner ended with exit code 0, but GitHub still waits for its first job"
    happened += exit_.last_words
    return _failed(seen, Omen(Reason.EXITED_WITHOUT_JOB, happened))


def _over(seen: Snapshot, pod: PodView) -> Step:
    """The pod is over, and nobody says how the runner's container ended."""
    omen = omen_of(pod) or seen.hand.omen
    if omen is not None:
        return _failed(seen, omen) if seen.had_job else _disturbed(seen, omen)
    if pod.failed is not None:
        return Step(ending=Ending(How.FAILED, failed_beside(seen, pod.failed)))
    if pod.phase == "Succeeded":  # its containers' states are on their way
        left_s = pod.changed_s + POD_STUCK_AFTER_S - seen.now_s
        if left_s > 0:
            return Step(again_s=left_s)
    words = ": ".join(text for text in (pod.reason, pod.message) if text)
    happened = f"its pod is {pod.phase}" + (f" ({words})" if words else "")
    return _failed(seen, Omen(Reason.RUNNER_FAILED, happened))


def _lost(seen: Snapshot) -> Step:
    """There is no pod, though there was one or may have been."""
    if not seen.hand.missed:
        # A pod whose labels somebody took off is missing in the cache, and runs on.
        return Step((CheckPod(seen.runner.ref),))
    omen = seen.hand.omen or Omen(Reason.POD_LOST, "its pod is gone, nobody saw how it ended")
    if not seen.had_job:
        return _disturbed(seen, omen)
    if not seen.registered_id:
        return _failed(seen, omen)
    known, ask = _still_known(seen)
    if ask is not None and seen.hand.talk.trouble is None:
        return ask
    # GitHub forgets a runner whose job is done: then it ended well while nobody looked.
    return _failed(seen, omen) if known else FINISHED


def _still_known(seen: Snapshot) -> tuple[bool, Step | None]:
    """Whether GitHub still knew the runner after its end; a step as long as it has not said."""
    hand, talk = seen.hand, seen.hand.talk
    end_s = hand.end_s if hand.end_s is not None else seen.now_s
    asked = talk.asked_s is not None and talk.asked_s >= end_s
    if asked and not talk.known:
        return False, None  # taking away what is not there is answered as if it had been
    if talk.removal in (Removal.ABSENT, Removal.FORGOTTEN):
        return talk.removal is Removal.FORGOTTEN, None
    if asked:
        return talk.known, None
    if talk.trouble is not None and seen.now_s - end_s >= EXIT_JUDGED_WITHIN_S:
        return False, None
    wait_s = talk.not_before_s - seen.now_s
    if wait_s > 0:
        return True, Step(again_s=wait_s)
    return True, Step((AskRunner(seen.runner.ref, seen.registered_id),))


def _failed(seen: Snapshot, omen: Omen) -> Step:
    why = trouble(omen.reason, about=seen.about, happened=omen.words)
    return Step(ending=Ending(How.FAILED, why))


def _disturbed(seen: Snapshot, omen: Omen) -> Step:
    why = trouble(omen.reason, about=seen.about, happened=omen.words)
    return Step(ending=Ending(How.DISTURBED, why))


def omen_of(pod: PodView) -> Omen | None:
    """Which power outside is taking the pod away, or took it, if one is."""
    for word in (pod.disruption, pod.reason):
        if word in NODE_GONE:
            return Omen(Reason.NODE_LOST, _words("the node of its pod is gone", word, pod))
        if word in PUSHED_OUT:
            return Omen(Reason.EVICTED, _words("its pod was evicted", word, pod))
    return DELETED if pod.going_s is not None else None


def says_outdated(exit_: Exit) -> bool:
    """The runner's last words are that GitHub refuses its version."""
    words = exit_.message.lower()
    return any(text in words for text in VERSION_REFUSED)


def _words(happened: str, word: str, pod: PodView) -> str:
    return f"{happened} ({word}: {pod.message})" if pod.message else f"{happened} ({word})"
