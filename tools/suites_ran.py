"""Fail if a suite that is meant to run did not, or skipped a test: `suites_ran.py REPORT SUITE...`.

A skipped test looks green in pytest's last line. In CI it is a hole, so the JUnit report is
asked: every named folder of `tests/` must have run tests, and none of them may be skipped.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree


def complaints(report: Path, suites: Sequence[str]) -> tuple[Counter[str], list[str]]:
    """How many tests each suite ran, and what is wrong, one sentence each."""
    counts: Counter[str] = Counter()
    wrong = []
    for case in ElementTree.parse(report).iter("testcase"):
        place = f"{case.get('classname', '')}.{case.get('name', '')}"
        skipped = case.find("skipped")
        if skipped is not None:
            wrong.append(f"{place} was skipped: {skipped.get('message')}")
            continue
        for suite in suites:
            counts[suite] += place.startswith(f"tests.{suite}.")
    wrong += [f"no test of tests/{suite} ran" for suite in suites if not counts[suite]]
    return counts, wrong


def main() -> None:
    """Print the counts; exit with the complaints, if any."""
    report, *suites = sys.argv[1:]
    counts, wrong = complaints(Path(report), suites)
    print("tests by suite:", dict(counts))
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
