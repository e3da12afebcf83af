"""Questions to GitHub, and what an answer is."""

import asyncio
from typing import Any

import pytest

from runnerscale.controllers.ephemeral_runner_set.memory import Remembered
from runnerscale.controllers.ephemeral_runner_set.removals import ASK_BOUND_S, Removals
from runnerscale.controllers.ephemeral_runner_set.snapshot import Removal
from runnerscale.core.clock import LoopClock
from runnerscale.credentials.place import GitHubPlace, PlaceTrouble
from runnerscale.scaleset.errors import JobStillRunning, RunnerNotFound, Unavailable
from tests.plan.ephemeral_runner_set.world import GitHub

PLACE = GitHubPlace("runners", "https://github.com/o", "s")


class Scene:
    def __init__(self) -> None:
        self.github = GitHub()
        self.woken: list[str] = []
        self.removals = Removals(self.github, clock=LoopClock(1000.0), answered=self.woken.append)
        self.remembered = Remembered("u")

    def ask(self) -> None:
        self.removals.ask(
            "ns/set",
            self.remembered,
            about="EphemeralRunner ns/r",
            uid="r",
            runner_id=7,
            place=PLACE,
        )

    async def answered(self) -> Removal:
        for _ in range(1000):
            await asyncio.sleep(1)
            if self.woken:
                break
        return self.remembered.removals["r"].removal


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, Removal.FORGOTTEN),
        (RunnerNotFound("never heard of it"), Removal.FORGOTTEN),
        (JobStillRunning("busy"), Removal.HAS_JOB),
        (Unavailable("down"), Removal.NO_ANSWER),
    ],
)
def test_what_an_answer_is(error: Any, expected: Removal, run_virtual: Any) -> None:
    async def scene() -> None:
        this = Scene()
        if error is not None:
            this.github.answers[7] = error
        this.ask()
        assert this.remembered.removals["r"].removal is Removal.ASKED
        assert len(this.removals) == 1
        assert await this.answered() is expected
        assert this.woken == ["ns/set"] and len(this.removals) == 0
        told = this.remembered.removals["r"].trouble
        assert (told is not None) == (expected is Removal.NO_ANSWER)

    run_virtual(scene())


def test_missing_means_are_no_answer_with_their_reason(run_virtual: Any) -> None:
    async def scene() -> None:
        this = Scene()
        this.github.trouble = PlaceTrouble("CredentialsMissing", "gone", "Create it")
        this.ask()
        assert await this.answered() is Removal.NO_ANSWER
        told = this.remembered.removals["r"].trouble
        assert told is not None and told.reason == "CredentialsMissing"

    run_virtual(scene())


def test_a_github_that_hangs_is_no_answer_after_the_bound(run_virtual: Any) -> None:
    async def scene() -> None:
        this = Scene()
        this.github.hangs.clear()
        this.ask()
        assert await this.answered() is Removal.NO_ANSWER
        assert asyncio.get_running_loop().time() < ASK_BOUND_S + 10

    run_virtual(scene())


def test_a_bug_is_no_answer_either(run_virtual: Any) -> None:
    async def scene() -> None:
        this = Scene()

        async def broken(*_: object, **__: object) -> None:
            raise KeyError("a bug")

        this.github.remove_runner = broken  # type: ignore[method-assign]
        this.ask()
        assert await this.answered() is Removal.NO_ANSWER

    run_virtual(scene())


def test_an_answer_about_a_runner_that_is_gone_is_moot(run_virtual: Any) -> None:
    async def scene() -> None:
        this = Scene()
        this.github.hangs.clear()
        this.ask()
        this.remembered.forget_runner("r")
        this.github.hangs.set()
        await asyncio.sleep(1)
        assert this.woken == ["ns/set"] and this.remembered.removals == {}

    run_virtual(scene())


def test_closing_gives_up_what_is_on_its_way(run_virtual: Any) -> None:
    async def scene() -> None:
        this = Scene()
        this.github.hangs.clear()
        this.ask()
        await this.removals.close()
        await this.removals.close()
        assert this.woken == []

    run_virtual(scene())
