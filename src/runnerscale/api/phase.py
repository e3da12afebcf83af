"""The phases of an EphemeralRunner: one table, from which the picture in the docs is drawn.

Whether a runner may be deleted is never decided by its phase but by `has_job` and by GitHub's
own answer. Contract: design section 4; resources-and-controllers 1.7.
"""

from dataclasses import dataclass
from enum import StrEnum


class RunnerPhase(StrEnum):
    """What may stand in `status.phase`."""

    NONE = ""  # nobody has looked at it yet
    PENDING = "Pending"  # no job assigned: starting, or registered, online and idle
    RUNNING = "Running"  # a job is assigned
    SUCCEEDED = "Succeeded"  # only read: older controllers kept finished runners
    FAILED = "Failed"  # ended without success, kept as evidence
    OUTDATED = "Outdated"  # GitHub refused the runner's version
    UNKNOWN = "Unknown"  # only read: written by older controllers


class Writer(StrEnum):
    """Who moves a phase."""

    CONTROLLER = "controller"
    LISTENER = "listener"


TERMINAL = frozenset({RunnerPhase.SUCCEEDED, RunnerPhase.FAILED, RunnerPhase.OUTDATED})
LIVE = frozenset(RunnerPhase) - TERMINAL


@dataclass(frozen=True, slots=True)
class Transition:
    """One row: from any of `sources` to `target` (None: the object is deleted)."""

    sources: frozenset[RunnerPhase]
    target: RunnerPhase | None
    writer: Writer
    when: str


TRANSITIONS = (
    Transition(
        frozenset({RunnerPhase.NONE, RunnerPhase.UNKNOWN}),
        RunnerPhase.PENDING,
        Writer.CONTROLLER,
        "registration exists",
    ),
    Transition(
        frozenset({RunnerPhase.NONE, RunnerPhase.PENDING, RunnerPhase.UNKNOWN}),
        RunnerPhase.RUNNING,
        Writer.LISTENER,
        "job started",
    ),
    Transition(LIVE, RunnerPhase.FAILED, Writer.CONTROLLER, "failed, with a reason"),
    Transition(LIVE, RunnerPhase.OUTDATED, Writer.CONTROLLER, "runner version refused"),
    Transition(LIVE, None, Writer.CONTROLLER, "finished, or lost while idle"),
)


# For the question that every plan asks: what the rows say, as one look-up.
_MOVES = frozenset(
    (source, row.target, row.writer)
    for row in TRANSITIONS
    if row.target is not None
    for source in row.sources
)


def is_terminal(phase: str) -> bool:
    """A phase that nobody leaves any more."""
    return phase in TERMINAL


def may_move(source: str, target: str, writer: Writer) -> bool:
    """Whether the table lets `writer` write `target` over `source`; a repeat is no move."""
    return (source, target, writer) in _MOVES


def diagram() -> str:
    """The table as a Mermaid state diagram, in a fenced block; for `docs/architecture.md`."""
    names = {RunnerPhase.NONE: "New"}
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> New: set creates it"]
    for row in TRANSITIONS:
        target = "[*]" if row.target is None else row.target.value
        lines += [
            f"    {names.get(source, source.value)} --> {target}: {row.writer} ({row.when})"
            for source in RunnerPhase
            if source in row.sources
        ]
    lines += [
        f"    {phase.value} --> [*]: set deletes it" for phase in RunnerPhase if phase in TERMINAL
    ]
    return "\n".join([*lines, "```"])
