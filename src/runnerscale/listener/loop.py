"""The listener itself: hold the session, poll, handle, acknowledge, and again, for ever.

A thin shell. What one message changes: `message_effects.py`. How many runners are wanted:
`scaler.py`, sent by `wanted_writer.py`. What a started job changes: `job_started.py`, and
`repair.py` for what could not be stored in time. What an error means and how long to wait:
`states.py`; telling it on the set: `teller.py`. Building of clients, files and signals:
`process.py`.

A message is acknowledged only after its effects are stored, proven moot, or handed to the
part that goes on trying; a crash in between brings it again, and every effect is harmless
when it comes twice. Contract: github-service-and-listener 4.5, 5; replaces W1, W2, W12, W33-W36.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog

from runnerscale.api.reasons import Reason
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.client import Client
from runnerscale.listener import states
from runnerscale.listener.config import ListenerConfig, check_limits
from runnerscale.listener.job_started import JobStartedWriter
from runnerscale.listener.message_effects import ELEMENT_BOUND_S, MessageEffects
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.listener.readiness import Readiness
from runnerscale.listener.repair import Repairs
from runnerscale.listener.states import Situation, State
from runnerscale.listener.teller import Teller
from runnerscale.listener.wanted_writer import WantedWriter
from runnerscale.scaleset.errors import ScaleSetError, Unavailable
from runnerscale.scaleset.interface import ScaleSetApi, SessionApi
from runnerscale.scaleset.model import Message, Statistics

log = structlog.get_logger(__name__)
R = TypeVar("R")

POLL_BOUND_S = 200.0  # the client ends a poll by itself well before; this is the last resort
OPEN_BOUND_S = 120.0
ASK_BOUND_S = 30.0
CLOSE_BOUND_S = 8.0  # with what comes around it: gone within 10 s of a signal
STOP_HANDLING_S = 15.0  # a message being handled when the signal comes; grace may be 30 s
EMPTY_POLL_MIN_S = 1.0  # a service that does not hold polls is not asked more often
ACKNOWLEDGE_TRIES_MAX = 3
ACKNOWLEDGE_BOUND_S = 20.0
READY_AFTER_POLL_S = 150.0  # a held poll, a dead connection, one retry


class _Stopped(Exception):
    """The wait ended because the listener is to stop."""


class Listener:
    """One listener for one scale set."""

    def __init__(
        self,
        config: ListenerConfig,
        *,
        scale_set_client: ScaleSetApi,
        kube_client: Client,
        owner_name: str,
        clock: Clock,
        random: Random,
        metrics: ListenerMetrics,
        for_arc: bool = False,
    ) -> None:
        """`owner_name`: what GitHub shows as the session's owner; the pod's name.

        `for_arc`: the controller is ARC's; it is told only what ARC's listener tells it.

        Raises:
            ConfigError: no scale set id, or limits that make no sense.
        """
        check_limits(config.scale_set_id, config.bounds)
        self._config = config
        self._github = scale_set_client
        self._owner_name = owner_name
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._teller = Teller(
            kube_client,
            namespace=config.namespace,
            set_name=config.set_name,
            scale_set_id=config.scale_set_id,
            clock=clock,
            metrics=metrics,
            for_arc=for_arc,
        )
        self._wanted = WantedWriter(
            kube_client,
            namespace=config.namespace,
            set_name=config.set_name,
            bounds=config.bounds,
            clock=clock,
            random=random,
            metrics=metrics,
            stored=self._teller.saw,
            happened=self._teller.happened,
            for_arc=for_arc,
        )
        self._wire_jobs(kube_client)
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()  # something changed that a pause waits for
        self._situation = Situation(since_s=clock.now_s())
        self._last_success_s: float | None = None
        self._opening = Statistics()  # what the session said when it was opened or renewed
        self._doubts_backlog = True  # no poll came back empty since

    def _wire_jobs(self, kube_client: Client) -> None:
        """What stores jobs that started, tries again what failed, and gives both their order."""
        clock, random, metrics = self._clock, self._random, self._metrics
        self._started = JobStartedWriter(
            kube_client, namespace=self._config.namespace, clock=clock, random=random
        )
        told = self._teller.happened
        self._repairs = Repairs(
            self._started, clock=clock, random=random, metrics=metrics, happened=told
        )
        self._effects = MessageEffects(
            wanted=self._wanted,
            started=self._started,
            repairs=self._repairs,
            teller=self._teller,
            clock=clock,
            metrics=metrics,
        )

    # -- what others may ask ---------------------------------------------------------------

    @property
    def situation(self) -> Situation:
        """What the listener does now and why."""
        return self._situation

    @property
    def config(self) -> ListenerConfig:
        """What is followed now."""
        return self._config

    def readiness(self) -> Readiness:
        """Ready: a session is held, a poll succeeded lately, and the number is stored."""
        if self._situation.state is not State.LISTENING or self._last_success_s is None:
            return Readiness(False, str(self._situation))
        quiet_s = self._clock.monotonic_s() - self._last_success_s
        if quiet_s > READY_AFTER_POLL_S:
            return Readiness(False, f"no poll came back for {quiet_s:.0f} s")
        if self._wanted.trouble:
            return Readiness(False, self._wanted.trouble)
        return Readiness(True, str(self._situation))

    def stop(self) -> None:
        """Finish the message at hand, close the session, and let `run` return."""
        self._stopping.set()

    def apply(self, config: ListenerConfig) -> None:
        """Follow another configuration of the same place from now on, under the same session."""
        before, self._config = self._config, config
        if config.bounds != before.bounds:
            low, high = config.bounds.min_runners, config.bounds.max_runners
            log.info("limits changed", component="listener", min=low, max=high)
            self._metrics.record_bounds(config.bounds)
            self._wanted.use_bounds(config.bounds)
        if config.metrics != before.metrics:
            self._metrics.apply(config.metrics)

    def retry_now(self) -> None:
        """End the pause after a failure: what caused it may be mended."""
        self._wake.set()

    # -- the life --------------------------------------------------------------------------

    async def run(self) -> None:
        """Until `stop`; returns after the session was closed."""
        self._metrics.record_bounds(self._config.bounds)
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(self._wanted.run()),
                group.create_task(self._repairs.run()),
                group.create_task(self._teller.run()),
            ]
            try:
                await self._hold_sessions()
            finally:
                for helper in helpers:
                    helper.cancel()
        log.info("listener stopped", component="listener")

    async def _hold_sessions(self) -> None:
        while not self._stopping.is_set():
            try:
                async with self._session() as session:
                    await self._listen(session)
            except _Stopped:
                break
            except ScaleSetError as error:
                await self._wait_out(error)
            except Exception as error:  # our own bug: a new session may mend it
                log.exception("unexpected failure", component="listener")
                await self._wait_out(Unavailable(f"internal failure: {type(error).__name__}"))
        self._say(states.stopping(now_s=self._clock.now_s()))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[SessionApi]:
        session = self._github.open_session(self._config.scale_set_id, self._owner_name)
        await self._unless_stopped(session.__aenter__(), bound_s=OPEN_BOUND_S)
        try:
            yield session
        finally:
            await self._close(session)

    async def _close(self, session: SessionApi) -> None:
        try:
            async with asyncio.timeout(CLOSE_BOUND_S):
                await session.close()
        except (ScaleSetError, TimeoutError) as error:
            log.error("could not close the session", component="listener", error=repr(error))

    async def _listen(self, session: SessionApi) -> None:
        now_s = self._clock.now_s()
        self._say(states.after_opening(self._situation, now_s=now_s), quiet=True)  # told below
        self._last_success_s = self._clock.monotonic_s()
        self._learn(session)
        assigned = session.opening.assigned_jobs
        log.info("session held", component="listener", totalAssignedJobs=assigned)
        self._effects.want()
        # The first number is out before the first poll, unless the API server is in trouble.
        await self._unless_stopped(self._wanted.wait_told(ELEMENT_BOUND_S))
        await self._claim(session)  # what was offered to the listener before us
        cursor, generation = 0, session.generation
        while not self._stopping.is_set():
            if session.generation != generation:  # another queue: what was left comes again
                cursor, generation = 0, session.generation
                self._tell_renewed()
            try:
                message = await self._poll(session, cursor)
                if session.opening is not self._opening:  # renewed since; a message is later
                    self._learn(session)
                if message is None:
                    await self._passed_empty(session)
                    continue
                came_again = not self._effects.is_new(message.id)
                await self._finish(self._take(session, message))
                cursor = message.id
                if came_again:  # a service that takes no acknowledgement is not hurried
                    await self._pause(EMPTY_POLL_MIN_S)
            except ScaleSetError as error:
                if states.verdict(error).needs_session:
                    raise
                await self._wait_out(error)

    def _tell_renewed(self) -> None:
        log.warning(
            "the session was lost and opened anew",
            component="listener",
            reason=str(Reason.SESSION_LOST),
        )
        self._teller.happened(Reason.SESSION_LOST, "the session was lost and opened anew")

    def _learn(self, session: SessionApi) -> None:
        self._opening = session.opening
        self._doubts_backlog = True
        self._effects.learn(session.opening)

    async def _poll(self, session: SessionApi, cursor: int) -> Message | None:
        log.debug("polling", component="listener", lastMessageID=cursor)
        began_s = self._clock.monotonic_s()
        message = await self._unless_stopped(
            session.poll(cursor, self._config.bounds.max_runners), bound_s=POLL_BOUND_S
        )
        self._last_success_s = self._clock.monotonic_s()
        self._metrics.record_poll(self._clock.now_s())
        self._say(states.after_poll(self._situation, now_s=self._clock.now_s()))
        quick_s = self._clock.monotonic_s() - began_s
        if message is None and quick_s < EMPTY_POLL_MIN_S:
            await self._pause(EMPTY_POLL_MIN_S - quick_s)
        return message

    async def _passed_empty(self, session: SessionApi) -> None:
        if self._doubts_backlog:
            await self._ask_about_backlog()
        self._effects.want(passed_empty=True)
        await self._claim(session)

    async def _claim(self, session: SessionApi) -> None:
        lost = await self._effects.claim(session, max_runners=self._config.bounds.max_runners)
        if lost is not None:
            raise lost

    async def _ask_about_backlog(self) -> None:
        """Whether the last message was older than what the session said when it was opened.

        What could not be acknowledged comes again to a process that does not know its id, and
        its number would stay until the next message. The service is asked, once: where it still
        says what it said at the opening, that is so.
        """
        if self._effects.statistics.assigned_jobs != self._opening.assigned_jobs:
            try:
                found = await self._unless_stopped(
                    self._github.get_scale_set(self._config.scale_set_id), bound_s=ASK_BOUND_S
                )
            except ScaleSetError as error:
                log.info("could not ask for the figures", component="listener", error=str(error))
                return  # with the next empty poll
            now = found.statistics if found is not None else None
            if now is not None and now.assigned_jobs == self._opening.assigned_jobs:
                self._effects.learn(now)
        self._doubts_backlog = False

    async def _take(self, session: SessionApi, message: Message) -> None:
        maximum = self._config.bounds.max_runners
        await self._effects.take(session, message, max_runners=maximum)
        await self._acknowledge(session, message.id)

    async def _acknowledge(self, session: SessionApi, message_id: int) -> None:
        for _ in range(ACKNOWLEDGE_TRIES_MAX):
            try:
                async with asyncio.timeout(ACKNOWLEDGE_BOUND_S):
                    await session.acknowledge(message_id)
                return
            except TimeoutError:
                error: ScaleSetError = Unavailable(f"no answer in {ACKNOWLEDGE_BOUND_S:.0f} s")
            except ScaleSetError as caught:
                if states.verdict(caught).needs_session:
                    raise
                error = caught
            await self._wait_out(error)
        # It comes again with the next session and changes nothing then.
        log.error(
            "could not acknowledge a message",
            component="listener",
            message_id=message_id,
            error=str(error),
        )

    # -- small parts -----------------------------------------------------------------------

    async def _wait_out(self, error: ScaleSetError) -> None:
        situation = states.after_failure(
            self._situation, error, now_s=self._clock.now_s(), random=self._random
        )
        self._metrics.trouble(situation.reason or Reason.GITHUB_UNAVAILABLE)
        self._say(situation)
        await self._pause(situation.wait_s)

    def _say(self, situation: Situation, *, quiet: bool = False) -> None:
        before, self._situation = self._situation, situation
        reason = str(situation.reason or "")
        self._metrics.record_state(str(situation.state), reason)
        self._teller.now_in(situation)
        if situation.state is State.WAITING:
            log.warning(
                "waiting",
                component="listener",
                reason=reason,
                error=situation.message,
                failures=situation.failures,
                again_in_s=round(situation.wait_s, 1),
            )
        elif situation.state is not before.state and not quiet:
            log.info(str(situation.state), component="listener")

    async def _pause(self, seconds: float) -> None:
        """Wait; a stop or a changed configuration ends it early."""
        self._wake.clear()
        try:
            await self._unless_stopped(self._wake.wait(), bound_s=seconds)
        except (_Stopped, Unavailable):
            pass

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` end in order; after a stop only for so long."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            await self._unless_stopped(_ended(task))
        except _Stopped:
            await asyncio.wait({task}, timeout=STOP_HANDLING_S)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    async def _unless_stopped(
        self, work: Coroutine[Any, Any, R], *, bound_s: float | None = None
    ) -> R:
        """The result of `work`, if it comes before the stop and within the bound.

        Raises:
            _Stopped: the stop came first.
            Unavailable: the bound passed first.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
        stop = loop.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stop}, timeout=bound_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if not task.cancelled():
            return task.result()
        if self._stopping.is_set():
            raise _Stopped
        raise Unavailable(f"no answer within {bound_s or 0:.0f} s")


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})
