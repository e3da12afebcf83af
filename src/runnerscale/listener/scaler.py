"""How many runners are wanted, and with which patch id that is said.

A file of its own, because this number decides what the machines cost and whether a job
waits: everything that goes into it is on this page. What the number then does to runners is
`controllers/ephemeral_runner_set/`; when the patch is sent, and sent again, is
`wanted_writer.py`.

Patch ids: 0 means "converge exactly", a number above 0 "grow if needed, let the rest be".
0 is said first after a start, and whenever nothing happened that could make the number a
moment old: a poll that passed empty with the target unchanged, at any level.

Pure. Contract: github-service-and-listener 5.5; resources-and-controllers 4.3.1; design 3.
Replaces weaknesses W37 (state is taken over only after the patch succeeded) and W38 (0 is
sent as 0).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from runnerscale.scaleset.model import JobEvent, JobEventKind

SEQUENCE_MAX = 2_147_483_647  # the id is an int32 to everybody who reads it
UNLIMITED = 2_147_483_647  # what the controller writes for an unset maxRunners


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the resource asks for: idle headroom on top of the jobs, and the ceiling."""

    min_runners: int
    max_runners: int


@dataclass(frozen=True, slots=True)
class ScalerState:
    """What the last successful patch said. `dirty`: jobs started or ended since."""

    sequence: int = -1
    target: int = -1
    dirty: bool = False
    # The last try whose answer was a failure. It may have taken effect all the same, so its
    # id is used again for the same number only (a reader takes a known id for old news).
    attempted: "WantedPatch | None" = None


@dataclass(frozen=True, slots=True)
class WantedPatch:
    """One patch of the set's wanted number. `sequence` advances also when the id is 0."""

    replicas: int
    patch_id: int
    sequence: int


def target(assigned: int, bounds: Bounds) -> int:
    """The wanted number of runners."""
    return min(bounds.max_runners, bounds.min_runners + max(0, assigned))


def decide(
    state: ScalerState, *, assigned: int, bounds: Bounds, passed_empty: bool = False
) -> WantedPatch:
    """The patch for `assigned` jobs; `passed_empty`: a poll came back with nothing."""
    wanted = target(assigned, bounds)
    sequence = _next_sequence(state, wanted)
    unchanged = not state.dirty and wanted == state.target
    # A message that changed nothing at the minimum is as quiet as an empty poll; above the
    # minimum it may be the first of several, and an exact patch would be early (T148).
    quiet = unchanged and (passed_empty or wanted == bounds.min_runners)
    # Until a first number is stored, whatever failed before it: the ids of a predecessor, which
    # a reader takes for old news, begin at 1 like ours.
    exact = quiet or state.sequence < 0
    return WantedPatch(replicas=wanted, patch_id=0 if exact else sequence, sequence=sequence)


def _next_sequence(state: ScalerState, wanted: int) -> int:
    tried = state.attempted
    if tried is not None and tried.replicas == wanted:
        return tried.sequence
    last = state.sequence if tried is None else tried.sequence
    return 1 if last >= SEQUENCE_MAX else last + 1


def stored(patch: WantedPatch) -> ScalerState:
    """The state after the API server took `patch`."""
    return ScalerState(sequence=patch.sequence, target=patch.replicas)


def failed(state: ScalerState, patch: WantedPatch) -> ScalerState:
    """The state after `patch` failed, perhaps only on the way back: nothing is taken over."""
    return replace(state, attempted=patch)


def disturbed(state: ScalerState) -> ScalerState:
    """The state after a job started or ended."""
    return replace(state, dirty=True)


def grows(state: ScalerState, wanted: int) -> bool:
    """More than the set was last told: such a patch waits for nothing."""
    return wanted > state.target


def assigned_jobs(statistics_assigned: int, events: Iterable[JobEvent]) -> int:
    """How many jobs are ours, when body and statistics of one message may disagree.

    The statistics are complete where the body is cut at 50, so they win as a rule. Yet they
    were seen to say 0 beside a body of assigned jobs; then the jobs in the body count until
    the next message (issue log 40). A job that the same body ends does not.
    """
    alive: set[str] = set()
    for event in events:
        job = event.job_id or str(event.request_id)
        if event.kind in (JobEventKind.ASSIGNED, JobEventKind.STARTED):
            alive.add(job)
        elif event.kind is JobEventKind.COMPLETED:
            alive.discard(job)
    return max(statistics_assigned, len(alive))


def patch_body(patch: WantedPatch, settled: Iterable[str] = ()) -> dict[str, Any]:
    """The merge patch. A 0 is sent as 0: `null` would mean "whatever the default is".

    `settled`: runners whose finished job is no longer in the number, if there are any to name.
    """
    spec: dict[str, Any] = {"patchID": patch.patch_id, "replicas": patch.replicas}
    names = list(settled)
    if names:
        spec["settledRunners"] = names
    return {"spec": spec}
