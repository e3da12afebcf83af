"""`make sweeps`: every canonical scenario, disturbed at every point; a table, and what failed.

`make sweeps ARGS="--scenario one-job --point 20 --after"` plays one of them alone, with `--log` its
trace too; a number that there is not is answered with those that there are.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from tests.simulation.arguments import at_least_one, not_negative
from tests.simulation.sweeps import table
from tests.simulation.sweeps.forks import ALIVE_MAX
from tests.simulation.sweeps.points import Point, Share, Sort
from tests.simulation.sweeps.scenarios import BY_NAME, SCENARIOS, Canonical
from tests.simulation.sweeps.sweep import Swept, play_one, sweep

HASH_SEED = "0"
STALE_STRIDE = 200
SLOW_S = 120.0  # so much later than undisturbed is worth a line


def main(arguments: Sequence[str]) -> int:
    """The command."""
    asked = _asked(arguments)
    if not asked.log:
        structlog.configure(processors=[_drop])
    chosen = [BY_NAME[name] for name in asked.scenario]
    chosen = chosen or [each for each in SCENARIOS if each.core or not asked.core]
    with tempfile.TemporaryDirectory() as base:
        if asked.point:
            return _repeat(chosen[0], asked, Path(base))
        return _sweep(chosen, asked, Path(base))


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", action="append", default=[], choices=sorted(BY_NAME))
    parser.add_argument(
        "--point", type=at_least_one, help="this one alone; with one of the sorts below"
    )
    parser.add_argument(
        "--revision", type=not_negative, default=0, help="what a stale point is shown"
    )
    for sort in Sort:
        parser.add_argument(
            f"--{sort}", dest="sorts", action="append_const", const=sort, help="this sort only"
        )
    parser.add_argument("--stale-stride", type=at_least_one, default=STALE_STRIDE, metavar="K",
                        help="every K-th of the stale points (default %(default)s)")  # fmt: skip
    parser.add_argument("--stale-offset", type=not_negative, default=0, metavar="N",
                        help="those whose number modulo K is N (default %(default)s)")  # fmt: skip
    parser.add_argument("--full", action="store_true", help="every stale point: hours")
    parser.add_argument("--core", action="store_true", help="without the longest scenarios")
    parser.add_argument("--jobs", type=at_least_one, default=ALIVE_MAX, help="histories at a time")
    parser.add_argument("--log", action="store_true", help="traces and log lines too")
    asked = parser.parse_args(arguments)
    if asked.point and not (len(asked.scenario) == 1 and len(asked.sorts or ()) == 1):
        parser.error(
            "--point is one of one scenario and one sort: --scenario NAME --point N --after"
        )
    return asked


def _repeat(canonical: Canonical, asked: argparse.Namespace, base: Path) -> int:
    point = Point(asked.sorts[0], asked.point, revision=asked.revision)
    found = play_one(canonical, point, base)
    if asked.log:
        print("\n".join(found.trace))
    print(found)
    return int(found.failed)


def _sweep(chosen: list[Canonical], asked: argparse.Namespace, base: Path) -> int:
    sorts = frozenset(asked.sorts or Sort)
    rows: list[Swept] = []
    share = Share(1 if asked.full else asked.stale_stride, asked.stale_offset)
    print(table.head(), flush=True)
    for canonical in chosen:
        began_s = time.monotonic()
        swept = sweep(canonical, sorts, base, share=share, alive=asked.jobs, say=_say)
        rows.append(swept)
        took_s = time.monotonic() - began_s
        print(f"{table.row(swept, sorts)}   ({took_s:.0f} s)", flush=True)
        if swept.latest_s > SLOW_S:
            print(f"  slowest: {swept.latest}", flush=True)
    print(table.row(Swept.total(rows), sorts))
    print(table.last_words(rows, sorts))
    return int(any(swept.failed for swept in rows))


def _say(text: str) -> None:
    print(text, flush=True)


def _drop(*_: object) -> str:
    raise structlog.DropEvent


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(
            sys.executable,
            [sys.executable, "-W", "ignore", "-m", "tests.simulation.sweeps", *sys.argv[1:]],
        )
    sys.exit(main(sys.argv[1:]))
