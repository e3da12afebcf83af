"""`python -m benchmarks`: the short run; `--full`: all rows. Prints tables, writes JSON."""

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from benchmarks import machine
from benchmarks.cases import burst
from benchmarks.report import Report

OUTPUT = Path("benchmark.json")


async def run(asked: argparse.Namespace, report: Report) -> None:
    """Case by case."""
    for server in asked.server:
        for count in asked.burst:
            report.add(await burst.measure(server, count, rounds=asked.rounds))


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", nargs="+", default=["kube-apiserver"])
    parser.add_argument("--burst", nargs="*", type=int, default=[100, 500])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    report = Report(machine.facts())
    began_s = time.monotonic()
    asyncio.run(run(asked, report))
    report.write(asked.output)
    print(report.markdown())
    print(f"{len(report.rows)} rows in {time.monotonic() - began_s:.0f} s, kept in {asked.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
