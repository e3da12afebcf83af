"""How labels and annotations of generated objects come about."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.metadata import (
    joined_keys,
    listed_keys,
    merge_annotations,
    merge_labels,
    metadata_patch,
    patched,
    url_labels,
    with_owned_keys,
)
from runnerscale.kube.objects import ObjectMeta


@pytest.mark.behaviour("C1 T26")
def test_excluded_prefixes_match_the_whole_key_from_its_beginning() -> None:
    labels = {
        "arbitrary-label": "a",
        "example.com/label": "b",
        "example.com/example": "c",
        "directly.excluded.org/label": "d",
        "directly.excluded.org/arbitrary": "e",
    }
    excluded = ("example.com/", "directly.excluded.org/label")
    wanted = {"arbitrary-label": "a", "directly.excluded.org/arbitrary": "e"}
    assert merge_labels(labels, None, excluded=excluded) == wanted
    assert merge_labels(None, labels, excluded=excluded) == wanted


@pytest.mark.behaviour("C1 T28", "C1 T29")
def test_the_second_wins_and_none_is_as_good_as_empty() -> None:
    assert merge_labels({"a": "1", "b": "1"}, {"b": "2"}) == {"a": "1", "b": "2"}
    assert merge_labels(None, None) == {}
    assert merge_annotations(None, {"a": "1"}) == {"a": "1"}
    assert merge_annotations({"a": "1"}, None) == {"a": "1"}


def test_inputs_are_never_changed_or_shared() -> None:
    base, over = {"a": "1"}, {"b": "2"}
    merged = merge_annotations(base, over)
    merged["c"] = "3"
    assert (base, over) == ({"a": "1"}, {"b": "2"})


def test_only_the_parts_that_apply_become_labels() -> None:
    assert url_labels(enterprise="", organization="o", repository="") == {keys.ORGANIZATION: "o"}


def test_a_patch_holds_what_differs_and_takes_away_only_what_we_put_there() -> None:
    actual = {"ours": "old", "gone": "x", "foreign": "y", "same": "z"}
    wished = {"ours": "new", "same": "z"}
    assert patched(actual, wished, owned=["ours", "gone", "same"]) == {"ours": "new", "gone": None}
    assert patched(None, {"a": "1"}) == {"a": "1"}
    assert patched(actual, {"same": "z"}) == {}


def test_an_object_remembers_which_keys_are_ours() -> None:
    labels = {"team": "a", "old": "x"}
    meta = ObjectMeta(labels=dict(labels), annotations=with_owned_keys(labels, {"note": "n"}))
    meta.labels = {**labels, "foreign": "f"}
    wished = {"team": "b"}
    patch = metadata_patch(meta, labels=wished, annotations=with_owned_keys(wished, {}))
    assert patch["labels"] == {"team": "b", "old": None}
    assert patch["annotations"] == {keys.OWNED_KEYS: "team;", "note": None}


def test_what_is_as_wished_needs_no_patch() -> None:
    annotations = with_owned_keys({"a": "1"}, {"b": "2"})
    meta = ObjectMeta(labels={"a": "1", "f": "f"}, annotations={**annotations, "g": "g"})
    assert metadata_patch(meta, labels={"a": "1"}, annotations=annotations) == {}


def test_keys_that_are_written_down_elsewhere_say_what_may_go() -> None:
    meta = ObjectMeta(labels={"team": "a", "policy": "p"}, annotations={"note": "n", "ours": "x"})
    patch = metadata_patch(meta, labels={}, annotations={"ours": "x"}, owned="team;note,ours")
    assert patch == {"labels": {"team": None}, "annotations": {"note": None}}
    # The object's own list counts only where no other is given.
    listed = ObjectMeta(annotations={keys.OWNED_KEYS: ";note", "note": "n"})
    assert metadata_patch(listed, labels={}, annotations={}, owned="") == {}


def test_lists_of_keys_join_in_order_and_once() -> None:
    one, other = listed_keys({"b": "1", "a": "2"}, None), listed_keys({"a": "3"}, {"n": "1"})
    assert (one, other) == ("a,b;", "a;n")
    assert joined_keys(one, other) == "a,b;n"
    assert joined_keys("", "") == ";"
