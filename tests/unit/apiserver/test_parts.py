"""Small parts without a server: selectors, quantities, ages, paths, JSONPath, protobuf."""

from decimal import Decimal
from typing import Any

import pytest

from runnerscale.apiserver import formats
from runnerscale.apiserver.builtin_kinds import builtin_kinds
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.faults import FaultRule, Faults
from runnerscale.apiserver.json_path import find
from runnerscale.apiserver.kinds import Registry
from runnerscale.apiserver.paths import parse_request
from runnerscale.apiserver.pod_columns import pod_cells
from runnerscale.apiserver.pod_defaults import quality_of_service
from runnerscale.apiserver.protobuf import decode_protobuf
from runnerscale.apiserver.rendering import Form, form_of
from runnerscale.apiserver.selectors import parse_labels
from runnerscale.apiserver.tables import human_duration

LABELS = {"app": "x", "tier": "3"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", None),
        ("app=x", True),
        ("app==x,tier", True),
        ("app!=x", False),
        ("none!=x", True),
        ("app in (x,y)", True),
        ("app notin (x)", False),
        ("none notin (x)", True),
        ("!none", True),
        ("!app", False),
        ("tier>2", True),
        ("tier<3", False),
        ("none>1", False),
        ("app in (x), tier in (3,4)", True),
        ("app=", False),
    ],
)
def test_a_label_selector_means_what_kubernetes_means(selector: str, matches: bool | None) -> None:
    test = parse_labels(selector)
    assert (test(LABELS) if test is not None else None) is matches


@pytest.mark.parametrize("selector", ["a b", "app in x", "=x", "app=a b", "tier>x", "a/b/c=d"])
def test_an_unreadable_label_selector_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiFailure) as caught:
        parse_labels(selector)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Decimal(1)),
        ("500m", Decimal("0.5")),
        ("1Ki", Decimal(1024)),
        ("1.5Gi", Decimal(1610612736)),
        ("2k", Decimal(2000)),
        ("1e3", Decimal(1000)),
        ("-1", Decimal(-1)),
        ("one", None),
        ("1KB", None),
        ("", None),
        (3, Decimal(3)),
    ],
)
def test_a_quantity_is_read(text: Any, value: Decimal | None) -> None:
    assert formats.parse_quantity(text) == value


@pytest.mark.parametrize(
    ("value", "binary", "text"),
    [
        (Decimal(0), True, "0"),
        (Decimal("0.5"), False, "500m"),
        (Decimal(1000), False, "1k"),
        (Decimal(1500), False, "1500"),
        (Decimal(536870912), True, "512Mi"),
        (Decimal(1000), True, "1000"),
    ],
)
def test_a_quantity_is_written_in_its_canonical_form(
    value: Decimal, binary: bool, text: str
) -> None:
    assert formats.format_quantity(value, binary=binary) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (20 * 3600, "20h"),
        (49 * 3600, "2d1h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y"),
        (-5, "<invalid>"),
    ],
)
def test_an_age_reads_as_kubectl_writes_it(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


OBJ = {
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Up", "status": "No"}]},
    "spec": {"list": [1, 2, 3], "a.b": "dotted"},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.list", [[1, 2, 3]]),
        (".spec.list[0]", [1]),
        (".spec.list[*]", [1, 2, 3]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Up')].status", ["No"]),
        (".spec['a.b']", ["dotted"]),
        (".spec.a\\.b", ["dotted"]),
        ("{.spec.list[1]}", [2]),
        (".none.at.all", []),
        (".spec[broken", []),
    ],
)
def test_a_printer_columns_path_finds_its_values(path: str, found: list[Any]) -> None:
    assert find(OBJ, path) == found


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/api/v1/pods", ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods?watch=1", ("watch", "", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p", ("get", "", "pods", "a", "p", "")),
        ("GET", "/api/v1/namespaces/a/pods/p/log", ("get", "", "pods", "a", "p", "log")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "namespaces", "a", "a", "")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            ("update", "", "namespaces", "a", "a", "finalize"),
        ),
        ("GET", "/api/v1/namespaces", ("list", "", "namespaces", "", "", "")),
        (
            "DELETE",
            "/apis/g.io/v1/namespaces/a/xs",
            ("deletecollection", "g.io", "xs", "a", "", ""),
        ),
        ("PATCH", "/apis/g.io/v1/xs/b/status", ("patch", "g.io", "xs", "", "b", "status")),
        ("POST", "/apis/g.io/v1/xs", ("create", "g.io", "xs", "", "", "")),
        ("GET", "/api/v1/namespaces/a/configmaps/a%20b", ("get", "", "configmaps", "a", "a b", "")),
    ],
)
def test_a_request_line_is_read(method: str, path: str, wanted: tuple[str, ...]) -> None:
    r = parse_request(method, path)
    assert (r.verb, r.group, r.plural, r.namespace, r.name, r.subresource) == wanted


@pytest.mark.parametrize("path", ["/healthz", "/api", "/api/v1", "/apis/g.io/v1", "/"])
def test_a_path_that_is_no_resource_is_asked_for_as_a_path(path: str) -> None:
    request = parse_request("GET", path)
    assert not request.is_resource
    assert (request.ask().verb, request.ask().path) == ("get", path)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form("Table")),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", Form()),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
    ],
)
def test_the_first_form_that_can_be_served_is_taken(accept: str, form: Form) -> None:
    assert form_of(accept, {}) == form


def state(**more: Any) -> Any:
    return {"name": "main", **more}


@pytest.mark.parametrize(
    ("obj", "ready", "status"),
    [
        ({"status": {"phase": "Pending"}}, "0/1", "Pending"),
        (
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [state(ready=True, state={"running": {}})],
                }
            },
            "1/1",
            "Running",
        ),
        (
            {
                "status": {
                    "phase": "Pending",
                    "containerStatuses": [state(state={"waiting": {"reason": "ImagePullBackOff"}})],
                }
            },
            "0/1",
            "ImagePullBackOff",
        ),
        (
            {
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [state(state={"terminated": {"exitCode": 7}})],
                }
            },
            "0/1",
            "ExitCode:7",
        ),
        (
            {"status": {"phase": "Failed", "reason": "Evicted"}},
            "0/1",
            "Evicted",
        ),
        (
            {"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}},
            "0/1",
            "Terminating",
        ),
        (
            {
                "status": {
                    "phase": "Pending",
                    "initContainerStatuses": [
                        {"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
                    ],
                }
            },
            "0/1",
            "Init:Error",
        ),
    ],
)
def test_a_pod_shows_its_most_telling_word(obj: Any, ready: str, status: str) -> None:
    obj = {"spec": {"containers": [{"name": "main"}]}, **obj}
    assert pod_cells(obj, "1s")[:2] == [ready, status]


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        (
            {
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"cpu": "1000m", "memory": "1Gi"},
            },
            "Guaranteed",
        ),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
    ],
)
def test_the_quality_of_service_follows_from_the_resources(resources: Any, wanted: str) -> None:
    assert quality_of_service({"containers": [{"name": "a", "resources": resources}]}) == wanted


def test_a_protobuf_body_is_read() -> None:
    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    meta = field(1, b"s") + field(3, b"ns") + field(11, field(1, b"k") + field(2, b"v"))
    secret = field(1, meta) + field(2, field(1, b"a") + field(2, b"b")) + field(3, b"Opaque")
    names = field(1, b"v1") + field(2, b"Secret")
    body = b"k8s\x00" + field(1, names) + field(2, secret)
    assert decode_protobuf(body) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "ns", "labels": {"k": "v"}},
        "data": {"a": "Yg=="},
        "type": "Opaque",
    }


@pytest.mark.parametrize("body", [b"", b"k8s\x00\xff\xff", b"k8s\x00\x0a\x7f", b"json"])
def test_a_broken_protobuf_body_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiFailure) as caught:
        decode_protobuf(body)
    assert caught.value.code == 400


def test_a_fault_rule_hits_what_it_names_so_often_as_it_says() -> None:
    faults = Faults()
    rule = faults.add(FaultRule(verbs=frozenset({"create"}), resource="pods", skip=1, times=2))
    create, read = (
        parse_request("POST", "/api/v1/namespaces/a/pods"),
        parse_request("GET", "/api/v1/pods"),
    )
    hits = [faults.hit(create, "u", 0.0) for _ in range(4)]
    assert hits == [None, rule, rule, None]
    assert faults.hit(read, "u", 0.0) is None
    assert faults.rules == []


def test_a_fault_of_chance_is_drawn() -> None:
    faults = Faults()
    faults.add(FaultRule(chance=0.5))
    request = parse_request("GET", "/api/v1/pods")
    assert faults.hit(request, "u", 0.6) is None
    assert faults.hit(request, "u", 0.4) is not None


def test_every_builtin_kind_is_found_at_its_path_and_by_reference() -> None:
    registry = Registry(builtin_kinds())
    for kind in registry.all():
        assert registry.find(kind.group, kind.version, kind.plural) is kind
        assert registry.of_reference(kind.api_version, kind.kind) is kind
