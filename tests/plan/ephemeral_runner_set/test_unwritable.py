"""Runners that nobody can write on: their set says it."""

from typing import Any

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.controllers.ephemeral_runner_set import unwritable
from runnerscale.kube.errors import Forbidden
from runnerscale.kube.objects import ObjectReference
from tests.plan.ephemeral_runner_set.world import KEY, NS, SET, World

NO = "admission webhook denied the request"


async def settled(*names: str) -> World:
    world = World()
    world.make(replicas=len(names))
    for name in names:
        world.runner(name, runnerId=0, phase="Pending")
    await world.settle()
    world.events.told.clear()
    return world


def about(world: World, name: str) -> ObjectReference:
    return ObjectReference("v1", "EphemeralRunner", NS, name, world.body(name)["metadata"]["uid"])


def refuse(world: World, *names: str, words: str = NO) -> None:
    for name in names:
        error = Forbidden(403, "Forbidden", words)
        world.reconciler.unwritable.refused(about(world, name), error)


def told(world: World) -> tuple[str, str]:
    condition = world.condition("RunnersWritable")
    return condition["status"], condition["reason"]


def gauge(world: World) -> Any:
    labels = {"kind": "EphemeralRunnerSet", "namespace": NS, "name": SET}
    metric = {**labels, "reason": "ApiServerRefused"}
    return world.registry.get_sample_value("runnerscale_trouble", metric)


async def test_the_set_says_that_a_runner_cannot() -> None:
    # Seed 5009: a webhook refused every write to runners, and no object said why a job waited.
    world = await settled("a")
    world.queued.clear()
    refuse(world, "a")
    assert [key for key, _ in world.queued] == [KEY]
    await world.settle()
    assert told(world) == ("False", "ApiServerRefused")
    assert world.status["reason"] == "ApiServerRefused"
    message = world.condition("RunnersWritable")["message"]
    assert message.startswith(f"could not write the status of the runner a: {NO}. Read the server")
    assert [(kind, reason) for kind, reason, _ in world.events.told] == [
        ("Warning", "ApiServerRefused")
    ]
    assert gauge(world) == 1


async def test_a_right_that_is_missing_is_called_that() -> None:
    world = await settled("a")
    refuse(world, "a", words='User "x" cannot patch resource "ephemeralrunners/status"')
    await world.settle()
    assert told(world) == ("False", "RightsMissing")


async def test_a_set_whose_runners_can_be_written_on_has_no_such_condition() -> None:
    world = await settled("a")
    assert "RunnersWritable" not in {c["type"] for c in world.status["conditions"]}


async def test_it_is_taken_back_once_nothing_is_wrong() -> None:
    world = await settled("a")
    refuse(world, "a")
    await world.settle()
    world.queued.clear()
    world.reconciler.unwritable.accepted(about(world, "a"))
    assert [key for key, _ in world.queued] == [KEY]
    await world.settle()
    assert told(world) == ("True", "Well")
    assert (world.status["reason"], gauge(world)) == ("", None)


async def test_a_status_that_was_written_takes_it_back_and_metadata_do_not() -> None:
    world = await settled("a")
    refuse(world, "a")
    world.api.change(EPHEMERAL_RUNNERS, NS, "a", {"metadata": {"labels": {"x": "y"}}})
    await world.settle()
    assert told(world) == ("False", "ApiServerRefused")
    world.take_job("a")
    await world.settle()
    assert told(world) == ("True", "Well")


async def test_a_runner_that_is_gone_takes_it_along() -> None:
    world = await settled("a")
    refuse(world, "a")
    await world.settle()
    world.finish("a")
    await world.settle()
    assert told(world) == ("True", "Well")


async def test_a_set_that_is_deleted_says_it_too() -> None:
    world = await settled("a")
    world.delete_set()
    refuse(world, "a")
    await world.settle()
    assert told(world) == ("False", "ApiServerRefused")


async def test_hundreds_of_them_are_one_sentence_that_does_not_change() -> None:
    names = [f"r{number}" for number in range(300)]
    world = await settled(*names)
    for name in names:
        refuse(world, name, words=f"denied request of {name}")
        await world.one_pass()
    for name in names:  # each try of each is told
        refuse(world, name, words=f"denied again request of {name}")
    await world.settle()
    message = world.condition("RunnersWritable")["message"]
    assert "denied request of r0 (the same with other runners)" in message
    assert len(world.events.told) == 2  # one of them, and then others too
    for name in names[1:]:
        world.reconciler.unwritable.accepted(about(world, name))
    await world.settle()
    assert told(world) == ("False", "ApiServerRefused")
    assert "others" not in world.condition("RunnersWritable")["message"]


async def test_what_is_remembered_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(unwritable, "KEPT_MAX", 2)
    world = await settled("a", "b", "c")
    refuse(world, "a", "b", "c", words="x" * 100_000)
    remembered = world.reconciler._memory.known(KEY)
    assert remembered is not None
    kept = remembered.unwritable.values()
    assert [len(each.happened) <= unwritable.SAID_CHARS_MAX for each in kept] == [True, True]


async def test_of_a_namesake_or_of_nobodys_runner_nothing_is_said() -> None:
    world = await settled("a")
    error = Forbidden(403, "Forbidden", NO)
    for name, uid in (("a", "another"), ("unknown", "u")):
        reference = ObjectReference("v1", "EphemeralRunner", NS, name, uid)
        world.reconciler.unwritable.refused(reference, error)
        world.reconciler.unwritable.accepted(reference)
    world.api.put(EPHEMERAL_RUNNERS, NS, {"metadata": {"name": "stray"}, "spec": {}})
    refuse(world, "stray")
    await world.settle()
    assert world.events.told == []


async def test_a_new_process_takes_it_back_until_it_is_heard_of_again() -> None:
    world = await settled("a")
    refuse(world, "a")
    await world.settle()
    world.restart()
    await world.settle()
    assert told(world) == ("True", "Well")
