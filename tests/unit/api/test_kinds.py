"""The four kinds: what decodes, what is written, and the one question about a job."""

from typing import Any

import msgspec
import pytest

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunnerStatus, has_job
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.values import NOTHING, PodTemplate, as_body, present, read
from runnerscale.kube.resource import Resource

KINDS = (
    AUTOSCALING_RUNNER_SETS,
    AUTOSCALING_LISTENERS,
    EPHEMERAL_RUNNER_SETS,
    EPHEMERAL_RUNNERS,
)


def decode(kind: Resource[Any], body: dict[str, Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind.type)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_an_empty_object_decodes(kind: Resource[Any]) -> None:
    found = decode(kind, {"metadata": {"name": "x"}, "spec": {}, "status": {}})
    assert found.metadata.name == "x"
    assert as_body(found.spec) == {}


def test_names_that_no_rule_makes() -> None:
    spec = {"githubServerTLS": {"certificateFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}}
    for kind in (AUTOSCALING_RUNNER_SETS, AUTOSCALING_LISTENERS, EPHEMERAL_RUNNERS):
        found = decode(kind, {"spec": spec})
        assert found.spec.github_server_tls.certificate_from.config_map_key_ref.key == "b"
        assert as_body(found.spec) == spec
    assert decode(EPHEMERAL_RUNNER_SETS, {"spec": {"patchID": 4}}).spec.patch_id == 4


def test_everything_an_autoscaling_runner_set_may_say_comes_back_as_it_was() -> None:
    meta = {"labels": {"a": "1"}, "annotations": {"b": "2"}}
    spec = {
        "githubConfigUrl": "https://github.com/o",
        "githubConfigSecret": "s",
        "runnerGroup": "g",
        "runnerScaleSetName": "n",
        "runnerScaleSetLabels": ["l"],
        "proxy": {
            "http": {"url": "u", "credentialSecretRef": "c"},
            "https": {"url": "u"},
            "noProxy": ["x"],
        },
        "vaultConfig": {
            "type": "azure_key_vault",
            "azureKeyVault": {
                "url": "u",
                "tenantId": "t",
                "clientId": "c",
                "certificatePath": "p",
            },
            "proxy": {"http": {"url": "u"}},
        },
        "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "r"}]}},
        "listenerTemplate": {"spec": {"containers": []}},
        "listenerMetrics": {
            "counters": {"c": {"labels": ["a"]}},
            "gauges": {"g": {"labels": []}},
            "histograms": {"h": {"labels": ["a"], "buckets": [0.5, 1]}},
        },
        "autoscalingListener": meta,
        "listenerServiceAccountMetadata": meta,
        "listenerRoleMetadata": meta,
        "listenerRoleBindingMetadata": meta,
        "listenerConfigSecretMetadata": meta,
        "ephemeralRunnerSetMetadata": meta,
        "ephemeralRunnerMetadata": meta,
        "ephemeralRunnerConfigSecretMetadata": meta,
        "maxRunners": 0,
        "minRunners": 0,
    }
    assert as_body(decode(AUTOSCALING_RUNNER_SETS, {"spec": spec}).spec) == spec


def test_zeros_of_plain_fields_are_dropped_on_write() -> None:
    found = decode(EPHEMERAL_RUNNER_SETS, {"spec": {"patchID": 0, "replicas": 0}})
    assert as_body(found.spec) == {}


def test_a_runner_of_an_old_release_is_still_readable() -> None:
    # failures was map[string]bool once; runnerJITConfig has left the schema.
    status = {"failures": {"uid": True}, "runnerJITConfig": "x", "phase": "Unknown"}
    found = decode(EPHEMERAL_RUNNERS, {"status": status})
    assert found.status.failures == {"uid": True}
    assert found.status.phase == "Unknown"


@pytest.mark.parametrize(
    ("status", "busy"),
    [
        (EphemeralRunnerStatus(), False),
        (EphemeralRunnerStatus(phase="Running"), False),  # a leftover of an older controller
        (EphemeralRunnerStatus(job_id="j"), True),
        (EphemeralRunnerStatus(job_request_id=3), True),
        (EphemeralRunnerStatus(workflow_run_id=9), True),
        (EphemeralRunnerStatus(job_display_name="only words"), False),
    ],
)
def test_a_job_is_what_the_job_fields_say_and_never_the_phase(
    status: EphemeralRunnerStatus, busy: bool
) -> None:
    assert has_job(status) is busy


def test_raw_sections_are_present_or_not() -> None:
    assert not present(NOTHING)
    assert not present(msgspec.Raw(b"null"))
    assert present(msgspec.Raw(b"{}"))
    assert read(NOTHING) == {}
    assert read(msgspec.Raw(b"[1]")) == {}
    assert read(msgspec.Raw(b'{"a":1}')) == {"a": 1}


def test_nulls_in_a_template_mean_absent_also_inside_lists() -> None:
    raw = msgspec.Raw(b'{"containers":[{"name":"r","env":null}],"volumes":null}')
    assert as_body(PodTemplate(spec=raw)) == {"spec": {"containers": [{"name": "r"}]}}
