"""How `status.conditions` is kept."""

from runnerscale.controllers.conditions import (
    MESSAGE_MAX,
    as_body,
    find,
    is_true,
    shortened,
    with_condition,
    without_condition,
)
from runnerscale.core.clock import format_time
from runnerscale.kube.objects import Condition

NOW_S = 1_800_000_000.0


def said(
    existing: list[Condition] | None, status: bool, *, kind: str = "Ready", at_s: float = NOW_S
) -> list[Condition]:
    return with_condition(
        existing,
        type=kind,
        status=status,
        reason="Because",
        message="so",
        now_s=at_s,
        generation=3,
    )


def test_a_first_verdict_has_the_time_of_now() -> None:
    (found,) = said(None, True)
    assert found.status == "True"
    assert found.last_transition_time == format_time(NOW_S)
    assert found.observed_generation == 3


def test_the_time_stays_until_the_status_flips() -> None:
    first = said(None, True)
    assert said(first, True, at_s=NOW_S + 60) == first
    (flipped,) = said(first, False, at_s=NOW_S + 60)
    assert flipped.last_transition_time == format_time(NOW_S + 60)


def test_each_type_keeps_its_place() -> None:
    both = said(said(None, True), True, kind="Other")
    changed = said(both, False)
    assert [(c.type, c.status) for c in changed] == [("Ready", "False"), ("Other", "True")]
    assert [c.type for c in both] == ["Ready", "Other"]
    assert both[0].status == "True"  # the input is left as it was


def test_finding_and_leaving_out() -> None:
    both = said(said(None, True), False, kind="Other")
    assert is_true(both, "Ready")
    assert not is_true(both, "Other")
    assert not is_true(None, "Ready")
    assert find(both, "None") is None
    assert [c.type for c in without_condition(both, "Ready")] == ["Other"]


def test_a_long_message_is_cut_and_says_so() -> None:
    assert shortened("x" * MESSAGE_MAX) == "x" * MESSAGE_MAX
    cut = shortened("x" * (MESSAGE_MAX + 1))
    assert len(cut) == MESSAGE_MAX
    assert cut.endswith("…")


def test_as_a_patch_body() -> None:
    assert as_body(said(None, True)) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Because",
            "message": "so",
            "lastTransitionTime": format_time(NOW_S),
            "observedGeneration": 3,
        }
    ]
    assert as_body(None) == []
    foreign = Condition(type="X", status="True", reason="r", last_transition_time="t")
    assert "observedGeneration" not in as_body([foreign])[0]
