"""Plays seeds on a copy of the product until an invariant complains; one line of JSON says which.

A process of its own, because the copy must be the one that is imported, and because a defect may
do anything, standing still included: a seed that takes too much CPU is a finding, too. The first
breach ends its seed: what follows from it is no news.
"""

import argparse
import asyncio
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

import structlog

import runnerscale
from tests.simulation.faults import KINDS
from tests.simulation.invariants import Judge
from tests.simulation.mutants.workshop import PACKAGE, SEED_CPU_MAX_S
from tests.simulation.run import run_scenario
from tests.simulation.scenario import draw

STANDS_STILL = "a seed comes to its end"
BREAKS_DOWN = "the world goes on"
AT_REST = "at rest"


class Hunt:
    """The seeds, and what was heard first in the one that is played."""

    def __init__(self) -> None:
        self.heard: tuple[str, str] | None = None
        self.seed = 0
        self.seeds = 0

    def listen(self) -> None:
        """From now on a breach is heard, and ends its seed."""
        breach = Judge.breach

        def heard(judge: Judge, rule: str, detail: str) -> None:
            breach(judge, rule, detail)
            if self.heard is None:
                self.heard = (rule, detail)
                _stop()

        Judge.breach = heard  # type: ignore[method-assign]
        signal.signal(signal.SIGPROF, self._too_long)

    def play(self, seed: int) -> bool:
        """Whether something did not hold in the history of a seed."""
        self.heard = None
        self.seed = seed
        self.seeds += 1
        signal.setitimer(signal.ITIMER_PROF, SEED_CPU_MAX_S, SEED_CPU_MAX_S)
        try:
            outcome = run_scenario(draw(seed, KINDS))
        except Exception as error:  # noqa: BLE001 - whatever it is, the product made it
            self.heard = self.heard or (BREAKS_DOWN, repr(error))
            return True
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
        if outcome.crash:
            self.heard = self.heard or (BREAKS_DOWN, outcome.wrong[0])
        if outcome.missing:
            self.heard = self.heard or (AT_REST, outcome.missing[0])
        return self.heard is not None

    def _too_long(self, _signal: int, _frame: FrameType | None) -> None:
        asked_already = self.heard is not None
        self.heard = self.heard or (STANDS_STILL, f"not within {SEED_CPU_MAX_S:.0f} s of CPU")
        if asked_already:  # and it did not stop
            self.say(self.seed)
            os._exit(0)
        _stop()

    def say(self, seed: int | None) -> None:
        """The answer."""
        rule, detail = self.heard or ("", "")
        answer = {
            "seed": seed,
            "rule": rule,
            "detail": detail,
            "seeds": self.seeds,
            "cpu_s": round(time.process_time(), 1),
        }
        print(json.dumps(answer), flush=True)


def _stop() -> None:
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.stop()


def in_order(seeds: Iterable[int], needs: tuple[str, ...]) -> list[int]:
    """Those first in which one of the faults happens that are needed; then the others."""

    def cannot_matter(seed: int) -> bool:
        kinds = {fault.kind for fault in draw(seed, KINDS).faults}
        return bool(needs) and kinds.isdisjoint(needs)

    return sorted(seeds, key=cannot_matter)


def check_import(copy: Path, file: str) -> None:
    """The product that is imported is the copy, and so is the file that was changed.

    Raises:
        SystemExit: it is not.
    """
    names = [PACKAGE]
    if file:
        names.append(".".join([PACKAGE, *Path(file).with_suffix("").parts]))
    for name in names:
        module = importlib.import_module(name)
        if not Path(str(module.__file__)).resolve().is_relative_to(copy.resolve()):
            raise SystemExit(f"{name} was imported from {module.__file__}, not from {copy}")


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copy", type=Path, required=True)
    parser.add_argument("--file", default="")
    parser.add_argument("--seeds", nargs=2, type=int, required=True)
    parser.add_argument("--plays", type=int, required=True, help="at most so many of them")
    parser.add_argument("--skip", nargs="*", type=int, default=[], help="seeds that say nothing")
    parser.add_argument("--needs", nargs="*", default=[], help="kinds of faults, any of them")
    asked = parser.parse_args(arguments)
    check_import(asked.copy, asked.file)
    structlog.configure(processors=[_drop])
    hunt = Hunt()
    hunt.listen()
    seeds = in_order(range(*asked.seeds), tuple(asked.needs))[: asked.plays]
    seeds = [seed for seed in seeds if seed not in asked.skip]
    found = next((seed for seed in seeds if hunt.play(seed)), None)
    hunt.say(found)
    return 0


def _drop(*_: object) -> str:
    raise structlog.DropEvent


if __name__ == "__main__":
    assert runnerscale.__file__ is not None
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the dead are not finalised
