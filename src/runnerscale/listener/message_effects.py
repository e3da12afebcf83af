"""What one message from GitHub changes: everything between its poll and its acknowledgement.

A file of its own, because this is the order that decides what a crash may lose: growing waits
for nothing, jobs that started are stored side by side, and the number that may shrink goes out
last. How messages come and are acknowledged: `loop.py`. Contract: github-service-and-listener 5.
"""

import asyncio
from typing import Any

import structlog

from runnerscale.api.reasons import Reason
from runnerscale.core.bounded import run_bounded
from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.listener import available_jobs, scaler, states
from runnerscale.listener.available_jobs import Offers
from runnerscale.listener.job_started import JobStartedWriter, by_runner, store_in_order
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.listener.repair import Repairs
from runnerscale.listener.seen_messages import SeenMessages
from runnerscale.listener.teller import Teller
from runnerscale.listener.wanted_writer import WantedWriter
from runnerscale.scaleset.errors import ScaleSetError
from runnerscale.scaleset.interface import SessionApi
from runnerscale.scaleset.model import JobEvent, JobEventKind, Message, Statistics

log = structlog.get_logger(__name__)

ELEMENT_BOUND_S = 30.0  # for storing what one message says (design section 5)
RUNNERS_AT_ONCE_MAX = 32
POISON_TRIES_MAX = 3  # a message that makes our own code fail
# How long jobs in a message's body count beside statistics that do not know them. By then the
# service has given each to a runner or taken it back, and has said so with another message.
BODY_COUNTS_S = 600.0
RECALL_EVERY_S = 30.0


class MessageEffects:
    """What was learned from messages, and the effects of the next one."""

    def __init__(
        self,
        *,
        wanted: WantedWriter,
        started: JobStartedWriter,
        repairs: Repairs,
        teller: Teller,
        clock: Clock,
        metrics: ListenerMetrics,
    ) -> None:
        """The writers are the loop's; it runs them."""
        self._wanted = wanted
        self._started = started
        self._repairs = repairs
        self._teller = teller
        self._clock = clock
        self._metrics = metrics
        self._statistics = Statistics()
        self._assigned = 0
        self._learned_id = 0  # of the newest message that told us numbers
        self._learned_s = 0.0
        self._offers = Offers()
        self._recall_due_s = float("-inf")
        self._seen = SeenMessages()

    @property
    def statistics(self) -> Statistics:
        """GitHub's latest figures."""
        return self._statistics

    def is_new(self, message_id: int) -> bool:
        """Whether no message of this id was handled yet."""
        return self._seen.is_new(message_id)

    def learn(self, statistics: Statistics) -> None:
        """Take over GitHub's figures."""
        self._statistics = statistics
        self._assigned = statistics.assigned_jobs
        self._metrics.record_statistics(statistics)

    def want(self, *, passed_empty: bool = False) -> None:
        """Ask for as many runners as the jobs that are known need."""
        quiet_s = self._clock.monotonic_s() - self._learned_s
        if passed_empty and quiet_s > BODY_COUNTS_S:
            self._assigned = self._statistics.assigned_jobs
        self._wanted.want(self._assigned, passed_empty=passed_empty)

    async def take(self, session: SessionApi, message: Message, *, max_runners: int) -> None:
        """Handle; a message that makes our own code fail is set aside after a few tries.

        Raises:
            ScaleSetError: the session is of no use any more.
        """
        self._quarantine(message)
        for attempt in range(1, POISON_TRIES_MAX + 1):
            try:
                await self._handle(session, message, max_runners)
                return
            except ScaleSetError:
                raise
            except Exception:  # our own bug: one message must not stop the queue
                log.exception(
                    "a message could not be handled",
                    component="listener",
                    message_id=message.id,
                    attempt=attempt,
                )
                await self._clock.sleep(float(attempt))
        log.error(
            "message quarantined",
            component="listener",
            reason=str(Reason.MESSAGE_QUARANTINED),
            message_id=message.id,
        )
        self._teller.set_aside("message", message.id)

    async def _handle(self, session: SessionApi, message: Message, max_runners: int) -> None:
        deadline = Deadline.after(self._clock, ELEMENT_BOUND_S)
        self._learn_from(message)
        self._offers = available_jobs.heard(self._offers, message.events, self._statistics)
        started = [e for e in message.events if e.kind is JobEventKind.STARTED]
        completed = [e for e in message.events if e.kind is JobEventKind.COMPLETED]
        if started or completed:
            self._wanted.disturb(event.runner_name for event in completed)
        grows = self._wanted.would_grow(self._assigned)
        if grows:  # a waiting job waits for nothing
            self.want()
        async with asyncio.TaskGroup() as group:
            claim = group.create_task(self.claim(session, max_runners=max_runners))
            group.create_task(self._store(started, deadline))
        lost = claim.result()
        if lost is not None:
            raise lost
        if not grows:
            self.want()
        await self._wanted.wait_told(deadline.left_s())
        self._count(message)

    def _learn_from(self, message: Message) -> None:
        """The numbers of a message, if none newer are known.

        Ids only grow, also across sessions (contract 2.15). One that comes again, as its
        acknowledgement was lost, speaks of a time before the session that was opened since:
        its jobs would be wanted for ever where no message follows.
        """
        if message.id <= self._learned_id:
            return
        self._learned_id = message.id
        self._learned_s = self._clock.monotonic_s()
        self.learn(message.statistics or self._statistics)
        self._assigned = scaler.assigned_jobs(self._statistics.assigned_jobs, message.events)

    def _quarantine(self, message: Message) -> None:
        for text in message.quarantined if self._seen.is_new(message.id) else ():
            log.error(
                "part of a message could not be understood and is set aside",
                component="listener",
                reason=str(Reason.MESSAGE_QUARANTINED),
                message_id=message.id,
                what=text,
            )
            self._teller.set_aside("element", message.id)

    async def _store(self, started: list[JobEvent], deadline: Deadline) -> None:
        async def store(events: list[JobEvent]) -> None:
            if self._repairs.has(events[0].runner_name):
                for event in events:
                    self._repairs.add(event)
                return
            for event, outcome in await store_in_order(self._started, events, deadline):
                if not outcome.settled:
                    self._repairs.add(event)

        await run_bounded(by_runner(started), store, limit=RUNNERS_AT_ONCE_MAX)

    async def claim(self, session: SessionApi, *, max_runners: int) -> ScaleSetError | None:
        """Claim what was offered and there is room for; what fails is claimed later.

        The error comes back only if the session is of no use any more.
        """
        lost = await self._recall(session, max_runners=max_runners)
        ids = available_jobs.to_claim(self._offers, self._statistics, max_runners=max_runners)
        if lost is not None or not ids:
            return lost
        log.info("acquiring jobs", component="listener", count=len(ids))
        try:
            acquired = await session.acquire_jobs(ids)
        except ScaleSetError as error:
            log.warning("could not acquire jobs", component="listener", error=str(error))
            if states.is_route_missing(error):  # a server that assigns jobs by itself
                self._offers = Offers()
                return None
            return error if states.verdict(error).needs_session else None
        self._offers = available_jobs.asked(self._offers, ids)
        log.info(
            "acquired jobs",
            component="listener",
            count=len(acquired),
            not_granted=len(ids) - len(acquired),
            left_for_lack_of_room=len(self._offers.request_ids),
        )
        return None

    async def _recall(self, session: SessionApi, *, max_runners: int) -> ScaleSetError | None:
        """Ask for offers that went to a listener before us; seldom, for there mostly are none."""
        now_s = self._clock.monotonic_s()
        missed = available_jobs.missed(self._offers, self._statistics, max_runners=max_runners)
        if not missed or now_s < self._recall_due_s:
            return None
        self._recall_due_s = now_s + RECALL_EVERY_S
        try:
            found = await session.acquirable_jobs()
        except ScaleSetError as error:
            log.warning("could not list offered jobs", component="listener", error=str(error))
            return error if states.verdict(error).needs_session else None
        self._offers = available_jobs.listed(found)
        if found:
            log.info("jobs were offered before", component="listener", count=len(found))
        return None

    def _count(self, message: Message) -> None:
        """Count and log each event once, however often its message comes."""
        if not self._seen.is_new(message.id):
            return
        self._seen.add(message.id)
        self._metrics.count("runnerscale_listener_messages_total")
        for event in message.events:
            if event.kind is JobEventKind.STARTED:
                log.info("job started", **_fields(event))
                self._metrics.job_started(event)
            elif event.kind is JobEventKind.COMPLETED:
                log.info("job completed", **_fields(event), result=event.result)
                self._metrics.job_completed(event)


def _fields(event: JobEvent) -> dict[str, Any]:
    """A job as a log line tells it, under ARC's keys (contract: github-service 8)."""
    return {
        "component": "worker",
        "runnerName": event.runner_name,
        "ownerName": event.owner_name,
        "repoName": event.repository_name,
        "jobId": event.job_id,
        "workflowRef": event.job_workflow_ref,
        "workflowRunId": event.workflow_run_id,
        "jobDisplayName": event.job_display_name,
        "requestId": event.request_id,
    }
