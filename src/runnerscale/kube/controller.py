"""From a key to a pass and back: workers, level passes, and how every pass ends.

What a pass does is `reconcile.py`; which key is next, and when it comes back, is
`work_queue.py`; what keeps a key waiting for the caches is `own_writes.py`. Nothing that goes
wrong in a pass stops a worker: it is counted, logged once with the pass's id, and the key
comes back with backoff.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import structlog
from msgspec.structs import replace

from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random, hex_text
from runnerscale.kube.errors import Conflict, KubeError
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.reconcile import BATCH_MAX, ROUNDS_MAX, Pass, PassEnd, Reconciler
from runnerscale.kube.work_queue import QueueShutDown, WorkQueue

log = structlog.get_logger(__name__)


class _Ending(Enum):
    """How a pass ends."""

    DONE = 1
    LATER = 2
    UNFINISHED = 3
    CONFLICT = 4
    FAILED = 5


_RESULTS = {  # controller-runtime's words for them
    _Ending.DONE: "success",
    _Ending.LATER: "requeue_after",
    _Ending.UNFINISHED: "requeue",
    _Ending.CONFLICT: "requeue",
    _Ending.FAILED: "error",
}


# What a plan asks for must not undo the backoff: "at once" after each failure is a spin.
FAILED_AGAIN_MIN_S = 1.0


class Controller:
    """Runs one reconciler's passes."""

    def __init__(
        self,
        *,
        name: str,
        reconciler: Reconciler[Any, Any, Any, Any],
        keys: Callable[[], Iterable[str]],
        clock: Clock,
        random: Random,
        metrics: KubeMetrics | None = None,
        workers: int = 8,
        deadline_s: float = 120.0,
        level_period_s: float = 60.0,
        own_writes: OwnWrites | None = None,
        rounds_max: int = ROUNDS_MAX,
        batch_max: int = BATCH_MAX,
        ended: Callable[[str, PassEnd, float], None] | None = None,
    ) -> None:
        """`keys`: all keys there are, for the level pass. `own_writes`: this controller's own.

        `ended`: is told how each pass ended, and how many seconds it took. Must not block.
        """
        self.name = name
        self.queue = WorkQueue(name=name, clock=clock, random=random, metrics=metrics)
        self._reconciler = reconciler
        self._keys = keys
        self._clock = clock
        self._random = random
        self._workers = workers
        self._deadline_s = deadline_s
        self._level_period_s = level_period_s
        self._own_writes = own_writes
        self._rounds_max = rounds_max
        self._batch_max = batch_max
        self._ended = ended
        self._passes = 0
        self._run_id = hex_text(random, 4)
        self._metrics = None if metrics is None else metrics.for_controller(name)
        if self._metrics is not None:
            self._metrics.workers_max.set(workers)

    def enqueue(self, key: str, *, urgent: bool = False) -> None:
        """Have a pass on this key soon; `urgent`: fresh demand, before clean-up."""
        self.queue.add(key, urgent=urgent)

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Have a pass on this key when so much time has passed."""
        self.queue.add_after(key, seconds)

    def enqueue_all(self) -> None:
        """Call for a pass on every key: something that concerns all of them has changed."""
        for key in self._all_keys():
            self.queue.add(key)

    async def run(self) -> None:
        """Work until cancelled (passes are cancelled with it), or until `drain` is through.

        Start it when the informers are synced.
        """
        level = asyncio.create_task(self._level_passes(), name=f"{self.name}-level")
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            level.cancel()
            self.queue.shut_down()
            await asyncio.wait([level])

    async def drain(self) -> None:
        """Take nothing more in, finish what is ready; then `run` returns."""
        await self.queue.drain()

    # --- where keys come from -----------------------------------------------------------------

    async def _level_passes(self) -> None:
        """Every key once a period, spread over it, whatever events said or did not say."""
        self.enqueue_all()
        while True:
            await self._clock.sleep(self._level_period_s)
            for key in self._all_keys():
                self.queue.add_after(key, self._random.random() * self._level_period_s)

    def _all_keys(self) -> list[str]:
        try:
            return [*self._keys()]
        except Exception:  # reason: the next period asks again; events go on meanwhile
            log.exception("keys for the level pass could not be listed", controller=self.name)
            return []

    # --- one worker ---------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                return
            try:
                if not self._park(key):
                    await self._pass(key)
            finally:
                self.queue.done(key)

    def _park(self, key: str) -> bool:
        """Leave the key aside if the caches do not show its own last writes yet."""
        if self._own_writes is None or self._own_writes.is_settled(key):
            return False
        urgent = self.queue.is_urgent(key)
        self._own_writes.when_settled(key, lambda: self.queue.add(key, urgent=urgent))
        return True

    async def _pass(self, key: str) -> None:
        self._passes += 1
        begin_s = self._clock.monotonic_s()
        with structlog.contextvars.bound_contextvars(
            controller=self.name, key=key, pass_id=f"{self._run_id}-{self._passes}"
        ):
            if self._metrics is not None:
                self._metrics.workers.inc()
            try:
                end = await self._guarded(key)
                took_s = self._clock.monotonic_s() - begin_s
                self._tell(key, end, took_s)
                self._finish(key, end, took_s)
            finally:
                if self._metrics is not None:
                    self._metrics.workers.dec()

    async def _guarded(self, key: str) -> PassEnd:
        """The pass with its deadline; whatever it raises becomes part of its end."""
        running = Pass(
            self._reconciler, key, rounds_max=self._rounds_max, batch_max=self._batch_max
        )
        try:
            async with asyncio.timeout(self._deadline_s):
                end = await running.run()
        except TimeoutError:
            if self._metrics is not None:
                self._metrics.timeouts.inc()
            late = KubeError(f"the pass did not end within {self._deadline_s:.0f} s")
            end = PassEnd(errors=(late,))
        except Exception as error:  # noqa: BLE001 - a rule's mistake costs its pass, not the worker
            end = PassEnd(errors=(error,))
        try:
            running.report()
        except Exception as error:  # noqa: BLE001 - as above; what the pass did still counts
            end = replace(end, errors=(*end.errors, error))
        return end

    def _tell(self, key: str, end: PassEnd, took_s: float) -> None:
        if self._ended is None:
            return
        try:
            self._ended(key, end, took_s)
        except Exception:  # reason: whoever listens must not cost the worker
            log.exception("the end of a pass could not be told")

    def _finish(self, key: str, end: PassEnd, took_s: float) -> None:
        """Every ending of a pass: what it is called, counted, and when the key comes back."""
        ending = _ending(end)
        match ending:
            case _Ending.DONE:
                self.queue.forget(key)
            case _Ending.LATER:
                self.queue.forget(key)
                self.queue.add_after(key, end.again_s or 0.0)
            case _Ending.UNFINISHED:
                # At once (5 ms), but longer each time in a row: a plan that never empties
                # must not spin.
                self.queue.add_rate_limited(key)
            case _Ending.CONFLICT:
                # Somebody wrote in between; the cache is about to hear of it.
                log.debug("pass met a conflict, looking again")
                self.queue.add_rate_limited(key)
            case _Ending.FAILED:
                self._log_errors(end)
                self.queue.add_rate_limited(key)
                if end.again_s is not None:
                    self.queue.add_after(key, max(end.again_s, FAILED_AGAIN_MIN_S))
        if self._metrics is not None:
            self._metrics.results[_RESULTS[ending]].inc()
            self._metrics.pass_s.observe(took_s)
            if ending is _Ending.FAILED:
                self._metrics.errors.inc()
            if any(not isinstance(error, KubeError) for error in end.errors):
                self._metrics.panics.inc()

    def _log_errors(self, end: PassEnd) -> None:
        for error in end.errors:
            if isinstance(error, KubeError):
                log.warning("pass failed", error=str(error))
            else:
                log.error("pass failed, nobody expected this", exc_info=error)
        if not end.errors:
            log.info("pass could not do all it should, with backoff")


def _ending(end: PassEnd) -> _Ending:
    if end.errors:
        conflicts = all(isinstance(error, Conflict) for error in end.errors)
        return _Ending.CONFLICT if conflicts else _Ending.FAILED
    if end.unfinished:
        return _Ending.UNFINISHED
    if end.failed:
        return _Ending.FAILED
    if end.stale:
        return _Ending.CONFLICT
    return _Ending.DONE if end.again_s is None else _Ending.LATER
