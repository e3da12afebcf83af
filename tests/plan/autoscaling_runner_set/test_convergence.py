"""If the wish stops changing and nothing breaks any more, the world comes to match it and stays.

Seeded: edits, refusals, lost answers, restarts and hands that delete, in any order; then calm.
"""

from collections.abc import Callable
from typing import Any

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.core.randomness import Random, seeded
from runnerscale.kube.errors import Forbidden, KubeError, Unreachable
from runnerscale.scaleset.errors import CredentialsRefused, ScaleSetError, Unavailable
from tests.plan.autoscaling_runner_set.world import HOME, NAME, RUNNERS, URL, World

PLACES = (URL, "https://github.com/other-org", "https://github.com/third-org")
STEPS = 12


def edits(world: World, random: Random) -> list[Callable[[], None]]:
    return [
        lambda: world.edit(githubConfigUrl=random.choice(PLACES)),
        lambda: world.edit(runnerGroup=random.choice(["", "testgroup", "testgroup2", "nobody"])),
        lambda: world.edit(runnerScaleSetName=random.choice(["linux", "other"])),
        lambda: world.edit(githubConfigSecret=random.choice(["github", "wrong"])),
        lambda: world.edit(minRunners=random.choice([0, 3, 50])),
        lambda: world.edit(template=world.image(f"runner:{random.randint(1, 3)}")),
        lambda: world.edit(runnerScaleSetLabels=random.choice([[], ["gpu"], ["gpu", "big"]])),
        lambda: world.edit_meta(labels={"team": random.choice(["a", "b", None])}),
    ]


def accidents(world: World, random: Random) -> list[Callable[[], None]]:
    def lose_scale_set() -> None:
        world.github.at[random.choice(PLACES)] = {}

    def finish_runners() -> None:
        for name in world.api.names(EPHEMERAL_RUNNERS):
            world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, name)

    def start_runner() -> None:
        if world.ers is not None:
            world.runner(
                f"linux-runner-{random.randint(0, 9)}",
                status=random.choice([{"phase": "Pending"}, {"phase": "Running", "jobId": "j"}]),
            )

    return [
        lose_scale_set,
        start_runner,
        finish_runners,
        lambda: world.start(),
        lambda: world.clock.advance(random.choice([1, 30, 120])),
        lambda: world.api.drop(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME),
        lambda: [world.api.drop(AUTOSCALING_LISTENERS, HOME, n) for n in world.listeners] and None,
        lambda: world.edit_meta(annotations={keys.SCALE_SET_ID: random.choice([None, "0"])}),
    ]


def break_things(world: World, random: Random) -> None:
    def github_fault(call: str, place: Any) -> ScaleSetError | None:
        if place.secret_name == "wrong":
            return CredentialsRefused("401")
        return Unavailable("500") if random.random() < 0.25 else None

    def api_fault(verb: str, plural: str, name: str) -> KubeError | None:
        if random.random() > 0.15:
            return None
        return random.choice([Unreachable("reset"), Forbidden(403, "Forbidden", "a webhook")])

    world.github.fault = github_fault
    world.api.fault = api_fault


def heal(world: World) -> None:
    world.github.fault = lambda call, place: (
        CredentialsRefused("401") if place.secret_name == "wrong" else None
    )
    world.api.fault = lambda verb, plural, name: None
    for name in world.api.names(EPHEMERAL_RUNNERS):
        world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, name)


@pytest.mark.parametrize("seed", range(80))
async def test_it_comes_to_match_the_wish_and_stays(seed: int) -> None:
    random = seeded(seed)
    world = World()
    break_things(world, random)
    for _ in range(STEPS):
        random.choice([*edits(world, random), *accidents(world, random)])()
        for _ in range(random.randint(1, 3)):
            await world.one_pass()
    assert world.github.killed == []
    heal(world)
    # The last wish is a good one.
    world.edit(
        githubConfigSecret="github", runnerGroup=random.choice(["", "testgroup"]), minRunners=1
    )
    for _ in range(6):
        await world.later(400)  # pauses pass, moves end, old places are given up or put in order

    spec = world.ars["spec"]
    number = int(world.annotations[keys.SCALE_SET_ID])
    stored = world.github.at[spec["githubConfigUrl"]][number]
    assert world.status["phase"] == "Running", world.status
    assert world.status["reason"] == ""
    assert stored.name == spec["runnerScaleSetName"]
    assert stored.runner_group_name == (spec.get("runnerGroup") or "Default")
    assert set(spec.get("runnerScaleSetLabels", ())) <= set(stored.labels)
    runner = world.ers["spec"]["ephemeralRunnerSpec"]
    assert runner["githubConfigUrl"] == spec["githubConfigUrl"]
    assert runner["runnerScaleSetId"] == number
    assert runner["spec"] == spec["template"]["spec"]
    assert keys.HOLD not in world.ers["metadata"]["annotations"]
    assert world.al["spec"]["githubConfigUrl"] == spec["githubConfigUrl"]
    assert world.al["spec"]["runnerScaleSetId"] == number
    assert world.al["spec"]["minRunners"] == 1
    assert keys.MOVING_SINCE not in world.annotations
    assert keys.LEFT_BEHIND not in world.annotations


@pytest.mark.parametrize("seed", range(40))
async def test_a_deletion_always_ends(seed: int) -> None:
    random = seeded(1000 + seed)
    world = World()
    break_things(world, random)
    for _ in range(STEPS // 2):
        random.choice([*edits(world, random), *accidents(world, random)])()
        await world.one_pass()
    if world.ars["metadata"].get("finalizers"):
        world.delete()
        heal(world)
        if random.random() < 0.5:
            world.github.fault = lambda call, place: Unavailable("gone for good")
        for _ in range(30):
            if world.ars is not None:
                await world.later(60)
    else:
        return
    assert world.ars is None
    assert world.listeners == []
    assert world.ers is None
