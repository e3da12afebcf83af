"""The runner's pod in the default mode, and what holds in every mode."""

from copy import deepcopy
from typing import Any

import pytest

from .chart import (
    DEFAULT_IMAGE,
    DEFAULT_RUNNER,
    GHA,
    MODES,
    container,
    pod,
    refusal,
    runner,
    spec,
    template,
)

THREE_VOLUMES = [
    {"name": "foo", "emptyDir": {}},
    {"name": "bar", "emptyDir": {}},
    {"name": "work", "hostPath": {"path": "/data", "type": "DirectoryOrCreate"}},
]
DNS = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]}}
LIMITS = {"limits": {"cpu": "250m", "memory": "64Mi"}}
RUNNER = {
    "name": "runner",
    "image": "runner-image:latest",
    "env": [
        {"name": "SOME_ENV", "value": "SOME_VALUE"},
        {"name": "MY_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ],
    "volumeMounts": [
        {"name": "work", "mountPath": "/work"},
        {"name": "others", "mountPath": "/others"},
    ],
    "resources": LIMITS,
}
OTHER = {"name": "other", "image": "other-image:latest", "resources": LIMITS}


@pytest.mark.behaviour("C3 T48")
def test_labels_and_annotations_of_the_pod_template_are_passed_on() -> None:
    metadata = {
        "labels": {"test1": "test1", "test2": "test2"},
        "annotations": {"test3": "test3", "test4": "test4"},
    }
    given = {"template": {"metadata": {**metadata, "name": "dropped"}}}
    assert spec(given)["template"]["metadata"] == metadata
    assert "metadata" not in spec({"template": {"metadata": {"name": "dropped"}}})["template"]


def test_the_pod_cannot_claim_to_belong_to_another_scale_set() -> None:
    # W-S14. Other keys of GitHub's are the user's business, as ever.
    labels = {
        GHA + "scale-set-name": "x",
        GHA + "scale-set-namespace": "x",
        GHA + "mine": "kept",
    }
    given = {"template": {"metadata": {"labels": labels}}}
    assert spec(given)["template"]["metadata"] == {"labels": {GHA + "mine": "kept"}}


@pytest.mark.behaviour("C3 T56")
def test_volumes_keep_their_order() -> None:
    assert pod(template(containers=[DEFAULT_RUNNER], volumes=THREE_VOLUMES))["volumes"] == (
        THREE_VOLUMES
    )


@pytest.mark.behaviour("C3 T77")
@pytest.mark.parametrize("mode", [{"type": "none"}, {"type": ""}, {"type": None}, {}, None])
def test_a_pod_of_ones_own_is_passed_on(mode: object) -> None:
    given = {"containers": [RUNNER, OTHER], "volumes": THREE_VOLUMES, **DNS}
    found = pod({"containerMode": mode, **template(**given)})
    account = {"serviceAccountName": found["serviceAccountName"]}
    assert found == {**given, **account, "restartPolicy": "Never"}


def test_the_default_mode_keeps_the_order_of_the_containers() -> None:
    found = pod(template(containers=[OTHER, RUNNER]))
    assert found["containers"] == [OTHER, RUNNER]


@pytest.mark.behaviour("C3 T78", "C3 T79")
@pytest.mark.parametrize("mode", MODES)
def test_the_restart_policy_is_never_unless_given(mode: str) -> None:
    assert pod(MODES[mode])["restartPolicy"] == "Never"
    given = template(restartPolicy="Always")
    assert pod({**MODES[mode], **given})["restartPolicy"] == "Always"


@pytest.mark.behaviour("C3 T80")
@pytest.mark.parametrize("mode", MODES)
def test_every_other_field_of_the_pod_is_passed_on(mode: str) -> None:
    fields = {
        **DNS,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 21600,
        "hostNetwork": False,
        "fieldOfTheFuture": {"number": 1000000, "list": [1.5, None, "x"]},
    }
    found = pod({**MODES[mode], **template(**fields)})
    assert {key: found[key] for key in fields} == fields


@pytest.mark.behaviour("C3 T86", "C3 T87")
def test_the_default_runner_has_neither_variables_nor_mounts() -> None:
    assert runner() == DEFAULT_RUNNER
    bare = template(containers=[{**DEFAULT_RUNNER, "env": [], "volumeMounts": None}])
    assert runner(bare) == DEFAULT_RUNNER


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "empty",
    [
        {"template": None},
        {"template": {}},
        {"template": {"spec": None}},
        {"template": {"spec": {"containers": None}}},
        {"template": {"spec": {"containers": []}}},
    ],
)
def test_without_any_container_there_is_the_default_runner(
    mode: str, empty: dict[str, Any]
) -> None:
    found = runner({**MODES[mode], **empty})
    assert {key: found[key] for key in DEFAULT_RUNNER} == DEFAULT_RUNNER


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("given", "image", "command"),
    [
        ({"resources": LIMITS}, DEFAULT_IMAGE, ["/home/runner/run.sh"]),
        ({"image": "", "command": None}, DEFAULT_IMAGE, ["/home/runner/run.sh"]),
        ({"command": ["mine"]}, DEFAULT_IMAGE, ["mine"]),
        ({"args": ["mine"]}, DEFAULT_IMAGE, None),
        ({"image": "own:1"}, "own:1", None),  # an image of one's own may have its entry point
    ],
)
def test_a_runner_without_an_image_gets_the_default_one(
    mode: str, given: dict[str, Any], image: str, command: list[str] | None
) -> None:
    # W-S4: a runner without an image was made, which no API server takes.
    found = runner({**MODES[mode], **template(containers=[{"name": "runner", **given}])})
    assert (found["image"], found.get("command")) == (image, command)
    for key in given.keys() - {"image", "command"}:
        assert found[key] == given[key]


@pytest.mark.parametrize("mode", MODES)
def test_containers_of_which_none_is_the_runner_are_refused(mode: str) -> None:
    text = refusal({**MODES[mode], **template(containers=[OTHER])})
    assert "no container named runner" in text
    assert "other" in text and "Name the container with the runner so" in text


@pytest.mark.parametrize("mode", MODES)
def test_the_user_s_values_are_not_changed_by_being_merged(mode: str) -> None:
    given = template(containers=[OTHER, deepcopy(RUNNER)], volumes=THREE_VOLUMES)
    found = pod({**MODES[mode], **given})
    assert container(found, "other") == OTHER
    assert container(found)["env"][:2] == RUNNER["env"]
    assert container(found)["volumeMounts"][:2] == RUNNER["volumeMounts"]
    assert container(found)["resources"] == LIMITS
    assert [c["name"] for c in found["containers"][:2]] == (
        ["other", "runner"] if mode == "default" else ["runner", "other"]
    )


@pytest.mark.parametrize("mode", ["default", "kubernetes", "kubernetes-novolume"])
def test_init_containers_are_the_user_s_only(mode: str) -> None:
    init = [{"name": "ls", "image": "busybox", "command": ["ls"]}, {"name": "dind", "image": "x"}]
    assert pod({**MODES[mode], **template(initContainers=init)})["initContainers"] == init
    assert "initContainers" not in pod(MODES[mode])
    assert "initContainers" not in pod({**MODES[mode], **template(initContainers=[])})


def test_a_container_named_dind_is_an_ordinary_one_in_other_modes() -> None:
    dind = {"name": "dind", "image": "docker:dind", "securityContext": {"privileged": True}}
    assert pod(template(containers=[RUNNER, dind]))["containers"] == [RUNNER, dind]
    text = refusal(template(containers=[dind]))
    assert "no container named runner" in text
