"""`python -m benchmarks`: the short run; `--full`: all rows on both servers.

Prints a line as soon as a case is measured, then tables; writes JSON.
"""

import argparse
import logging
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import structlog
import uvloop

from benchmarks import machine
from benchmarks.cases import (
    burst,
    churn,
    embedded_api,
    fake_github,
    idle,
    life,
    listener,
    many_sets,
    steady,
)
from benchmarks.report import Report, Row

OUTPUT = Path("build") / "benchmark.json"
CASES = (
    "life",
    "burst",
    "churn",
    "steady",
    "scale",
    "sets",
    "idle",
    "listener",
    "embedded",
    "github",
)
SHORT = ("life", "burst", "churn", "idle", "listener")


async def rows(case: str, server: str, asked: argparse.Namespace) -> AsyncIterator[Row]:
    """The rows of one case, as they are measured."""
    full, rounds = asked.full, asked.rounds
    if case == "life":
        yield await life.measure(server, 60)
    elif case == "burst":
        for count in asked.sizes or ([100, 500, 1000] if full else [100, 500]):
            yield await burst.measure(server, count, rounds=rounds)
    elif case == "churn":
        for count in asked.sizes or ([100, 500] if full else [100]):
            yield await churn.measure(server, count, rounds=10 if count <= 100 else 3)
    elif case == "steady":
        yield await steady.measure(
            server, jobs_per_s=20.0, seconds=300.0 if full else 60.0, job_s=30.0
        )
    elif case == "scale":
        for count in asked.sizes or [100, 500, 1000, 2500, 5000]:
            for row in await idle.measure(server, count, seconds=60.0):
                yield row
    elif case == "sets":
        yield await many_sets.measure(server, 50, rounds=rounds)
    elif case == "idle":
        for row in await idle.measure(server, 100, seconds=600.0 if full else 60.0):
            yield row
    elif case == "listener":
        yield await listener.measure(server, 200)
    elif case == "embedded" and server == "embedded":
        yield await embedded_api.measure(5000 if full else 2000)
    elif case == "github" and server == asked.server[0]:
        yield await fake_github.measure(5000 if full else 2000)


async def run(asked: argparse.Namespace, report: Report) -> None:
    """Case by case."""
    for case in asked.only or (CASES if asked.full else SHORT):
        for server in asked.server:
            async for row in rows(case, server, asked):
                report.add(row)


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="all cases at all sizes")
    parser.add_argument("--only", nargs="+", choices=CASES, help="these cases")
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of a case's own sizes")
    parser.add_argument("--server", nargs="+", choices=("embedded", "kube-apiserver"))
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are taken")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args(arguments)
    if asked.server is None:
        asked.server = ["embedded", "kube-apiserver"] if asked.full else ["kube-apiserver"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    report = Report(machine.facts())
    began_s = time.monotonic()
    uvloop.run(run(asked, report))  # the floor is to be as low as it can be
    report.write(asked.output)
    print(report.markdown())
    print(f"{len(report.rows)} rows in {time.monotonic() - began_s:.0f} s, kept in {asked.output}")
    failures = [
        text for row in report.rows if row.case.startswith("life") for text in life.over_budget(row)
    ]
    for text in failures:
        print(text, file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
