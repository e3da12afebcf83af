"""The decision table of a job that started (contract 5.4), and the bodies it leads to."""

from dataclasses import replace

import pytest

from runnerscale.api.phase import RunnerPhase
from runnerscale.kube import errors
from runnerscale.listener.job_started import (
    Answer,
    Outcome,
    Read,
    Seen,
    Write,
    after_read,
    after_write,
    answer_of,
    by_runner,
    first_step,
    job_fields,
    status_patch,
)
from runnerscale.scaleset.model import JobEvent, JobEventKind

EVENT = JobEvent(
    kind=JobEventKind.STARTED,
    index=0,
    request_id=123,
    owner_name="actions",
    repository_name="actions-runner-controller",
    job_id="job-1",
    job_workflow_ref="o/r/.github/workflows/ci.yml@refs/heads/main",
    job_display_name="build",
    workflow_run_id=456,
    runner_id=17,
    runner_name="runner-1",
)
PENDING = Seen(phase="Pending", deleting=False, resource_version="41")
FIELDS = {
    "jobDisplayName": "build",
    "jobId": "job-1",
    "jobRepositoryName": "actions/actions-runner-controller",
    "jobRequestId": 123,
    "jobWorkflowRef": "o/r/.github/workflows/ci.yml@refs/heads/main",
    "workflowRunId": 456,
}


@pytest.mark.behaviour("C2 T160")
def test_the_job_fields_are_those_of_the_message() -> None:
    assert job_fields(EVENT) == FIELDS


@pytest.mark.behaviour("C2 T160")
def test_a_name_of_a_megabyte_is_cut_so_that_the_runner_can_be_written_at_all() -> None:
    fields = job_fields(replace(EVENT, job_display_name="n" * 1_000_000, job_workflow_ref="r" * 9))
    assert fields["jobDisplayName"] == "n" * 8192
    assert fields["jobWorkflowRef"] == "r" * 9
    assert fields["jobId"] == EVENT.job_id


def test_what_github_left_empty_is_left_out_except_the_repository() -> None:
    empty = JobEvent(kind=JobEventKind.STARTED, index=0, runner_name="runner-1")
    assert job_fields(empty) == {"jobRepositoryName": "/"}


def test_a_promotion_carries_phase_fields_and_the_version_read_with_sorted_keys() -> None:
    body = status_patch(EVENT, resource_version="41")
    assert body == {
        "metadata": {"resourceVersion": "41"},
        "status": FIELDS | {"phase": "Running"},
    }
    assert list(body["status"]) == sorted(body["status"])


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Unknown", "SomethingOld"])
def test_a_live_runner_is_promoted_whatever_its_phase(phase: str) -> None:
    step = after_read(EVENT, Answer.DONE, replace(PENDING, phase=phase))
    assert step == Write(status_patch(EVENT, resource_version="41"), promotes=True)


@pytest.mark.parametrize(
    "seen",
    [
        *(replace(PENDING, phase=p) for p in (RunnerPhase.FAILED, "Succeeded", "Outdated")),
        replace(PENDING, deleting=True),
    ],
)
def test_a_runner_that_is_done_or_going_gets_the_fields_only(seen: Seen) -> None:
    step = after_read(EVENT, Answer.DONE, seen)
    assert step == Write({"status": FIELDS}, promotes=False)


def test_what_follows_each_answer_to_a_read() -> None:
    assert first_step(EVENT) == Read()
    assert after_read(EVENT, Answer.MISSING, None) is Outcome.MOOT
    assert after_read(EVENT, Answer.FORBIDDEN, None) == Write({"status": FIELDS}, promotes=False)
    assert after_read(EVENT, Answer.REFUSED, None) is Outcome.REFUSED
    assert after_read(EVENT, Answer.TROUBLE, None) == Read(after=Answer.TROUBLE)
    assert after_read(EVENT, Answer.CONFLICT, None) == Read(after=Answer.TROUBLE)


def test_what_follows_each_answer_to_a_patch() -> None:
    assert after_write(Answer.DONE, promoted=True) is Outcome.RUNNING
    assert after_write(Answer.DONE, promoted=False) is Outcome.FIELDS_ONLY
    assert after_write(Answer.MISSING, promoted=True) is Outcome.MOOT
    assert after_write(Answer.REFUSED, promoted=True) is Outcome.REFUSED
    for again in (Answer.CONFLICT, Answer.FORBIDDEN, Answer.TROUBLE):
        assert after_write(again, promoted=True) == Read(after=again)  # never resent as it was


def test_only_what_could_not_be_stored_is_unsettled() -> None:
    # Seed 6065: a webhook that says no with a 400 is asked again, as one with a 403 is.
    assert {o for o in Outcome if not o.settled} == {Outcome.NOT_STORED, Outcome.REFUSED}


@pytest.mark.parametrize("name", ["", "../secrets/x", "UPPER", "a/b", "x" * 254, "-a"])
def test_a_name_that_no_object_can_have_is_nobodys_runner(name: str) -> None:
    assert first_step(replace(EVENT, runner_name=name)) is Outcome.MOOT


def api_error(kind: type[errors.ApiError], code: int) -> errors.ApiError:
    return kind(code=code, reason="r", message="m")


def test_what_an_error_of_the_api_server_means() -> None:
    assert answer_of(api_error(errors.NotFound, 404)) is Answer.MISSING
    assert answer_of(api_error(errors.Conflict, 409)) is Answer.CONFLICT
    assert answer_of(api_error(errors.Forbidden, 403)) is Answer.FORBIDDEN
    assert answer_of(api_error(errors.Invalid, 422)) is Answer.REFUSED
    assert answer_of(api_error(errors.BadRequest, 400)) is Answer.REFUSED
    assert answer_of(api_error(errors.ServerFault, 503)) is Answer.TROUBLE
    assert answer_of(api_error(errors.Unauthorized, 401)) is Answer.TROUBLE
    assert answer_of(errors.Unreachable("reset")) is Answer.TROUBLE


def test_events_are_grouped_by_runner_in_their_order() -> None:
    a1, b1 = EVENT, replace(EVENT, runner_name="runner-2", index=1)
    a2 = replace(EVENT, index=2, job_id="job-2")
    assert by_runner([a1, b1, a2]) == [[a1, a2], [b1]]
