"""First stage: a registration at GitHub, and its JIT config stored where the pod will find it.

The runner's name at GitHub is the object's name, which is never used twice; so whoever has it
in our scale set is a lost call of ours and is removed before we ask again (a JIT config is
given out only once). In another scale set, or with a job, it is a stranger: then this runner
gives way, and the set makes one with another name. The id is stored (`status.py`) before the
pod is made (`pod.py`): a runner without an id never had a pod, and needs no memory to say so.

All that rests on a view of the present. A cache that is behind shows a runner as it was before
its registration, and the next thing would be to take that away from it: so a runner that is not
fresh is read once from the API server itself.

Pure. Contract: resources-and-controllers 4.4.1, W34; github-service 2.12.
"""

from msgspec.structs import replace

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    ConfirmView,
    CreateSecret,
    DeleteSecret,
    Ending,
    FindRunner,
    GenerateJit,
    How,
    RemoveRunner,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    CLOCK_SKEW_S,
    FRESH_S,
    JIT_CONFIG_RENEWED_AFTER_S,
    NAME_TRIES_MAX,
    TOLD_AFTER_TRIES,
)
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot, Where, where


def look(seen: Snapshot) -> Step:
    """The next step towards a stored JIT config, if one is missing."""
    if seen.hand.jit is not None and where(seen) is Where.NOT_MADE:
        return _store(seen)
    if seen.registered_id:
        return NOTHING
    match where(seen):
        case Where.NOT_MADE:
            return _waited_for(seen, _confirm(seen) or _register(seen))
        case Where.LOST | Where.GOING:
            return NOTHING  # nothing will need it any more
        case _:
            return _waited_for(seen, _confirm(seen) or _find_again(seen))


def _confirm(seen: Snapshot) -> Step | None:
    """Another process may have gone further with it than our cache shows."""
    runner = seen.runner
    others = runner.created_s <= seen.watching_since_s + CLOCK_SKEW_S
    fresh = seen.now_s - runner.created_s < FRESH_S
    if seen.hand.confirmed or (fresh and not others):
        return None
    return Step((ConfirmView(runner.ref, runner.resource_version),))


def _register(seen: Snapshot) -> Step:
    talk, ref = seen.hand.talk, seen.runner.ref
    if talk.foreign:
        return _give_way(seen, "GitHub has a runner of this name that is not ours")
    if talk.name_tries > NAME_TRIES_MAX:
        return _give_way(seen, "GitHub says that the name is taken, and knows nobody of that name")
    refused = talk.trouble is not None and talk.trouble.reason is Reason.GITHUB_REFUSED
    if talk.suspect and refused and talk.tries > NAME_TRIES_MAX:
        return _give_way(seen, "GitHub does not say who has the name")
    if talk.stray_id:
        return Step((RemoveRunner(ref, talk.stray_id),))
    if talk.suspect:
        return Step((FindRunner(ref),))
    return Step((GenerateJit(ref),))


def _find_again(seen: Snapshot) -> Step:
    """There is a pod, so there was a registration: its id was lost on the way."""
    talk = seen.hand.talk
    if not talk.foreign and talk.name_tries <= NAME_TRIES_MAX:
        return Step((FindRunner(seen.runner.ref),))
    if seen.busy or where(seen) is not Where.RUNNING:
        return NOTHING
    happened = "GitHub does not know a runner of this name, whose pod is there"
    why = trouble(Reason.REGISTRATION_LOST, about=seen.about, happened=happened)
    return Step(ending=Ending(How.DISTURBED, why, harmless=True))


def _give_way(seen: Snapshot, happened: str) -> Step:
    why = trouble(Reason.RUNNER_NAME_TAKEN, about=seen.about, happened=happened)
    return Step(ending=Ending(How.DISTURBED, why, harmless=True))


def _store(seen: Snapshot) -> Step:
    hand, ref, jit = seen.hand, seen.runner.ref, seen.hand.jit
    if hand.secret or jit is None:
        return NOTHING
    age_s = seen.now_s - (hand.issued_s if hand.issued_s is not None else seen.now_s)
    if age_s >= JIT_CONFIG_RENEWED_AFTER_S:
        happened = "its start-up configuration could not be stored in time"
        why = trouble(Reason.JIT_CONFIG_EXPIRED, about=seen.about, happened=happened)
        return Step(ending=Ending(How.DISTURBED, why, harmless=True))
    if hand.refusal is not None and hand.refusal.not_before_s > seen.now_s:
        wait_s = hand.refusal.not_before_s - seen.now_s
        return Step(again_s=wait_s, troubles=(hand.refusal.trouble,))
    troubles = (hand.refusal.trouble,) if hand.refusal else ()
    if hand.stale_secret:
        return Step((DeleteSecret(ref),), troubles=troubles)
    return Step((CreateSecret(ref, jit),), troubles=troubles)


def _waited_for(seen: Snapshot, step: Step) -> Step:
    """The same, but not before GitHub may be asked again, and with what it last said."""
    talk = seen.hand.talk
    told = (talk.trouble,) if talk.trouble and talk.tries >= TOLD_AFTER_TRIES else ()
    wait_s = talk.not_before_s - seen.now_s
    if wait_s > 0 and step.ending is None:
        return Step(again_s=wait_s, troubles=told)
    return replace(step, troubles=told)
