"""Whatever happened: when nothing breaks any more, a listener runs as wished, and stays.

Seeded: edits, refusals, crashes, lost Secrets, hands that delete, restarts; then calm.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runnerscale.core.clock import format_time
from runnerscale.core.randomness import Random, seeded
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import PODS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from runnerscale.kube.errors import Forbidden, KubeError, Unreachable
from tests.plan.autoscaling_listener.test_config_secret import file_of
from tests.plan.autoscaling_listener.test_means import MISSING
from tests.plan.autoscaling_listener.world import HOME, IMAGE, NAME, RUNNERS, TOKEN, World

STEPS = 15


def happenings(world: World, random: Random) -> list[Callable[[], Any]]:
    def end_pod() -> None:
        if world.pod and not world.pod["metadata"].get("deletionTimestamp"):
            world.end_pod(random.choice([0, 1, 137]), ran_s=random.choice([1, 700]))

    def run_pod() -> None:
        if world.pod and world.pod.get("status", {}).get("phase") != "Failed":
            world.run_pod()

    def node_lost() -> None:
        if world.pod:
            gone = {"metadata": {"deletionTimestamp": format_time(world.clock.now_s() + 60)}}
            world.api.change(PODS, HOME, NAME, gone)

    def evict() -> None:
        if world.pod:
            world.kubelet(phase="Failed", reason="Evicted", containerStatuses=None)

    def drop(resource: Any, namespace: str, name: str) -> Callable[[], None]:
        return lambda: world.api.drop(resource, namespace, name)

    return [
        end_pod,
        run_pod,
        node_lost,
        evict,
        drop(PODS, HOME, NAME),
        drop(SECRETS, HOME, f"{NAME}-config"),
        drop(ROLES, RUNNERS, NAME),
        drop(ROLE_BINDINGS, RUNNERS, NAME),
        drop(SERVICE_ACCOUNTS, HOME, NAME),
        lambda: world.edit(maxRunners=random.randint(0, 20)),
        lambda: world.edit(runnerScaleSetId=random.randint(7, 9)),
        lambda: world.edit(image=random.choice([IMAGE, "foreign:1"])),
        lambda: world.edit(proxy=random.choice([None, {"http": {"url": "http://proxy:8080"}}])),
        lambda: setattr(world.clients, "means", random.choice([MISSING, TOKEN])),
        lambda: setattr(
            world.clients, "means", replace(TOKEN, token=SecretText(f"t{random.randint(1, 3)}"))
        ),
        lambda: world.clock.advance(random.choice([1, 10, 200])),
        lambda: world.start(),
    ]


@pytest.mark.parametrize("seed", range(60))
async def test_a_listener_runs_as_wished_and_stays(seed: int) -> None:
    random = seeded(seed)
    world = World()

    def fault(verb: str, plural: str, name: str) -> KubeError | None:
        if random.random() > 0.15:
            return None
        return random.choice([Unreachable("reset"), Forbidden(403, "Forbidden", "a webhook")])

    world.api.fault = fault
    for _ in range(STEPS):
        random.choice(happenings(world, random))()
        for _ in range(random.randint(1, 2)):
            await world.one_pass()

    world.api.fault = lambda verb, plural, name: None
    world.clients.means = replace(TOKEN, token=SecretText("the last"))
    world.edit(maxRunners=20, minRunners=1)
    for _ in range(5):
        if world.pod and world.pod["metadata"].get("deletionTimestamp"):
            world.pod_gone()  # its node works
        world.clock.advance(400)
        await world.settle()
        if world.pod and not world.pod.get("status"):
            world.run_pod()
    end = await world.settle()

    assert end.errors == ()
    assert world.listener["status"]["reason"] == "", world.listener["status"]
    assert world.pod["status"]["phase"] == "Running"
    assert file_of(world)["github_token"] == "the last"
    assert file_of(world)["max_runners"] == 20
    assert file_of(world)["runner_scale_set_id"] == world.listener["spec"]["runnerScaleSetId"]
    assert world.pod["spec"]["containers"][0]["image"] == world.listener["spec"]["image"]
    wants_proxy = "proxy" in world.listener["spec"]
    variables = [item["name"] for item in world.pod["spec"]["containers"][0]["env"]]
    assert ("http_proxy" in variables) is wants_proxy
    parts = (world.service_account, world.role, world.role_binding, world.config)
    assert all(part is not None for part in parts)
    uid = world.pod["metadata"]["uid"]
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid
