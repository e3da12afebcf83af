"""Merge patches, owner references and finalizers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.kube.objects import (
    KubeObject,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    controller_of,
    key_of,
    reference_to,
    split_key,
)
from runnerscale.kube.patching import (
    add_finalizers,
    at_version,
    controller_reference,
    drop_finalizers,
    has_finalizer,
    is_controlled_by,
    merge_apply,
    merge_diff,
    owner_index,
)
from runnerscale.kube.versions import is_newer, number_of

SCALARS = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from(["", "a", "b"]))
VALUES = st.recursive(
    st.one_of(SCALARS, st.lists(SCALARS, max_size=2)),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(old=OBJECTS, new=OBJECTS)
def test_a_diff_applied_to_the_old_gives_the_new(old: Any, new: Any) -> None:
    patched = merge_apply(old, merge_diff(old, new))
    assert patched == new
    assert repr(patched) == repr(new) or patched == new


@given(value=OBJECTS)
def test_equal_things_have_no_difference(value: Any) -> None:
    assert merge_diff(value, value) == {}


def test_a_diff_says_only_what_changed() -> None:
    old = {"spec": {"a": 1, "b": {"c": 2, "d": 3}}, "gone": 1, "list": [1, 2]}
    new = {"spec": {"a": 1, "b": {"c": 5, "d": 3}}, "list": [1], "null": None}
    assert merge_diff(old, new) == {"spec": {"b": {"c": 5}}, "gone": None, "list": [1]}


def test_none_in_the_wish_takes_a_field_away() -> None:
    assert merge_diff({"a": 1}, {"a": None}) == {"a": None}


def test_true_and_one_are_not_the_same() -> None:
    assert merge_diff({"a": 1}, {"a": True}) == {"a": True}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    # The cases of RFC 7386, appendix A, that differ in kind.
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, "bar", "bar"),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_is_applied_as_the_rfc_says(target: Any, patch: Any, result: Any) -> None:
    assert merge_apply(target, patch) == result


def test_a_guarded_patch_carries_its_version_and_keeps_other_metadata() -> None:
    patch: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "status": {"x": 1}}
    assert at_version(patch, "7") == {
        "metadata": {"labels": {"a": "b"}, "resourceVersion": "7"},
        "status": {"x": 1},
    }
    assert "resourceVersion" not in patch["metadata"]


@pytest.mark.parametrize("version", ["", None])
def test_a_guard_without_a_version_is_no_guard(version: str | None) -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        at_version({}, version)


META = ObjectMeta(name="a", namespace="ns", resource_version="3", finalizers=["x", "foreign"])


def test_finalizers_are_added_and_dropped_without_touching_those_of_others() -> None:
    assert add_finalizers(META, ["x", "y"]) == {
        "metadata": {"finalizers": ["x", "foreign", "y"], "resourceVersion": "3"}
    }
    assert drop_finalizers(META, ["x", "y"]) == {
        "metadata": {"finalizers": ["foreign"], "resourceVersion": "3"}
    }
    assert add_finalizers(META, ["x"]) is None
    assert drop_finalizers(META, ["y"]) is None
    assert drop_finalizers(ObjectMeta(resource_version="1"), ["y"]) is None
    assert has_finalizer(KubeObject(metadata=META), "x")
    assert not has_finalizer(KubeObject(), "x")


OWNER = ObjectReference("example.com/v1", "Set", "ns", "owner", "u1")


def test_the_controlling_owner_is_found_by_uid() -> None:
    reference = OwnerReference(
        api_version="example.com/v1", kind="Set", name="owner", uid="u1", controller=True
    )
    other = OwnerReference(kind="Pod", name="x", uid="u2")
    item = KubeObject(metadata=ObjectMeta(namespace="ns", owner_references=[other, reference]))
    assert controller_of(item) == reference
    assert is_controlled_by(item, OWNER)
    namesake = ObjectReference("example.com/v1", "Set", "ns", "owner", "u9")
    assert not is_controlled_by(item, namesake)
    assert owner_index(item) == ["Set/ns/owner"]
    assert owner_index(KubeObject()) == []


def test_an_owner_reference_is_complete() -> None:
    assert controller_reference(OWNER) == {
        "apiVersion": "example.com/v1",
        "kind": "Set",
        "name": "owner",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_keys_and_references() -> None:
    item = KubeObject("v1", "Pod", ObjectMeta(name="a", namespace="ns", uid="u"))
    assert key_of(item) == "ns/a"
    assert reference_to(item) == ObjectReference("v1", "Pod", "ns", "a", "u")
    assert reference_to(item).key == "ns/a"
    assert split_key("ns/a") == ("ns", "a")
    assert split_key("a") == ("", "a")
    assert key_of(KubeObject(metadata=ObjectMeta(name="node"))) == "node"


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [("10", "9", True), ("9", "10", False), ("9", "9", False), ("a", "b", True), ("a", "a", False)],
)
def test_versions_are_compared_as_numbers(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer


def test_what_is_no_number_has_none() -> None:
    assert [number_of(text) for text in ("12", "", None, "1a", "-1", "²")] == [12, *[None] * 5]
