"""One history from beginning to end; whatever stops it becomes part of how it ended.

A crash of the simulation itself, an exception of a component that nobody took, a history that
does not go on: each is a failure with its traceback, never a history that held.
"""

import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runnerscale.core.randomness import seeded
from tests.simulation.drive import Outcome, play
from tests.simulation.loop import SimulationLoop, Stuck
from tests.simulation.scenario import Scenario
from tests.simulation.trace import Trace

CPU_MAX_S = 120.0  # a usual history takes one, an hour of outage a few


def run_scenario(scenario: Scenario) -> Outcome:
    """The history of a scenario; never raises."""
    with tempfile.TemporaryDirectory() as folder, _bounded(CPU_MAX_S):
        loop = SimulationLoop(seeded(scenario.seed))
        try:
            outcome = loop.run(play(scenario, Path(folder)))
        except (Exception, Stuck):  # noqa: BLE001 - whatever it is, it is how this history ended
            outcome = loop.outcome or Outcome(scenario.seed, Trace())
            outcome.crash = traceback.format_exc()
            outcome.steps = outcome.trace.count
            outcome.virtual_s = loop.time()
        outcome.crash += "".join(loop.unexpected())
    return outcome


@contextmanager
def _bounded(cpu_s: float) -> Iterator[None]:
    """`Stuck` is raised, wherever it is, in a history that takes more than so much CPU."""

    def stop(_signal: int, _frame: object) -> None:
        raise Stuck(f"no end after {cpu_s:.0f} s of CPU")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
