"""Runners that finished, and when their places may be filled.

When a runner is gone, is another one needed? The wanted number may still count its job (then
no) or not any more (then yes); a runner ends some seconds after its job did, and the listener
hears of the job's end before or after. So a finished runner holds its place until the
listener has spoken: it names the runners whose jobs are out of its number (`settledRunners`).
A listener that names nobody (ARC's, or a set whose stored schema lacks the field) has spoken
when it changed the number, or after a moment.

In memory, and only a hint: a restart forgets it and may make that many too many, never above
the wanted number. Whether it was a finish at all is judged here too. Pure. Design section 5;
weakness W49.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from enum import Enum

from runnerscale.api.ephemeral_runner import EphemeralRunner, has_job
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.phase import is_terminal
from runnerscale.api.reasons import Reason
from runnerscale.kube.objects import is_deleting

# An empty poll (50 s) passes within this: then the number is exact, whether or not saying so
# changed anything that we could see.
HELD_MAX_S = 75.0
# Without names: the end of a job is heard of within seconds of the runner's end, mostly before.
HELD_UNNAMED_MAX_S = 5.0
REASONS = frozenset(reason.value for reason in Reason)
FINISHES_MAX = 5000  # of one set; the oldest are let go past it


class Departure(Enum):
    """What a change of a runner object means for the set's capacity."""

    NONE = "none"  # it still counts, or did not count before
    FINISHED = "finished"  # had its job, or might have had one
    LOST = "lost"  # from outside, and no job: to be replaced at once
    FAILED = "failed"  # without a job: the failure policy has a say


@dataclass(frozen=True, slots=True)
class Words:
    """What the listener said last, as the set stores it."""

    replicas: int
    patch_id: int
    settled: tuple[str, ...] | None  # None: this listener names nobody


@dataclass(frozen=True, slots=True)
class Held:
    """Places of finished runners, by name, with the time of their end; and who was named."""

    since_s: tuple[tuple[str, float], ...] = ()
    named: frozenset[str] = frozenset()  # runners that were named while they still lived


def departure(old: EphemeralRunner | None, new: EphemeralRunner | None, *, ours: bool) -> Departure:
    """Judge one change. Not for runners that the set itself let go: it knows why.

    `ours`: the runner's own controller deletes it, as it does when one has ended.
    """
    if old is None or not is_live(old) or (new is not None and is_live(new)):
        return Departure.NONE
    last = new or old
    if has_job(last.status) or has_job(old.status):
        return Departure.FINISHED
    if is_terminal(last.status.phase):
        return Departure.FAILED
    if last.status.runner_id == 0 or last.status.reason in REASONS:
        return Departure.LOST
    # No job and no reason: a job so short that it ended before it was stored, or, if it was not
    # deleted by us, somebody deleted an idle runner. The listener never names that one, and
    # a job that waits would wait for its place. (Deleted by a process before this one, it may
    # be one runner too many for a while, as after any restart.)
    return Departure.FINISHED if ours else Departure.LOST


def is_counted(runner: EphemeralRunner, item: EphemeralRunnerSet | None) -> bool:
    """Whether the wanted number may have this runner's job in it.

    Not that of a scale set which is gone or was left: the listener of now never heard of it,
    and would never say that it is out of its number.
    """
    wished = item.spec.ephemeral_runner_spec if item is not None else runner.spec
    return wished.runner_scale_set_id == runner.spec.runner_scale_set_id


def is_live(runner: EphemeralRunner) -> bool:
    """It counts as capacity."""
    return not is_deleting(runner) and not is_terminal(runner.status.phase)


def words_of(item: EphemeralRunnerSet) -> Words:
    """What the listener said last."""
    settled = item.spec.settled_runners
    return Words(
        item.spec.replicas, item.spec.patch_id, tuple(settled) if settled is not None else None
    )


def ended(held: Held, name: str, *, now_s: float) -> Held:
    """A runner finished."""
    if name in held.named:  # its job was out of the number before it ended
        return replace(held, named=held.named - {name})
    return replace(held, since_s=(*held.since_s, (name, now_s))[-FINISHES_MAX:])


def heard(held: Held, before: Words | None, now: Words, *, alive: Container[str]) -> Held:
    """The listener may have spoken. `alive`: names of the set's runners that still exist."""
    settled = frozenset(now.settled or ())
    kept = tuple(entry for entry in held.since_s if entry[0] not in settled)
    spoke = before is not None and before != now
    if spoke and (now.patch_id == 0 or now.settled is None):
        kept = ()  # exactly so many, or a listener that names nobody
    # A name may fall out of the bounded list before its runner ends: remember it until then.
    named = frozenset(name for name in held.named | settled if name in alive)
    return Held(since_s=kept, named=named)


def still_held(held: Held, words: Words, *, now_s: float) -> tuple[int, float | None]:
    """How many places are held, and how long until the first comes free by itself."""
    bound_s = HELD_UNNAMED_MAX_S if words.settled is None else HELD_MAX_S
    left = [since_s + bound_s - now_s for _, since_s in held.since_s]
    waiting = [left_s for left_s in left if left_s > 0]
    return len(waiting), min(waiting, default=None)
