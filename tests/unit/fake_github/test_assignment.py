"""Which job goes to which scale set and runner, and when it comes back."""

import pytest

from runnerscale.fake_github import assignment, jobs, runner_sessions, runners, scale_sets, sessions
from runnerscale.fake_github.model import JobState, Result
from runnerscale.fake_github.options import AssignmentMode
from runnerscale.fake_github.refusals import Refused
from runnerscale.fake_github.wire import ZERO_TIME
from tests.unit.fake_github.world import World


def test_a_job_waits_until_a_listener_has_polled_with_room_for_it() -> None:
    world = World()
    scale_set = world.scale_set()
    job = world.job()
    assert job.state is JobState.QUEUED
    session = world.do(sessions.open_session, scale_set, "me")
    assert job.state is JobState.QUEUED  # a session alone says nothing about capacity
    world.set_capacity(session, 1)
    assert job.state is JobState.ASSIGNED
    assert world.kinds(scale_set) == ["JobAssigned"]


def test_the_capacity_header_bounds_what_is_assigned() -> None:
    world = World()
    scale_set = world.scale_set()
    session = world.listen(scale_set, capacity=2)
    queued = [world.job() for _ in range(5)]
    assert [job.state for job in queued].count(JobState.ASSIGNED) == 2
    world.set_capacity(session, 3)
    assert [job.state for job in queued].count(JobState.ASSIGNED) == 3
    world.set_capacity(session, 0)  # takes nothing back, gives nothing more
    world.do(jobs.complete, queued[0], Result.CANCELED)
    assert [job.state for job in queued].count(JobState.ASSIGNED) == 2


def test_a_poll_without_the_header_takes_everything() -> None:
    world = World()
    world.listen(world.scale_set(), capacity=None)
    assert all(world.job().state is JobState.ASSIGNED for _ in range(60))


def test_labels_match_in_any_case_and_all_of_them_must() -> None:
    world = World()
    scale_set = world.do(
        scale_sets.create,
        world.state.tenant("my-org"),
        scale_sets.Wanted(name="Demo", labels=(("System", "Demo"), ("System", "GPU"))),
    )
    world.listen(scale_set)
    assert world.job(labels=("DEMO", "gpu")).state is JobState.ASSIGNED
    assert world.job(labels=("demo",)).state is JobState.ASSIGNED
    other = world.job(labels=("demo", "arm"))
    assert other.state is JobState.QUEUED
    said = assignment.waiting_reason(world.state, other)
    assert said == f"no scale set has the labels demo, arm for my-org/{other.request.repository}"


@pytest.mark.parametrize(
    ("tenant", "fits"),
    [
        ("my-org", True),
        ("MY-ORG/App", True),
        ("enterprises/big", True),
        ("other-org", False),
        ("my-org/other", False),
    ],
)
def test_a_scale_set_serves_the_repositories_of_its_config_url(tenant: str, fits: bool) -> None:
    world = World()
    world.listen(world.scale_set(tenant=tenant))
    assert (world.job().state is JobState.ASSIGNED) is fits


def test_a_job_that_names_a_group_only_goes_there() -> None:
    world = World(runner_groups=("gpu",))
    world.listen(world.scale_set())
    tenant = world.state.tenant("my-org")
    wanted = scale_sets.Wanted(name="demo", group_id=2)
    in_group = world.do(scale_sets.create, tenant, wanted)
    job = world.job(group="GPU")
    assert job.state is JobState.QUEUED
    world.listen(in_group)
    assert job.scale_set_id == in_group.id


def test_the_runner_that_waited_longest_gets_the_job_and_job_started_has_all_fields() -> None:
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    first = world.connected(scale_set, "first")
    second = world.connected(scale_set, "second")
    world.pass_time(2)
    job = world.job()
    world.pass_time(3)
    world.confirm(first)
    assert (first.job_id, second.job_id) == (job.id, "")
    started = world.messages(scale_set)[-1]
    assert started == {
        "messageType": "JobStarted",
        "runnerRequestId": 0,  # live push mode knows none
        "repositoryName": "app",
        "ownerName": "my-org",
        "jobId": job.id,
        "jobWorkflowRef": "my-org/app/.github/workflows/ci.yml@refs/heads/main",
        "jobDisplayName": "build",
        "workflowRunId": 42,
        "eventName": "push",
        "requestLabels": ["demo"],
        "queueTime": "2027-01-15T08:00:02.0000000Z",
        "scaleSetAssignTime": "2027-01-15T08:00:02.0000000Z",
        "runnerAssignTime": "2027-01-15T08:00:02.0000000Z",
        "finishTime": ZERO_TIME,
        "runnerId": first.id,
        "runnerName": "first",
    }


def test_a_finished_job_is_told_with_its_result_and_its_runner_is_forgotten() -> None:
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r")
    job = world.job()
    world.confirm(runner)
    world.pass_time(30)
    world.finish(runner, "failed")
    message = world.messages(scale_set)[-1]
    assert (message["messageType"], message["result"]) == ("JobCompleted", "failed")
    assert message["finishTime"] == "2027-01-15T08:00:30.0000000Z"
    assert job.result is Result.FAILED
    assert runners.find(world.state, scale_set.tenant_id, "r") is None
    assert world.statistics(scale_set)["totalRegisteredRunners"] == 0


def test_a_runner_that_never_confirms_loses_its_job_to_another() -> None:
    world = World(handover_timeout_s=30)
    scale_set = world.scale_set()
    world.listen(scale_set)
    deaf = world.connected(scale_set, "deaf")
    job = world.job()
    assert job.state is JobState.HANDED
    assert world.statistics(scale_set)["totalRunningJobs"] == 1  # running or about to run
    world.pass_time(30)
    assert (job.state, deaf.job_id) == (JobState.ASSIGNED, "")
    other = world.connected(scale_set, "other")
    world.confirm(other)
    with pytest.raises(Refused, match="not given to this runner"):
        world.do(runner_sessions.confirm, deaf, job.id)
    assert world.kinds(scale_set) == ["JobAssigned", "JobStarted"]


def test_a_job_no_runner_takes_is_withdrawn_and_assigned_again_three_times_then_canceled() -> None:
    world = World(assignment_timeout_s=60, requeue_delays_s=(10, 20, 40))
    scale_set = world.scale_set()
    world.listen(scale_set)
    job = world.job()
    seen = []
    for wait_s in (10, 20, 40):
        world.pass_time(60)
        pair = world.messages(scale_set)
        seen.append([(m["messageType"], m.get("result")) for m in pair])
        assert pair[1]["runnerAssignTime"] == ZERO_TIME
        assert (job.state, job.result) == (JobState.QUEUED, None)
        assert world.statistics(scale_set)["totalAssignedJobs"] == 0
        world.pass_time(wait_s - 1)
        assert job.state is JobState.QUEUED  # the delays grow
        world.pass_time(1)
        assert job.state is JobState.ASSIGNED
    assert seen == [[("JobAssigned", None), ("JobCompleted", "canceled")]] * 3
    world.pass_time(60)
    assert (job.state, job.result) == (JobState.COMPLETED, Result.CANCELED)
    assert world.kinds(scale_set) == ["JobAssigned", "JobCompleted"]


def test_a_job_whose_runner_falls_silent_has_failed_and_is_never_started_again() -> None:
    world = World(runner_lost_s=60)
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r")
    job = world.job()
    world.confirm(runner)
    for _ in range(5):
        world.pass_time(59)
        world.do(runner_sessions.report, runner, job.id, offset=0, text=b"")
    world.pass_time(60)
    assert (job.result, job.starts) == (Result.FAILED, 1)
    with pytest.raises(Refused) as refused:
        world.do(runner_sessions.report, runner, job.id, offset=0, text=b"")
    assert refused.value.status == 410


def test_a_canceled_job_is_told_to_its_runner_and_ends_without_it_if_it_does_not_react() -> None:
    world = World(cancel_grace_s=60, runner_lost_s=1_000)
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r")
    job = world.job()
    world.confirm(runner)
    world.do(jobs.cancel, job)
    assert world.do(runner_sessions.report, runner, job.id, offset=0, text=b"") is True
    world.pass_time(60)
    assert (job.result, job.disowned) == (Result.CANCELED, True)


def test_a_job_canceled_while_it_is_handed_over_is_not_started() -> None:
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r")
    job = world.job()
    world.do(jobs.cancel, job)
    assert runner_sessions.offered_job(world.state, runner) is None
    with pytest.raises(Refused, match="already ended"):
        world.do(runner_sessions.confirm, runner, job.id)
    assert job.starts == 0


def test_a_job_that_runs_past_its_timeout_is_canceled_even_if_its_runner_does_not_stop_it() -> None:
    world = World(runner_lost_s=60)
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r")
    job = world.job(timeout_s=120)
    world.confirm(runner)
    for _ in range(6):
        world.pass_time(30)
        if job.state is JobState.RUNNING:
            world.do(runner_sessions.report, runner, job.id, offset=0, text=b"")
    assert job.result is Result.CANCELED


class TestAcquireMode:
    """Older GHES: nothing is assigned that was not claimed."""

    def test_a_job_is_offered_and_assigned_only_when_claimed(self) -> None:
        world = World(assignment=AssignmentMode.ACQUIRE)
        scale_set = world.scale_set()
        session = world.listen(scale_set, capacity=1)
        queued = [world.job() for _ in range(3)]
        offers = world.messages(scale_set)
        assert [m["messageType"] for m in offers] == ["JobAvailable"] * 3
        assert world.statistics(scale_set)["totalAvailableJobs"] == 3
        ids = [m["runnerRequestId"] for m in offers]
        taken = world.do(sessions.acquire_jobs, session.token, scale_set.id, ids[:2])
        assert taken == ids[:2]
        assert [job.state.value for job in queued] == ["assigned", "assigned", "available"]
        assert world.kinds(scale_set) == ["JobAssigned", "JobAssigned"]

    def test_claiming_again_is_no_error_and_claiming_the_unknown_gives_nothing(self) -> None:
        world = World(assignment=AssignmentMode.ACQUIRE)
        scale_set = world.scale_set()
        session = world.listen(scale_set)
        job = world.job()
        for _ in range(2):
            taken = world.do(sessions.acquire_jobs, session.token, scale_set.id, [job.number, 999])
            assert taken == [job.number]
        assert world.kinds(scale_set) == ["JobAvailable", "JobAssigned"]

    def test_an_offer_nobody_claims_is_made_again(self) -> None:
        world = World(assignment=AssignmentMode.ACQUIRE, offer_repeat_s=30)
        scale_set = world.scale_set()
        world.listen(scale_set)
        world.job()
        world.pass_time(30)
        assert world.kinds(scale_set) == ["JobAvailable", "JobAvailable"]
        assert world.statistics(scale_set)["totalAvailableJobs"] == 1

    def test_an_offer_goes_back_to_the_queue_when_the_session_ends(self) -> None:
        world = World(assignment=AssignmentMode.ACQUIRE)
        scale_set = world.scale_set()
        session = world.listen(scale_set)
        job = world.job()
        world.do(sessions.close_session, scale_set, session.id)
        assert job.state is JobState.QUEUED
        world.listen(scale_set)
        assert job.state is JobState.AVAILABLE
        assert world.kinds(scale_set) == ["JobAvailable", "JobAvailable"]


def test_assigning_can_take_the_second_that_it_takes_live() -> None:
    world = World(assign_delay_s=1)
    world.listen(world.scale_set())
    job = world.job()
    world.pass_time(0.9)
    assert job.state is JobState.QUEUED
    world.pass_time(0.1)
    assert job.state is JobState.ASSIGNED
    assert job.assigned_s - job.queued_s == pytest.approx(1)


def test_a_job_in_hand_when_its_scale_set_goes_returns_to_the_queue() -> None:
    world = World(handover_timeout_s=30)
    scale_set = world.scale_set()
    world.listen(scale_set)
    world.connected(scale_set, "deaf")
    job = world.job()
    world.do(scale_sets.delete, scale_set)
    world.pass_time(30)
    assert (job.state, job.scale_set_id, job.runner_id) == (JobState.QUEUED, 0, 0)
    successor = world.scale_set()
    world.listen(successor)
    assert job.scale_set_id == successor.id


def test_the_oldest_finished_jobs_are_forgotten() -> None:
    world = World(finished_jobs_max=2)
    queued = [world.job() for _ in range(4)]
    for job in queued:
        world.do(jobs.cancel, job)
    assert list(world.state.jobs) == [job.id for job in queued[2:]]
    assert list(world.state.jobs_by_number) == [3, 4]
