"""The three patches, as tables of cases."""

from typing import Any

import pytest

from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.patch import json_patch, merge_patch
from runnerscale.apiserver.strategic_patch import strategic_patch

# RFC 7386, appendix A.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), MERGES)
def test_a_merge_patch_follows_the_rfc(target: Any, patch: Any, result: Any) -> None:
    before = repr(target)
    assert merge_patch(target, patch) == result
    assert repr(target) == before


JSON_PATCHES = [
    ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ({"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
    ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ({"a": 1}, [{"op": "remove", "path": "/a"}], {}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ({"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
    ({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}], {"m~n": 2}),
    ({"m~n": 2}, [{"op": "test", "path": "/m~0n", "value": 2}], {"m~n": 2}),
]


@pytest.mark.parametrize(("target", "patch", "result"), JSON_PATCHES)
def test_a_json_patch_follows_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert json_patch(target, patch) == result


def test_replacing_what_is_not_there_adds_it() -> None:
    # Not RFC 6902, but what a kube-apiserver does (conformance: bodies_that_cannot_be_read).
    assert json_patch({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}]) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},  # 1 is not true
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none/below", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "move", "path": "/b"},
        {"op": "shuffle", "path": "/a"},
        {"op": "remove", "path": "a"},
        {"op": "add", "path": "", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_fit_is_unprocessable(operation: Any) -> None:
    with pytest.raises(ApiFailure) as caught:
        json_patch({"a": 1, "l": [1]}, [operation])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def containers(*items: Any) -> Any:
    return {"spec": {"containers": list(items)}}


STRATEGIC = [
    # Containers merge by name, env within them too.
    (
        containers(
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}
        ),
        containers({"name": "a", "env": [{"name": "Y", "value": "2"}]}),
        containers(
            {
                "name": "a",
                "image": "1",
                "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
            },
            {"name": "b"},
        ),
    ),
    (
        containers({"name": "a"}, {"name": "b"}),
        containers({"name": "a", "$patch": "delete"}),
        containers({"name": "b"}),
    ),
    (
        containers({"name": "a"}, {"name": "b"}),
        containers({"$patch": "replace"}, {"name": "c"}),
        containers({"name": "c"}),
    ),
    # The order that kubectl asks for.
    (
        containers({"name": "a"}, {"name": "b"}),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        containers({"name": "b"}, {"name": "a"}),
    ),
    # Ports by number; commands are replaced whole.
    (
        containers({"name": "a", "ports": [{"containerPort": 1}], "command": ["x", "y"]}),
        containers({"name": "a", "ports": [{"containerPort": 2}], "command": ["z"]}),
        containers(
            {
                "name": "a",
                "ports": [{"containerPort": 2}, {"containerPort": 1}],
                "command": ["z"],
            }
        ),
    ),
    # Finalizers are a set; owners merge by uid.
    (
        {"metadata": {"finalizers": ["a/b"], "ownerReferences": [{"uid": "1", "name": "x"}]}},
        {
            "metadata": {
                "finalizers": ["a/b", "c/d"],
                "ownerReferences": [{"uid": "1", "name": "y"}],
            }
        },
        {
            "metadata": {
                "finalizers": ["a/b", "c/d"],
                "ownerReferences": [{"uid": "1", "name": "y"}],
            }
        },
    ),
    (
        {"metadata": {"finalizers": ["a/b", "c/d"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}},
        {"metadata": {"finalizers": ["c/d"]}},
    ),
    # Conditions by type, labels as a map, null removes.
    (
        {
            "status": {"conditions": [{"type": "A", "status": "True"}]},
            "metadata": {"labels": {"k": "v"}},
        },
        {
            "status": {"conditions": [{"type": "A", "status": "False"}]},
            "metadata": {"labels": {"k": None}},
        },
        {"status": {"conditions": [{"type": "A", "status": "False"}]}, "metadata": {"labels": {}}},
    ),
    # A volume changes its source: retainKeys drops the old one.
    (
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {
            "spec": {
                "volumes": [
                    {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
                ]
            }
        },
        {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
    ),
    (
        {"spec": {"nodeSelector": {"a": "1"}}},
        {"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}}},
        {"spec": {"nodeSelector": {"b": "2"}}},
    ),
]


@pytest.mark.parametrize(("target", "patch", "result"), STRATEGIC)
def test_a_strategic_patch_merges_by_the_keys_of_the_type(
    target: Any, patch: Any, result: Any
) -> None:
    before = repr(target)
    assert strategic_patch(target, patch, "Pod") == result
    assert repr(target) == before


def test_a_strategic_patch_without_the_merge_key_is_refused() -> None:
    with pytest.raises(ApiFailure, match="does not contain declared merge key: name"):
        strategic_patch(containers({"name": "a"}), containers({"image": "x"}), "Pod")
