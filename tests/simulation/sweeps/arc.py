"""A scale set as ARC 0.14 leaves it, in the simulated world: objects, registrations, pods.

The objects are the contract's (C1 3, in `tests/arc/objects.py`); this file plays ARC's
controllers while ours is away. The listener's image is ours in the place of ARC's.
"""

import copy
from typing import Any

from runnerscale.app.manifests import (
    CONTROLLER_IMAGE,
    GITHUB_SECRET,
    RUNNER_IMAGE,
    SYSTEM_NAMESPACE,
)
from runnerscale.fake_github import runners, scale_sets
from runnerscale.fake_github.jit_config import encode_jit_config
from runnerscale.fake_github.model import ScaleSet
from tests.arc.objects import Arc
from tests.simulation.kubectl import PERSON
from tests.simulation.parts import GITHUB_URL
from tests.simulation.sweeps.act import CONFIG_URL, LONG_S, NAMESPACE, OWNER, REPOSITORY, Act

Json = dict[str, Any]

GROUP = "actions.github.com"
RBAC = "rbac.authorization.k8s.io"
CONTAINER: Json = {"name": "runner", "image": RUNNER_IMAGE, "command": ["/home/runner/run.sh"]}
TEMPLATE: Json = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
GIVEN_BACK: Json = {
    "metadata": {},
    "spec": {"restartPolicy": "Never", "containers": [{**CONTAINER, "resources": {}}]},
}


async def settle_as_arc(act: Act) -> None:
    """One idle runner, one busy, a listener; then our controller comes."""
    stage = act.stage
    stage.points.armed = False
    for process in list(stage.controllers):
        stage.kill_controller(process)
    await act.pause(1.0)
    maker = _Maker(act)
    maker.make_set()
    maker.make_listener()
    await act.listening("set")
    maker.make_runner("aaaaa")
    maker.make_runner("bbbbb")
    await act.idle(2)
    act.queue(LONG_S)
    await act.running(1)
    await act.pause(2.0)
    stage.points.arm()
    stage.start_controller()


class _Maker:
    """Writes what ARC would have written."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self._scale_set = _registered(act)
        self._uid = ""  # of the EphemeralRunnerSet
        self._arc = Arc(
            namespace=NAMESPACE,
            home=SYSTEM_NAMESPACE,
            url=CONFIG_URL,
            secret=GITHUB_SECRET,
            scale_set_id=self._scale_set.id,
            minimum=1,
            maximum=3,
            template=TEMPLATE,
            given_back=GIVEN_BACK,
            listener_image=CONTROLLER_IMAGE,
        )

    def make_set(self) -> None:
        """AutoscalingRunnerSet and EphemeralRunnerSet."""
        made = self._put(f"autoscalingrunnersets.{GROUP}", NAMESPACE, self._arc.runner_set())
        self._say(f"autoscalingrunnersets.{GROUP}", "set", {"phase": "Running"})
        body = self._arc.ephemeral_runner_set(_uid(made), replicas=2, patch_id=1)
        self._uid = _uid(self._put(f"ephemeralrunnersets.{GROUP}", NAMESPACE, body))

    def make_listener(self) -> None:
        """The listener with all that is its own."""
        arc, home = self._arc, SYSTEM_NAMESPACE
        uid = _uid(self._put(f"autoscalinglisteners.{GROUP}", home, arc.autoscaling_listener()))
        self._put("serviceaccounts", home, arc.service_account(uid))
        self._put(f"roles.{RBAC}", NAMESPACE, arc.role())
        self._put(f"rolebindings.{RBAC}", NAMESPACE, arc.role_binding())
        self._put("secrets", home, arc.config_secret(uid, runner_scale_set_name="set"))
        self._put("pods", home, arc.listener_pod(uid))

    def make_runner(self, word: str) -> None:
        """EphemeralRunner, registration, Secret, pod, status."""
        arc, hub = self._arc, self._act.hub
        name = f"set-runner-{word}"
        body = arc.ephemeral_runner(name, self._uid, patch_id=1)
        uid = _uid(self._put(f"ephemeralrunners.{GROUP}", NAMESPACE, body))
        runner = hub.run(runners.register, self._scale_set, name)
        jit = encode_jit_config(
            runner, server_url=GITHUB_URL, github_url=CONFIG_URL, work_folder="_work"
        )
        self._put("secrets", NAMESPACE, arc.jit_secret(name, uid, runner_id=runner.id, jit=jit))
        self._put("pods", NAMESPACE, arc.runner_pod(name, uid, patch_id=1))
        status = {"runnerId": runner.id, "runnerName": name, "phase": "Pending", "ready": True}
        self._say(f"ephemeralrunners.{GROUP}", name, status)

    def _put(self, resource: str, namespace: str, body: Json) -> Json:
        server = self._act.stage.api
        assert server is not None
        kind = server.registry.of_resource(resource)
        assert kind is not None, resource
        written = server.operations.create(kind, namespace, copy.deepcopy(body), PERSON)
        assert written.record is not None
        return written.record.object()

    def _say(self, resource: str, name: str, status: Json) -> None:
        server = self._act.stage.api
        assert server is not None
        kind = server.registry.of_resource(resource)
        assert kind is not None

        def said(now: Json) -> Json:
            return {**now, "status": {**(now.get("status") or {}), **status}}

        server.operations.patch(kind, NAMESPACE, name, said, PERSON, subresource="status")


def _registered(act: Act) -> ScaleSet:
    tenant = act.hub.state.tenant(f"{OWNER}/{REPOSITORY}")
    wanted = scale_sets.wanted_from_body({"name": "set", "runnerGroupId": 1})
    return act.hub.run(scale_sets.create, tenant, wanted)


def _uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])
