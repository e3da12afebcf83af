"""Sends the wanted number of runners to the set, again and again until it is stored.

A task of its own, so that the number never waits behind the status of runners: whoever knows
a new number leaves it here and may wait for it, within a bound. Only the newest is sent; one
that failed is sent again with its id. What the number is: `scaler.py`.

It also tells the set which runners' jobs are out of the number already. A runner ends some
seconds after its job did: before that message, its place may not be filled, after it, it must
be, and only the listener knows which came first.

A controller of ARC's understands no names, and takes an exact number for an order to fill the
place of a runner that ended: it hears the words of ARC's listener, exact at the minimum only.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.api.reasons import Reason
from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.client import Client
from runnerscale.kube.errors import Forbidden, KubeError
from runnerscale.listener import scaler
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.listener.scaler import Bounds, ScalerState

log = structlog.get_logger(__name__)

RETRY_BACKOFF = Backoff(first_s=0.5, cap_s=30.0)
PAUSE_MIN_S = 0.5
CALL_TIMEOUT_S = 15.0
PATIENCE_S = 20.0  # with the next try, which comes within 30 s: seen within a minute
SETTLED_MAX = 100  # two full messages; what falls out is told by the next change of the number


class WantedWriter:
    """The only writer of the set's `replicas`, `patchID` and `settledRunners`."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        set_name: str,
        bounds: Bounds,
        clock: Clock,
        random: Random,
        metrics: ListenerMetrics,
        stored: Callable[[EphemeralRunnerSet], None],
        happened: Callable[[Reason, str], None],
        for_arc: bool = False,
    ) -> None:
        """Nothing is sent before `run` and the first `want`. `stored`: is shown what is stored.

        `happened`: is told of a number that cannot be stored for long.
        """
        self._client = client
        self._namespace = namespace
        self._set_name = set_name
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._stored = stored
        self._happened = happened
        self._failing_s: float | None = None  # since when, monotonic
        self._for_arc = for_arc
        self.bounds = bounds
        self.state = ScalerState()
        self.trouble = ""  # why the last write failed; empty when it did not
        self._assigned: int | None = None
        self._passed_empty = False
        self._disturbances = 0
        self._settled: deque[str] = deque(maxlen=SETTLED_MAX)
        self._asked = 0
        self._wake = asyncio.Event()
        self._told = asyncio.Event()
        self._told.set()

    def disturb(self, completed_runners: Iterable[str]) -> None:
        """Jobs started or ended since the last number; these runners' jobs ended."""
        self._disturbances += 1
        self.state = scaler.disturbed(self.state)
        for name in completed_runners:
            if name and name not in self._settled:
                self._settled.append(name)

    def want(self, assigned: int, *, passed_empty: bool = False) -> None:
        """So many jobs are ours now."""
        self._assigned = assigned
        self._passed_empty = passed_empty
        self._ask()

    def use_bounds(self, bounds: Bounds) -> None:
        """Other limits from now on; told at once if a number was told before."""
        self.bounds = bounds
        if self._assigned is not None:
            self._passed_empty = False
            self._ask()

    def would_grow(self, assigned: int) -> bool:
        """Whether `want` would ask for more than the set was last told."""
        return scaler.grows(self.state, scaler.target(assigned, self.bounds))

    async def wait_told(self, timeout_s: float) -> bool:
        """Until everything wanted so far is stored; False: not within the bound."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._told.wait()
        except TimeoutError:
            return False
        return True

    def _ask(self) -> None:
        self._asked += 1
        self._told.clear()
        self._wake.set()

    async def run(self) -> None:
        """Send what is wanted until cancelled."""
        failures = 0
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self._send():
                failures = 0
                continue
            await self._pause(RETRY_BACKOFF.delay_s(failures, self._random))
            failures += 1
            self._wake.set()

    async def _pause(self, seconds: float) -> None:
        """Wait before the next try; a newer number shortens it, but not to nothing."""
        await self._clock.sleep(min(seconds, PAUSE_MIN_S))
        try:
            async with asyncio.timeout(max(0.0, seconds - PAUSE_MIN_S)):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _send(self) -> bool:
        assert self._assigned is not None, "woken only by a want"
        asked, disturbances = self._asked, self._disturbances
        patch = scaler.decide(
            self.state,
            assigned=self._assigned,
            bounds=self.bounds,
            passed_empty=self._passed_empty and not self._for_arc,
        )
        before = self.state.target
        decision = self._decision(patch)
        log.debug("target decided", **decision, patch_id=patch.patch_id)
        try:
            item = await self._client.patch(
                EPHEMERAL_RUNNER_SETS,
                self._namespace,
                self._set_name,
                scaler.patch_body(patch, () if self._for_arc else self._settled),
                timeout_s=CALL_TIMEOUT_S,
            )
        except KubeError as error:
            self.state = scaler.failed(self.state, patch)
            self._failed(error)
            return False
        self.trouble, self._failing_s = "", None
        self._stored(item)
        self.state = scaler.stored(patch)
        if disturbances != self._disturbances:
            self.state = scaler.disturbed(self.state)
        self._metrics.record_desired(patch.replicas)
        say = log.debug if patch.replicas == before else log.info  # a line for each change
        where = {"namespace": self._namespace, "name": self._set_name}
        say("set scaled", **where, replicas=patch.replicas, **decision)
        if asked == self._asked:
            self._told.set()
        return True

    def _decision(self, patch: scaler.WantedPatch) -> dict[str, Any]:
        """What was decided and from what, under ARC's keys (contract: github-service 8)."""
        return {
            "component": "worker",
            "assigned job": self._assigned,
            "decision": patch.replicas,
            "min": self.bounds.min_runners,
            "max": self.bounds.max_runners,
            "currentRunnerCount": max(0, self.state.target),
        }

    def _failed(self, error: KubeError) -> None:
        self.trouble = f"EphemeralRunnerSet {self._namespace}/{self._set_name}: {error}"
        self._metrics.count("runnerscale_listener_kubernetes_failures_total", "set")
        now_s = self._clock.monotonic_s()
        if self._failing_s is None:
            self._failing_s = now_s
        if now_s - self._failing_s >= PATIENCE_S:
            refused = isinstance(error, Forbidden)
            reason = Reason.RIGHTS_MISSING if refused else Reason.API_SERVER_REFUSED
            self._happened(reason, f"could not store the wanted number: {error}")
        log.error(
            "the wanted number could not be stored; it is sent again",
            component="worker",
            namespace=self._namespace,
            name=self._set_name,
            error=str(error),
        )
