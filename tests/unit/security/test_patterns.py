"""No regular expression of ours can be made to run without end, however hostile the text.

Every pattern in the source is found in its syntax tree, and every pattern of our CRDs and
schemas in the files. Each is tried on texts made from its own parts: what it repeats, many
times over, with an end that does not fit.
"""

import ast
import itertools
import json
import re
import re._constants as constants
import re._parser as parser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.security.steps import Counter, TooManySteps

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "runnerscale"
SEARCHING = {"search", "sub", "split", "findall", "finditer"}  # tries every place in the text
CALLS = SEARCHING | {"compile", "match", "fullmatch"}
SIZES = (20, 40)
STEPS_MAX = 60_000
GROWTH_MAX = 2.6  # twice the text, twice the steps, and a little for where it begins
# Patterns that come from whoever may do everything anyway: faults of the stand-in for GitHub
# (behind its control token), CRDs (only administrators write them),
# or in our own schemas, which are read below.
GIVEN = {
    "fake_github/faults.py",
    "fake_github/operations.py",
    "apiserver/crd_schema.py",
    "chart_values/types.py",
}


# More than that, and why no hostile text is long enough to matter.
LIMITED = {
    "node/quantity.py": "CHARS_MAX",
    "apiserver/formats.py": "QUANTITY_CHARS_MAX",
    "api/go_form.py": "CHARS_MAX",
    "scaleset/config_url.py": "HOST_CHARS_MAX",
    "cli/go_flags.py": "",  # the command line is of whoever starts the process
    "apiserver/cel_rules.py": "",  # rules of a CRD: only administrators write them
    "app/demo_reasons.py": "",  # the metrics and logs of the demo's own processes
    "app/demo_watch.py": "",
}


def constants_of(path: Path) -> dict[str, str]:
    """Names of texts in a module, f-strings of known names among them."""
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = text_of(node.value, found)
            if text is not None:
                found[node.targets[0].id] = text
    return found


def text_of(node: ast.expr, known: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        value = node.value
        return value if isinstance(value, str) else value.decode("latin-1")
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.JoinedStr):
        parts = [
            text_of(part.value if isinstance(part, ast.FormattedValue) else part, known)
            for part in node.values
        ]
        return None if None in parts else "".join(part or "" for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left, known), text_of(node.right, known)
        return None if left is None or right is None else left + right
    return None


def searched_names(tree: ast.AST) -> set[str]:
    """Compiled patterns that are used to search."""
    return {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.attr in SEARCHING
    }


def patterns_in(path: Path) -> Iterator[tuple[str, str, bool]]:
    known = constants_of(path)
    where = path.relative_to(SOURCE).as_posix()
    tree = ast.parse(path.read_text())
    searched = searched_names(tree)
    of_call = {
        id(node.value): target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        if not (isinstance(owner, ast.Name) and owner.id == "re" and node.func.attr in CALLS):
            continue
        given = node.args[0]
        text = text_of(given, known)
        if text is None:
            assert where in GIVEN, (where, ast.unparse(given))
        else:
            searches = node.func.attr in SEARCHING or of_call.get(id(node)) in searched
            yield f"{where}:{node.lineno}", text, searches


def patterns_of_files() -> Iterator[tuple[str, str, bool]]:
    def inside(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                yield value["pattern"]
            for rule in value.get("x-kubernetes-validations") or ():
                yield from re.findall(r"matches\(r?'([^']*)'\)", str(rule.get("rule")))
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                yield from inside(item)

    for path in sorted((ROOT / "charts").glob("*/crds/*.yaml")):
        yield from ((path.name, text, False) for text in inside(yaml.safe_load(path.read_text())))
    for path in sorted((ROOT / "charts").glob("*/values.schema.json")):
        yield from ((path.parent.name, text, True) for text in inside(json.loads(path.read_text())))


FOUND = [found for path in sorted(SOURCE.rglob("*.py")) for found in patterns_in(path)]
FOUND += list(patterns_of_files())
CASES = sorted({(text, searches): where for where, text, searches in FOUND}.items())
IDS = [f"{where}-{number}" for number, (_, where) in enumerate(CASES)]


def characters(tree: Any) -> set[str]:
    """One character for everything that the pattern looks at."""
    found: set[str] = set()
    for op, value in tree:
        if op in (constants.LITERAL, constants.NOT_LITERAL):
            found.add(chr(value))
        elif op is constants.IN:
            for kind, member in value:
                if kind is constants.RANGE:
                    found.add(chr(member[0]))
                elif kind is constants.LITERAL:
                    found.add(chr(member))
                elif kind is constants.CATEGORY:
                    found |= set("0 a")
        elif op is constants.ANY:
            found.add("a")
        elif op is constants.SUBPATTERN:
            found |= characters(value[3])
        elif op is constants.BRANCH:
            found |= set().union(*(characters(branch) for branch in value[1]))
        elif op in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            found |= characters(value[2])
        elif op in (constants.ASSERT, constants.ASSERT_NOT):
            found |= characters(value[1])
    return found


def first_words(tree: Any) -> str:
    """The plain text that a pattern begins with."""
    plain = itertools.takewhile(lambda item: item[0] is constants.LITERAL, tree)
    return "".join(chr(value) for _, value in plain) or "a"


def steps(pattern: str, unit: str, prefix: str, size: int, *, searches: bool) -> int:
    text = prefix + (unit * size)[: max(size, size // 10 * len(unit))] + "\x00"
    counter = Counter(pattern, 0, STEPS_MAX)
    if searches:
        return counter.search(text)
    return max(counter.run(text, full=full) for full in (False, True))


def growths(pattern: str, *, searches: bool) -> Iterator[tuple[float, str, str]]:
    alphabet = sorted(characters(parser.parse(pattern)))
    pairs = ["".join(pair) for pair in itertools.permutations(alphabet[:5], 2)]
    for unit in [*alphabet[:16], *pairs, first_words(parser.parse(pattern))]:
        for prefix in ("", '"'):
            small, large = (steps(pattern, unit, prefix, n, searches=searches) for n in SIZES)
            yield large / max(small, 60), unit, prefix


@pytest.mark.parametrize(("case", "where"), CASES, ids=IDS)
def test_twice_the_text_is_twice_the_work(case: tuple[str, bool], where: str) -> None:
    pattern, searches = case
    limit = LIMITED.get(where.partition(":")[0])
    if limit:
        assert f"{limit} = " in (SOURCE / where.partition(":")[0]).read_text()
    try:
        worst = max(growths(pattern, searches=searches))
    except TooManySteps:
        raise AssertionError(f"{pattern!r} runs without end") from None
    assert worst[0] <= (GROWTH_MAX if limit is None else GROWTH_MAX**2), worst


@pytest.mark.parametrize(
    ("pattern", "unit"),
    [(r"(a+)+$", "a"), (r"(a|a)*b", "a"), (r"\s*([^=]+?)\s*\s*=", " "), (r"(\w+\s?)+:", "a")],
)
def test_a_bad_pattern_is_noticed(pattern: str, unit: str) -> None:
    try:
        small, large = (steps(pattern, unit, "", size, searches=False) for size in SIZES)
    except TooManySteps:
        return
    assert large > GROWTH_MAX * small


def test_every_pattern_was_found() -> None:
    assert len(CASES) > 60
    assert any(where.startswith("scaleset/config_url.py") for where, _, _ in FOUND)
    assert any(where.endswith(".yaml") for where, _, _ in FOUND)
