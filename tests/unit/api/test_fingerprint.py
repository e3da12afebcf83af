"""A fingerprint in which null, absent and empty coincide."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.api.autoscaling_listener import AutoscalingListenerSpec
from runnerscale.api.autoscaling_runner_set import AutoscalingRunnerSetSpec
from runnerscale.api.fingerprint import canonical, fingerprint, is_ours, same
from runnerscale.api.values import PodTemplate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@pytest.mark.behaviour("C1 T33")
@pytest.mark.parametrize(
    "one",
    [
        {"a": 1, "volumes": []},
        {"a": 1, "volumes": None},
        {"a": 1, "labels": {}},
        {"a": 1, "x": {"y": {}}},
    ],
)
def test_null_absent_and_empty_are_the_same(one: Any) -> None:
    assert fingerprint(one) == fingerprint({"a": 1})
    assert same(one, {"a": 1})


def test_a_zero_that_somebody_wrote_into_a_template_is_a_wish() -> None:
    assert fingerprint({"runAsUser": 0}) != fingerprint({})
    assert fingerprint({"tty": False}) != fingerprint({})
    assert fingerprint({"value": ""}) != fingerprint({})


def test_a_typed_field_at_its_default_is_absent_but_another_zero_is_not() -> None:
    assert same(AutoscalingListenerSpec(min_runners=0), AutoscalingListenerSpec())
    assert not same(AutoscalingRunnerSetSpec(max_runners=0), AutoscalingRunnerSetSpec())


def test_structs_and_what_they_are_written_as_are_the_same() -> None:
    raw = msgspec.Raw(b'{"containers":[{"name":"runner","env":[]}]}')
    template = PodTemplate(spec=raw)
    assert fingerprint(template) == fingerprint({"spec": {"containers": [{"name": "runner"}]}})


def test_order_of_keys_does_not_matter_and_order_of_lists_does() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])


def test_the_value_is_fit_for_a_label_and_says_its_version() -> None:
    assert re.fullmatch(r"r1-[0-9a-f]{24}", fingerprint({"a": 1}))
    assert fingerprint(None)


@pytest.mark.behaviour("C1 T31")
@pytest.mark.parametrize("foreign", ["", "54787b4cb", "766b77d4ff", "r2-abc"])
def test_a_foreign_fingerprint_says_nothing(foreign: str) -> None:
    assert not is_ours(foreign)
    assert is_ours(fingerprint({}))


@given(JSON)
def test_a_round_trip_through_an_api_server_changes_nothing(value: Any) -> None:
    assert fingerprint(value) == fingerprint(msgspec.json.decode(msgspec.json.encode(value)))
    assert canonical(canonical(value)) == canonical(value)
