"""What variables a container gets: Kubernetes' own order, references and expansions."""

from typing import Any

import pytest

from runnerscale.node.environment import (
    EnvironmentProblem,
    Known,
    ObjectRef,
    build_environment,
    expand,
    referenced_objects,
)
from tests.unit.node.pods import container, pod

SECRET = ObjectRef("Secret", "jit")
CONFIG = ObjectRef("ConfigMap", "settings")


def built(
    env: list[Any], *, objects: Any = None, base: Any = None, **fields: Any
) -> dict[str, str]:
    subject = pod(
        serviceAccountName="sa",
        nodeName="here",
        containers=[{"name": "runner", "image": "demo:1", **fields}],
    )
    known = Known(subject, objects or {})
    return build_environment(container(env=env, **fields), known, base=base or {})


def secret_ref(**fields: Any) -> Any:
    return {"secretKeyRef": {"name": "jit", "key": "jitToken", **fields}}


def test_a_value_refers_to_the_variables_before_it() -> None:
    env = built(
        [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(PATH)-$(LATER)"},
            {"name": "LATER", "value": "no"},
        ],
        base={"PATH": "/bin"},
    )
    assert env["B"] == "1-/bin-$(LATER)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "x"),
        ("$$(A)", "$(A)"),  # an escaped dollar is one dollar, and nothing is expanded
        ("$$$(A)", "$x"),
        ("$A", "$A"),
        ("$(MISSING)", "$(MISSING)"),
        ("$(A", "$(A"),
        ("100$", "100$"),
        ("$()", "$()"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "x"}) == expected


def test_a_secret_key_becomes_a_value() -> None:
    env = built(
        [{"name": "JIT", "valueFrom": secret_ref()}], objects={SECRET: {"jitToken": b"abc"}}
    )
    assert env["JIT"] == "abc"


def test_bytes_that_are_no_text_reach_the_process_unchanged() -> None:
    env = built(
        [{"name": "JIT", "valueFrom": secret_ref()}], objects={SECRET: {"jitToken": b"\xff\xfe"}}
    )
    assert env["JIT"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_a_missing_secret_is_named() -> None:
    with pytest.raises(EnvironmentProblem, match='secret "jit" not found'):
        built([{"name": "JIT", "valueFrom": secret_ref()}], objects={SECRET: None})


def test_a_missing_key_is_named_with_its_secret() -> None:
    with pytest.raises(EnvironmentProblem, match="couldn't find key jitToken in Secret jobs/jit"):
        built([{"name": "JIT", "valueFrom": secret_ref()}], objects={SECRET: {}})


def test_an_optional_reference_that_leads_nowhere_sets_nothing() -> None:
    env = built([{"name": "JIT", "valueFrom": secret_ref(optional=True)}], objects={SECRET: None})
    assert "JIT" not in env


def test_whole_objects_come_first_and_single_variables_win() -> None:
    env = built(
        [{"name": "P_A", "value": "own"}],
        envFrom=[
            {"configMapRef": {"name": "settings"}},
            {"prefix": "P_", "secretRef": {"name": "jit"}},
        ],
        objects={CONFIG: {"B": b"2"}, SECRET: {"A": b"1", "C": b"3"}},
        base={"B": "base"},
    )
    assert env == {"B": "2", "P_A": "own", "P_C": "3"}


def test_fields_of_the_pod_are_handed_in() -> None:
    paths = {
        "metadata.name": "one",
        "metadata.namespace": "jobs",
        "metadata.uid": "uid-1",
        "metadata.labels['app']": "runner",
        "metadata.annotations['note']": "x",
        "metadata.annotations['absent']": "",
        "spec.nodeName": "here",
        "spec.serviceAccountName": "sa",
        "status.podIP": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
    }
    variables = [
        {"name": f"V{place}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for place, path in enumerate(paths)
    ]
    assert list(built(variables).values()) == list(paths.values())


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(EnvironmentProblem, match=r"field label not supported: spec\.secrets"):
        built([{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "spec.secrets"}}}])


def test_a_limit_is_divided_and_rounded_up() -> None:
    variables = [
        {
            "name": "MEMORY",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    env = built(variables, resources={"limits": {"memory": "1500Ki", "cpu": "500m"}})
    assert env == {"MEMORY": "2", "CPU": "1"}


def test_what_must_be_read_is_known_before() -> None:
    asked = container(
        env=[
            {"name": "A", "valueFrom": secret_ref()},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}},
        ],
        envFrom=[{"secretRef": {"name": "more"}}],
    )
    assert referenced_objects(asked) == {SECRET, CONFIG, ObjectRef("Secret", "more")}


def test_no_secret_is_in_a_repr() -> None:
    assert "abc" not in repr(Known(pod(), {SECRET: {"jitToken": b"abc"}}))
