"""What the check says, where, and in which order."""

from typing import Any

import pytest

from runnerscale.chart_values.check import check, findings_in, guess
from runnerscale.chart_values.findings import Place, dotted, place_of
from runnerscale.chart_values.known import charts
from runnerscale.chart_values.merge import merged, with_defaults
from runnerscale.chart_values.values_file import read_values

SCALE_SET = b"githubConfigUrl: https://github.com/my-org\ngithubConfigSecret: credentials\n"


def lines(*files: bytes, **options: Any) -> list[str]:
    named = [(f"{n}.yaml", content) for n, content in enumerate(files, 1)]
    return [str(line) for line in check(named, **options).lines]


def test_good_values_have_no_lines() -> None:
    assert lines(SCALE_SET) == []
    assert lines(b"replicaCount: 2\n") == []
    assert lines(b"", chart="controller") == []


def test_every_kind_of_problem_has_a_place_and_a_remedy() -> None:
    text = SCALE_SET + (
        b"minRunners: 5\n"
        b"maxRunners: 3\n"
        b"proxy:\n"
        b"  noProxy: example.com\n"
        b"maxRunner: 9\n"
        b"runnerScaleSetName: " + b"a" * 46 + b"\n"
        b"maxRunners: 4\n"
    )
    assert lines(text) == [
        "1.yaml:3: minRunners is 5 and maxRunners 4: the least is more than the most. "
        "Lower minRunners or raise maxRunners.",
        "1.yaml:6: proxy.noProxy is text, a list is expected. "
        "Write it as a list, a line with `- ` for each.",
        "1.yaml:7: maxRunner is not a value of this chart and changes nothing. "
        "Did you mean maxRunners?",
        "1.yaml:8: runnerScaleSetName has 46 bytes, and a scale set's name may have 45. "
        "Set runnerScaleSetName to a shorter name.",
        "1.yaml:9: maxRunners is given twice, here and in line 4; the last one counts. "
        "Keep one of them.",
    ]


def test_a_missing_secret_and_url_are_told_at_the_top() -> None:
    found = lines(b"runnerGroup: mine\n")
    assert [line.partition(" ")[0] for line in found] == ["1.yaml:1:", "1.yaml:1:"]
    assert "githubConfigUrl is missing" in found[0]
    assert "githubConfigSecret is empty" in found[1]


def test_a_secret_is_never_repeated() -> None:
    text = (
        b"githubConfigUrl: [hidden-1]\ngithubConfigSecret:\n  github_token: {hidden-2: hidden-3}\n"
    )
    found = "\n".join(lines(text))
    assert "githubConfigSecret.github_token is a map, text is expected" in found
    assert "hidden" not in found
    both = b"githubConfigSecret: {github_token: hidden, github_app_id: hidden}\n"
    assert "hidden" not in "\n".join(lines(SCALE_SET[:43] + both))


def test_later_files_win_and_each_value_keeps_its_place() -> None:
    second = b"minRunners: 1\nmaxRunners: 0\n"
    assert lines(SCALE_SET + b"maxRunners: 5\n", second) == [
        "2.yaml:1: minRunners is 1 and maxRunners 0: the least is more than the most. "
        "Lower minRunners or raise maxRunners."
    ]
    assert lines(SCALE_SET + b"maxRunner: 5\n", b"maxRunners: 3\n") == [
        "1.yaml:3: maxRunner is not a value of this chart and changes nothing. "
        "Did you mean maxRunners?"
    ]


def test_the_chart_is_told_from_the_keys() -> None:
    assert check([("v", SCALE_SET)]).chart == "scale-set"
    assert check([("v", b"flags: {}\n")]).chart == "controller"
    assert guess({"labels": {}}) is None  # both charts have it
    assert guess({}) is None
    assert guess({"flags": {}, "template": {}}) is None


def test_a_chart_that_cannot_be_told_is_said_with_the_reason() -> None:
    which = "Say which is meant with --chart controller or --chart scale-set."
    assert lines(b"some: thing\n") == [f"1.yaml:1: neither chart has any of these values. {which}"]
    assert lines(b"labels: {a: b}\n") == [f"1.yaml:1: both charts have these values. {which}"]
    assert lines(b"# nothing\n") == [f"1.yaml:1: no value is given. {which}"]
    assert lines(b"flags: {}\n", b"template: {}\n") == [
        "1.yaml:1: these are values of both charts together, and each chart has its own files. "
        "Check each chart's files in a call of its own."
    ]


def test_a_value_of_the_other_chart_is_named_so() -> None:
    (line,) = lines(SCALE_SET + b"flags: {logLevel: info}\n")
    assert line.endswith("It is one of the chart gha-runner-scale-set-controller.")


def test_what_arc_accepted_but_ignored_is_a_note() -> None:
    report = check([("v", b"flags:\n  updateStrategy: immediate\n")])
    assert report.problems == 0
    (line,) = report.lines
    assert str(line).startswith("v:2: flags.updateStrategy is accepted")
    report = check([("v", SCALE_SET + b'minRunners: "1"\nmaxRunners: 2.5\n')])
    assert report.problems == 0
    assert [line.text.partition(":")[0] for line in report.lines] == [
        "minRunners is a number in quotes",
        "maxRunners is 2.5",
    ]


def test_a_file_that_is_no_values_is_the_only_line() -> None:
    assert lines(SCALE_SET, b"- a\n", b"qqq: 1\n") == [
        "2.yaml:1: the file holds a list at the top. Values are `name: value` lines."
    ]


def test_the_release_and_namespace_are_looked_at_when_given() -> None:
    assert lines(SCALE_SET, release="a" * 45, namespace="n" * 63) == []
    (line,) = lines(SCALE_SET, release="a" * 46)
    assert "the release's name has 46 bytes" in line
    assert lines(SCALE_SET + b"runnerScaleSetName: short\n", release="a" * 46) == []
    (line,) = lines(SCALE_SET, namespace="n" * 64)
    assert "more than 63 characters" in line


def test_rules_are_silent_where_the_kind_is_wrong_already() -> None:
    chart = charts()["scale-set"]
    values = {
        "githubConfigUrl": 5,
        "githubConfigSecret": "x",
        "minRunners": [1],
        "template": {"spec": []},
    }
    found = [dotted(finding.path) for finding in findings_in(chart, values)]
    assert found == ["githubConfigUrl", "minRunners", "template.spec"]


def test_merging_is_helms() -> None:
    one = read_values("1", b"a: {b: 1, c: 2}\nd: [1]\ne: {f: 1}\n")
    two = read_values("2", b"a: {c: null, g: 3}\nd: []\ne: 5\n")
    together = merged([one, two])
    assert together.values == {"a": {"b": 1, "c": None, "g": 3}, "d": [], "e": 5}
    assert together.places[("a", "b")] == Place("1", 1)
    assert together.places[("a", "c")] == Place("2", 1)
    # With the defaults below, null takes the default away.
    assert with_defaults(
        {"a": None, "b": {"c": None}, "z": None}, {"a": 1, "b": {"c": 2, "d": 3}}
    ) == {
        "b": {"d": 3},
        "z": None,
    }


def test_places_and_paths() -> None:
    places = {(): Place("v", 1), ("a",): Place("v", 2)}
    assert place_of(("a", "b", 0), places) == Place("v", 2)
    assert place_of(("x",), places) == Place("v", 1)
    assert place_of(("x",), {}) is None
    assert dotted(("a", 0, "b.c", "d")) == "a[0].'b.c'.d"
    assert dotted(("a\nb",)) == "'a\\nb'"


@pytest.mark.parametrize("short", ["controller", "scale-set"])
def test_whatever_the_values_are_the_check_ends(short: str) -> None:
    odd: list[Any] = [None, True, 0, -1.5, "", "x", [], [None, [1]], {}, {"": {"": None}}]
    chart = charts()[short]
    for path, _ in chart.paths():
        for value in odd:
            values: dict[str, Any] = {}
            place = values
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = value
            for finding in findings_in(chart, values):
                assert finding.sentence()
