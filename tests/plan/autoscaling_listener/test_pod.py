"""The listener's pod, and what makes it another one."""

from typing import Any

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.controllers.autoscaling_listener.pod import PodError, metrics_port
from runnerscale.kube.builtin import PODS
from tests.plan.autoscaling_listener.world import HOME, IMAGE, LABELS, NAME, World

FOREIGN = "ghcr.io/actions/gha-runner-scale-set-controller:0.14.2"


@pytest.mark.behaviour("C1 T80", "C1 T106")
async def test_a_new_listener_gets_its_finalizer_all_parts_and_the_pod_of_the_contract() -> None:
    world = World()
    await world.settle()
    assert world.listener["metadata"]["finalizers"] == [
        "autoscalinglistener.actions.github.com/finalizer"
    ]
    parts = (world.service_account, world.role, world.role_binding, world.config)
    assert all(part is not None for part in parts)
    spec = world.pod["spec"]
    (container,) = spec["containers"]
    assert world.pod["metadata"]["labels"] == LABELS
    assert spec["serviceAccountName"] == NAME
    assert spec["restartPolicy"] == "Never"
    assert container["name"] == "listener"
    assert container["image"] == IMAGE
    assert container["env"] == [
        {"name": "LISTENER_CONFIG_PATH", "value": "/etc/gha-listener/config.json"},
        {"name": "RUNNERSCALE_CONTROLLER", "value": "runnerscale"},  # to a listener of ours
    ]
    assert container["volumeMounts"] == [
        {"name": "listener-config", "mountPath": "/etc/gha-listener", "readOnly": True}
    ]
    assert spec["volumes"] == [
        {"name": "listener-config", "secret": {"secretName": f"{NAME}-config"}}
    ]


@pytest.mark.behaviour("C1 T101")
async def test_metrics_mean_a_named_port_and_none_without() -> None:
    world = World()
    await world.settle()
    (port,) = world.pod["spec"]["containers"][0]["ports"]
    assert port == {"name": "metrics", "protocol": "TCP", "containerPort": 8080}
    other = World()
    other.start(metrics_addr="")
    await other.settle()
    assert "ports" not in other.pod["spec"]["containers"][0]


@pytest.mark.parametrize(
    "address", ["8080", ":", ":http", ":0", ":99999", "", ":\u00b2", ":" + "9" * 5000]
)
def test_a_metrics_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(PodError, match="has no port"):
        metrics_port(address)


async def test_a_bad_metrics_address_is_told_and_makes_no_pod() -> None:
    world = World()
    world.start(metrics_addr="nonsense")
    await world.settle()
    assert world.pod is None
    assert world.listener["status"]["reason"] == "ListenerNotStarted"
    assert "--listener-metrics-addr" in world.listener["status"]["message"]


RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
REQUESTS = {"requests": {"cpu": "20m", "memory": "64Mi"}}


async def test_a_listener_has_neither_security_context_nor_requests_unless_told() -> None:
    world = World()
    await world.settle()
    (container,) = world.pod["spec"]["containers"]
    assert not {"securityContext", "resources"} & container.keys()
    assert "securityContext" not in world.pod["spec"]


async def test_a_controller_that_was_told_restricts_the_listener_and_nobody_beside_it() -> None:
    # Written by Go, a template has `resources: {}` whoever wrote it: that is no wish.
    template = {
        "spec": {
            "containers": [
                {"name": "listener", "resources": {}},
                {"name": "sidecar", "image": "busybox"},
            ]
        }
    }
    world = World(template=template)
    world.start(restricted=True, resources=REQUESTS)
    await world.settle()
    listener, sidecar = world.pod["spec"]["containers"]
    assert listener["securityContext"] == RESTRICTED
    assert listener["resources"] == REQUESTS
    assert sidecar == {"name": "sidecar", "image": "busybox"}
    assert "securityContext" not in world.pod["spec"]


async def test_what_the_template_says_about_the_listener_stands() -> None:
    mine = {"securityContext": {"runAsUser": 0}, "resources": {"limits": {"cpu": "1"}}}
    world = World(template={"spec": {"containers": [{"name": "listener", **mine}]}})
    world.start(restricted=True, resources=REQUESTS)
    await world.settle()
    (listener,) = world.pod["spec"]["containers"]
    assert listener["securityContext"] == mine["securityContext"]
    assert listener["resources"] == mine["resources"]


@pytest.mark.behaviour("C1 T105")
async def test_the_entry_point_can_be_another() -> None:
    world = World()
    await world.settle()
    assert world.pod["spec"]["containers"][0]["command"] == ["/ghalistener"]
    other = World()
    other.start(entrypoint="/x")
    await other.settle()
    assert other.pod["spec"]["containers"][0]["command"] == ["/x"]


@pytest.mark.behaviour("C1 T60")
async def test_pull_secrets_reach_the_pod() -> None:
    world = World(imagePullSecrets=[{"name": "p"}])
    await world.settle()
    assert world.pod["spec"]["imagePullSecrets"] == [{"name": "p"}]


# --- what replaces a pod -----------------------------------------------------------------------


async def replaced_by(world: World, **spec: Any) -> bool:
    await world.settle()
    world.run_pod()
    world.edit(**spec)
    await world.settle()
    return bool(world.pod["metadata"].get("deletionTimestamp"))


@pytest.mark.parametrize(
    "spec",
    [
        {"minRunners": 3},
        {"maxRunners": 100},
        {"githubConfigSecret": "other"},
        {"autoscalingRunnerSetName": "linux"},
        {"roleMetadata": {"labels": {"a": "b"}}},
    ],
)
async def test_what_a_listener_of_ours_reads_by_itself_does_not_cost_its_session(
    spec: dict[str, Any],
) -> None:
    assert not await replaced_by(World(), **spec)


@pytest.mark.parametrize(
    "spec",
    [
        {"runnerScaleSetId": 8},
        {"image": "other"},
        {"template": {"spec": {"containers": [], "priorityClassName": "high"}}},
        {"ephemeralRunnerSetName": "other"},
        {"metrics": {"counters": {"a": {"labels": []}}}},
    ],
)
async def test_what_cannot_change_under_a_held_session_replaces_the_pod(
    spec: dict[str, Any],
) -> None:
    assert await replaced_by(World(), **spec)


@pytest.mark.behaviour("C1 T103")
@pytest.mark.parametrize("spec", [{"minRunners": 3}, {"githubConfigSecret": "other"}])
async def test_a_foreign_listener_reads_its_file_once_and_is_replaced_for_every_change(
    spec: dict[str, Any],
) -> None:
    import base64
    from dataclasses import replace

    from runnerscale.core.secret import SecretText
    from tests.plan.autoscaling_listener.world import TOKEN

    world = World(image=FOREIGN)
    await world.settle()
    world.clients.means = replace(TOKEN, token=SecretText("ghp_rotated"))
    await world.settle()
    assert world.pod["metadata"]["deletionTimestamp"]
    file = base64.b64decode(world.config["data"]["config.json"])
    assert b"ghp_rotated" in file
    assert await replaced_by(World(image=FOREIGN), **spec) or "githubConfigSecret" in spec


@pytest.mark.behaviour("C1 T108")
async def test_new_rights_restart_a_foreign_listener_once() -> None:
    from runnerscale.controllers.autoscaling_listener import identity

    world = World(image=FOREIGN)
    await world.settle()
    world.run_pod()
    await world.settle()
    kept = world.pod["metadata"]["uid"]
    original = identity.rules
    try:
        identity.rules = lambda seen: [  # a later release grants more
            *original(seen),
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        ]
        await world.settle()
        assert world.pod["metadata"]["deletionTimestamp"]
        world.pod_gone()
        await world.settle()
        assert world.pod["metadata"]["uid"] != kept
        uid = world.pod["metadata"]["uid"]
        await world.settle()
        assert world.pod["metadata"]["uid"] == uid
    finally:
        identity.rules = original


@pytest.mark.behaviour("C1 T107")
async def test_a_new_image_rolls_the_pod_once() -> None:
    world = World()
    await world.settle()
    world.run_pod()
    world.edit(image="ghcr.io/runnerscale/runnerscale:0.14.3")
    world.start(image="ghcr.io/runnerscale/runnerscale:0.14.3")
    await world.settle()
    world.pod_gone()
    await world.settle()
    image = world.pod["spec"]["containers"][0]["image"]
    assert image == "ghcr.io/runnerscale/runnerscale:0.14.3"
    uid = world.pod["metadata"]["uid"]
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid


@pytest.mark.behaviour("C1 T31")
async def test_a_pod_with_a_foreign_fingerprint_is_kept_if_its_image_is_the_wished_one() -> None:
    world = World()
    await world.settle()
    world.api.change(
        PODS, HOME, NAME, {"metadata": {"annotations": {keys.INTEGRITY_HASH: "7c8f5b4d9"}}}
    )
    world.run_pod()
    uid = world.pod["metadata"]["uid"]
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in world.pod["metadata"]


@pytest.mark.behaviour("C1 T33")
async def test_explicit_empties_in_a_template_do_not_make_another_pod() -> None:
    world = World(template={"spec": {"containers": [], "volumes": []}})
    await world.settle()
    uid = world.pod["metadata"]["uid"]
    world.edit(template={"spec": {"containers": [], "volumes": None, "tolerations": []}})
    for _ in range(5):
        await world.settle()
    assert world.pod["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in world.pod["metadata"]


@pytest.mark.behaviour("C1 T109")
async def test_stripped_pod_labels_cause_no_write_and_restarts_still_work() -> None:
    world = World()
    await world.settle()
    world.run_pod()
    world.api.change(PODS, HOME, NAME, {"metadata": {"labels": None}})
    await world.settle()
    assert ("patch", "pods", NAME) not in world.api.writes
    uid = world.pod["metadata"]["uid"]
    world.end_pod(1)
    world.clock.advance(5)
    await world.settle()
    assert world.pod["metadata"]["uid"] != uid
    assert world.pod["metadata"]["labels"] == LABELS


async def test_a_changed_label_of_the_listener_waits_for_the_next_pod() -> None:
    # Overrules T85 for the pod: the session is closed only when the place changes.
    world = World()
    await world.settle()
    world.run_pod()
    world.api.change(AUTOSCALING_LISTENERS, HOME, NAME, {"metadata": {"labels": {"team": "b"}}})
    await world.settle()
    assert world.service_account["metadata"]["labels"]["team"] == "b"
    assert "deletionTimestamp" not in world.pod["metadata"]
    world.api.drop(PODS, HOME, NAME)
    await world.settle()
    assert world.pod["metadata"]["labels"]["team"] == "b"
