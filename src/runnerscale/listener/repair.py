"""Job events that could not be stored in time, tried again behind the queue's back.

A runner whose status cannot be patched (its object is refused writes, the API server is down
for a while) must not hold up the messages of all others. It is reported, its message is
acknowledged, and the event comes here: bounded in number and age, tried with growing pauses,
forgotten when it is stored or proven moot. Whatever else is said of that runner meanwhile comes
here too: two loops for one runner would ask twice, and overtake each other. In memory only: a
listener that dies now leaves a runner that GitHub protects (it refuses to forget a busy one).
The first try, and the rules, are `job_started.py`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from runnerscale.api.reasons import Reason
from runnerscale.core.backoff import Backoff
from runnerscale.core.bounded import run_bounded
from runnerscale.core.clock import WAIT_MIN_S, Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random
from runnerscale.listener.job_started import JobStartedWriter, store_in_order
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.scaleset.model import JobEvent

log = structlog.get_logger(__name__)

RUNNERS_MAX = 1000
EVENTS_PER_RUNNER_MAX = 4  # one job per runner; a few more for messages that came twice
GIVE_UP_AFTER_S = 24 * 3600.0  # no job of GitHub's that is worth the memory is that old
ROUND_BACKOFF = Backoff(first_s=5.0, cap_s=120.0)
TRY_BOUND_S = 30.0
AT_ONCE_MAX = 8


@dataclass(slots=True)
class _Waiting:
    since_s: float
    events: list[JobEvent] = field(default_factory=list)


class Repairs:
    """The list, and the task that works it off."""

    def __init__(
        self,
        writer: JobStartedWriter,
        *,
        clock: Clock,
        random: Random,
        metrics: ListenerMetrics,
        happened: Callable[[Reason, str], None],
    ) -> None:
        """Nothing happens before `run`. `happened`: is told what is wrong."""
        self._writer = writer
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._happened = happened
        self._waiting: dict[str, _Waiting] = {}
        self._due_s = float("inf")  # of the next round, on the monotonic clock
        self._added = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many events are waiting."""
        return sum(len(entry.events) for entry in self._waiting.values())

    def has(self, runner: str) -> bool:
        """Whether something about this runner waits here: what follows must come here too."""
        return runner in self._waiting

    def add(self, event: JobEvent) -> None:
        """Take an event over. Told once, here; the tries that follow are quiet.

        Soon tried, also if it was here before: who says it again may have been answered.
        """
        self._due_s = min(self._due_s, self._clock.monotonic_s() + self._pause_s(0))
        self._added.set()
        entry = self._waiting.get(event.runner_name)
        if entry is not None and event in entry.events:
            return
        log.warning(
            "a started job could not be stored; it is tried again in the background",
            reason=str(Reason.JOB_STARTED_NOT_STORED),
            runner=event.runner_name,
        )
        self._tell(event.runner_name)
        self._metrics.count("runnerscale_listener_unstored_job_events_total")
        if entry is None:
            if len(self._waiting) >= RUNNERS_MAX:
                self._give_up(next(iter(self._waiting)), "too many wait")
            entry = self._waiting[event.runner_name] = _Waiting(self._clock.monotonic_s())
        entry.events.append(event)
        del entry.events[:-EVENTS_PER_RUNNER_MAX]
        self._metrics.record_unstored(self.waiting)

    async def run(self) -> None:
        """Work until cancelled."""
        quiet_rounds = 0
        while True:
            await self._until_due()
            self._due_s = float("inf")
            quiet_rounds = 0 if await self.round() else quiet_rounds + 1
            if self._waiting:
                next_s = self._clock.monotonic_s() + self._pause_s(quiet_rounds)
                self._due_s = min(self._due_s, next_s)

    async def _until_due(self) -> None:
        while (left_s := self._due_s - self._clock.monotonic_s()) >= WAIT_MIN_S:
            self._added.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s if self._waiting else None):
                    await self._added.wait()

    def _pause_s(self, quiet_rounds: int) -> float:
        return ROUND_BACKOFF.delay_s(quiet_rounds, self._random)

    async def round(self) -> bool:
        """Try everything once; whether anything was stored."""
        names = list(self._waiting)
        results = await run_bounded(names, self._try, limit=AT_ONCE_MAX)
        self._metrics.record_unstored(self.waiting)
        if self._waiting:
            self._tell(next(iter(self._waiting)))
        return any(results)

    def _tell(self, runner: str) -> None:
        waiting = self.waiting or 1
        what = f"the status of {waiting} runners" if waiting > 1 else "its status"
        self._happened(
            Reason.JOB_STARTED_NOT_STORED,
            f"runner {runner} has a job, but {what} could not be stored yet",
        )

    async def _try(self, name: str) -> bool:
        entry = self._waiting.get(name)
        if entry is None:
            return False
        if self._clock.monotonic_s() - entry.since_s > GIVE_UP_AFTER_S:
            self._give_up(name, "too old")
            return False
        tried = list(entry.events)
        deadline = Deadline.after(self._clock, TRY_BOUND_S)
        outcomes = await store_in_order(self._writer, tried, deadline)
        settled = [event for event, outcome in outcomes if outcome.settled]
        entry.events = [event for event in entry.events if event not in settled]
        if not entry.events:
            self._waiting.pop(name, None)
            log.info("a started job is stored at last, or moot", runner=name)
        return bool(settled)

    def _give_up(self, name: str, why: str) -> None:
        entry = self._waiting.pop(name)
        log.error("a started job is not stored for good", runner=name, why=why)
        self._metrics.count("runnerscale_listener_lost_job_events_total", by=len(entry.events))
