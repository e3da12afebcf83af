"""The guard of `make counts`: what costs too much is named, and so is what is no longer counted."""

import pytest
from benchmarks.cases.life import over_budget
from benchmarks.report import Row

CLEAN: dict[str, float | None] = {
    "writes/life": 9.0,
    "reads/life": 1.0,
    "GitHub calls/life": 1.0,
    "set patches/message": 1.2,
    "lists of runners or pods": 0.0,
    "stuck runners": 0.0,
}


def test_a_clean_life_is_within_its_budget() -> None:
    assert over_budget(Row("life 60", "embedded", CLEAN)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("writes/life", 10.0),  # one write more than the design has
        ("reads/life", 2.0),
        ("GitHub calls/life", 2.0),
        ("GitHub calls/life", 0.0),  # an operation was renamed, and nobody counts it
        ("writes/life", None),
        ("set patches/message", 5.0),
        ("lists of runners or pods", 1.0),
        ("stuck runners", 1.0),
    ],
)
def test_what_costs_more_or_is_not_counted_is_named(name: str, value: float | None) -> None:
    [told] = over_budget(Row("life 60", "embedded", {**CLEAN, name: value}))
    assert name in told
