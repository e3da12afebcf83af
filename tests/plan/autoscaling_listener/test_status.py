"""What the listener's own object says."""

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from tests.plan.autoscaling_listener.test_means import MISSING
from tests.plan.autoscaling_listener.world import HOME, NAME, World


def conditions(world: World) -> dict[str, tuple[str, str]]:
    found = world.listener["status"]["conditions"]
    return {item["type"]: (item["status"], item["reason"]) for item in found}


async def test_all_is_well() -> None:
    world = World()
    await world.settle()
    world.run_pod()
    await world.settle()
    assert conditions(world) == {
        "ConfigReady": ("True", "Current"),
        "PodRunning": ("True", "Running"),
    }
    assert world.listener["status"]["reason"] == ""


async def test_missing_credentials_and_a_running_pod_are_two_different_things() -> None:
    world = World()
    await world.settle()
    world.run_pod()
    world.clients.means = MISSING
    await world.settle()
    assert conditions(world) == {
        "ConfigReady": ("False", "CredentialsMissing"),
        "PodRunning": ("True", "Running"),
    }


async def test_the_transition_time_moves_only_when_the_verdict_flips() -> None:
    world = World()
    await world.settle()
    before = world.listener["status"]["conditions"][0]["lastTransitionTime"]
    world.clock.advance(60)
    world.edit(maxRunners=11)
    await world.settle()
    condition = world.listener["status"]["conditions"][0]
    assert condition["lastTransitionTime"] == before
    assert condition["observedGeneration"] == world.listener["metadata"]["generation"]


async def test_a_server_that_prunes_the_status_is_told_once_only() -> None:
    # ARC's CRD knows no status fields of a listener.
    world = World()
    await world.settle()
    world.run_pod()
    await world.settle()
    prune = {"status": None}
    world.api.change(AUTOSCALING_LISTENERS, HOME, NAME, prune)
    for _ in range(3):
        world.clock.advance(60)
        world.api.changes()
        await world.one_pass()
        assert [w for w in world.api.writes if w[0] == "patch/status"] == []


async def test_a_row_of_crashes_ends_when_the_listener_has_lived_long_enough() -> None:
    world = World()
    await world.settle()
    for _ in range(3):
        world.end_pod(1)
        world.clock.advance(300)
        await world.settle()
    world.run_pod()
    end = await world.settle()
    assert world.listener["status"]["restarts"] == 3
    assert world.listener["status"]["reason"] == "ListenerCrashing"
    assert end.again_s == 600.0
    world.clock.advance(600)
    await world.settle()
    assert world.listener["status"]["restarts"] == 0
    assert world.listener["status"]["reason"] == ""


async def test_a_pod_taken_away_while_it_lived_begins_a_new_row() -> None:
    world = World()
    await world.settle()
    world.end_pod(1)
    world.clock.advance(3)
    await world.settle()
    world.run_pod()
    await world.settle()
    assert world.listener["status"]["restarts"] == 1
    world.edit(image="other")
    await world.settle()
    assert world.listener["status"]["restarts"] == 0
