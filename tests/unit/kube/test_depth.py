"""Objects nested so deeply that no decoder follows: found, kept out, and nobody else is hurt."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.kube.depth import CUT, DEPTH_MAX, cut_below, is_too_deep
from runnerscale.kube.errors import BadAnswer
from runnerscale.kube.status import error_from
from runnerscale.kube.watch import Added, Deleted, ErrorEvent, Poisoned, ResourceDecoder

SETS = ResourceDecoder(AUTOSCALING_RUNNER_SETS)
# Deeper than rules walk; deeper than decoders go (1,000); the most a kube-apiserver takes.
DEPTHS = (DEPTH_MAX + 1, 900, 9_000)
LISTED = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s,%s]}'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def runner_set(name: str, depth: int) -> bytes:
    inside = b'{"a":' * depth + b"1" + b"}" * depth
    return (
        b'{"kind":"AutoscalingRunnerSet","metadata":{"name":"%s","namespace":"ns","uid":"u-%s",'
        b'"resourceVersion":"7"},"spec":{"template":{"spec":{"x":%s}}}}'
    ) % (name.encode(), name.encode(), inside)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_object_in_a_list_is_poison_and_its_neighbours_are_not(depth: int) -> None:
    page = SETS.page(
        LISTED % (runner_set("a", 3), runner_set("deep", depth), runner_set("b", 3)),
    )
    assert [item.metadata.name for item in page.items] == ["a", "b"]
    assert [(found.key, found.uid) for found in page.poisoned] == [("ns/deep", "u-deep")]
    assert "100 levels" in page.poisoned[0].reason
    assert page.resource_version == "9"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_object_in_a_watch_is_poison_with_its_identity(depth: int) -> None:
    event = SETS.line(b'{"type":"MODIFIED","object":%s}' % runner_set("deep", depth))
    assert isinstance(event, Poisoned)
    assert (event.type, event.key, event.uid, event.resource_version) == (
        ("MODIFIED", "ns/deep", "u-deep", "7")
    )
    assert "100 levels" in event.reason


def test_an_object_of_usual_depth_is_nothing_special() -> None:
    event = SETS.line(b'{"type":"ADDED","object":%s}' % runner_set("a", 60))
    assert isinstance(event, Added)
    assert isinstance(SETS.line(b'{"type":"DELETED","object":%s}' % runner_set("a", 60)), Deleted)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_object_that_was_asked_for_is_a_bad_answer(depth: int) -> None:
    with pytest.raises(BadAnswer):
        SETS.object(runner_set("deep", depth))


def test_a_deep_error_body_is_still_the_error_of_its_code() -> None:
    error = error_from(409, b"[" * 50_000, {}, method="GET", path="/x")
    assert error.code == 409
    event = SETS.line(b'{"type":"ERROR","object":%s%s}' % (b"[" * 5000, b"]" * 5000))
    assert isinstance(event, ErrorEvent)


def test_brackets_inside_of_texts_do_not_count() -> None:
    text = json.dumps({"a": '[{"' * 500, "b": "\\" * 99 + '"['}).encode()
    assert not is_too_deep(text)
    assert cut_below(text, 1) == text


@given(JSON)
def test_cutting_keeps_what_is_above_and_never_breaks_json(value: Any) -> None:
    text = json.dumps(value).encode()
    assert cut_below(text, 50) == text
    for limit in (0, 1, 2):
        assert is_too_deep(text, limit) == (CUT in cut_below(text, limit))
        msgspec.json.decode(cut_below(text, limit))
