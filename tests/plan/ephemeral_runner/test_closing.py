"""How a decided ending is carried out."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    DeleteRunner,
    Done,
    Ending,
    How,
    PatchStatus,
    RemoveRunner,
    Said,
)
from runnerscale.controllers.ephemeral_runner.closing import close
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.snapshot import Removal
from tests.plan.ephemeral_runner.values import (
    BUSY,
    IDLE,
    MADE,
    NEW,
    REF,
    RUNNING,
    exited,
    no_answer,
    patch,
    removed,
    seen,
    told,
)

LOST = trouble(Reason.POD_LOST, about="EphemeralRunner ns/runner-a", happened="its pod is gone")
ASK = RemoveRunner(REF, 7)


def test_finished_is_a_deletion_and_no_write_to_the_status() -> None:
    assert close(seen(BUSY, exited(0)), Ending(How.FINISHED)).actions == (DeleteRunner(REF),)


def test_disturbed_is_forgotten_then_told_then_deleted() -> None:
    ended = Ending(How.DISTURBED, LOST)
    now = seen(IDLE)
    assert close(now, ended).actions == (ASK,)
    now = told(now, ASK, Said.FORGOTTEN)
    write = patch(close(now, ended).actions)
    assert (write.reason, write.message, write.phase) == ("PodLost", "its pod is gone", None)
    assert write.resource_version == "11"
    now = told(now, write, Done("12"))
    # With the version: a job that is stored between the two makes a conflict, not a death.
    assert close(now, ended).actions == (DeleteRunner(REF, resource_version="12"),)


def test_a_job_stored_in_between_is_a_conflict_and_another_plan() -> None:
    now = told(seen(IDLE), ASK, Said.FORGOTTEN)
    write = patch(close(now, Ending(How.DISTURBED, LOST)).actions)
    stale = told(now, write, Said.CONFLICT)
    step = plan(stale)
    assert step.actions == ()
    assert step.stale


def test_a_runner_that_github_calls_busy_becomes_evidence_once_its_pod_is_gone() -> None:
    now = told(seen(IDLE), ASK, Said.JOB_RUNNING)
    write = patch(close(now, Ending(How.DISTURBED, LOST)).actions)
    assert (write.phase, write.reason) == ("Failed", "PodLost")


def test_while_the_pod_lives_githubs_word_comes_first() -> None:
    why = trouble(Reason.NEVER_ONLINE, about="x", happened="offline")
    alive = seen(IDLE, RUNNING)
    ended = Ending(How.FAILED, why)
    assert close(alive, ended).actions == (ASK,)
    away = close(seen(IDLE, RUNNING, no_answer()), ended)
    assert (away.actions, away.again_s) == ((), 60)
    busy = close(told(alive, ASK, Said.JOB_RUNNING), ended)
    assert (busy.actions, busy.again_s) == ((), 30)
    later = seen(IDLE, RUNNING, removed(Removal.BUSY), after_s=30)
    assert close(later, ended).actions == (ASK,)
    assert patch(close(told(alive, ASK, Said.ABSENT), ended).actions).phase == "Failed"


def test_while_it_waits_for_githubs_word_the_status_says_what_with() -> None:
    from runnerscale.controllers.ephemeral_runner.pod_view import Exit

    broken = replace(RUNNING, failed=Exit("dind", 1))
    write = patch(plan(seen(IDLE, broken, no_answer())).actions)
    assert (write.phase, write.reason) == (None, "InitContainerFailed")


def test_what_has_ended_is_stored_without_asking_anybody() -> None:
    why = trouble(Reason.RUNNER_FAILED, about="x", happened="exit code 1")
    write = patch(close(seen(IDLE, exited(1)), Ending(How.FAILED, why)).actions)
    assert isinstance(write, PatchStatus)
    assert (write.phase, write.ready) == ("Failed", False)
    assert write.conditions is not None
    assert [(c.status, c.reason) for c in write.conditions if c.type == "Healthy"] == [
        ("False", "RunnerFailed")
    ]


def test_a_harmless_ending_asks_nobody() -> None:
    taken = trouble(Reason.RUNNER_NAME_TAKEN, about="x", happened="taken")
    write = patch(close(seen(NEW), Ending(How.DISTURBED, taken, harmless=True)).actions)
    assert write.reason == "RunnerNameTaken"


@pytest.mark.parametrize("how", [How.FAILED, How.OUTDATED])
def test_an_id_that_only_memory_knows_is_stored_with_the_verdict(how: How) -> None:
    why = trouble(Reason.OUTDATED, about="x", happened="old")
    hand = replace(MADE, adopted_id=9)
    write = patch(close(seen(NEW, exited(7), hand), Ending(how, why)).actions)
    assert (write.runner_id, write.runner_name) == (9, "runner-a")
