"""Seeded storms around one controller: lost answers, crashes, pods taken away; then calm.

Judged by the pretended GitHub and the node: no container starts twice, no job dies by the
controller's hand, and when the storm is over, everything ends and nothing is left.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.core.randomness import Random, seeded
from runnerscale.kube.errors import Conflict, Forbidden, ServerFault, Unreachable
from runnerscale.scaleset.errors import RateLimited, Unavailable
from tests.unit.controllers.ephemeral_runner.world import Job, World

Run = Callable[[Coroutine[Any, Any, None]], None]
STORM_S = 240.0
RELEASE_S = 120.0  # when GitHub lets go of the job of a runner that is silent


class Storm:
    """What goes wrong, drawn from one seed."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.over = False
        self.violations: list[str] = []
        self.released: dict[str, float] = {}
        world.loss_is_seen = False
        world.faults.before = self.before
        world.faults.after = self.after

    def before(self, name: str, call: Any) -> Exception | None:
        if name == "delete pods":
            self._judge(call.name)
        return self._fault(name, 0.06)

    def after(self, name: str, _: Any) -> Exception | None:
        return self._fault(name, 0.04)

    def _fault(self, name: str, share: float) -> Exception | None:
        if self.over or self.random.random() > share:
            return None
        if name.startswith("github"):
            return self.random.choice([Unavailable("lost"), RateLimited("slow")])
        faults = [Unreachable("reset"), ServerFault(500, "InternalError", "oh")]
        if name == "create pods":
            faults.append(Forbidden(403, "Forbidden", "exceeded quota: q"))
        if name.startswith("patch"):
            faults.append(Conflict(409, "Conflict", "somebody wrote"))
        return self.random.choice(faults)

    def _judge(self, name: str) -> None:
        job = next((j for j in self.world.jobs if j.runner == name and not j.done), None)
        if job is not None and not job.killed and self.world._runs(name):
            self.violations.append(f"pod {name} deleted under its job")

    async def blow(self) -> None:
        while self.world.clock.monotonic_s() < STORM_S:
            await asyncio.sleep(self.random.random() * 6)
            match self.random.randrange(6):
                case 0:
                    at = len(self.world.faults.calls) + self.random.randrange(6)
                    self.world.faults.crash_at = (at, self.random.choice(["before", "after"]))
                case 1 | 2:
                    self._take_a_pod()
                case 3:
                    self._kill_a_container()
                case 4:
                    self._delete_a_runner()
                case _:
                    self.world.jobs.append(Job(seconds=self.random.random() * 20))
        self.over = True
        self.world.faults.crash_at = None

    def _pick(self, plural: str) -> str:
        return self.random.choice(sorted(self.world.api.names(plural)) or [""])

    def _take_a_pod(self) -> None:
        if name := self._pick("pods"):
            self.world._stop_container(name)
            grace = self.random.choice([0, None])
            self.world.api.remove("pods", name, grace_s=grace)

    def _kill_a_container(self) -> None:
        name = self._pick("pods")
        if name and self.world._runs(name):
            self.world._stop_container(name)
            self.world.exit_container(name, self.random.choice([0, 1, 7, 137]))

    def _delete_a_runner(self) -> None:
        if name := self._pick("ephemeralrunners"):
            self.world.api.remove("ephemeralrunners", name)

    def github_and_set(self) -> None:
        """GitHub lets go of jobs without a runner; the set of evidence, and of surplus."""
        now_s = self.world.clock.monotonic_s()
        done = self.over and all(job.done or job.killed for job in self.world.jobs)
        for name in self.world.api.names("ephemeralrunners"):
            if done:
                self.world.api.remove("ephemeralrunners", name)
            if self.world.status(name).get("phase") in ("Failed", "Outdated"):
                since_s = self.released.setdefault(name, now_s)
                if now_s - since_s > 60:
                    self.world.api.remove("ephemeralrunners", name)
        for runner in [*self.world.github.runners.values()]:
            if runner.busy and not self.world._runs(runner.name):
                since_s = self.released.setdefault(f"job {runner.name}", now_s)
                if now_s - since_s >= RELEASE_S:  # the job failed; its runner was for one job
                    del self.world.github.runners[runner.id]


@pytest.mark.parametrize("seed", [35, *range(9)])  # 35: a lost call that was also turned away
def test_no_storm_starts_a_container_twice_kills_a_job_or_leaves_anything(
    run_virtual: Run, seed: int
) -> None:
    async def scene() -> None:
        random = seeded(seed)
        async with World(jobs=[Job() for _ in range(3)]) as world:
            storm = Storm(world, random)
            blowing = asyncio.create_task(storm.blow())

            async def tick() -> None:
                while True:
                    await asyncio.sleep(1)
                    storm.github_and_set()

            ticking = asyncio.create_task(tick())
            await world.until(blowing.done, within_s=STORM_S + 60)
            blowing.result()

            def calm() -> bool:
                return all(j.done or j.killed for j in world.jobs) and not world.left()

            await world.until(calm, within_s=3600)
            ticking.cancel()
            assert storm.violations == []
            assert max(world.starts.values()) == 1, "a container started twice"

    run_virtual(scene())
