"""What a job that started changes on its runner, and when that is settled.

The listener alone writes the phase `Running`: it means "a job is assigned", which only
GitHub's message can know. The phase travels with the job fields in one merge patch that
carries the `resourceVersion` it was decided on, so it can neither replace a verdict of the
controller nor be replaced by the controller's late `Pending`. A runner that is done or being
deleted gets the job fields only: they are facts that are written once and decide nothing.

Above: the rules, pure. Below: `JobStartedWriter`, which carries them out within a bound. What
becomes of an event that could not be stored is `repair.py`; when a message is acknowledged is
`loop.py`. Contract: github-service-and-listener 5.4; replaces W48 (five tries in 50 ms) and
W49 (an older Role without `get` was fatal).
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, assert_never

import structlog

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.api.phase import RunnerPhase, is_terminal
from runnerscale.api.reasons import Reason
from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random
from runnerscale.kube import errors
from runnerscale.kube.client import Client
from runnerscale.kube.objects import is_deleting
from runnerscale.scaleset.model import JobEvent

log = structlog.get_logger(__name__)

# A conflict means that the controller just wrote: the next try is likely to win. Anything else
# means that the API server is in trouble: leave it room.
CONFLICT_BACKOFF = Backoff(first_s=0.01, cap_s=1.0)
TROUBLE_BACKOFF = Backoff(first_s=0.2, cap_s=5.0)
CALL_TIMEOUT_S = 10.0  # one request; three fit into the bound of an element
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
TEXT_MAX = 8192  # of a job's field; GitHub's own names are far shorter
NAME_LENGTH_MAX = 253
TRIES_MAX = 200  # a bound for the loop itself; the deadline ends it long before


class Answer(Enum):
    """How a call to the API server ended, as far as the rules care."""

    DONE = "done"
    MISSING = "missing"  # 404: the runner is gone, the event moot
    CONFLICT = "conflict"  # 409: somebody wrote in between
    FORBIDDEN = "forbidden"  # 403: a right is missing
    REFUSED = "refused"  # 400, 422: trying at once is of no use; a webhook may say so for a while
    TROUBLE = "trouble"  # everything that may pass


class Outcome(Enum):
    """How an event ended."""

    RUNNING = "running"  # the runner says Running, with its job
    FIELDS_ONLY = "fields only"  # done, being deleted, or not readable by us
    MOOT = "moot"  # there is no such runner any more
    REFUSED = "refused"  # the API server does not take it now; `repair.py` goes on
    NOT_STORED = "not stored"  # the bound passed; `repair.py` goes on

    @property
    def settled(self) -> bool:
        """Nothing is left to do: the message may be acknowledged for its sake."""
        return self not in (Outcome.NOT_STORED, Outcome.REFUSED)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a read said of the runner."""

    phase: str
    deleting: bool
    resource_version: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read the runner, after waiting as for a failure of the given kind."""

    after: Answer | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """Patch the runner's status."""

    body: dict[str, Any]
    promotes: bool


Step = Read | Write | Outcome


def first_step(event: JobEvent) -> Step:
    """Where every event begins; a name that no object can have is nobody's runner."""
    named = len(event.runner_name) <= NAME_LENGTH_MAX and OBJECT_NAME.fullmatch(event.runner_name)
    return Read() if named else Outcome.MOOT


def after_read(event: JobEvent, answer: Answer, seen: Seen | None) -> Step:
    """What follows a read."""
    match answer:
        case Answer.DONE:
            assert seen is not None, "a read that succeeded saw a runner"
            promotes = not seen.deleting and not is_terminal(seen.phase)
            version = seen.resource_version if promotes else None
            return Write(status_patch(event, resource_version=version), promotes=promotes)
        case Answer.MISSING:
            return Outcome.MOOT
        case Answer.FORBIDDEN:  # an older Role: without a read no promotion would be safe
            return Write(status_patch(event, resource_version=None), promotes=False)
        case Answer.REFUSED:
            return Outcome.REFUSED
        case Answer.CONFLICT | Answer.TROUBLE:
            return Read(after=Answer.TROUBLE)
    assert_never(answer)


def after_write(answer: Answer, *, promoted: bool) -> Step:
    """What follows a patch."""
    match answer:
        case Answer.DONE:
            return Outcome.RUNNING if promoted else Outcome.FIELDS_ONLY
        case Answer.MISSING:
            return Outcome.MOOT
        case Answer.REFUSED:
            return Outcome.REFUSED
        case Answer.CONFLICT | Answer.FORBIDDEN | Answer.TROUBLE:
            return Read(after=answer)
    assert_never(answer)


def status_patch(event: JobEvent, *, resource_version: str | None) -> dict[str, Any]:
    """The merge patch; with a version it also promotes to `Running`.

    A field that GitHub left empty is left out, so it could not be cleared again: these are
    facts about the one job of the runner's life and never change (W39).
    """
    status = job_fields(event)
    if resource_version is None:
        return {"status": status}
    status["phase"] = RunnerPhase.RUNNING.value
    return {
        "metadata": {"resourceVersion": resource_version},
        "status": dict(sorted(status.items())),
    }


def job_fields(event: JobEvent) -> dict[str, Any]:
    """The six job fields, in the order of their names."""
    fields: dict[str, str | int] = {
        "jobDisplayName": event.job_display_name,
        "jobId": event.job_id,
        "jobRepositoryName": f"{event.owner_name}/{event.repository_name}",
        "jobRequestId": event.request_id,
        "jobWorkflowRef": event.job_workflow_ref,
        "workflowRunId": event.workflow_run_id,
    }
    return {name: _bounded(value) for name, value in fields.items() if value}


def _bounded(value: str | int) -> str | int:
    # An object that grows past what the API server stores could not be written any more at all.
    return value[:TEXT_MAX] if isinstance(value, str) else value


def answer_of(error: errors.KubeError) -> Answer:
    """What an error of a call means for the rules."""
    match error:
        case errors.NotFound():
            return Answer.MISSING
        case errors.Conflict():
            return Answer.CONFLICT
        case errors.Forbidden():
            return Answer.FORBIDDEN
        case errors.BadRequest() | errors.Invalid():
            return Answer.REFUSED
    return Answer.TROUBLE


class JobStartedWriter:
    """Carries the rules out against the API server."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock, random: Random) -> None:
        """`namespace`: where the runners live."""
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._random = random
        self._said_forbidden = False

    async def store(self, event: JobEvent, deadline: Deadline) -> Outcome:
        """Bring one event onto its runner, or give up when the deadline has passed."""
        try:
            async with deadline.timeout():
                return await self._store(event)
        except TimeoutError:
            log.warning("job started could not be stored in time", runner=event.runner_name)
            return Outcome.NOT_STORED

    async def _store(self, event: JobEvent) -> Outcome:
        step: Step = first_step(event)
        for attempt in range(TRIES_MAX):
            match step:
                case Read(after=after):
                    if after is not None:
                        await self._wait(event, after, attempt)
                    answer, seen = await self._read(event.runner_name)
                    step = after_read(event, answer, seen)
                case Write(body=body, promotes=promotes):
                    answer = await self._write(event.runner_name, body)
                    step = after_write(answer, promoted=promotes)
                case Outcome():
                    return self._finished(event, step)
        return Outcome.NOT_STORED

    async def _wait(self, event: JobEvent, after: Answer, attempt: int) -> None:
        backoff = CONFLICT_BACKOFF if after is Answer.CONFLICT else TROUBLE_BACKOFF
        delay_s = backoff.delay_s(attempt // 2, self._random)
        log.info(
            "job started is stored again",
            component="worker",
            runnerName=event.runner_name,
            after=after.value,
            in_s=round(delay_s, 3),
        )
        await self._clock.sleep(delay_s)

    async def _read(self, name: str) -> tuple[Answer, Seen | None]:
        try:
            runner = await self._client.get(
                EPHEMERAL_RUNNERS, self._namespace, name, timeout_s=CALL_TIMEOUT_S
            )
        except errors.Forbidden as error:
            if not self._said_forbidden:
                self._said_forbidden = True
                log.error(
                    "the listener's Role lacks the right to get ephemeralrunners: jobs are "
                    "recorded, but runners are not marked Running; upgrade the controller",
                    reason=str(Reason.RIGHTS_MISSING),
                    error=error.message,
                )
            return Answer.FORBIDDEN, None
        except errors.KubeError as error:
            return self._trouble("could not read the runner", name, error), None
        return Answer.DONE, seen_of(runner)

    async def _write(self, name: str, body: dict[str, Any]) -> Answer:
        log.debug("patching the runner's status", runner=name, patch=body)
        try:
            await self._client.patch(
                EPHEMERAL_RUNNERS,
                self._namespace,
                name,
                body,
                subresource="status",
                timeout_s=CALL_TIMEOUT_S,
            )
        except errors.KubeError as error:
            return self._trouble("could not patch the runner's status", name, error)
        return Answer.DONE

    def _trouble(self, what: str, name: str, error: errors.KubeError) -> Answer:
        answer = answer_of(error)
        if answer in (Answer.TROUBLE, Answer.REFUSED, Answer.FORBIDDEN):
            log.warning(what, runner=name, error=str(error))
        return answer

    def _finished(self, event: JobEvent, outcome: Outcome) -> Outcome:
        if outcome is Outcome.MOOT:
            log.info("the runner of a started job is gone already", runner=event.runner_name)
        elif outcome is Outcome.REFUSED:
            log.error("the API server refuses a job's fields", runner=event.runner_name)
        return outcome


def seen_of(runner: EphemeralRunner) -> Seen:
    """What the rules want to know of a runner."""
    return Seen(
        phase=runner.status.phase,
        deleting=is_deleting(runner),
        resource_version=runner.metadata.resource_version or "",
    )


async def store_in_order(
    writer: JobStartedWriter, events: list[JobEvent], deadline: Deadline
) -> list[tuple[JobEvent, Outcome]]:
    """The events of one runner, in the order of the message; after a failure none is overtaken."""
    outcomes: list[tuple[JobEvent, Outcome]] = []
    for event in events:
        stuck = bool(outcomes) and not outcomes[-1][1].settled
        outcome = Outcome.NOT_STORED if stuck else await writer.store(event, deadline)
        outcomes.append((event, outcome))
    return outcomes


def by_runner(events: list[JobEvent]) -> list[list[JobEvent]]:
    """The events grouped by runner, each group in order: groups may be stored side by side."""
    groups: dict[str, list[JobEvent]] = {}
    for event in events:
        groups.setdefault(event.runner_name, []).append(event)
    return list(groups.values())
