"""The message loop against a model: whatever the queue, the API server and death do to it.

Messages come again, out of order, with events of any kind in any order, also unknown ones and
statistics that lie; acknowledgements are lost before and after their effect, sessions go, writes
fail before and after theirs, the controller writes in between, the process is killed. Every
effect happens at least once, and none is acknowledged before; nothing is said that GitHub did not
say.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import async_solipsism
from hypothesis import example, given, note
from hypothesis import strategies as st

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.core.randomness import seeded
from runnerscale.kube import errors as kube
from runnerscale.listener.loop import Listener
from runnerscale.scaleset import errors
from runnerscale.scaleset.model import (
    JobEvent,
    JobEventKind,
    Message,
    RunnerScaleSet,
    Statistics,
)
from tests.properties import examples
from tests.unit.listener.conftest import config, metrics, value
from tests.unit.listener.fakes import TinyApi, clock

NAMES = ("runner-a", "runner-b", "failed", "going")
TERMINAL = ("Failed", "Succeeded", "Outdated")
LOW, HIGH = 1, 6
HEALED_S = 900.0  # jobs in a body count for ten minutes beside statistics that deny them


@dataclass
class GitHub:
    """The queue as it is, and what goes wrong with the next calls."""

    messages: dict[int, Message] = field(default_factory=dict)  # not deleted yet
    assigned: int = 0
    unordered: bool = False  # a queue that does not heed the cursor
    faults: list[errors.ScaleSetError] = field(default_factory=list)  # of polls, the next first
    lost_acks: list[str] = field(default_factory=list)  # "before", "after", "session"
    published: int = 0
    fresh: asyncio.Event = field(default_factory=asyncio.Event)

    def publish(self, assigned: int, events: Sequence[JobEvent]) -> None:
        self.published += 1
        self.assigned = assigned
        placed = tuple(replace(event, index=n) for n, event in enumerate(events))
        statistics = Statistics(assigned_jobs=assigned)
        self.messages[self.published] = Message(self.published, statistics, placed)
        self.fresh.set()


class Session:
    """One session of one life."""

    generation = 1

    def __init__(self, world: "World", life: "Life") -> None:
        self.world, self.life = world, life
        self.opening = Statistics(assigned_jobs=world.github.assigned)
        self.turn = 0

    async def __aenter__(self) -> "Session":
        await self.life.alive()
        return self

    async def poll(self, cursor: int, capacity: int) -> Message | None:
        await self.life.alive()
        github = self.world.github
        if github.faults:
            raise github.faults.pop(0)
        for _ in range(2):
            ids = [n for n in github.messages if github.unordered or n > cursor]
            if ids:
                self.turn += 1
                found = github.messages[ids[-(self.turn % 2)] if github.unordered else ids[0]]
                self.world.delivered(found)
                return found
            github.fresh.clear()
            try:
                async with asyncio.timeout(50.0):
                    await github.fresh.wait()
            except TimeoutError:
                break
        return None

    async def acknowledge(self, message_id: int) -> None:
        await self.life.alive()
        github = self.world.github
        how = github.lost_acks.pop(0) if github.lost_acks else ""
        if how == "before":
            raise errors.Unavailable("503")
        if how == "session":
            raise errors.SessionLost("gone")
        if message_id in github.messages:
            message = github.messages.pop(message_id)
            with self.world.judging():
                self.world.acknowledged(message, self.life)
        if how == "after":
            raise errors.Unavailable("the answer was lost")

    async def acquire_jobs(self, ids: Sequence[int]) -> list[int]:
        await self.life.alive()
        return list(ids)

    async def close(self) -> None:
        await self.life.alive()


@dataclass
class Life:
    """One process: what it was killed with, its calls never come back."""

    listener: Listener = field(init=False)
    task: "asyncio.Task[None]" = field(init=False)
    killed: bool = False
    ids: list[int] = field(default_factory=list)

    async def alive(self) -> None:
        await asyncio.sleep(0)
        if self.killed:
            await asyncio.Event().wait()


class Line:
    """The API server as one life reaches it; writes are judged."""

    def __init__(self, world: "World", life: Life) -> None:
        self.world, self.life = world, life

    async def get(self, resource: Any, namespace: str, name: str, **more: Any) -> Any:
        await self.life.alive()
        self.world.api_fault("before")
        return await self.world.api.get(resource, namespace, name, **more)

    async def patch(self, resource: Any, namespace: str, name: str, body: Any, **more: Any) -> Any:
        await self.life.alive()
        self.world.api_fault("before")
        before = self.world.status(name) if resource is EPHEMERAL_RUNNERS else None
        item = await self.world.api.patch(resource, namespace, name, body, **more)
        with self.world.judging():
            if before is not None:
                self.world.judge_status(name, before)
            elif "spec" in body:
                self.world.judge_number(self.life, body["spec"])
        self.world.api_fault("after")
        return item


class World:
    """All of it, with what a judge remembers."""

    def __init__(self) -> None:
        self.github = GitHub()
        self.api = TinyApi()
        self.api.put(EPHEMERAL_RUNNER_SETS, "default", "set", spec={"patchID": 7, "replicas": 3})
        for name in NAMES:
            self.api.put(EPHEMERAL_RUNNERS, "default", name, status={"phase": "Pending"})
        self.api_faults: list[tuple[str, kube.KubeError]] = []
        self.api.touch(EPHEMERAL_RUNNERS, "default", "failed", phase="Failed")
        going = {"deletionTimestamp": "2027-01-15T08:00:00Z"}
        self.api.objects[EPHEMERAL_RUNNERS.plural, "default", "going"]["metadata"] |= going
        self.breaches: list[str] = []
        self.down_until_s = 0.0
        self.said: dict[str, set[str]] = {}  # by runner: jobs that a delivered message started
        self.news_s: dict[int, float] = {}  # when a message first came
        self.numbers_s: list[float] = []  # when a number was stored
        self.lives: list[Life] = []

    # --- judging ------------------------------------------------------------------------------

    @contextmanager
    def judging(self) -> Iterator[None]:
        """A listener outlives everything, also our complaints: they are kept for the end."""
        try:
            yield
        except AssertionError as error:
            self.breaches.append(str(error))

    def delivered(self, message: Message) -> None:
        self.news_s.setdefault(message.id, asyncio.get_running_loop().time())
        for event in message.events:
            if event.kind is JobEventKind.STARTED:
                self.said.setdefault(event.runner_name, set()).add(event.job_id)

    def judge_status(self, name: str, before: dict[str, Any]) -> None:
        after = self.status(name) or {}
        promoted = after.get("phase") == "Running" != before.get("phase")
        assert not promoted or self.said.get(name), "Running without a job"
        assert not promoted or before.get("phase") not in TERMINAL, "a verdict was replaced"
        assert not promoted or not before.get("going"), "it is going"
        if after.get("jobId") != before.get("jobId"):
            assert after["jobId"] in self.said[name], "a job that GitHub never named"

    def judge_number(self, life: Life, spec: dict[str, Any]) -> None:
        self.numbers_s.append(asyncio.get_running_loop().time())
        assert LOW <= spec["replicas"] <= HIGH
        if spec["patchID"]:
            assert all(spec["patchID"] >= earlier for earlier in life.ids), "an id went back"
            life.ids.append(spec["patchID"])

    def acknowledged(self, message: Message, life: Life) -> None:
        """Everything that it says has been done, is moot, or is in the hands of who goes on."""
        told = self.numbers_s and self.numbers_s[-1] >= self.news_s[message.id]
        assert told or life.listener._wanted.trouble, "acknowledged before the number was stored"
        waiting = life.listener._repairs._waiting
        for event in message.events:
            if event.kind is not JobEventKind.STARTED or event.runner_name in waiting:
                continue
            status = self.status(event.runner_name)
            if status is not None:
                stored = status.get("jobId") in self.said[event.runner_name]
                assert stored, "acknowledged before its job was stored"

    def status(self, name: str) -> dict[str, Any] | None:
        item = self.api.objects.get((EPHEMERAL_RUNNERS.plural, "default", name))
        if item is None:
            return None
        going = item["metadata"].get("deletionTimestamp")
        return {**item["status"], **({"going": going} if going else {})}

    def api_fault(self, when: str) -> None:
        if asyncio.get_running_loop().time() < self.down_until_s:
            raise kube.Unreachable("down")
        if self.api_faults and self.api_faults[0][0] == when:
            raise self.api_faults.pop(0)[1]

    # --- lives --------------------------------------------------------------------------------

    def open_session(self, life: Life) -> Any:
        world = self

        class Api:
            def open_session(self, scale_set_id: int, owner_name: str) -> Session:
                return Session(world, life)

            async def get_scale_set(self, scale_set_id: int, **_: Any) -> RunnerScaleSet:
                await life.alive()
                now = Statistics(assigned_jobs=world.github.assigned)
                return RunnerScaleSet(scale_set_id, "set", statistics=now)

        return Api()

    def start(self) -> None:
        life = Life()
        settings = config()
        settings = replace(settings, bounds=replace(settings.bounds, min_runners=LOW))
        settings = replace(settings, bounds=replace(settings.bounds, max_runners=HIGH))
        life.numbers = metrics()  # type: ignore[attr-defined]
        life.listener = Listener(
            settings,
            scale_set_client=self.open_session(life),
            kube_client=Line(self, life),  # type: ignore[arg-type]
            owner_name="host",
            clock=clock(),
            random=seeded(len(self.lives)),
            metrics=life.numbers,  # type: ignore[attr-defined]
        )
        life.task = asyncio.get_running_loop().create_task(life.listener.run())
        self.lives.append(life)

    async def kill(self) -> None:
        life = self.lives[-1]
        life.killed = True
        life.task.cancel()
        await asyncio.wait([life.task])

    def controller(self, what: str, name: str) -> None:
        key = (EPHEMERAL_RUNNERS.plural, "default", name)
        if key not in self.api.objects:
            self.api.put(EPHEMERAL_RUNNERS, "default", name, status={"phase": ""})
        elif what == "gone":
            del self.api.objects[key]
        elif what == "going":
            self.api.objects[key]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
            self.api.touch(EPHEMERAL_RUNNERS, "default", name)
        elif what == "Failed":
            self.api.touch(EPHEMERAL_RUNNERS, "default", name, phase="Failed")
        else:
            self.api.touch(EPHEMERAL_RUNNERS, "default", name, ready=True)


# --- what happens ---------------------------------------------------------------------------------

EVENTS = st.builds(
    JobEvent,
    kind=st.sampled_from([JobEventKind.STARTED, *JobEventKind]),
    index=st.just(0),
    request_id=st.sampled_from([0, 5, 6]),
    job_id=st.sampled_from(["job-1", "job-2"]),
    runner_name=st.sampled_from([*NAMES, "nobody", "Not A Name", ""]),
    owner_name=st.just("o"),
    repository_name=st.just("r"),
)
POLLS = st.sampled_from(
    [
        errors.Unavailable("503"),
        errors.SessionLost("gone"),
        errors.RateLimited("429"),
        errors.SessionConflict("held"),
        errors.CredentialsRefused("401"),
        errors.ScaleSetNotFound("404"),
    ]
)
WRITES = st.tuples(
    st.sampled_from(["before", "after"]),
    st.sampled_from(
        [
            kube.ServerFault(500, "", "down"),
            kube.Conflict(409, "Conflict", "again"),
            kube.Unreachable("reset"),
            kube.TooManyRequests(429, "", "slow"),
        ]
    ),
)
WAITS = st.sampled_from([0.0, 0.01, 1.0, 60.0])
STEPS = st.one_of(
    st.tuples(st.just("message"), st.integers(0, 9), st.lists(EVENTS, max_size=4)),
    st.tuples(st.just("poll"), POLLS),
    st.tuples(st.just("ack"), st.sampled_from(["before", "after", "session"])),
    st.tuples(st.just("writes"), st.lists(WRITES, min_size=1, max_size=12)),
    st.tuples(
        st.just("controller"),
        st.sampled_from(["gone", "going", "Failed", "touch"]),
        st.sampled_from(NAMES),
    ),
    st.tuples(st.just("down"), st.sampled_from([5.0, 45.0, 100.0])),
    st.tuples(st.just("kill")),
    st.tuples(st.just("unordered")),
)


async def play(world: World, steps: list[tuple[Any, ...]], waits: list[float]) -> None:
    world.start()
    for (what, *rest), wait_s in zip(steps, waits, strict=True):
        match what:
            case "message":
                world.github.publish(*rest)
            case "poll":
                world.github.faults.append(rest[0])
                world.github.fresh.set()
            case "ack":
                world.github.lost_acks.append(rest[0])
            case "writes":
                world.api_faults += rest[0]
            case "controller":
                world.controller(*rest)
            case "down":
                world.down_until_s = asyncio.get_running_loop().time() + rest[0]
            case "kill":
                await world.kill()
                world.start()
            case _:
                world.github.unordered = True
        await asyncio.sleep(wait_s)
        for life in world.lives:
            assert life.killed or not life.task.done(), "it ended by itself"


async def heal(world: World) -> None:
    # What could not be acknowledged comes again with the next session, or process.
    world.github.faults.clear()
    if len(world.lives) % 2:
        world.github.faults.append(errors.SessionLost("gone"))
    else:
        await world.kill()
        world.start()
    world.github.fresh.set()
    world.github.lost_acks.clear()
    world.api_faults.clear()
    world.down_until_s = 0.0
    world.github.unordered = False
    await asyncio.sleep(HEALED_S)


def judge_the_end(world: World) -> None:
    life = world.lives[-1]
    assert world.breaches == []
    assert not world.github.messages, "a message stays for ever"
    assert not life.listener._repairs.waiting
    wish = world.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")["spec"]
    assert wish["replicas"] == min(HIGH, LOW + world.github.assigned)
    assert wish["patchID"] == 0, "nothing happens any more: exactly so many"
    numbers = life.numbers  # type: ignore[attr-defined]
    counted = value(numbers, "runnerscale_listener_messages_total") or 0
    assert counted <= world.github.published, "a message counted twice"


DOWN = ("before", kube.ServerFault(500, "", "down"))


# Whoever tells what is wrong spun on the rest of a wait that no virtual clock can pass.
@example([(("writes", [DOWN] * 10), 60.0)])
@examples(60)
@given(st.lists(st.tuples(STEPS, WAITS), max_size=14))
def test_every_effect_at_least_once_and_none_acknowledged_before(
    drawn: list[tuple[tuple[Any, ...], float]],
) -> None:
    async def scenario() -> None:
        world = World()
        try:
            await play(world, [step for step, _ in drawn], [wait_s for _, wait_s in drawn])
            await heal(world)
            note(str(world.api.requests[-30:]))
            judge_the_end(world)
        finally:
            life = world.lives[-1]
            life.listener.stop()
            life.task.cancel()
            await asyncio.wait([life.task])
        if life.task.done() and not life.task.cancelled():
            life.task.result()

    with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
        runner.run(scenario())
