"""Run seeds: `python -m tests.simulation.run --seeds 0 50`; what fails is told with its repetition.

A process of its own, because one seed must mean one history (hash seed pinned), and because a
killed component is never finalised: the process ends without looking back.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from tests.simulation.arguments import at_least_one, not_negative, pace
from tests.simulation.faults import KINDS
from tests.simulation.history import run_scenario
from tests.simulation.interpreter import import_path, interpreter
from tests.simulation.progress import FOLDER, Progress, state_of_the_code
from tests.simulation.scenario import draw
from tests.simulation.shrinking import Keep, smaller
from tests.simulation.summary import Summary
from tests.simulation.telling import drawn, failure
from tests.simulation.workers import played

__all__ = ["main", "run_scenario"]

HASH_SEED = "0"
CHUNK = 25  # seeds of one process: ten megabytes each stay with it
SHORT_CHUNK = 5  # of a run that a person waits for: a chunk is told as a whole
TOLD_EVERY_S = 10.0
SMALLER_RUNS = 40

Json = dict[str, Any]


def result(seed: int, asked: argparse.Namespace) -> Json:
    """A seed's history and what it cost; what is wrong, with its repetition."""
    began_s = time.process_time()
    scenario = draw(seed, KINDS)
    outcome = run_scenario(scenario)
    cpu_s = time.process_time() - began_s
    told = ""
    if outcome.failed:
        kept = Keep()
        if asked.smaller:
            kept = smaller(scenario, outcome, run_scenario, runs_max=SMALLER_RUNS)
            outcome = outcome if kept == Keep() else run_scenario(kept.of(scenario))
        told = failure(scenario, outcome, kept)
    return {
        "seed": seed,
        "failed": told,
        "struck": outcome.fired,
        "steps": outcome.steps,
        "virtual_s": round(outcome.virtual_s, 1),
        "settled_s": round(outcome.settled_after_s, 1),
        "cpu_s": round(cpu_s, 3),
        "digest": outcome.trace.digest,
        "report": outcome.report() if asked.verbose else "",
    }


def one(asked: argparse.Namespace) -> int:
    """One seed, or what is kept of it, with its whole trace."""
    keep = Keep(asked.keep_faults, asked.keep_jobs, asked.keep_sets, asked.pace)
    scenario = draw(asked.seed, KINDS)
    if strangers := keep.strangers(scenario):
        print(f"seed {asked.seed} has no {strangers[0]}", file=sys.stderr)
        return 2
    _tell(f"playing seed {asked.seed}; its trace follows when it has ended")
    outcome = run_scenario(keep.of(scenario))
    print("\n".join(outcome.trace.lines))
    print(failure(scenario, outcome, keep) if outcome.failed else drawn(scenario, keep))
    if not outcome.failed:
        print(outcome.report())
    return int(outcome.failed)


def many(asked: argparse.Namespace) -> int:
    """Seeds on one or more processes; with `--soak` what was done before is not done again."""
    first, end = asked.seeds
    summary = Summary(KINDS)
    path = FOLDER / f"{state_of_the_code()}.jsonl" if asked.soak else Path(os.devnull)
    progress = Progress(path)
    todo = progress.todo(first, end, asked.chunk or (CHUNK if asked.soak else SHORT_CHUNK))
    if progress.unreadable:
        print(
            f"{progress.unreadable} lines of {path} cannot be read, and are passed over", flush=True
        )
    if asked.soak and progress.results:
        print(f"{len(progress.results)} seeds were played before: {path}", flush=True)
    began_s = told_s = time.monotonic()
    _tell(f"playing seeds {first} to {end - 1}, {asked.workers} at a time")
    for results in _results(todo, asked):
        now_s = time.monotonic()
        progress.add(results, now_s - began_s)
        began_s = now_s
        for each in results:
            if each["failed"]:
                print(each["failed"], flush=True)
            elif each.get("report"):
                print(f"{each['cpu_s']:.2f} s of CPU: {each['report']}", flush=True)
        if asked.soak:
            print(f"{len(progress.results)} seeds after {progress.wall_s:.0f} s", flush=True)
        elif now_s - told_s >= TOLD_EVERY_S:
            told_s = now_s
            _tell(f"{len(progress.results)} of {end - first} seeds after {progress.wall_s:.0f} s")
    for seed in sorted(progress.results):
        summary.add(progress.results[seed])
    summary.wall_s = progress.wall_s
    return _end(summary, path, asked)


def _results(todo: list[tuple[int, int]], asked: argparse.Namespace) -> Any:
    if asked.workers == 1 and not asked.soak:
        for chunk in todo:
            for seed in range(*chunk):
                yield [result(seed, asked)]
        return
    _warm_up()
    for _, results in played(todo, lambda seed: result(seed, asked), workers=asked.workers):
        yield results


def _warm_up() -> None:
    """What every process needs is there before the first is forked, and stays shared."""
    scenario = draw(0, KINDS)
    run_scenario(replace(scenario, faults=(), jobs=scenario.jobs[:1]))
    gc.collect()
    gc.freeze()
    gc.disable()  # a process ends after a few seeds: nothing has to be collected


def _end(summary: Summary, path: Path, asked: argparse.Namespace) -> int:
    wrong = bool(summary.failed)
    if asked.soak:
        lacks = summary.lacks()
        wrong = wrong or bool(lacks)
        told = {**summary.as_json(), "code": path.stem, "lacks": lacks, "unseen": summary.unseen}
        path.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
        print(f"\n{summary.table()}")
        print(*lacks, f"in full: {path.with_suffix('.json')}", sep="\n", flush=True)
        return int(wrong)
    print(json.dumps(summary.as_json()), flush=True)
    failed = f"failed: {', '.join(map(str, summary.failed))}" if wrong else "all held"
    _tell(f"{summary.seeds} seeds, {failed}")
    return int(wrong)


def _tell(text: str) -> None:
    """To who waits; the results alone are on standard output."""
    print(text, file=sys.stderr, flush=True)


def _places(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(not_negative(place) for place in text.split(","))


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", nargs=2, type=int, metavar=("FIRST", "END"), help="FIRST to END - 1"
    )
    parser.add_argument("--seed", type=int, help="one seed, with its whole trace")
    parser.add_argument(
        "--workers", type=at_least_one, default=1, help="so many processes at a time"
    )
    parser.add_argument("--chunk", type=at_least_one, help="seeds of one process")
    parser.add_argument(
        "--soak",
        action="store_true",
        help="keep the results and go on where it was; fails too if a fault struck too seldom",
    )
    parser.add_argument("--log", action="store_true", help="the components' own log lines too")
    parser.add_argument("--smaller", action="store_true", help="minimise what fails")
    parser.add_argument("--verbose", action="store_true", help="a line for each seed")
    parser.add_argument(
        "--keep-faults", type=_places, help="of the seed's faults, as it numbers them: 2,5, or none"
    )
    parser.add_argument("--keep-jobs", type=_places, help="the same of its jobs")
    parser.add_argument("--keep-sets", type=_places, help="the same of its sets")
    parser.add_argument(
        "--pace",
        type=pace,
        default=1.0,
        help="by what the times of jobs and faults are multiplied: 0.3",
    )
    asked = parser.parse_args(arguments)
    if asked.seed is None and (asked.seeds is None or asked.seeds[0] >= asked.seeds[1]):
        parser.error("no seed is asked for: --seed N, or --seeds FIRST END with FIRST before END")
    if not asked.log:
        structlog.configure(processors=[_drop])
    return one(asked) if asked.seed is not None else many(asked)


def _drop(*_: object) -> str:
    raise structlog.DropEvent


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        python = interpreter(os.environ)
        if python != sys.executable:
            os.environ["PYTHONPATH"] = import_path(sys.path)
        os.execv(python, [python, "-W", "ignore", "-m", "tests.simulation.run", *sys.argv[1:]])
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the dead are not finalised
