"""Invariant 6, its first half: who writes `Running` and when, and that no phase goes back."""

from collections.abc import Iterable

from tests.simulation.invariants.names import LISTENER_MARK, RUNNERS, TERMINAL, phase
from tests.simulation.invariants.rule import Rule
from tests.simulation.writes import Write


class RunningIsTheListenersWord(Rule):
    """`Running` is written by the listener only, and only for a runner that GitHub gave a job."""

    sentence = "running is the listeners word about a job"

    def hear(self, write: Write) -> Iterable[str]:
        """A phase that becomes Running."""
        if write.resource != RUNNERS or write.after is None:
            return
        before, after = phase(write.before), phase(write.after)
        if after != "Running" or before == "Running":
            return
        if LISTENER_MARK not in write.by:
            yield f"{write.by} wrote Running on {write.name}"
        elif not self.seen.ever_had_job(write.name):
            yield f"{write.name} became Running, but GitHub never gave it a job"


class TerminalPhasesStay(Rule):
    """Failed, Succeeded and Outdated are never left."""

    sentence = "terminal phases stay"

    def hear(self, write: Write) -> Iterable[str]:
        """A phase that changes."""
        if write.resource != RUNNERS or write.before is None or write.after is None:
            return
        before, after = phase(write.before), phase(write.after)
        if before in TERMINAL and after != before:
            yield f"{write.by} moved {write.name} from {before} to {after or 'no phase'}"


class RunningIsNotTakenBack(Rule):
    """From Running there is no way back: only an end, or the object goes."""

    sentence = "running is not taken back"

    def hear(self, write: Write) -> Iterable[str]:
        """A phase that changes."""
        if write.resource != RUNNERS or write.after is None:
            return
        before, after = phase(write.before), phase(write.after)
        if before == "Running" and after not in ("Running", *TERMINAL):
            yield f"{write.by} moved {write.name} from Running to {after or 'no phase'}"
