"""Which test proves which numbered behaviour of the contract.

Tests say so themselves (`@pytest.mark.behaviour("C1 T12")`); behaviours that a higher text
overrules, and the few that are open, stand in docs/behaviours/<room>.toml. This file reads
both and writes docs/behaviours.md; `tests/unit/test_behaviours.py` holds the count.
"""

import ast
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The numbers of C1 section 7, C2 section 10 and C3 section 4.
WANTED = {"C1": [(1, 190)], "C2": [(1, 200)], "C3": [(1, 94), (195, 209)]}
LEFT_OUT = "C3 T95-194 are those of ARC's experimental charts, which are out."


@dataclass
class Behaviours:
    """What was found, by number such as `C1 T12`."""

    tests: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    overruled: dict[str, tuple[str, str]] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """Numbers that nobody speaks of."""
        known = self.tests.keys() | self.overruled.keys() | self.open.keys()
        return [number for number in every_number() if number not in known]


def every_number() -> list[str]:
    """All wanted numbers of the three contracts, in order."""
    return [
        f"{part} T{n}"
        for part, ranges in WANTED.items()
        for first, last in ranges
        for n in range(first, last + 1)
    ]


def expand(text: str) -> list[str]:
    """`C1 T3` as it is, `C2 T129-T145` as each of its numbers.

    Raises:
        ValueError: not a number, or not one of those that are wanted.
    """
    match = re.fullmatch(r"(C[123]) T(\d+)(?:\s*[-–]\s*T?(\d+))?", text.strip())
    if match is None:
        raise ValueError(f"not a behaviour number: {text!r}")
    part, first, last = match[1], int(match[2]), int(match[3] or match[2])
    if not any(low <= first <= last <= high for low, high in WANTED[part]):
        raise ValueError(f"no behaviour that is asked for: {text!r}")
    return [f"{part} T{n}" for n in range(first, last + 1)]


def collect() -> Behaviours:
    """Read the tests and the lists."""
    found = Behaviours()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for number in numbers_of(node):
                    found.tests[number].append(f"{place}::{node.name}")
    for path in sorted((ROOT / "docs" / "behaviours").glob("*.toml")):
        lists = tomllib.loads(path.read_text())
        for row in lists.get("overruled", ()):
            for number in expand(row["number"]):
                found.overruled[number] = (row["by"], row["test"])
        for row in lists.get("open", ()):
            for number in expand(row["number"]):
                found.open[number] = row["reason"]
    return found


def numbers_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The numbers in a test's behaviour marks."""
    numbers: list[str] = []
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("mark.behaviour"):
            for argument in mark.args:
                if isinstance(argument, ast.Constant):
                    numbers += expand(str(argument.value))
    return numbers


def render(found: Behaviours) -> str:
    """The page."""
    open_now = {n: r for n, r in found.open.items() if n not in found.tests}
    lines = [
        "# Which test proves which behaviour",
        "",
        "Made by `make generate` from the marks in the tests; do not edit. C1 is the contract of",
        "the resources and controllers, C2 that of GitHub's service and the listener, C3 that of",
        "the charts and of operations. A row with *overruled* names the higher text and the test",
        "of what holds instead. More on such references: [CONTRIBUTING.md]"
        "(../CONTRIBUTING.md#what-the-references-in-docstrings-mean).",
        "",
        LEFT_OUT,
        "",
        f"{len(every_number())} behaviours: {len(found.tests.keys() - found.overruled.keys())} "
        f"tested as written, {len(found.overruled)} overruled, {len(open_now)} open.",
        "",
        "| number | test |",
        "|---|---|",
    ]
    for number in every_number():
        if number in found.overruled:
            by, test = found.overruled[number]
            lines.append(f"| {number} | *overruled* by {by}: `{test}` |")
        elif found.tests.get(number):
            tests = found.tests[number]
            more = f" (and {len(tests) - 1} more)" if len(tests) > 1 else ""
            lines.append(f"| {number} | `{tests[0]}`{more} |")
        elif number in found.open:
            lines.append(f"| {number} | **open**: {found.open[number]} |")
    return "\n".join(lines) + "\n"
