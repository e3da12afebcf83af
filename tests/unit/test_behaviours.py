"""Every numbered behaviour of the contract has its test, or a higher text and the test of that."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import behaviours  # noqa: E402

OPEN_MAX = 10
found_once = cache(behaviours.collect)  # it reads every test there is


@pytest.mark.parametrize("part", sorted(behaviours.WANTED))
def test_no_number_is_forgotten(part: str) -> None:
    assert [n for n in found_once().missing() if n.startswith(part)] == []


def test_few_are_open_and_each_says_why() -> None:
    found = found_once()
    open_now = {n: reason for n, reason in found.open.items() if n not in found.tests}
    assert len(open_now) <= OPEN_MAX, open_now
    assert all(len(reason) > 20 for reason in open_now.values())


def test_a_test_that_replaces_an_overruled_behaviour_exists() -> None:
    gone = []
    for number, (_, test) in found_once().overruled.items():
        place, _, name = re.sub(r"\[.*", "", test).partition("::")
        path = ROOT / place
        names = (
            {n.name for n in ast.walk(ast.parse(path.read_text())) if hasattr(n, "name")}
            if path.exists()
            else set()
        )
        if name.split("::")[-1] not in names:
            gone.append((number, test))
    assert gone == []


def test_a_number_is_one_that_is_asked_for() -> None:
    assert behaviours.expand("C3 T93-T94") == ["C3 T93", "C3 T94"]
    for odd in ("C3 T95", "C3 T94-T195", "C3 T210", "C3 #12", "C1 T191", "C4 T1", "C2 T9-T3"):
        with pytest.raises(ValueError):
            behaviours.expand(odd)


def test_experimental_charts_are_out_in_one_line() -> None:
    page = behaviours.render(found_once())
    assert page.count(behaviours.LEFT_OUT) == 1
    assert "| C3 T120 |" not in page
