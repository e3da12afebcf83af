"""Bodies that somebody sends to break the server: a refusal each, never a 500, never a hang."""

import base64
import json
from typing import Any

import pytest

from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.patch import json_patch
from runnerscale.apiserver.plain_values import plain_value, whole_number
from tests.unit.apiserver.harness import CM, JSON_PATCH, MERGE, PODS, Api

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default/token"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}


async def config_map(api: Api, name: str = "c") -> None:
    document = {"kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
    assert (await api.send("POST", CM, body=document)).code == 201


def nested(depth: int) -> bytes:
    return b'{"kind":"ConfigMap","metadata":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.parametrize("depth", [101, 2_000, 100_000])
async def test_json_without_end_is_refused_wherever_it_is_read(api: Api, depth: int) -> None:
    await config_map(api)
    for method, path, content_type in (
        ("POST", CM, "application/json"),
        ("PUT", f"{CM}/c", "application/json"),
        ("PATCH", f"{CM}/c", MERGE),
        ("DELETE", f"{CM}/c", "application/json"),
        ("POST", ACCOUNT, "application/json"),
    ):
        reply = await api.send(method, path, body=nested(depth), content_type=content_type)
        assert reply.code == 400, method
        assert "100 levels" in reply["message"]


@pytest.mark.parametrize("levels", [120, 1500])  # 1,500: deeper than Python itself follows
@pytest.mark.parametrize("operation", ["copy", "copy of what was added", "move"])
async def test_a_patch_cannot_build_what_a_body_may_not_hold(
    api: Api, operation: str, levels: int
) -> None:
    await config_map(api)
    deeper = [{"op": "copy", "from": "/data", "path": "/data/x"}] * levels  # a level each
    if operation == "copy of what was added":
        deeper = [
            {"op": "add", "path": "/data/y", "value": {}},
            *[{"op": "copy", "from": "/data/y", "path": "/data/y/x"}] * levels,
        ]
    elif operation == "move":
        deeper = [
            each
            for _ in range(levels)
            for each in (
                {"op": "move", "from": "/data", "path": "/x"},
                {"op": "add", "path": "/data", "value": {}},
                {"op": "move", "from": "/x", "path": "/data/x"},
            )
        ]
    reply = await api.send("PATCH", f"{CM}/c", body=deeper, content_type=JSON_PATCH)
    assert reply.code == 400
    assert "100 levels" in reply["message"]


def test_copies_of_copies_end_at_the_size_of_a_body() -> None:
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/{n}"} for n in range(60)]
    with pytest.raises(ApiFailure) as caught:
        json_patch({"data": {"x": "a" * 100}}, doubling)
    assert caught.value.code == 413


@pytest.mark.parametrize("path", [5, None, ["a"], {}])
def test_a_json_patch_with_a_path_that_is_no_text_does_not_fit(path: Any) -> None:
    with pytest.raises(ApiFailure) as caught:
        json_patch({"a": 1}, [{"op": "add", "path": path, "value": 1}])
    assert caught.value.code == 422


@pytest.mark.parametrize(
    "text",
    [
        HEAD + BOMB,
        HEAD.replace("{name: y}", "&m {name: y, labels: *m}"),
        HEAD + "data: &d {a: *d}\n",
        HEAD + "data: {a: .nan}\n",
        HEAD + "data: {[a, b]: c}\n",
        HEAD + "data: {a: !!set {x}}\n",
        HEAD + "data: {a: !!python/object/apply:os.system ['id']}\n",
        "[" * 50_000,
    ],
)
async def test_yaml_that_json_cannot_say_is_refused_at_once(api: Api, text: str) -> None:
    reply = await api.send("POST", CM, body=text.encode(), content_type="application/yaml")
    assert reply.code == 400
    assert "YAML" in reply["message"]


def test_yaml_aliases_and_odd_keys_that_mean_something_are_written_out() -> None:
    shared = ["x"]
    assert plain_value({"a": shared, "b": shared, 2: "two", True: b"hi"}) == {
        "a": ["x"],
        "b": ["x"],
        "2": "two",
        "true": base64.b64encode(b"hi").decode(),
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", f"{CM}/c", {"preconditions": 5}),
        ("DELETE", f"{CM}/c", {"gracePeriodSeconds": "soon"}),
        ("DELETE", f"{CM}/c?gracePeriodSeconds=soon", {}),
        ("POST", f"{PODS}/p/binding", {"target": "node"}),
        ("POST", f"{PODS}/p/eviction", {"deleteOptions": "now"}),
        ("POST", ACCOUNT, {"spec": "long"}),
        ("POST", ACCOUNT, {"spec": {"expirationSeconds": {}}}),
        ("POST", ACCOUNT, {"spec": {"boundObjectRef": [1]}}),
        ("POST", REVIEWS, {"spec": {"resourceAttributes": "pods"}}),
        ("POST", TOKEN_REVIEWS, {"spec": ["token"]}),
        ("POST", CRDS, {"metadata": {"name": "a.b"}, "spec": {"group": 5, "names": []}}),
        ("POST", CRDS, {"metadata": {"name": "a.b"}, "spec": {"versions": ["v1"]}}),
    ],
)
async def test_a_value_of_the_wrong_type_is_the_senders_mistake(
    api: Api, method: str, path: str, body: Any
) -> None:
    await config_map(api)
    assert (await api.send("POST", PODS, body=POD)).code == 201
    reply = await api.send(method, path, body=body)
    assert reply.code in (400, 422)
    assert (await api.get(f"{CM}/c")).code == 200  # nothing happened to it


async def test_an_endless_grace_period_ends_on_a_day_that_has_a_name(api: Api) -> None:
    document = {**POD, "spec": {**POD["spec"], "nodeName": "n"}}  # type: ignore[dict-item]
    assert (await api.send("POST", PODS, body=document)).code == 201
    reply = await api.send("DELETE", f"{PODS}/p", body={"gracePeriodSeconds": 10**17})
    assert reply.code == 200
    assert reply["metadata.deletionTimestamp"].startswith("20")


async def test_a_warning_repeats_no_control_characters(api: Api) -> None:
    # In a header they would cut the connection after the write had been stored.
    body = json.dumps({"kind": "ConfigMap", "metadata": {"name": "w"}, "a\x00\r\nb": 1, "c": 2})
    reply = await api.send("POST", CM, body=body.encode())
    assert reply.code == 201
    assert 'unknown field \\"a???b\\"' in reply.headers["Warning"]


@pytest.mark.parametrize("version", ["²", "9" * 5000, "-1", "abc"])
async def test_a_version_that_is_no_number_is_refused(api: Api, version: str) -> None:
    assert (await api.get(CM, params={"resourceVersion": version})).code == 400
    # A kube-apiserver blames itself when a watcher makes this mistake.
    assert (await api.get(CM, params={"resourceVersion": version, "watch": "1"})).code == 500
    deep = base64.urlsafe_b64encode(b"[" * 5000).decode()
    assert (await api.get(CM, params={"continue": deep})).code == 400


def test_whole_numbers_have_plain_digits() -> None:
    assert [whole_number(t) for t in ("0", "12", "", "-1", "+1", "²", "1_0", "9" * 19)] == [
        *(0, 12),
        *[None] * 6,
    ]
