"""The wanted number on its way to the set: newest first, sent until stored."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.core.randomness import seeded
from runnerscale.kube import errors
from runnerscale.listener.scaler import Bounds
from runnerscale.listener.wanted_writer import SETTLED_MAX, WantedWriter
from tests.unit.listener.conftest import metrics
from tests.unit.listener.fakes import TinyApi, clock

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Scene:
    def __init__(self) -> None:
        self.api = TinyApi()
        self.stored: list[int] = []
        self.told: list[tuple[str, str]] = []
        self.api.put(EPHEMERAL_RUNNER_SETS, "default", "set", spec={"patchID": 0})
        self.writer = WantedWriter(
            self.api,  # type: ignore[arg-type]
            namespace="default",
            set_name="set",
            bounds=Bounds(0, 9),
            clock=clock(),
            random=seeded(1),
            metrics=metrics(),
            stored=lambda item: self.stored.append(item.spec.replicas),
            happened=lambda reason, message: self.told.append((reason, message)),
        )
        self.task = asyncio.get_running_loop().create_task(self.writer.run())

    @property
    def sent(self) -> list[tuple[int, int]]:
        bodies = self.api.bodies("ephemeralrunnersets")
        return [(body["spec"]["replicas"], body["spec"]["patchID"]) for body in bodies]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


def test_only_the_newest_number_is_sent_when_several_came_meanwhile(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.api.delay_s = 1.0
        this.writer.want(1)
        await asyncio.sleep(0.5)
        for number in range(2, 6):
            this.writer.want(number)
        assert await this.writer.wait_told(10)
        assert this.sent == [(1, 0), (5, 1)]
        await this.end()

    run_virtual(scene())


def test_a_job_event_during_the_patch_keeps_the_state_dirty(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.api.delay_s = 1.0
        this.writer.want(0)
        await asyncio.sleep(0.5)
        this.writer.disturb([])
        await this.writer.wait_told(10)
        assert this.writer.state.dirty
        this.writer.want(0)
        await this.writer.wait_told(10)
        assert this.sent == [(0, 0), (0, 1)] and not this.writer.state.dirty
        await this.end()

    run_virtual(scene())


def test_a_newer_number_shortens_the_wait_after_a_failure(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        for _ in range(8):
            this.api.faults.append(("patch", errors.Unreachable("down")))
        this.writer.want(1)
        assert not await this.writer.wait_told(60)
        assert this.writer.trouble
        failures = len(this.sent)
        this.api.faults.clear()
        this.writer.want(3)
        assert await this.writer.wait_told(2)
        assert this.sent[failures:] == [(3, 0)]  # nothing was stored yet: exactly
        assert this.writer.trouble == ""
        await this.end()

    run_virtual(scene())


def test_other_limits_before_the_first_number_send_nothing(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.writer.use_bounds(Bounds(2, 4))
        await asyncio.sleep(5)
        assert this.sent == []
        this.writer.want(0)
        await this.writer.wait_told(1)
        assert this.sent == [(2, 0)]
        await this.end()

    run_virtual(scene())


def test_the_names_of_settled_runners_are_bounded_and_the_newest_stay(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.writer.disturb(f"runner-{n}" for n in range(SETTLED_MAX + 5))
        this.writer.want(0)
        await this.writer.wait_told(1)
        names = this.api.bodies("ephemeralrunnersets")[0]["spec"]["settledRunners"]
        assert len(names) == SETTLED_MAX and names[-1] == f"runner-{SETTLED_MAX + 4}"
        await this.end()

    run_virtual(scene())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.Forbidden(403, "Forbidden", "cannot patch resource"), "RightsMissing"),
        (errors.ServerFault(500, "InternalError", "a webhook failed"), "ApiServerRefused"),
    ],
)
def test_a_number_that_cannot_be_stored_is_told_within_a_minute(
    run_virtual: Run, error: errors.KubeError, reason: str
) -> None:
    async def scene() -> None:
        this = Scene()

        def refuse(verb: str, path: str) -> None:
            raise error

        this.api.before = refuse
        this.writer.want(1)
        await asyncio.sleep(15)
        assert this.told == []  # it may pass
        await asyncio.sleep(40)
        assert this.told
        assert {told for told, _ in this.told} == {reason}
        assert all("could not store the wanted number" in message for _, message in this.told)
        this.api.before = lambda verb, path: None
        assert await this.writer.wait_told(60)
        this.told.clear()
        await asyncio.sleep(300)
        assert this.told == []
        await this.end()

    run_virtual(scene())
