"""Reviews, discovery documents and protobuf values: what is asked and never stored."""

import struct
from typing import Any

import pytest

from runnerscale.apiserver.protobuf import decode_protobuf
from tests.unit.apiserver.harness import BOB, Api

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def review(kind: str, spec: Any, group: str = "authorization.k8s.io/v1") -> dict[str, Any]:
    return {"kind": kind, "apiVersion": group, "spec": spec}


async def test_somebody_elses_access_can_be_asked_for(api: Api) -> None:
    attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
    body = review("SubjectAccessReview", {"user": "bob", "resourceAttributes": attributes})
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    assert (await api.create(path, body))["status"] == {"allowed": False}
    body["spec"]["groups"] = ["system:masters"]
    assert (await api.create(path, body))["status"] == {"allowed": True}
    local = review("LocalSubjectAccessReview", body["spec"])
    path = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
    assert (await api.create(path, local))["status"] == {"allowed": True}


async def test_a_review_without_a_question_is_invalid(api: Api) -> None:
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    reply = await api.create(path, review("SelfSubjectAccessReview", {}))
    assert (reply.code, reply["reason"]) == (422, "Invalid")
    assert "exactly one of nonResourceAttributes or resourceAttributes" in reply["message"]


async def test_ones_own_rules_are_listed(api: Api) -> None:
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    body = review("SelfSubjectRulesReview", {"namespace": "default"})
    reply = await api.create(path, body, token=BOB.token.reveal())
    resources = {r for rule in reply["status.resourceRules"] for r in rule["resources"]}
    assert {"selfsubjectaccessreviews", "selfsubjectrulesreviews"} <= resources
    urls = {u for rule in reply["status.nonResourceRules"] for u in rule["nonResourceURLs"]}
    assert "/healthz" in urls


async def test_a_token_is_reviewed(api: Api) -> None:
    path = f"{AUTHENTICATION}/tokenreviews"
    group = "authentication.k8s.io/v1"
    good = await api.create(path, review("TokenReview", {"token": BOB.token.reveal()}, group))
    assert good["status.authenticated"] is True
    assert good["status.user"]["username"] == "bob"
    bad = await api.create(path, review("TokenReview", {"token": "x"}, group))
    assert bad["status"] == {"user": {}, "error": "invalid bearer token"}


async def test_a_token_is_bound_to_pods_that_exist_only(api: Api) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    for reference, code in (
        ({"kind": "Secret", "name": "x"}, 422),
        ({"kind": "Pod", "name": "x"}, 404),
    ):
        assert (await api.create(path, {"spec": {"boundObjectRef": reference}})).code == code


async def test_everything_served_is_in_one_document_when_that_is_asked_for(api: Api) -> None:
    groups = await api.get("/apis", accept=f"{AGGREGATED},application/json")
    assert groups["kind"] == "APIGroupDiscoveryList"
    assert groups.headers["Content-Type"].startswith("application/json;g=apidiscovery.k8s.io;v=v2")
    names = [item["metadata"]["name"] for item in groups["items"]]
    assert "rbac.authorization.k8s.io" in names
    core = await api.get("/api", accept=AGGREGATED)
    resources = {r["resource"]: r for r in core["items.0.versions.0.resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    subresources = {s["subresource"]: s for s in resources["pods"]["subresources"]}
    assert subresources["eviction"]["responseKind"]["kind"] == "Eviction"
    assert (await api.get("/api", accept="application/json"))["kind"] == "APIVersions"
    assert (await api.get("/apis"))["kind"] == "APIGroupList"
    assert (await api.get("/apis/apiextensions.k8s.io"))["name"] == "apiextensions.k8s.io"


def field(number: int, value: bytes) -> bytes:
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def varint(number: int, value: int) -> bytes:
    encoded = b""
    value &= (1 << 64) - 1
    while value >= 0x80:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return bytes([number << 3]) + encoded + bytes([value])


def body(kind: str, message: bytes) -> bytes:
    names = field(1, b"v1") + field(2, kind.encode())
    return b"k8s\x00" + field(1, names) + field(2, message)


@pytest.mark.parametrize(
    ("kind", "message", "wanted"),
    [
        # DeleteOptions.gracePeriodSeconds = 0 is not the same as absent.
        ("DeleteOptions", varint(1, 0), {"gracePeriodSeconds": 0}),
        ("DeleteOptions", varint(1, -1), {"gracePeriodSeconds": -1}),
        ("DeleteOptions", field(4, b"Orphan"), {"propagationPolicy": "Orphan"}),
        # A quantity in a map; a time; an inlined volume source; a boolean.
        (
            "ResourceQuota",
            field(2, field(1, field(1, b"pods") + field(2, field(1, b"2")))),
            {"spec": {"hard": {"pods": "2"}}},
        ),
        (
            "Event",
            field(6, varint(1, 1_800_000_000)),
            {"firstTimestamp": "2027-01-15T08:00:00Z"},
        ),
        (
            "Pod",
            field(2, field(1, field(1, b"v") + field(2, field(2, b"")))),
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        ),
        ("ConfigMap", varint(4, 1), {"immutable": True}),
        # Port of a probe: a number or a name.
        (
            "Pod",
            field(
                2, field(2, field(10, field(1, field(2, field(2, varint(1, 0) + varint(2, 80))))))
            ),
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 80}}}]}},
        ),
        # An unknown field is skipped, whatever its wire type.
        (
            "Secret",
            field(3, b"Opaque") + bytes([15 << 3 | 1]) + struct.pack("<d", 1.0),
            {"type": "Opaque"},
        ),
    ],
)
def test_protobuf_values_are_read_by_their_types(kind: str, message: bytes, wanted: Any) -> None:
    assert decode_protobuf(body(kind, message)) == {"apiVersion": "v1", "kind": kind, **wanted}


def test_a_kind_without_known_numbers_is_asked_to_send_json() -> None:
    from runnerscale.apiserver.failures import ApiFailure

    with pytest.raises(ApiFailure, match="Widget cannot be sent as protobuf to this server"):
        decode_protobuf(body("Widget", b""))
