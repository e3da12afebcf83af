"""When the answers of a probe count."""

import msgspec
import pytest

from runnerscale.node.pod_spec import Probe
from runnerscale.node.probe_rules import Rhythm, Tally, count, port_of, rhythm_of
from tests.unit.node.pods import container


def after(answers: str, rhythm: Rhythm) -> Tally:
    tally = Tally()
    for answer in answers:
        tally = count(tally, good=answer == "+", rhythm=rhythm)
    return tally


@pytest.mark.parametrize(
    ("answers", "passing", "gave_up"),
    [
        ("", False, False),
        ("+", True, False),
        ("--", False, False),
        ("---", False, True),
        ("+--", True, False),  # not yet three in a row
        ("+---", False, True),
        ("--+--", True, False),
        ("+---+", True, False),
    ],
)
def test_three_bad_answers_in_a_row_are_too_many(
    answers: str, passing: bool, gave_up: bool
) -> None:
    tally = after(answers, Rhythm())
    assert (tally.passing, tally.gave_up) == (passing, gave_up)


def test_some_probes_want_several_good_answers() -> None:
    rhythm = Rhythm(success_threshold=2)
    assert not after("+", rhythm).passing
    assert not after("+-+", rhythm).passing
    assert after("++", rhythm).passing


def test_defaults_are_kubernetes_own() -> None:
    assert rhythm_of(Probe()) == Rhythm(0.0, 10.0, 1.0, 1, 3)
    given = msgspec.convert({"periodSeconds": 2, "initialDelaySeconds": 5}, Probe)
    assert (rhythm_of(given).period_s, rhythm_of(given).initial_delay_s) == (2, 5)


def test_a_port_may_have_a_name() -> None:
    named = container(ports=[{"name": "http", "containerPort": 8080}])
    assert [port_of(port, named) for port in (80, "81", "http", "absent")] == [80, 81, 8080, None]
    strange = ("\u00b2", "9" * 5000, 10**400, 65536, 0, -1)  # no connection could be tried
    assert [port_of(port, named) for port in strange] == [None] * 6
