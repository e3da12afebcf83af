"""The runner's pod, made from the template."""

import json
from typing import Any

import msgspec
import pytest

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.controllers.ephemeral_runner.runner_pod import (
    NoRunnerContainer,
    runner_pod,
    uses_hooks,
    work_folder,
)

SPEC = {
    "restartPolicy": "Never",
    "volumes": [],
    "unknownFieldOfTomorrow": {"kept": True},
    "initContainers": [{"name": "init", "image": "i", "env": [{"name": "X", "value": "1"}]}],
    "containers": [
        {"name": "dind", "image": "d"},
        {
            "name": "runner",
            "image": "r",
            "workingDir": "/work",
            "env": [{"name": "MINE", "value": "1"}],
        },
    ],
}
LABELS = {"l1": "runner", "both": "runner", "actions-ephemeral-runner": "no"}
ANNOTATIONS = {
    "actions.github.com/patch-id": "4",
    "runnerscale.dev/runner-spec-hash": "r1-abc",
    "both": "runner",
}


def runner(spec: dict[str, Any] = SPEC, **more: Any) -> EphemeralRunner:
    body = {
        "metadata": {
            "name": "runner-a",
            "namespace": "ns",
            "uid": "uid-a",
            "labels": LABELS,
            "annotations": ANNOTATIONS,
        },
        "spec": {
            "githubConfigUrl": "u",
            "githubConfigSecret": "s",
            "runnerScaleSetId": 3,
            "metadata": {
                "name": "ignored",
                "namespace": "ignored",
                "finalizers": ["ignored"],
                "labels": {"l2": "template", "both": "template", "pod-template-hash": "mine"},
                "annotations": {"both": "template"},
            },
            "spec": spec,
            **more,
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunner)


def made(item: EphemeralRunner) -> dict[str, Any]:
    return runner_pod(item, build_version="0.14.2", template_hash="hash1")


def env_of(body: dict[str, Any], name: str = "runner") -> list[dict[str, Any]]:
    return next(c for c in body["spec"]["containers"] if c["name"] == name).get("env", [])


@pytest.mark.behaviour("C1 T141")
def test_three_variables_follow_the_users_own_in_order() -> None:
    body = made(runner())
    assert env_of(body) == [
        {"name": "MINE", "value": "1"},
        {
            "name": "ACTIONS_RUNNER_INPUT_JITCONFIG",
            "valueFrom": {"secretKeyRef": {"name": "runner-a", "key": "jitToken"}},
        },
        {
            "name": "GITHUB_ACTIONS_RUNNER_EXTRA_USER_AGENT",
            "value": "actions-runner-controller/0.14.2",
        },
        {"name": "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE", "value": "1"},
    ]


@pytest.mark.behaviour("C1 T141")
def test_everything_else_of_the_spec_is_the_templates() -> None:
    body = made(runner())
    spec = json.loads(json.dumps(body["spec"]))
    spec["containers"][1]["env"] = SPEC["containers"][1]["env"]  # type: ignore[index]
    assert spec == SPEC


@pytest.mark.behaviour("C1 T142")
def test_the_proxies_come_from_their_secret_for_the_configured_parts_only() -> None:
    proxy = {"http": {"url": "h"}, "https": {"url": "s"}, "noProxy": ["a"]}
    body = made(runner(proxy=proxy, proxySecretRef="ers-proxy"))
    assert env_of(body)[-3:] == [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": "ers-proxy", "key": key}}}
        for key in ("http_proxy", "https_proxy", "no_proxy")
    ]
    assert env_of(body, "dind") == []
    only_http = made(runner(proxy={"http": {"url": "h"}}, proxySecretRef="ers-proxy"))
    assert [item["name"] for item in env_of(only_http)][-1:] == ["http_proxy"]
    # A proxy without the flattened Secret: nothing to refer to.
    assert len(env_of(made(runner(proxy=proxy)))) == 4


@pytest.mark.behaviour("C1 T30")
def test_labels_and_annotations_runner_then_template_then_ours() -> None:
    meta = made(runner())["metadata"]
    assert meta["labels"] == {
        "l1": "runner",
        "l2": "template",
        "both": "template",
        "actions-ephemeral-runner": "True",
        "pod-template-hash": "hash1",
    }
    assert meta["annotations"] == ANNOTATIONS | {"both": "template"}


def test_name_namespace_and_finalizers_of_the_template_are_ignored() -> None:
    meta = made(runner())["metadata"]
    assert (meta["name"], meta["namespace"]) == ("runner-a", "ns")
    assert "finalizers" not in meta
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("EphemeralRunner", "uid-a", True)


def test_every_container_of_that_name_is_given_them() -> None:
    twins = {"containers": [{"name": "runner"}, {"name": "runner", "env": None}]}
    containers = made(runner(twins))["spec"]["containers"]
    assert [len(item["env"]) for item in containers] == [3, 3]


@pytest.mark.parametrize("spec", [{"containers": [{"name": "other"}]}, {}, {"containers": None}])
def test_a_template_without_a_runner_container_is_refused_in_a_sentence(
    spec: dict[str, Any],
) -> None:
    with pytest.raises(NoRunnerContainer, match="no container named 'runner'"):
        made(runner(spec))


@pytest.mark.behaviour("C1 T143")
def test_the_work_folder_is_the_runner_containers_working_directory() -> None:
    assert work_folder(runner().spec) == "/work"
    assert work_folder(runner({"containers": [{"name": "runner"}]}).spec) == ""
    assert work_folder(runner({"containers": [{"name": "other", "workingDir": "/x"}]}).spec) == ""
    assert work_folder(runner({"containers": [{"name": "runner", "workingDir": 5}]}).spec) == ""


@pytest.mark.behaviour("C1 T169")
def test_hooks_count_only_on_the_runner_container() -> None:
    hook = [{"name": "ACTIONS_RUNNER_CONTAINER_HOOKS", "value": ""}]
    assert uses_hooks(runner({"containers": [{"name": "runner", "env": hook}]}).spec)
    assert not uses_hooks(runner({"containers": [{"name": "other", "env": hook}]}).spec)
    assert not uses_hooks(runner().spec)
    assert not uses_hooks(runner({"containers": [{"name": "runner", "env": ["odd"]}]}).spec)


def test_nonsense_in_the_templates_metadata_harms_nobody() -> None:
    item = runner()
    item.spec.metadata = msgspec.Raw(b'{"labels": ["odd"], "annotations": 5}')
    meta = made(item)["metadata"]
    assert meta["labels"]["l1"] == "runner"
    assert meta["annotations"] == ANNOTATIONS


def test_the_template_itself_is_not_changed() -> None:
    item = runner()
    before = bytes(item.spec.spec)
    assert made(item) == made(item)
    assert bytes(item.spec.spec) == before


@pytest.mark.parametrize(
    ("given", "made_of_it"),
    [({}, "Never"), ({"restartPolicy": ""}, "Never"), ({"restartPolicy": "Always"}, "Always")],
)
def test_a_runner_is_never_started_twice_unless_the_template_asks_for_it(
    given: dict[str, Any], made_of_it: str
) -> None:
    # Left open, Kubernetes says Always: each clean job ended in "Back-off restarting".
    spec = {key: value for key, value in SPEC.items() if key != "restartPolicy"} | given
    assert made(runner(spec))["spec"]["restartPolicy"] == made_of_it
