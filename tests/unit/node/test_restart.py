"""Whether and when an ended container comes back."""

from dataclasses import replace

import pytest

from runnerscale.node.pod_view import Kind
from runnerscale.node.restart import comes_back, restart_at_s, restart_delay_s
from tests.unit.node.pods import FRESH, NOW_S, ended


@pytest.mark.parametrize(
    ("kind", "policy", "code", "expected"),
    [
        (Kind.MAIN, "Never", 0, False),
        (Kind.MAIN, "Never", 1, False),
        (Kind.MAIN, "OnFailure", 0, False),
        (Kind.MAIN, "OnFailure", 1, True),
        (Kind.MAIN, "Always", 0, True),
        (Kind.INIT, "Always", 0, False),
        (Kind.INIT, "Always", 1, True),
        (Kind.INIT, "Never", 1, False),
        (Kind.SIDECAR, "Never", 0, True),
    ],
)
def test_who_comes_back(kind: Kind, policy: str, code: int, expected: bool) -> None:
    assert comes_back(replace(FRESH, kind=kind, attempts=1, exit=ended(code)), policy) is expected


def test_the_first_restart_is_immediate_then_the_wait_doubles_up_to_five_minutes() -> None:
    # kubelet: 10 s at the second restart, 300 s at most.
    waits = [restart_delay_s(replace(FRESH, attempts=n, exit=ended(1))) for n in (1, 2, 3, 4, 9)]
    assert waits == [0.0, 10.0, 20.0, 40.0, 300.0]


def test_ten_minutes_of_steady_work_are_a_fresh_start() -> None:
    steady = replace(FRESH, attempts=9, exit=ended(1, ran_s=600))
    assert restart_delay_s(steady) == 0.0


def test_the_wait_counts_from_the_end() -> None:
    crashed = replace(FRESH, attempts=2, exit=ended(1, ended_s=NOW_S - 4))
    assert restart_at_s(crashed) == NOW_S + 6
