"""`python -m benchmarks`: the short run, ten minutes at most; `--full`: all rows on both servers.

Prints a line as soon as a case is measured, then tables; writes JSON. What fails is told and the
rest goes on. `--table FILE` prints the tables of a run again.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog
import uvloop

from benchmarks import goals, machine, tables
from benchmarks.budget import Budget, Step
from benchmarks.cases import life
from benchmarks.floor.script import OWN, RAW
from benchmarks.report import Report, read
from benchmarks.steps import ALONE, CASES, EMBEDDED, FULL, REAL, SHORT, SIZES, measure, steps
from benchmarks.world import Setting

OUTPUT = Path("build") / "benchmark.json"
SHORT_MINUTES = 10.0
SERVERS = (EMBEDDED, REAL)


async def run(asked: argparse.Namespace, report: Report) -> None:
    """Step by step, each bounded in time."""
    budget = Budget(asked.minutes and asked.minutes * 60.0, now=time.monotonic)
    todo = steps(
        asked.cases,
        asked.server,
        is_full=asked.full,
        sizes=asked.sizes,
        rounds=asked.rounds,
    )
    for number, step in enumerate(todo):
        left_s = budget.left_s()
        if not budget.fits(step):
            needs_s = step.round_s * budget.slowness
            report.leaves_out(f"{step.title}: takes some {needs_s:.0f} s, {left_s:.0f} s are left")
            continue
        began_s = time.monotonic()
        rounds_done = await _step(step, todo[number + 1 :], budget, asked, report)
        budget.took(step, time.monotonic() - began_s, rounds_done)
        report.write(asked.output)


async def _step(
    step: Step, later: Sequence[Step], budget: Budget, asked: argparse.Namespace, report: Report
) -> int:
    rounds = budget.rounds(step, later)
    bound_s = budget.bound_s(step)
    setting = Setting(step.server, asked.tail, asked.floor)
    scale_sizes = asked.sizes or SIZES["scale"][asked.full]
    print(f"-- {step.title}", flush=True)
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(bound_s):
            for row in await measure(step, rounds, setting, scale_sizes=scale_sizes):
                report.add(row)
    except Exception as error:  # noqa: BLE001 - one case that fails must not take the others along
        took_s = time.monotonic() - began_s
        report.fails(f"{step.title} after {took_s:.0f} s: {'; '.join(_causes(error))}")
    return max(1, rounds.done)


def _causes(error: BaseException) -> Iterator[str]:
    """The errors in a group, without the groups."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield f"{type(error).__name__}: {error}"


async def _until_told(asked: argparse.Namespace, report: Report) -> None:
    """SIGTERM is Ctrl-C: everything that was started is ended."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await run(asked, report)


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="all cases at all sizes")
    parser.add_argument("--cases", "--only", nargs="+", choices=CASES, help="these cases")
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of a case's own sizes")
    parser.add_argument("--server", nargs="+", choices=SERVERS)
    parser.add_argument("--rounds", type=int, help="of which the medians are taken, at most")
    parser.add_argument("--minutes", type=float, help="at most; what does not fit is left out")
    parser.add_argument(
        "--tail", action="store_true", help="five of a hundred calls at GitHub take two seconds"
    )
    parser.add_argument(
        "--floor", choices=(RAW, OWN), default=RAW, help="its connections: raw, or those we have"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument(
        "--table",
        nargs="?",
        const="",
        metavar="FILE",
        help="print the tables of a run; measure nothing",
    )
    asked = parser.parse_args(arguments)
    if asked.minutes is None and not asked.full and not asked.cases:
        asked.minutes = SHORT_MINUTES
    asked.server = asked.server or (list(SERVERS) if asked.full else [REAL])
    asked.cases = asked.cases or ((*FULL, *ALONE) if asked.full else SHORT)
    asked.sizes = asked.sizes or []
    return asked


def main(arguments: Sequence[str]) -> int:
    """The command; 1: a case failed, or a life cost more than it may."""
    asked = _asked(arguments)
    if asked.table is not None:
        print(tables.markdown(read(Path(asked.table))) if asked.table else goals.table([]))
        return 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    # A shell has it ignored for what runs in the background: also there nothing is left behind.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    report = Report(
        machine.facts() | {"tail of 2 s": "5 %" if asked.tail else "none", "floor": asked.floor}
    )
    began_s = time.monotonic()
    ended_early = False
    try:
        uvloop.run(_until_told(asked, report))
    except (KeyboardInterrupt, asyncio.CancelledError):
        ended_early = True
    report.write(asked.output)
    print(tables.markdown(report))
    print(f"{len(report.rows)} rows in {time.monotonic() - began_s:.0f} s, kept in {asked.output}")
    failures = [f"failed: {each}" for each in report.failed]
    for row in report.rows:
        if row.case.startswith("life"):
            failures += life.over_budget(row)
    for text in failures:
        print(text, file=sys.stderr)
    return 130 if ended_early else int(bool(failures))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
