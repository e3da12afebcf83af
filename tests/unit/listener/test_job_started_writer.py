"""A started job against an API server's rules: every row of the contract's second table (5.4)."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import structlog

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import seeded
from runnerscale.kube import errors
from runnerscale.listener.job_started import (
    JobStartedWriter,
    Outcome,
    store_in_order,
)
from runnerscale.scaleset.model import JobEvent, JobEventKind
from tests.unit.listener.fakes import TinyApi, clock

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PATH = "/apis/actions.github.com/v1alpha1/namespaces/default/ephemeralrunners/runner-1"
EVENT = JobEvent(
    kind=JobEventKind.STARTED,
    index=0,
    request_id=123,
    owner_name="actions",
    repository_name="arc",
    job_id="job-1",
    job_workflow_ref="ref",
    job_display_name="build",
    workflow_run_id=456,
    runner_name="runner-1",
)
FIELDS = {
    "jobDisplayName": "build",
    "jobId": "job-1",
    "jobRepositoryName": "actions/arc",
    "jobRequestId": 123,
    "jobWorkflowRef": "ref",
    "workflowRunId": 456,
}


class Scene:
    def __init__(self, phase: str | None = "Pending", **meta: Any) -> None:
        self.api = TinyApi()
        if phase is not None:
            status = {"phase": phase} if phase else {}
            self.api.put(EPHEMERAL_RUNNERS, "default", "runner-1", status=status, meta=meta)
            self.change()
        self.writer = JobStartedWriter(
            self.api,  # type: ignore[arg-type]
            namespace="default",
            clock=clock(),
            random=seeded(1),
        )

    def change(self, **status: Any) -> None:
        self.api.touch(EPHEMERAL_RUNNERS, "default", "runner-1", **status)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.raw(EPHEMERAL_RUNNERS, "default", "runner-1")["status"]
        return found

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.api.requests]

    @property
    def patches(self) -> list[Any]:
        return [body for verb, _, body in self.api.requests if verb == "patch"]

    def before_patch(self, act: Callable[[], None], times: int = 1) -> None:
        left = [times]

        def before(verb: str, path: str) -> None:
            if verb == "patch" and left[0]:
                left[0] -= 1
                act()

        self.api.before = before

    async def store(self, event: JobEvent = EVENT, bound_s: float = 30.0) -> Outcome:
        return await self.writer.store(event, Deadline.after(clock(), bound_s))


@pytest.mark.behaviour("C2 T151", "C2 T158", "C1 T175")
@pytest.mark.parametrize("phase", ["", "Pending", "Unknown"])
def test_one_read_and_one_patch_make_a_live_runner_running(phase: str, run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene(phase)
        version = this.api.raw(EPHEMERAL_RUNNERS, "default", "runner-1")["metadata"][
            "resourceVersion"
        ]
        assert await this.store() is Outcome.RUNNING
        assert [(verb, path) for verb, path, _ in this.api.requests] == [
            ("get", PATH),
            ("patch", f"{PATH}/status"),
        ]
        assert this.patches == [
            {
                "metadata": {"resourceVersion": version},
                "status": FIELDS | {"phase": "Running"},
            }
        ]
        assert this.status == FIELDS | {"phase": "Running"}

    run_virtual(scene())


@pytest.mark.behaviour("C2 T152")
def test_the_same_message_again_leaves_the_same_status(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        await this.store()
        before = dict(this.status)
        assert await this.store() is Outcome.RUNNING
        assert this.status == before

    run_virtual(scene())


@pytest.mark.behaviour("C2 T153", "C1 T177")
@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Outdated"])
def test_a_terminal_phase_is_kept_and_the_patch_is_unconditional(
    phase: str, run_virtual: Run
) -> None:
    async def scene() -> None:
        this = Scene(phase)
        assert await this.store() is Outcome.FIELDS_ONLY
        assert this.patches == [{"status": FIELDS}]
        assert this.status == FIELDS | {"phase": phase}

    run_virtual(scene())


@pytest.mark.behaviour("C2 T154", "C1 T177")
def test_a_runner_that_is_being_deleted_gets_the_fields_only(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene("Pending", deletionTimestamp="2026-01-02T03:04:05Z")
        assert await this.store() is Outcome.FIELDS_ONLY
        assert this.patches == [{"status": FIELDS}]
        assert this.status["phase"] == "Pending"

    run_virtual(scene())


@pytest.mark.behaviour("C2 T155", "C1 T176")
@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Outdated"])
def test_a_verdict_between_read_and_patch_survives(phase: str, run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.before_patch(lambda: this.change(phase=phase))
        assert await this.store() is Outcome.FIELDS_ONLY
        assert this.verbs == ["get", "patch", "get", "patch"]
        assert this.status == FIELDS | {"phase": phase}

    run_virtual(scene())


def test_a_runner_that_keeps_changing_is_read_again_and_again_not_given_up_after_five(
    run_virtual: Run,
) -> None:
    # Upstream gives up after five conflicts within 50 ms and dies (C2 T156, W48).
    async def scene() -> None:
        this = Scene()
        this.before_patch(this.change, times=7)
        assert await this.store() is Outcome.RUNNING
        assert this.verbs == ["get", "patch"] * 8
        assert asyncio.get_running_loop().time() < 3

    run_virtual(scene())


def test_a_runner_that_changes_for_ever_is_given_up_at_the_bound(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.before_patch(this.change, times=10_000)
        assert await this.store() is Outcome.NOT_STORED
        assert 29 < asyncio.get_running_loop().time() < 31
        assert this.status["phase"] == "Pending"
        assert len(this.verbs) < 150  # with growing pauses

    run_virtual(scene())


@pytest.mark.behaviour("C2 T157", "C1 T178")
def test_a_missing_runner_costs_one_read(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene(None)
        assert await this.store() is Outcome.MOOT
        assert this.verbs == ["get"]

    run_virtual(scene())


@pytest.mark.behaviour("C2 T157", "C1 T178")
def test_a_runner_that_vanishes_before_the_patch_costs_one_of_each(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.before_patch(lambda: this.api.objects.clear())
        # `before` runs before the object is looked up: the patch finds nothing.
        assert await this.store() is Outcome.MOOT
        assert this.verbs == ["get", "patch"]
        assert this.patches[0]["status"]["phase"] == "Running"

    run_virtual(scene())


@pytest.mark.behaviour("C2 T159")
def test_without_the_right_to_read_the_job_is_recorded_and_it_is_said_once(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = Scene()
        forbidden = errors.Forbidden(403, "Forbidden", "cannot get resource")
        this.api.faults.extend([("get", forbidden), ("get", forbidden)])
        with structlog.testing.capture_logs() as lines:
            assert await this.store() is Outcome.FIELDS_ONLY
            assert await this.store() is Outcome.FIELDS_ONLY
        assert this.patches == [{"status": FIELDS}] * 2
        assert this.status == FIELDS | {"phase": "Pending"}
        assert len([line for line in lines if "lacks the right" in line["event"]]) == 1

    run_virtual(scene())


@pytest.mark.behaviour("C2 T159")
@pytest.mark.parametrize("verb", ["get", "patch"])
def test_an_api_server_in_trouble_is_tried_again_within_the_bound(
    verb: str, run_virtual: Run
) -> None:
    async def scene() -> None:
        this = Scene()
        this.api.faults.extend([(verb, errors.ServerFault(500, "", "down"))] * 4)
        assert await this.store() is Outcome.RUNNING

    run_virtual(scene())


def test_a_call_that_hangs_ends_with_the_bound(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.api.delay_s = 100_000
        assert await this.store(bound_s=30) is Outcome.NOT_STORED

    run_virtual(scene())


def test_without_the_right_to_patch_it_waits_for_the_right(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.api.faults.extend([("patch", errors.Forbidden(403, "Forbidden", "no"))] * 3)
        assert await this.store() is Outcome.RUNNING

    run_virtual(scene())


def test_what_the_server_refuses_in_its_content_is_not_tried_at_once_again(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = Scene()
        this.api.faults.append(("patch", errors.Invalid(422, "Invalid", "no")))
        assert await this.store() is Outcome.REFUSED
        assert this.verbs == ["get", "patch"]

    run_virtual(scene())


def test_a_name_that_no_object_can_have_costs_no_call(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        assert await this.store(replace(EVENT, runner_name="../x")) is Outcome.MOOT
        assert this.verbs == []

    run_virtual(scene())


def test_no_event_overtakes_one_of_the_same_runner_that_is_stuck(run_virtual: Run) -> None:
    async def scene() -> None:
        this = Scene()
        this.api.delay_s = 100_000
        second = replace(EVENT, job_id="job-2")
        deadline = Deadline.after(clock(), 10)
        outcomes = await store_in_order(this.writer, [EVENT, second], deadline)
        assert [o for _, o in outcomes] == [Outcome.NOT_STORED, Outcome.NOT_STORED]
        assert this.verbs == ["get"]

    run_virtual(scene())
