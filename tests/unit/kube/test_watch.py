"""Lists and watch lines as bytes: what is typed, what is doubtful, what is poison."""

import json
from typing import Any

import msgspec
import pytest

from runnerscale.kube.builtin import PODS
from runnerscale.kube.errors import BadAnswer, Gone
from runnerscale.kube.objects import NO_RAW
from runnerscale.kube.raw import raw_copier
from runnerscale.kube.watch import (
    Added,
    Bookmark,
    Deleted,
    ErrorEvent,
    Modified,
    Poisoned,
    ResourceDecoder,
)
from tests.unit.kube.scripted import WIDGETS, Widget

WIDGET = ResourceDecoder(WIDGETS)
POD = ResourceDecoder(PODS)


def line(type: str, **document: Any) -> bytes:  # noqa: A002
    return json.dumps({"type": type, "object": document}).encode()


META = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}


@pytest.mark.parametrize(
    ("type", "kind"), [("ADDED", Added), ("MODIFIED", Modified), ("DELETED", Deleted)]
)
def test_an_event_is_typed(type: str, kind: Any) -> None:  # noqa: A002
    event = WIDGET.line(line(type, kind="Widget", metadata=META, spec={"size": 3}))
    assert isinstance(event, kind)
    assert event.object.spec.size == 3
    assert event.object.metadata.resource_version == "7"


def test_a_bookmark_full_of_nulls_is_a_bookmark() -> None:
    # Word for word what a real API server sends for pods: creationTimestamp and containers null.
    event = POD.line(
        line(
            "BOOKMARK",
            kind="Pod",
            apiVersion="v1",
            metadata={"resourceVersion": "12746", "creationTimestamp": None},
            spec={"containers": None},
            status={},
        )
    )
    assert event == Bookmark("12746")


def test_an_error_event_is_its_error() -> None:
    event = WIDGET.line(
        line("ERROR", kind="Status", status="Failure", code=410, reason="Expired", metadata={})
    )
    assert isinstance(event, ErrorEvent)
    assert isinstance(event.error, Gone)


def test_an_object_that_does_not_fit_is_poison_with_its_identity() -> None:
    event = WIDGET.line(line("MODIFIED", metadata=META, spec={"size": "large"}))
    assert isinstance(event, Poisoned)
    assert (event.type, event.key, event.uid, event.resource_version) == (
        "MODIFIED",
        "ns/a",
        "u",
        "7",
    )
    assert "$.object.spec.size" in event.reason  # the path of the bad field


@pytest.mark.parametrize("metadata", [None, 3, [], {"name": 5, "resourceVersion": None}])
def test_poison_without_a_readable_identity_is_still_poison(metadata: Any) -> None:
    event = WIDGET.line(line("ADDED", metadata=metadata, spec={"size": "large"}))
    assert isinstance(event, Poisoned)
    assert event.key == ""


def test_an_unknown_event_type_is_poison_not_an_end() -> None:
    assert isinstance(WIDGET.line(line("SPARKLE", metadata=META)), Poisoned)


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"type": 3}', b"\xff", b'"x"', b"{}"])
def test_a_line_that_is_no_event_is_a_bad_answer(text: bytes) -> None:
    with pytest.raises(BadAnswer):
        WIDGET.line(text)


def page(*items: Any, **meta: Any) -> bytes:
    return json.dumps({"kind": "WidgetList", "metadata": meta, "items": [*items]}).encode()


def test_a_page_has_its_version_and_the_way_on() -> None:
    found = WIDGET.page(page({"metadata": META}, resourceVersion="9", **{"continue": "t"}))
    assert [item.metadata.name for item in found.items] == ["a"]
    assert (found.resource_version, found.continue_token) == ("9", "t")


def test_items_of_a_list_get_the_kind_that_the_server_left_out() -> None:
    (item,) = WIDGET.page(page({"metadata": META}, resourceVersion="9")).items
    assert (item.kind, item.api_version) == ("Widget", "example.com/v1")


def test_one_bad_object_in_a_list_does_not_keep_the_others_out() -> None:
    bad = {"metadata": {**META, "name": "bad"}, "spec": {"size": []}}
    good = {"metadata": META, "spec": {"size": 1}}
    found = WIDGET.page(page(good, bad, good, resourceVersion="9"))
    assert len(found.items) == 2
    assert [p.key for p in found.poisoned] == ["ns/bad"]
    assert found.resource_version == "9"


def test_an_empty_list_may_be_null() -> None:
    body = b'{"metadata":{"resourceVersion":"9"},"items":null}'
    assert WIDGET.page(body).items == []


@pytest.mark.parametrize("body", [b"", b"{}", b'{"metadata":{},"items":3}', b"<html>"])
def test_what_is_no_list_is_a_bad_answer(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        WIDGET.page(body)


def test_raw_parts_do_not_pin_the_buffer_they_came_in() -> None:
    body = page(
        {"metadata": META, "spec": {"template": {"a": 1}}}, resourceVersion="1", filler="x" * 10000
    )
    (item,) = WIDGET.page(body).items
    assert item.spec is not None
    window = memoryview(item.spec.template)
    assert bytes(window) == b'{"a": 1}'
    assert window.obj is not body
    assert len(bytes(window.obj)) < 100


class Inner(msgspec.Struct, frozen=True, omit_defaults=True):
    raw: msgspec.Raw = NO_RAW


class Outer(msgspec.Struct):
    many: list[Inner] = []
    named: dict[str, msgspec.Raw] = {}
    one: Inner | None = None


def test_raw_is_found_in_lists_mappings_and_frozen_structs() -> None:
    body = b'{"many":[{"raw":[1]},{}],"named":{"x":{"y":2}},"one":{"raw":3}}'
    value = msgspec.json.decode(body, type=Outer)
    copy = raw_copier(Outer)
    assert copy is not None
    copy(value)
    raws = [value.many[0].raw, value.named["x"], value.one.raw if value.one else None]
    assert all(raw and memoryview(raw).obj is not body for raw in raws)
    assert (
        msgspec.json.encode(value)
        == b'{"many":[{"raw":[1]},{}],"named":{"x":{"y":2}},"one":{"raw":3}}'
    )


def test_a_type_without_raw_costs_nothing() -> None:
    class Plain(msgspec.Struct):
        a: int = 0

    assert raw_copier(Plain) is None
    assert raw_copier(Widget) is not None
