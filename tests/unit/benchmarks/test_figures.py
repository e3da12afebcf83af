"""Medians, ratios, tables: what stands in a report follows from its rounds."""

from pathlib import Path

import pytest
from benchmarks import goals, tables
from benchmarks.eyes import percentile
from benchmarks.references import slower_than_earlier
from benchmarks.report import Report, Row, median_of, ratios_of, read, shown


def test_a_median_is_of_the_rounds_that_have_the_figure() -> None:
    rounds = [{"a": 1.0, "b": None}, {"a": 5.0, "b": 2.0}, {"a": 2.0, "b": float("nan")}]
    assert median_of(rounds) == {"a": 2.0, "b": 2.0}


def test_a_ratio_is_the_median_of_pairs_and_not_of_medians() -> None:
    # The machine gets slower by the round: in each pair ours takes twice as long.
    ours, floor = [{"s": 2.0}, {"s": 20.0}, {"s": 8.0}], [{"s": 1.0}, {"s": 10.0}, {"s": 4.0}]
    assert ratios_of(ours, floor) == {"s": 2.0}


def test_no_ratio_is_made_to_nothing() -> None:
    assert ratios_of([{"s": 2.0, "t": 1.0}], [{"s": 0.0}]) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (float("nan"), "-"), (0.12345, "0.123"), (12.345, "12.3"), (1234.5, "1234")],
)
def test_three_digits_are_shown(value: float | None, text: str) -> None:
    assert shown(value) == text


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile(range(1, 101), 0.95) == 96
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([], 0.5) != percentile([], 0.5)  # not a number


def test_a_report_can_be_read_again(tmp_path: Path) -> None:
    row = Row("burst 100", "embedded", {"online s": 2.0}, {"online s": 1.0}, {"online s": 2.0}, 3)
    report = Report({"cores": "2"}, [row], ["churn 100 after 3 s: TimeoutError"], ["idle"])
    report.write(tmp_path / "it.json")
    assert read(tmp_path / "it.json") == report


def test_the_tables_show_ours_the_floor_and_what_was_measured_earlier() -> None:
    row = Row("burst 100", "embedded", {"online s": 3.0}, {"online s": 1.5}, {"online s": 2.0}, 3)
    text = tables.markdown(Report({"cores": "2"}, [row], ["x failed"], ["y"]))
    assert "| online s | 3 | 1.5 | 2 | 1.6 | 10.7 |" in text
    assert "- embedded: medians of 3 rounds" in text
    assert "- failed: x failed" in text
    assert "- left out: y" in text


def test_a_figure_of_a_plain_case_stands_beside_the_other_servers() -> None:
    rows = [
        Row("listener 200", "embedded", {"RSS MiB": 38.0}),
        Row("listener 200", "kube-apiserver", {"RSS MiB": 39.0}),
    ]
    assert "| RSS MiB | 38 | 39 |" in tables.cases(Report({}, rows))


def test_a_slow_floor_is_none_and_is_named() -> None:
    slow = Row("burst 100", "kube-apiserver", {}, {"online s": 2.0, "CPU ms/life": 2.0})
    assert slower_than_earlier(slow) == "slow floor (online s 2, earlier 1.6)"
    assert slower_than_earlier(Row("burst 100", "embedded", {}, {"online s": 1.7})) == ""


def test_a_goal_is_reached_only_where_all_that_was_measured_reaches_it() -> None:
    name = "online s"
    rows = [
        Row("burst 100", "kube-apiserver", {name: 3.0}, {name: 2.0}, {name: 1.4}),
        Row("burst 500", "kube-apiserver", {name: 3.0}, {name: 2.0}, {name: 1.4}),
        Row("burst 500", "embedded", {name: 4.0}, {name: 2.0}, {name: 1.6}),
    ]
    lines = goals.table(rows).splitlines()
    assert "| 0 → 100 online | 1.5 × floor | 1.4 | not yet measured | yes |" in lines
    assert "| 0 → 500 online | 1.5 × floor | 1.4 | 1.6 | **no** |" in lines


def test_without_a_run_no_goal_is_reached() -> None:
    lines = goals.table([]).splitlines()[2:]
    assert len(lines) == len(goals.GOALS)
    assert all(line.endswith("| not yet measured | not yet measured |  |") for line in lines)


def test_the_page_has_all_goals_with_their_bounds() -> None:
    page = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
    wanted = [f"| {goal.what} | {goal.bound} |" for goal in goals.GOALS]
    assert [line for line in wanted if line not in page] == []
