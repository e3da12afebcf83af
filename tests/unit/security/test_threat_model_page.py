"""Each claim of docs/security.md names its tests, and each test of this folder its claim."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text()
HERE = "tests/unit/security"
ITSELF = "test_threat_model_page.py"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def functions_of(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text())
    return {n.name for n in tree.body if isinstance(n, functions) and n.name.startswith("test_")}


def claims() -> list[list[str]]:
    """The rows of the tables whose last column is `test`."""
    rows, inside = [], False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if not line.startswith("|"):
            inside = False
        elif cells[-1] == "test":
            inside = True
        elif inside and not line.startswith("|-"):
            rows.append(cells)
    return rows


def test_every_claim_names_a_test_that_exists() -> None:
    assert len(claims()) > 30
    for row in claims():
        found = NAMED.findall(row[-1])
        assert found, row
        for path, name in found:
            assert name in functions_of(ROOT / path), row


def test_every_test_of_security_belongs_to_a_claim() -> None:
    named = {(path, name) for row in claims() for path, name in NAMED.findall(row[-1])}
    for path in sorted((ROOT / HERE).glob("test_*.py")):
        if path.name != ITSELF:
            missing = {n for n in functions_of(path) if (f"{HERE}/{path.name}", n) not in named}
            assert missing == set(), path.name


def test_every_verb_of_the_listener_is_listed() -> None:
    part = PAGE.partition("\n## What the listener's token may do\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \| `([\w/]+)` \|", part, re.MULTILINE))
    assert listed == {
        ("patch", "ephemeralrunnersets"),
        ("get", "ephemeralrunners"),
        ("patch", "ephemeralrunners"),
        ("patch", "ephemeralrunners/status"),
    }
