"""Asks the containers of a pod how they are, and tells when that changes something.

One task per container attempt: the startup probe first, then liveness and readiness side by
side. When an answer counts is `probe_rules.py`; how a question is put is `questions.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from runnerscale.core.clock import Clock
from runnerscale.node.pod_spec import Container, Probe
from runnerscale.node.probe_rules import Tally, count, rhythm_of

# container, probe, timeout_s: empty if it is well, else what was wrong. Never raises for that.
Ask = Callable[[Container, Probe, float], Awaitable[str]]


@dataclass(slots=True)
class Health:
    """What the probes say of one attempt."""

    started: bool = False
    ready: bool = False
    unhealthy: bool = False


class Prober:
    """Follows one attempt of a container; `changed` is called whenever `health` has changed."""

    def __init__(
        self,
        container: Container,
        ask: Ask,
        *,
        clock: Clock,
        changed: Callable[[], None],
        complain: Callable[[str, str], None],
    ) -> None:
        """`complain(kind, message)`: a probe has failed; kind is Startup, Liveness, Readiness."""
        self._container = container
        self._ask = ask
        self._clock = clock
        self._changed = changed
        self._complain = complain
        self.health = Health(
            started=container.startup_probe is None,
            ready=container.startup_probe is None and container.readiness_probe is None,
        )

    @property
    def has_work(self) -> bool:
        """There is a probe at all."""
        container = self._container
        probes = (container.startup_probe, container.liveness_probe, container.readiness_probe)
        return any(probes)

    async def run(self) -> None:
        """Until cancelled, or the container is given up."""
        container = self._container
        if container.startup_probe and not await self._start_up(container.startup_probe):
            return
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe:
                group.create_task(self._readiness(container.readiness_probe))
            if container.liveness_probe:
                group.create_task(self._liveness(container.liveness_probe))

    async def _start_up(self, probe: Probe) -> bool:
        async for tally in self._answers(probe, "Startup"):
            if tally.passing:
                self.health.started = True
                self.health.ready = self._container.readiness_probe is None
                self._changed()
                return True
            if tally.gave_up:
                self.health.unhealthy = True
                self._changed()
                return False
        return False

    async def _readiness(self, probe: Probe) -> None:
        async for tally in self._answers(probe, "Readiness"):
            if tally.passing != self.health.ready:
                self.health.ready = tally.passing
                self._changed()

    async def _liveness(self, probe: Probe) -> None:
        async for tally in self._answers(probe, "Liveness"):
            if tally.gave_up:
                self.health.unhealthy = True
                self._changed()
                return

    async def _answers(self, probe: Probe, kind: str) -> AsyncIterator[Tally]:
        rhythm = rhythm_of(probe)
        tally = Tally()
        await self._clock.sleep(rhythm.initial_delay_s)
        while True:
            wrong = await self._ask(self._container, probe, rhythm.timeout_s)
            if wrong:
                self._complain(kind, wrong)
            tally = count(tally, good=not wrong, rhythm=rhythm)
            yield tally
            await self._clock.sleep(rhythm.period_s)
