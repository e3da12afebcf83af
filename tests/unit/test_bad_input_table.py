"""Each row of "Bad input, and what you see" has a test, and each test its row."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
PART = PAGE.partition("\n## Bad input, and what you see\n")[2].partition("\n## ")[0]
SYSTEM = ("tests/system/test_bad_input.py", "tests/system/test_bad_kubeconfig.py")
# More of what a row says already.
COVERED = {
    "test_without_any_crd_all_are_named",
    "test_an_older_crd_that_is_upgraded_is_no_trouble_any_more",
    "test_the_real_process_ends_so_too",
    "test_a_plugin_that_hangs_does_not_hold_the_process",
    "test_a_server_behind_another_authority_is_told",
}


def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {n.name for n in tree.body if isinstance(n, functions) and n.name.startswith("test_")}


def rows() -> list[list[str]]:
    lines = [line for line in PART.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [row for row in cells if row[0] != "what is wrong"]


def test_every_row_names_a_test_that_exists() -> None:
    assert len(rows()) > 30
    for row in rows():
        assert len(row) == 3, row
        found = re.fullmatch(r"`(tests/\S+)::(\w+)`|the same", row[2])
        assert found, row
        if found[1]:
            assert found[2] in functions_of(found[1]), row


def test_every_test_of_bad_input_has_its_row() -> None:
    for path in SYSTEM:
        named = set(re.findall(rf"{path}::(\w+)", PART))
        assert functions_of(path) - named - COVERED == set()
