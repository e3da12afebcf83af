"""Writes what troubles the listener onto its EphemeralRunnerSet, behind everything else.

A task of its own with one small write now and then, so that no wanted number and no runner's
status ever waits for it. A write that fails is counted and tried again later; the listener
works all the same. What is told, and when: `told.py`.
"""

import asyncio

import structlog

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.api.labels import LISTENER_TROUBLE
from runnerscale.api.reasons import Reason
from runnerscale.core.clock import Clock
from runnerscale.kube.client import Client
from runnerscale.kube.errors import KubeError
from runnerscale.listener import told
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.listener.states import Situation
from runnerscale.listener.told import Telling

log = structlog.get_logger(__name__)

CALL_TIMEOUT_S = 15.0
# The rest of a subtraction is no wait: nobody is in a hurry here, and a loop would spin on it.
LOOK_MIN_S = 0.01


class Teller:
    """The only writer of the annotation `runnerscale.dev/listener-trouble`."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        set_name: str,
        scale_set_id: int,
        clock: Clock,
        metrics: ListenerMetrics,
        for_arc: bool = False,
    ) -> None:
        """Nothing is written before `run`; `for_arc`: nothing is said at all, only counted."""
        self._client = client
        self._namespace = namespace
        self._set_name = set_name
        self._scale_set_id = scale_set_id
        self._clock = clock
        self._metrics = metrics
        self._for_arc = for_arc
        self._told = Telling(Situation(), {})
        self._wake = asyncio.Event()

    def now_in(self, situation: Situation) -> None:
        """The listener's situation, whenever it changes."""
        self._told = told.now_in(self._told, situation, now_s=self._clock.now_s())
        self._wake.set()

    def happened(self, reason: Reason, message: str) -> None:
        """Something to be counted, and seen for a while. `message`: never a secret."""
        self._metrics.trouble(reason)
        self._told = told.happened(self._told, reason, message, now_s=self._clock.now_s())
        self._wake.set()

    def set_aside(self, what: str, message_id: int) -> None:
        """A message, or an element of one (`what`), that could not be understood."""
        part = "" if what == "message" else "a part of "
        happened = f"{part}message {message_id} could not be understood and was put aside"
        self.happened(Reason.MESSAGE_QUARANTINED, happened)
        self._metrics.count("runnerscale_listener_quarantined_total", what)

    def saw(self, item: EphemeralRunnerSet) -> None:
        """The set as the API server has it: what an earlier listener left is on it."""
        self._told = told.saw(self._told, (item.metadata.annotations or {}).get(LISTENER_TROUBLE))
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wake.clear()
            step = self._next()
            if step.write:
                await self._write(step.value)
                continue
            try:
                async with asyncio.timeout(_long_enough(step.again_s)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _next(self) -> told.Step:
        monotonic_s = self._clock.monotonic_s()
        if self._for_arc:
            return told.quiet(self._told, monotonic_s=monotonic_s)
        return told.step(
            self._told,
            scale_set_id=self._scale_set_id,
            now_s=self._clock.now_s(),
            monotonic_s=monotonic_s,
        )

    async def _write(self, value: str | None) -> None:
        try:
            # No version: nobody else writes this key, and whatever else changed may stay so.
            await self._client.patch(
                EPHEMERAL_RUNNER_SETS,
                self._namespace,
                self._set_name,
                told.patch_body(value),
                timeout_s=CALL_TIMEOUT_S,
            )
        except KubeError as error:
            self._told = told.failed(self._told, monotonic_s=self._clock.monotonic_s())
            self._metrics.count("runnerscale_listener_kubernetes_failures_total", "trouble")
            log.info(
                "what is wrong could not be told on the set; it is tried again",
                component="listener",
                error=str(error),
            )
            return
        self._told = told.written(self._told, value, monotonic_s=self._clock.monotonic_s())


def _long_enough(again_s: float | None) -> float | None:
    return None if again_s is None else max(again_s, LOOK_MIN_S)
