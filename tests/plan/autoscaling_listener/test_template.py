"""How a user's template changes the listener's pod."""

from typing import Any

import pytest

from runnerscale.controllers.autoscaling_listener.template import merged
from tests.plan.autoscaling_listener.world import World

POD: dict[str, Any] = {
    "metadata": {"name": "l", "labels": {"a": "1"}, "annotations": {"hash": "x"}},
    "spec": {
        "serviceAccountName": "l",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 60,
        "volumes": [{"name": "config"}],
        "containers": [
            {
                "name": "listener",
                "image": "ours",
                "command": ["/ghalistener"],
                "env": [{"name": "A"}],
                "volumeMounts": [{"name": "config"}],
            }
        ],
    },
}


def listener(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "listener", **fields}]}}


@pytest.mark.behaviour("C1 T91")
async def test_security_settings_and_a_sidecar_reach_the_pod() -> None:
    template = {
        "metadata": {"labels": {"mine": "l"}, "annotations": {"mine": "a"}},
        "spec": {
            "securityContext": {"runAsUser": 1000},
            "containers": [
                {"name": "sidecar", "image": "busybox"},
                {
                    "name": "listener",
                    "imagePullPolicy": "Always",
                    "securityContext": {"runAsUser": 1001},
                },
            ],
        },
    }
    world = World(template=template)
    await world.settle()
    first, second = world.pod["spec"]["containers"]
    assert first["name"] == "listener"
    assert first["imagePullPolicy"] == "Always"
    assert first["securityContext"] == {"runAsUser": 1001}
    assert second == {"name": "sidecar", "image": "busybox"}
    assert world.pod["spec"]["securityContext"] == {"runAsUser": 1000}
    assert world.pod["metadata"]["labels"]["mine"] == "l"
    assert world.pod["metadata"]["annotations"]["mine"] == "a"


@pytest.mark.behaviour("C1 T92")
@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, {"kubernetes.io/os": "linux"}),
        ({"nodeSelector": None}, {"kubernetes.io/os": "linux"}),
        ({"tolerations": [{"operator": "Exists"}]}, {"kubernetes.io/os": "linux"}),
        ({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd"}),
        ({"nodeSelector": {}}, {}),
    ],
)
def test_the_node_selector_is_replaced_only_by_one_that_is_there(
    spec: dict[str, Any], wanted: dict[str, str]
) -> None:
    assert merged(POD, {"spec": spec})["spec"]["nodeSelector"] == wanted


@pytest.mark.behaviour("C1 T92")
async def test_without_a_template_the_pod_runs_on_linux() -> None:
    world = World()
    await world.settle()
    assert world.pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_a_template_without_a_grace_period_leaves_ours() -> None:
    # C3 W-S17 overrules C1 T93: less would cut the listener off while it gives its session back.
    assert merged(POD, {})["spec"]["terminationGracePeriodSeconds"] == 60
    assert merged(POD, listener())["spec"]["terminationGracePeriodSeconds"] == 60
    given = merged(POD, {"spec": {"terminationGracePeriodSeconds": 5}})
    assert given["spec"]["terminationGracePeriodSeconds"] == 5


async def test_without_a_template_the_grace_period_is_60_s() -> None:
    world = World()
    await world.settle()
    assert world.pod["spec"]["terminationGracePeriodSeconds"] == 60


@pytest.mark.behaviour("C1 T94")
@pytest.mark.parametrize(
    "field",
    ["serviceAccountName", "serviceAccount", "automountServiceAccountToken", "resources"],
)
def test_what_identifies_the_listener_is_ignored(field: str) -> None:
    assert merged(POD, {"spec": {field: "other"}})["spec"].get(field) == POD["spec"].get(field)


@pytest.mark.behaviour("C1 T95")
def test_a_command_replaces_and_lists_are_appended() -> None:
    template = listener(
        command=["/mine"],
        env=[{"name": "B"}],
        args=["x"],
        volumeMounts=[{"name": "more"}],
        ports=[{"containerPort": 1}],
    )
    (container,) = merged(POD, template)["spec"]["containers"]
    assert container["command"] == ["/mine"]
    assert container["env"] == [{"name": "A"}, {"name": "B"}]
    assert container["args"] == ["x"]
    assert container["volumeMounts"] == [{"name": "config"}, {"name": "more"}]
    assert container["ports"] == [{"containerPort": 1}]


def test_an_empty_image_command_or_restart_policy_changes_nothing() -> None:
    pod = merged(POD, {"spec": {"restartPolicy": "", **listener(image="", command=[])["spec"]}})
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["image"] == "ours"
    assert pod["spec"]["containers"][0]["command"] == ["/ghalistener"]


def test_volumes_are_appended_and_labels_never_override() -> None:
    template = {"metadata": {"labels": {"a": "2", "b": "2"}}, "spec": {"volumes": [{"name": "m"}]}}
    pod = merged(POD, template)
    assert pod["spec"]["volumes"] == [{"name": "config"}, {"name": "m"}]
    assert pod["metadata"]["labels"] == {"a": "1", "b": "2"}


def test_a_field_newer_than_this_program_passes_through() -> None:
    assert merged(POD, {"spec": {"brandNew": {"x": 1}}})["spec"]["brandNew"] == {"x": 1}
    template = listener(alsoNew=[1])
    assert merged(POD, template)["spec"]["containers"][0]["alsoNew"] == [1]


def test_the_inputs_stay_as_they_were() -> None:
    import copy

    before = copy.deepcopy(POD)
    merged(POD, listener(env=[{"name": "B"}]))
    assert before == POD
