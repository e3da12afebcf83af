"""Plays a scenario: users and faults at their times, then healing, then the wait for rest."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runnerscale.app.manifests import github_secret, runner_set, set_namespace_manifests
from runnerscale.app.versions import COMPATIBLE_VERSION
from tests.simulation import logs
from tests.simulation.faults import FAULTS
from tests.simulation.invariants import Breach
from tests.simulation.parts import GITHUB_URL
from tests.simulation.scenario import PlannedFault, PlannedJob, Scenario
from tests.simulation.settlement import is_lasting, missing
from tests.simulation.trace import Trace
from tests.simulation.users import cancel_what_deletions_wait_for, queue_job
from tests.simulation.world import World

NAMESPACE = "demo"
CONFIG_URL = f"{GITHUB_URL}/demo-org/demo"
# The longest pause of any backoff is ten minutes (the slow probe of a template that never worked).
# After it a runner has to come up and the longest drawn job (90 s) to be done; GitHub gives a job
# back that a runner did not take after 30 s; and a level pass, a minute, may find what nobody told.
SETTLE_MAX_S = 900.0
QUIET_S = 30.0  # rest means: nothing missing for so long
LOOK_EVERY_S = 5.0


@dataclass(slots=True)
class Outcome:
    """How a scenario ended."""

    seed: int
    trace: Trace
    breaches: list[Breach] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    fired: list[str] = field(default_factory=list)
    steps: int = 0
    virtual_s: float = 0.0
    settled_after_s: float = 0.0
    crash: str = ""  # of the simulation itself, or of a component: what nobody expected

    @property
    def failed(self) -> bool:
        """Whether anything did not hold."""
        return bool(self.breaches or self.missing or self.crash)

    @property
    def rules(self) -> frozenset[str]:
        """What did not hold, without the circumstances: two failures with one in common are one."""
        found = {breach.rule for breach in self.breaches}
        found |= {"at rest"} if self.missing else set()
        return frozenset(found | ({"crash"} if self.crash else set()))

    @property
    def wrong(self) -> list[str]:
        """A sentence each, the first ones."""
        last = self.crash.rstrip().rpartition("\n")[2]
        return [*([last] if last else []), *map(str, self.breaches[:5]), *self.missing[:8]]

    def report(self) -> str:
        """For people: what, the last lines, how to repeat it."""
        if not self.failed:
            return (
                f"seed {self.seed}: all held; {self.virtual_s:.0f} virtual s, at rest "
                f"{self.settled_after_s:.0f} s after the last fault; {self.steps} lines of trace, "
                f"digest {self.trace.digest}"
            )
        lines = [
            f"seed {self.seed} FAILED:",
            *(f"  {sentence}" for sentence in self.wrong),
            f"  faults: {dict(Counter(self.fired))}",
            f"  repeat: make simulate SEED={self.seed}",
        ]
        return "\n".join(lines)


async def play(scenario: Scenario, folder: Path) -> Outcome:
    """The whole history."""
    world = World(scenario.seed, folder, controllers=scenario.controllers, lease=scenario.lease)
    outcome = Outcome(scenario.seed, world.trace)
    loop: Any = asyncio.get_running_loop()
    loop.outcome = outcome  # for whoever has to tell how far it came
    logs.listen(world.judge)
    await world.start()
    _prepare(world, scenario)
    began_s = world.clock.monotonic_s()
    judging = loop.create_task(_judge(world))
    acts = [loop.create_task(_queue(world, job, began_s)) for job in scenario.jobs]
    acts += [loop.create_task(_strike(world, f, began_s, outcome)) for f in scenario.faults]
    for act in acts:
        await act
    world.heal()
    healed_s = world.clock.monotonic_s()
    await _come_to_rest(world, outcome, healed_s)
    if not outcome.missing and any(is_lasting(job) for job in world.github.state.jobs.values()):
        world.note("user", "the jobs that have lasted end")
        world.runner_program.released = True
        await _come_to_rest(world, outcome, world.clock.monotonic_s())
    judging.cancel()
    world.judge.tick(world)
    world.judge.at_rest(world)
    outcome.breaches = world.judge.breaches
    outcome.steps = world.trace.count
    outcome.virtual_s = world.clock.monotonic_s()
    return outcome


async def _judge(world: World) -> None:
    """Lets the judge look every few seconds, until the end."""
    while True:
        await world.clock.sleep(LOOK_EVERY_S)
        world.judge.tick(world)


def _prepare(world: World, scenario: Scenario) -> None:
    for manifest in set_namespace_manifests(NAMESPACE):
        world.put(manifest)
    world.put(github_secret(NAMESPACE, "a-token-of-the-simulation"))
    for each in scenario.sets:
        world.put(
            runner_set(
                NAMESPACE,
                each.name,
                config_url=CONFIG_URL,
                min_runners=each.min_runners,
                max_runners=each.max_runners,
                version=COMPATIBLE_VERSION,
            )
        )


async def _queue(world: World, job: PlannedJob, began_s: float) -> None:
    await world.clock.sleep(began_s + job.at_s - world.clock.monotonic_s())
    queue_job(world, job.set_name, job.seconds)


async def _strike(world: World, fault: PlannedFault, began_s: float, outcome: Outcome) -> None:
    await world.clock.sleep(began_s + fault.at_s - world.clock.monotonic_s())
    world.note("fault", f"{fault.kind} for {fault.seconds:.1f} s")
    world.striking.append(fault.kind)
    world.judge.seen.disturbed(fault.kind)
    try:
        struck = await FAULTS[fault.kind](world, fault)
    finally:
        world.striking.remove(fault.kind)
        world.judge.seen.disturbed(fault.kind)
    if struck:
        outcome.fired.append(fault.kind)
    else:
        world.note("fault", f"{fault.kind} found nothing to strike")


async def _come_to_rest(world: World, outcome: Outcome, healed_s: float) -> None:
    quiet_since_s: float | None = None
    while world.clock.monotonic_s() - healed_s < SETTLE_MAX_S:
        await world.clock.sleep(LOOK_EVERY_S)
        cancel_what_deletions_wait_for(world)
        now_s = world.clock.monotonic_s()
        assert world.api is not None
        outcome.missing = missing(world)
        if outcome.missing:
            quiet_since_s = None
        elif quiet_since_s is None:
            quiet_since_s = now_s
        elif now_s - quiet_since_s >= QUIET_S:
            after_s = quiet_since_s - healed_s
            outcome.settled_after_s = max(outcome.settled_after_s, after_s)
            return
