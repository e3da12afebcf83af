"""Run seeds: `python -m tests.simulation.run --seeds 0 50`; what fails is told with its repetition.

A process of its own, because one seed must mean one history (hash seed pinned), and because a
killed component is never finalised: the process ends without looking back.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from runnerscale.core.randomness import seeded
from tests.simulation.drive import Outcome, play
from tests.simulation.faults import KINDS
from tests.simulation.loop import SimulationLoop
from tests.simulation.scenario import Scenario, draw

HASH_SEED = "0"
SHRINK_RUNS_MAX = 60


def run_scenario(scenario: Scenario) -> Outcome:
    """The history of a scenario."""
    with tempfile.TemporaryDirectory() as folder:
        loop = SimulationLoop(seeded(scenario.seed))
        return loop.run(play(scenario, Path(folder)))


def smaller(scenario: Scenario) -> Scenario:
    """The smallest scenario found that still fails: jobs and faults left out one by one."""
    runs = 0
    best = scenario
    for part in ("faults", "jobs"):
        place = 0
        while place < len(getattr(best, part)) and runs < SHRINK_RUNS_MAX:
            items = getattr(best, part)
            less = replace(best, **{part: items[:place] + items[place + 1 :]})
            runs += 1
            if less.jobs and run_scenario(less).failed:
                best = less
            else:
                place += 1
    return best


@dataclass(slots=True)
class Summary:
    """Of many seeds."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, outcome: Outcome, cpu_s: float) -> None:
        """Count one more."""
        self.seeds += 1
        self.steps += outcome.steps
        self.virtual_s += outcome.virtual_s
        self.cpu_s += cpu_s
        self.faults.update(outcome.fired)
        kinds = sorted(set(outcome.fired))
        self.pairs.update(f"{a}+{b}" for i, a in enumerate(kinds) for b in kinds[i + 1 :])
        if outcome.failed:
            self.failed.append(outcome.seed)

    def as_json(self) -> str:
        """For those who add up."""
        return json.dumps(
            {
                "seeds": self.seeds,
                "failed": self.failed,
                "steps": self.steps,
                "virtual_s": round(self.virtual_s),
                "cpu_s": round(self.cpu_s, 1),
                "faults": dict(sorted(self.faults.items())),
                "pairs_seen": len(self.pairs),
                "pairs": len(KINDS) * (len(KINDS) - 1) // 2,
            }
        )


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs=2, type=int, metavar=("FIRST", "END"))
    parser.add_argument("--seed", type=int, help="one seed, with its whole trace")
    parser.add_argument("--log", action="store_true", help="the components' own log lines too")
    parser.add_argument("--smaller", action="store_true", help="minimise what fails")
    parser.add_argument("--verbose", action="store_true", help="a line for each seed")
    asked = parser.parse_args(arguments)
    if not asked.log:
        structlog.configure(processors=[_drop])
    if asked.seed is not None:
        scenario = draw(asked.seed, KINDS)
        outcome = run_scenario(scenario)
        print("\n".join(outcome.trace.lines))
        print(scenario)
        print(outcome.report())
        return int(outcome.failed)
    first, end = asked.seeds
    summary = Summary()
    for seed in range(first, end):
        began_s = time.process_time()
        scenario = draw(seed, KINDS)
        outcome = run_scenario(scenario)
        summary.add(outcome, time.process_time() - began_s)
        if outcome.failed:
            print(outcome.report(), flush=True)
            if asked.smaller:
                print("smallest that fails:", smaller(scenario), flush=True)
        if asked.verbose:
            print(f"{time.process_time() - began_s:.2f} s of CPU: {outcome.report()}", flush=True)
    print(summary.as_json(), flush=True)
    return int(bool(summary.failed))


def _drop(*_: object) -> str:
    raise structlog.DropEvent


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(
            sys.executable,
            [sys.executable, "-W", "ignore", "-m", "tests.simulation.run", *sys.argv[1:]],
        )
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the dead are not finalised
