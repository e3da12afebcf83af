"""`make mutants`: every planted defect is to be noticed within so many seeds.

Each one is hunted in a process of its own, two at a time. What was noticed at a seed must not be
there without the defect: the seed is played once more on the product as it is.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from tests.simulation.mutants.catalogue import MUTANTS
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.workshop import Found, HuntFailed, hunt

SEEDS_MAX = 200
HEADER = (
    "| defect | sort | found at seed | seeds played | CPU s | noticed by |",
    "|---|---|---|---|---|---|",
)


@cache
def fails_without(seed: int) -> bool:
    """Whether a seed fails on the product as it is: then it says nothing about a defect."""
    return hunt(None, first=seed, end=seed + 1).seed is not None


def verdict(mutant: Mutant, *, first: int, end: int, plays_max: int) -> tuple[str, bool]:
    """A line of the table, and whether all is well."""
    skip: list[int] = []
    try:
        while True:
            found = hunt(mutant, first=first, end=end, plays_max=plays_max, skip=skip)
            if found.seed is None:
                return _line(mutant, "NOT FOUND", found, "nobody", skip), False
            if not fails_without(found.seed):
                break
            skip.append(found.seed)
    except HuntFailed as error:
        return _line(mutant, "FAILED", Found(None), str(error)[-140:], skip), False
    return _line(mutant, str(found.seed), found, f"{found.rule}: {found.detail}", skip), True


def _line(mutant: Mutant, where: str, found: Found, told: str, skip: Sequence[int]) -> str:
    told = " ".join(told.split()).replace("|", "/")[:140]
    if skip:
        told += f" (without the defect too: {', '.join(map(str, skip))})"
    return f"| {mutant.name} | {mutant.kind} | {where} | {found.seeds} | {found.cpu_s} | {told} |"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="defects with this in their name")
    parser.add_argument(
        "--seeds",
        nargs=2,
        type=int,
        default=(0, SEEDS_MAX),
        metavar=("FIRST", "END"),
        help="FIRST to END - 1",
    )
    parser.add_argument(
        "--plays", type=int, default=SEEDS_MAX, help="so many of those seeds at most"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    asked = parser.parse_args(arguments)
    limits = {"first": asked.seeds[0], "end": asked.seeds[1], "plays_max": asked.plays}
    chosen = [mutant for mutant in MUTANTS if asked.only in mutant.name]
    if not chosen:
        names = "".join(f"\n  {mutant.name}" for mutant in MUTANTS)
        parser.error(f"no planted defect has {asked.only!r} in its name; there are:{names}")
    hunts = f"{len(chosen)} hunts, {asked.jobs} at a time: minutes each; in order, as they end"
    print(hunts, file=sys.stderr, flush=True)
    print("\n".join(HEADER), flush=True)
    missed = 0
    with ThreadPoolExecutor(max_workers=asked.jobs) as pool:
        for line, well in pool.map(lambda m: verdict(m, **limits), chosen):
            print(line, flush=True)
            missed += not well
    print(f"\n{len(chosen) - missed} of {len(chosen)} planted defects were noticed", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
