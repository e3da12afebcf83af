"""Whatever happens in whatever order, the pretended GitHub keeps its promises.

A rule-based machine plays listeners, controllers, runners and time. The checks look at what
the outside sees (messages, starts, registrations, statistics), not at how it came about.
"""

from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from runnerscale.fake_github import jobs, runner_sessions, runners, scale_sets, sessions
from runnerscale.fake_github.model import Job, JobState, Runner, ScaleSet
from runnerscale.fake_github.options import AssignmentMode
from runnerscale.fake_github.refusals import Refused
from tests.unit.fake_github.world import World

WHICH = st.sampled_from([0, 0, 0, 1])  # mostly one scale set, so that things meet
STARTED_OR_ASKED = (JobState.HANDED, JobState.RUNNING)


class GitHubMachine(RuleBasedStateMachine):
    """Two scale sets, any number of jobs and runners."""

    runner_names = Bundle("runner_names")

    @initialize(acquire=st.booleans())
    def begin(self, acquire: bool) -> None:
        self.world = World(
            assignment=AssignmentMode.ACQUIRE if acquire else AssignmentMode.PUSH,
            session_life_s=70,
            assignment_timeout_s=50,
            requeue_delays_s=(5, 10, 20),
            handover_timeout_s=10,
            runner_lost_s=30,
            cancel_grace_s=15,
            offline_runner_life_s=300,
        )
        self.sets = [self.world.scale_set("demo"), self.world.scale_set("other")]
        self.jobs: list[Job] = []
        self.runners: dict[str, Runner] = {}
        self.started_by: dict[str, set[str]] = {}
        self.cursor: dict[int, int] = {}
        self.seen: dict[int, dict[int, list[Any]]] = {s.id: {} for s in self.sets}
        self.refused_removals: set[str] = set()

    def pick_set(self, number: int) -> ScaleSet:
        return self.sets[number % len(self.sets)]

    @rule(number=WHICH)
    def queue(self, number: int) -> None:
        self.jobs.append(self.world.job(labels=(self.pick_set(number).name,)))

    @rule(number=WHICH, capacity=st.sampled_from([0, 1, 3, 3, 5]))
    def poll(self, number: int, capacity: int) -> None:
        scale_set = self.pick_set(number)
        if scale_set.deleted:
            return
        if scale_set.session is None:
            self.world.do(sessions.open_session, scale_set, "listener")
            self.cursor[scale_set.id] = 0
        assert scale_set.session is not None
        if scale_set.session.token_expires_s <= self.world.now_s:
            self.world.do(sessions.refresh_session, scale_set, scale_set.session.id)
        token = scale_set.session.token
        session, _ = self.world.do(sessions.begin_poll, token, capacity)
        cursor = self.cursor.get(scale_set.id, 0)
        envelope = self.world.do(sessions.take_envelope, token, cursor)
        self.world.do(lambda _state, now_s: sessions.end_poll(now_s, session))
        if envelope is None:
            return
        assert envelope.id > cursor
        assert len(envelope.messages) <= 50
        known = self.seen[scale_set.id].setdefault(envelope.id, list(envelope.messages))
        assert known == list(envelope.messages)  # redelivered: the same content
        self.cursor[scale_set.id] = envelope.id
        offered = [
            m["runnerRequestId"] for m in envelope.messages if m["messageType"] == "JobAvailable"
        ]
        if offered:
            self.world.do(sessions.acquire_jobs, token, scale_set.id, offered)

    @rule(number=WHICH)
    def acknowledge(self, number: int) -> None:
        scale_set = self.pick_set(number)
        cursor = self.cursor.get(scale_set.id, 0)
        if (
            scale_set.session is not None
            and cursor
            and self.world.now_s < (scale_set.session.token_expires_s)
        ):
            self.world.do(sessions.acknowledge, scale_set.session.token, cursor)

    @rule(number=WHICH)
    def listener_dies(self, number: int) -> None:
        self.cursor[self.pick_set(number).id] = 0

    @rule(seconds=st.sampled_from([0, 0.5, 0.5, 2, 4, 4, 11, 26, 61]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(target=runner_names, number=WHICH)
    def only_register(self, number: int) -> str:
        return self.register(number)

    def register(self, number: int) -> str:
        name = f"r-{len(self.runners)}"
        scale_set = self.pick_set(number)
        if not scale_set.deleted:
            self.runners[name] = self.world.runner(scale_set, name)
        return name

    @rule(target=runner_names, number=WHICH)
    def register_and_start_one(self, number: int) -> str:
        return self.register_and_start(number)

    def register_and_start(self, number: int) -> str:
        name = self.register(number)
        self.start_runner(name)
        return name

    @rule(name=runner_names)
    def start_runner(self, name: str) -> None:
        runner = self.runners.get(name)
        if runner is None or runner.closed:
            return
        try:
            self.world.do(runner_sessions.connect, secret=runner.secret, nonce=name)
        except Refused:
            return
        if runner.polls_held == 0:
            self.world.do(runner_sessions.begin_poll, runner)

    @rule(target=runner_names, number=WHICH)
    def a_job_meets_a_runner(self, number: int) -> str:
        self.queue(number)
        self.poll(number, 5)
        return self.register_and_start(number)

    @rule(number=st.integers(0, 5))
    def confirm_one_that_was_handed(self, number: int) -> None:
        handed = [r.name for r in self.runners.values() if r.job_id]
        if handed:
            self.confirm(handed[number % len(handed)])

    @rule(number=st.integers(0, 5), result=st.sampled_from(["succeeded", "failed", "canceled"]))
    def finish_one_that_runs(self, number: int, result: str) -> None:
        running = [j.runner_name for j in self.jobs if j.state is JobState.RUNNING]
        if running:
            self.finish(running[number % len(running)], result)

    @rule(number=st.integers(0, 5))
    def remove_a_busy_one(self, number: int) -> None:
        busy = [r.name for r in self.runners.values() if r.job_id]
        if busy:
            self.remove(busy[number % len(busy)])

    def confirm(self, name: str) -> None:
        runner = self.runners.get(name)
        if runner is None or not runner.job_id:
            return
        if runner.polls_held:
            self.world.do(lambda state, now_s: runner_sessions.end_poll(state, now_s, runner))
        job_id = runner.job_id
        if not job_id:
            return
        try:
            job = self.world.do(runner_sessions.confirm, runner, job_id)
        except Refused:
            return
        if job.state is JobState.RUNNING:
            self.started_by.setdefault(job.id, set()).add(name)

    def finish(self, name: str, result: str) -> None:
        runner = self.runners.get(name)
        job = self.world.state.jobs.get(runner.job_id) if runner is not None else None
        if runner is None or job is None or job.state is not JobState.RUNNING:
            return
        try:
            self.world.do(runner_sessions.finish, runner, job.id, result=result, steps=[])
        except Refused:
            assert job.disowned  # it was lost or canceled in the same instant

    @rule(name=runner_names)
    def remove(self, name: str) -> None:
        runner = self.runners.get(name)
        if runner is None:
            return
        had_job = bool(runner.job_id)
        try:
            self.world.do(runners.remove, runner.tenant_id, runner.id)
        except Refused:
            assert had_job
            return
        assert runner.id not in self.world.state.runners

    @rule(number=st.integers(0, 20))
    def cancel(self, number: int) -> None:
        if self.jobs:
            self.world.do(jobs.cancel, self.jobs[number % len(self.jobs)])

    @rule()
    def delete_a_scale_set(self) -> None:
        if not self.sets[1].deleted and len(self.jobs) > 6:
            self.world.do(scale_sets.delete, self.sets[1])

    @invariant()
    def a_job_is_started_at_most_once_and_by_one_runner(self) -> None:
        assert all(job.starts <= 1 for job in self.jobs)
        assert all(len(names) == 1 for names in self.started_by.values())

    @invariant()
    def a_runner_takes_at_most_one_job(self) -> None:
        by_runner = Counter(name for names in self.started_by.values() for name in names)
        assert all(count == 1 for count in by_runner.values())

    @invariant()
    def the_statistics_are_the_truth(self) -> None:
        state = self.world.state
        for scale_set in self.sets:
            if scale_set.deleted:
                continue
            mine = [job for job in self.jobs if job.scale_set_id == scale_set.id]
            by_state = Counter(job.state for job in mine)
            told = self.world.statistics(scale_set)
            running = by_state[JobState.HANDED] + by_state[JobState.RUNNING]
            assert told["totalAvailableJobs"] == by_state[JobState.AVAILABLE]
            assert told["totalAssignedJobs"] == by_state[JobState.ASSIGNED] + running
            assert told["totalAssignedJobs"] >= told["totalRunningJobs"] == running
            registered = [r for r in state.runners.values() if r.scale_set_id == scale_set.id]
            assert told["totalRegisteredRunners"] == len(registered)
            busy = [r for r in registered if r.job_id]
            assert told["totalBusyRunners"] == len(busy)
            assert told["totalIdleRunners"] == len(registered) - len(busy)

    @invariant()
    def a_job_in_hand_and_its_runner_know_each_other(self) -> None:
        state = self.world.state
        for job in self.jobs:
            if job.state in STARTED_OR_ASKED:
                assert state.runners[job.runner_id].job_id == job.id
        for runner in state.runners.values():
            if runner.job_id:
                assert state.jobs[runner.job_id].runner_id == runner.id

    @invariant()
    def nothing_that_must_never_happen_has_happened(self) -> None:
        assert list(self.world.state.violations) == []

    @invariant()
    def no_job_waits_for_a_runner_that_waits_for_a_job(self) -> None:
        for scale_set in self.sets:
            assert not (scale_set.waiting and scale_set.idle_polling)

    def teardown(self) -> None:
        """If nobody disturbs it any more, every job ends within a bound."""
        if not hasattr(self, "world"):
            return
        for _ in range(60):
            self.world.pass_time(60)
            for number in (0, 1):
                self.poll(number, 3)
        ended = [job.state is JobState.COMPLETED for job in self.jobs if job.starts]
        assert all(ended)
        for scale_set in self.sets:
            self.every_job_message_came_in_order(scale_set)

    def every_job_message_came_in_order(self, scale_set: ScaleSet) -> None:
        order = {"JobAvailable": 0, "JobAssigned": 1, "JobStarted": 2, "JobCompleted": 3}
        progress: dict[str, int] = {}
        for envelope_id in sorted(self.seen[scale_set.id]):
            for message in self.seen[scale_set.id][envelope_id]:
                rank = order[message["messageType"]]
                before = progress.get(message["jobId"], -1)
                assert rank > before or rank == before == 0 or before == 3
                progress[message["jobId"]] = rank


TestGitHub = GitHubMachine.TestCase
TestGitHub.settings = settings(
    max_examples=70,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
