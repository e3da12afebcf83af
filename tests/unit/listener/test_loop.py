"""The listener's life: sessions, polls, messages, acknowledgements, stopping, healing."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.reasons import Reason
from runnerscale.kube import errors as kube_errors
from runnerscale.listener.config import ConfigError
from runnerscale.listener.metric_settings import MetricsFile
from runnerscale.listener.scaler import Bounds
from runnerscale.listener.states import State
from runnerscale.scaleset import errors
from runnerscale.scaleset.errors import Answer
from runnerscale.scaleset.model import (
    JobEvent,
    JobEventKind,
    Message,
    RunnerScaleSet,
    Statistics,
)
from tests.unit.listener.conftest import config, metrics, running, until, value, world
from tests.unit.listener.fakes import EPOCH_S, FakeSession, Reply

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def statistics(assigned: int, **more: int) -> Statistics:
    return Statistics(assigned_jobs=assigned, **more)


STARTED = JobEvent(
    kind=JobEventKind.STARTED,
    index=0,
    job_id="job-1",
    owner_name="org",
    repository_name="repo",
    workflow_run_id=456,
    runner_name="runner-1",
    scale_set_assign_time_s=EPOCH_S - 10,
    runner_assign_time_s=EPOCH_S - 5,
)
COMPLETED = replace(STARTED, kind=JobEventKind.COMPLETED, result="succeeded", finish_time_s=EPOCH_S)


def message(number: int, assigned: int, *events: JobEvent, **more: Any) -> Message:
    placed = tuple(replace(event, index=n) for n, event in enumerate(events))
    return Message(number, statistics(assigned), placed, **more)


def session(*replies: Reply, assigned: int = 0) -> FakeSession:
    return FakeSession(statistics=statistics(assigned), replies=deque(replies))


@pytest.mark.behaviour("C2 T118")
def test_the_sessions_statistics_are_followed_before_the_first_poll(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(assigned=2))
        async with running(this):
            await until(lambda: bool(this.session.did("poll")))
            assert this.patches == [(2, 0)]
            assert value(this.metrics, "gha_assigned_jobs") == 2
            assert value(this.metrics, "gha_desired_runners") == 2
        assert this.session.did("poll") == [(0, 10)]  # no cursor yet
        assert this.session.did("close")

    run_virtual(scene())


@pytest.mark.behaviour("C2 T119")
def test_a_message_that_came_with_the_stop_is_still_handled(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(1, 3), assigned=0))
        poll = this.session.poll

        async def stopping_poll(last: int, capacity: int) -> Message | None:
            this.listener.stop()
            return await poll(last, capacity)

        this.session.poll = stopping_poll  # type: ignore[method-assign]
        await this.listener.run()
        assert this.session.did("acknowledge") == [1]
        assert this.patches == [(0, 0), (3, 1)]
        assert value(this.metrics, "gha_desired_runners") == 3
        assert this.session.did("poll") == [(0, 10)]

    run_virtual(scene())


def test_an_empty_poll_tells_the_number_again_and_the_metric_with_it(run_virtual: Run) -> None:
    # Upstream leaves the metric alone (C2 T120); W30: always record what was sent.
    async def scene() -> None:
        this = world(session(50.0, assigned=2))
        async with running(this):
            await until(lambda: len(this.patches) == 1)
            this.metrics.record_desired(0)  # so that it is seen when it is recorded anew
            await until(lambda: len(this.patches) == 2)
        assert this.patches == [(2, 0), (2, 0)]
        assert value(this.metrics, "gha_desired_runners") == 2

    run_virtual(scene())


@pytest.mark.behaviour("C2 T121", "C2 T122")
def test_an_empty_poll_follows_the_last_message_and_the_cursor_too(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(41, 4), 50.0, assigned=2))
        async with running(this):
            await until(lambda: len(this.patches) == 3)
            await until(lambda: len(this.session.did("poll")) >= 3)
        assert this.patches == [(2, 0), (4, 1), (4, 0)]
        assert this.session.did("poll")[:3] == [(0, 10), (41, 10), (41, 10)]

    run_virtual(scene())


@pytest.mark.behaviour("C2 T123")
def test_a_message_is_acknowledged_after_everything_it_says_was_done(run_virtual: Run) -> None:
    async def scene() -> None:
        offers = [JobEvent(kind=JobEventKind.AVAILABLE, index=0, request_id=n) for n in (5, 6)]
        this = world(session(message(1, 1, *offers, STARTED, COMPLETED)))
        this.runner("runner-1")
        at_acknowledge: list[Any] = []
        acknowledge = this.session.acknowledge

        async def noted(message_id: int) -> None:
            at_acknowledge.append((this.status("runner-1")["phase"], this.patches))
            await acknowledge(message_id)

        this.session.acknowledge = noted  # type: ignore[method-assign]
        async with running(this):
            await until(lambda: bool(this.session.did("acknowledge")))
        assert this.session.did("acquire") == [[5, 6]]
        assert at_acknowledge == [("Running", [(0, 0), (1, 1)])]

    run_virtual(scene())


@pytest.mark.behaviour("C2 T124")
def test_a_started_job_that_cannot_be_stored_is_tried_again_before_the_acknowledgement(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = world(session(message(1, 1, STARTED)))
        this.runner("runner-1")
        for _ in range(3):
            this.api.faults.append(
                ("get ephemeralrunners", kube_errors.ServerFault(500, "", "down"))
            )
        async with running(this):
            await until(lambda: bool(this.session.did("acknowledge")))
            assert this.status("runner-1")["phase"] == "Running"
        assert this.session.did("acknowledge") == [1]

    run_virtual(scene())


def test_a_runner_that_cannot_be_patched_does_not_hold_the_queue(run_virtual: Run) -> None:
    # Issue, "What must be shown": reported and repaired later, the others go on.
    async def scene() -> None:
        good = replace(STARTED, runner_name="runner-2", job_id="job-2")
        this = world(session(message(1, 2, STARTED, good), message(2, 2, replace(good))))
        this.runner("runner-1")
        this.runner("runner-2")
        stuck = True

        def before(verb: str, path: str) -> None:
            if stuck and verb == "patch" and "runner-1/status" in path:
                raise kube_errors.ServerFault(500, "", "webhook down")

        this.api.before = before
        async with running(this):
            began_s = asyncio.get_running_loop().time()
            await until(lambda: this.status("runner-2").get("phase") == "Running")
            assert asyncio.get_running_loop().time() - began_s < 1  # nobody waits for runner-1
            await until(lambda: this.session.did("acknowledge") == [1, 2])
            assert asyncio.get_running_loop().time() - began_s < 32  # the bound of an element
            assert value(this.metrics, "runnerscale_listener_unstored_job_events") == 1
            assert this.status("runner-1")["phase"] == "Pending"
            stuck = False
            await until(lambda: this.status("runner-1")["phase"] == "Running", within_s=130)
            assert this.status("runner-1")["jobId"] == "job-1"
            await until(
                lambda: value(this.metrics, "runnerscale_listener_unstored_job_events") == 0
            )

    run_virtual(scene())


def test_a_message_that_comes_again_asks_no_second_time_about_a_runner_that_is_being_repaired(
    run_virtual: Run,
) -> None:
    # Seed 1159: the queue and the repair both asked about it, twice as often as allowed.
    async def scene() -> None:
        lost = [errors.SessionLost("the service forgot it")]
        again = session(message(1, 1, STARTED))
        this = world(session(message(1, 1, STARTED), *lost), again)
        this.runner("runner-1")
        stuck = True
        tried_s: list[float] = []

        def before(verb: str, path: str) -> None:
            if stuck and verb == "patch" and "runner-1/status" in path:
                tried_s.append(asyncio.get_running_loop().time())
                raise kube_errors.ServerFault(500, "", "webhook down")

        this.api.before = before
        async with running(this):
            await until(lambda: again.did("acknowledge") == [1])
            came_s = asyncio.get_running_loop().time()
            # Handed on at once: it does not wait another 30 s for what is being waited for.
            assert came_s < 45
            assert len([at for at in tried_s if at > came_s - 1]) <= 1
            assert value(this.metrics, "runnerscale_listener_unstored_job_events_total") == 1
            stuck = False
            # Said again, and tried soon: 5 s at most, whatever the pause had grown to.
            await until(lambda: this.status("runner-1")["phase"] == "Running", within_s=6)

    run_virtual(scene())


def test_growing_is_told_while_the_status_of_runners_is_still_being_stored(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = world(session(message(1, 8, STARTED)))
        this.runner("runner-1")
        this.api.before = _slow_runners
        async with running(this):
            await until(lambda: len(this.patches) == 2, within_s=1)
            assert this.patches[-1] == (8, 1)
            assert this.status("runner-1")["phase"] == "Pending"

    def _slow_runners(verb: str, path: str) -> None:
        if "/ephemeralrunners/" in path:
            raise kube_errors.Unreachable("slow")

    run_virtual(scene())


def test_shrinking_waits_until_the_started_jobs_of_its_message_are_stored(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = world(session(message(1, 1, STARTED), assigned=5))
        this.runner("runner-1")
        this.api.delay_s = 1.0
        async with running(this):
            await until(lambda: bool(this.session.did("acknowledge")))
        order = [
            path.rsplit("/", 2)[-2 if path.endswith("/status") else -1]
            for verb, path, _ in this.api.requests
            if verb == "patch"
        ]
        assert order == ["set", "runner-1", "set"]
        assert this.patches == [(5, 0), (1, 1)]

    run_virtual(scene())


def test_different_runners_are_stored_side_by_side_one_runner_in_order(run_virtual: Run) -> None:
    async def scene() -> None:
        events = [
            replace(STARTED, runner_name=f"runner-{n % 10}", job_id=str(n)) for n in range(20)
        ]
        this = world(session(message(1, 10, *events)))
        for n in range(10):
            this.runner(f"runner-{n}")
        this.api.delay_s = 1.0
        async with running(this):
            await until(lambda: bool(this.session.did("acknowledge")), within_s=10)
        # 20 events of 2 requests: 40 s in a row, 4 s side by side; the later event won.
        assert [this.status(f"runner-{n}")["jobId"] for n in range(10)] == [
            str(n + 10) for n in range(10)
        ]

    run_virtual(scene())


@pytest.mark.behaviour("C2 T125")
def test_other_limits_count_from_the_next_poll_and_are_told_at_once(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(50.0, assigned=4))
        async with running(this):
            await until(lambda: len(this.session.did("poll")) == 1)
            this.listener.apply(config(bounds=Bounds(min_runners=2, max_runners=7)))
            await until(lambda: len(this.patches) == 2)
            assert this.patches[-1] == (6, 1)
            assert value(this.metrics, "gha_min_runners") == 2
            assert value(this.metrics, "gha_max_runners") == 7
            await until(lambda: len(this.session.did("poll")) == 2)
        assert [capacity for _, capacity in this.session.did("poll")[:2]] == [10, 7]
        assert this.github.opened == [(7, "host")]  # the session was never given back

    run_virtual(scene())


@pytest.mark.behaviour("C2 T126")
def test_without_any_metric_installed_it_works_all_the_same(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(1, 1, STARTED, COMPLETED)), numbers=metrics(MetricsFile()))
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1])

    run_virtual(scene())


@pytest.mark.behaviour("C2 T127", "C2 T114")
def test_a_poll_that_fails_is_repeated_in_the_same_session(run_virtual: Run) -> None:
    async def scene() -> None:
        # An outage, then answers that cannot be used (a 200 with an empty body), then a message.
        this = world(session(errors.Unavailable("down"), errors.BadAnswer("empty"), message(1, 1)))
        async with running(this):
            await until(lambda: this.listener.situation.state is State.WAITING)
            assert this.listener.situation.reason is Reason.GITHUB_UNAVAILABLE
            assert not this.listener.readiness().ready
            assert (
                value(
                    this.metrics,
                    "runnerscale_listener_state",
                    state="waiting",
                    reason="GitHubUnavailable",
                )
                == 1
            )
            await until(lambda: this.session.did("acknowledge") == [1], within_s=10)
            assert this.listener.readiness().ready
        assert len(this.github.opened) == 1

    run_virtual(scene())


def test_a_poll_that_never_comes_back_is_given_up(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(100_000.0, message(1, 1)))
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1], within_s=210)

    run_virtual(scene())


@pytest.mark.behaviour("C2 T117")
def test_a_session_that_cannot_be_opened_is_a_state_not_an_end(run_virtual: Run) -> None:
    # Upstream ends on a session without id or statistics; the client reports it as BadAnswer.
    async def scene() -> None:
        this = world(errors.BadAnswer("the session has no statistics"), session())
        async with running(this):
            await until(lambda: this.listener.situation.state is State.WAITING)
            assert "no statistics" in this.listener.readiness().why
            await until(lambda: this.listener.readiness().ready, within_s=5)

    run_virtual(scene())


@pytest.mark.behaviour("C2 T90")
def test_a_session_held_elsewhere_is_waited_for_without_end_and_visibly(run_virtual: Run) -> None:
    async def scene() -> None:
        held = [errors.SessionConflict("held by a dead pod") for _ in range(10)]
        this = world(*held, session())
        async with running(this):
            await until(lambda: len(this.github.opened) == 5, within_s=70)
            assert this.listener.situation.reason is Reason.SESSION_HELD_ELSEWHERE
            assert "held by a dead pod" in this.listener.readiness().why
            began_s = asyncio.get_running_loop().time()
            await until(lambda: this.listener.readiness().ready, within_s=400)
            assert asyncio.get_running_loop().time() - began_s > 6 * 12  # seldom, and more so

    run_virtual(scene())


@pytest.mark.behaviour("C2 T106")
def test_a_lost_session_is_replaced_and_the_cursor_begins_anew(run_virtual: Run) -> None:
    async def scene() -> None:
        second = session(message(9, 2), assigned=1)
        this = world(session(message(9, 1), errors.SessionLost("expired")), second)
        async with running(this):
            await until(lambda: second.did("acknowledge") == [9], within_s=10)
        assert second.did("poll")[0] == (0, 10)
        assert this.session.did("close")

    run_virtual(scene())


def test_a_session_renewed_in_place_starts_the_cursor_anew(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(9, 1), 50.0, 50.0))
        async with running(this):
            await until(lambda: len(this.session.did("poll")) == 2)
            this.session.generation = 2
            this.session.statistics = statistics(3)
            await until(lambda: len(this.session.did("poll")) == 3)
            assert this.session.did("poll")[2][0] == 0
            assert this.patches[-1][0] == 3  # and its statistics are followed (W46)
            told = value(this.metrics, "runnerscale_listener_troubles_total", reason="SessionLost")
            assert told == 1

    run_virtual(scene())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.CredentialsRefused("401"), Reason.CREDENTIALS_REFUSED),
        (errors.ScaleSetNotFound("404"), Reason.SCALE_SET_GONE),
        (errors.Refused("403"), Reason.GITHUB_REFUSED),
    ],
)
def test_what_needs_somebody_is_waited_for_slowly_and_visibly(
    error: errors.ScaleSetError, reason: Reason, run_virtual: Run
) -> None:
    async def scene() -> None:
        this = world(error, error, error, session())
        async with running(this):
            await until(lambda: len(this.github.opened) == 3, within_s=60)
            assert this.listener.situation.reason is reason
            await until(lambda: this.listener.readiness().ready, within_s=60)

    run_virtual(scene())


def test_mended_credentials_are_tried_at_once(run_virtual: Run) -> None:
    async def scene() -> None:
        refused = [errors.CredentialsRefused("401") for _ in range(6)]
        this = world(*refused, session())
        async with running(this):
            await until(lambda: len(this.github.opened) == 6, within_s=400)
            await asyncio.sleep(1)
            this.listener.retry_now()
            await asyncio.sleep(1)
            assert this.listener.readiness().ready

    run_virtual(scene())


@pytest.mark.behaviour("C2 T112")
def test_what_could_not_be_read_is_counted_and_acknowledged(run_virtual: Run) -> None:
    async def scene() -> None:
        bad = message(1, 1, STARTED, quarantined=("element 2: no object",))
        this = world(session(bad))
        this.runner("runner-1")
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1])
        counted = value(this.metrics, "runnerscale_listener_quarantined_total", what="element")
        assert counted == 1
        assert this.status("runner-1")["phase"] == "Running"

    run_virtual(scene())


def test_a_message_that_breaks_our_own_code_is_set_aside_after_a_few_tries(
    run_virtual: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        this = world(session(message(1, 1, STARTED), message(2, 2)))

        def broken(*_: object, **__: object) -> None:
            raise ValueError("a bug")

        monkeypatch.setattr(this.listener._started, "store", broken)
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1, 2], within_s=30)
        counted = value(this.metrics, "runnerscale_listener_quarantined_total", what="message")
        assert counted == 1

    run_virtual(scene())


def test_a_bug_around_the_poll_does_not_end_the_process(run_virtual: Run) -> None:
    async def scene() -> None:
        broken = session()

        async def poll(*_: object) -> None:
            raise KeyError("a bug")

        broken.poll = poll  # type: ignore[assignment,method-assign]
        this = world(broken, session(message(1, 1)))
        async with running(this):
            await until(lambda: this.listener.readiness().ready, within_s=30)

    run_virtual(scene())


@pytest.mark.behaviour("C2 T161")
def test_a_completed_job_writes_nothing_but_makes_the_next_number_a_numbered_one(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = world(session(message(1, 0, COMPLETED), 50.0))
        this.runner("runner-1", phase="Running")
        async with running(this):
            await until(lambda: len(this.patches) == 3)
        # Nothing changed, yet the first is numbered because a job event came; then exactly.
        assert this.patches == [(0, 0), (0, 1), (0, 0)]
        assert this.api.verbs("ephemeralrunners") == []

    run_virtual(scene())


def test_the_set_is_told_whose_jobs_are_out_of_the_number(run_virtual: Run) -> None:
    async def scene() -> None:
        cancelled = replace(COMPLETED, runner_name="", runner_assign_time_s=0)
        other = replace(COMPLETED, runner_name="runner-2")
        this = world(session(message(1, 0, COMPLETED, cancelled), message(2, 0, other, COMPLETED)))
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1, 2])
        settled = [b["spec"].get("settledRunners") for b in this.api.bodies("ephemeralrunnersets")]
        assert settled == [None, ["runner-1"], ["runner-1", "runner-2"]]

    run_virtual(scene())


def test_counters_grow_once_however_often_a_message_comes(run_virtual: Run) -> None:
    async def scene() -> None:
        same = message(1, 1, STARTED, COMPLETED)
        second = session(same, message(2, 0))
        this = world(session(same, errors.SessionLost("expired")), second)
        async with running(this):
            await until(lambda: second.did("acknowledge") == [1, 2], within_s=30)
        assert value(this.metrics, "gha_started_jobs_total") == 1
        assert value(this.metrics, "gha_completed_jobs_total") == 1
        assert value(this.metrics, "runnerscale_listener_messages_total") == 2

    run_virtual(scene())


def test_an_acknowledgement_that_fails_is_repeated_then_left_for_the_next_time(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = world(session(message(1, 1), message(2, 1)))
        this.session.acknowledge_errors.extend([errors.Unavailable("down")] * 3)
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1, 1, 1, 2], within_s=30)

    run_virtual(scene())


def test_an_acknowledgement_that_hangs_is_given_up(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(1, 1), message(2, 1)))
        acknowledge, hung = this.session.acknowledge, []

        async def hanging(message_id: int) -> None:
            if message_id == 1:
                hung.append(message_id)
                await asyncio.sleep(100_000)
            await acknowledge(message_id)

        this.session.acknowledge = hanging  # type: ignore[method-assign]
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [2], within_s=90)
        assert hung == [1, 1, 1]

    run_virtual(scene())


def test_a_session_lost_at_the_acknowledgement_is_replaced(run_virtual: Run) -> None:
    async def scene() -> None:
        second = session(message(1, 1))
        this = world(session(message(1, 1)), second)
        this.session.acknowledge_errors.append(errors.SessionLost("expired"))
        async with running(this):
            await until(lambda: second.did("acknowledge") == [1], within_s=10)

    run_virtual(scene())


def test_a_message_that_keeps_coming_is_not_handled_in_a_tight_loop(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(*[message(1, 1) for _ in range(100)]))
        async with running(this):
            await asyncio.sleep(20)
        assert len(this.session.did("poll")) < 25

    run_virtual(scene())


def test_a_service_that_does_not_hold_polls_is_asked_once_a_second(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(*[0.0 for _ in range(100)]))
        async with running(this):
            await asyncio.sleep(20)
        assert len(this.session.did("poll")) < 25

    run_virtual(scene())


class TestClaiming:
    OFFERS = tuple(JobEvent(kind=JobEventKind.AVAILABLE, index=0, request_id=n) for n in (5, 6, 7))

    @pytest.mark.behaviour("C2 T200")
    def test_at_most_what_there_is_room_for_now_and_the_rest_later(self, run_virtual: Run) -> None:
        async def scene() -> None:
            offered = Message(1, statistics(0, available_jobs=3), self.OFFERS)
            later = Message(2, statistics(1, available_jobs=1), ())
            this = world(session(offered, later), settings=config(bounds=Bounds(0, 2)))
            async with running(this):
                await until(lambda: this.session.did("acknowledge") == [1, 2])
            assert this.session.did("acquire") == [[5, 6], [7]]

        run_virtual(scene())

    def test_what_was_offered_to_a_listener_that_died_is_claimed_before_the_first_poll(
        self, run_virtual: Run
    ) -> None:
        async def scene() -> None:
            this = world(session(), settings=config(bounds=Bounds(0, 2)))
            this.session.statistics = statistics(0, available_jobs=3)
            this.session.offered = [5, 6, 7]
            async with running(this):
                await until(lambda: bool(this.session.did("poll")))
            assert this.session.did("acquire") == [[5, 6]]
            order = [what for what, _ in this.session.log]
            assert order[:4] == ["open", "acquirable", "acquire", "poll"]

        run_virtual(scene())

    @pytest.mark.parametrize("error", [errors.Unavailable("down"), errors.SessionLost("gone")])
    def test_a_question_for_offers_that_fails_is_asked_again(
        self, run_virtual: Run, error: errors.ScaleSetError
    ) -> None:
        async def scene() -> None:
            second = session()
            this = world(session(), second)
            for each in (this.session, second):
                each.statistics = statistics(0, available_jobs=1)
                each.offered = [5]
            this.session.acquire_errors.append(error)
            async with running(this):
                lost = isinstance(error, errors.SessionLost)
                asked = second if lost else this.session
                await until(lambda: asked.did("acquire") == [[5]], within_s=120)

        run_virtual(scene())

    def test_without_offers_nobody_asks(self, run_virtual: Run) -> None:
        async def scene() -> None:
            this = world(session())
            async with running(this):
                await asyncio.sleep(200)
            assert this.session.did("acquirable") == []

        run_virtual(scene())

    def test_a_server_that_assigns_by_itself_is_not_asked_again(self, run_virtual: Run) -> None:
        async def scene() -> None:
            offered = Message(1, statistics(0, available_jobs=3), self.OFFERS)
            this = world(session(offered, Message(2, statistics(0, available_jobs=3), ())))
            this.session.acquire_errors.append(errors.Refused("404", Answer(status=404)))
            async with running(this):
                await until(lambda: this.session.did("acknowledge") == [1, 2])
            assert len(this.session.did("acquire")) == 1

        run_virtual(scene())

    def test_a_claim_that_fails_is_made_again_after_the_next_poll(self, run_virtual: Run) -> None:
        async def scene() -> None:
            offered = Message(1, statistics(0, available_jobs=3), self.OFFERS)
            this = world(session(offered, 50.0))
            this.session.acquire_errors.append(errors.Unavailable("down"))
            async with running(this):
                await until(lambda: len(this.session.did("acquire")) == 2)
            assert this.session.did("acquire")[1] == [5, 6, 7]

        run_virtual(scene())

    @pytest.mark.parametrize("at_empty_poll", [False, True])
    def test_a_session_lost_at_the_claim_is_replaced_and_nothing_was_acknowledged(
        self, at_empty_poll: bool, run_virtual: Run
    ) -> None:
        async def scene() -> None:
            offered = Message(1, statistics(0, available_jobs=3), self.OFFERS)
            second = session(offered)
            this = world(session(offered, 50.0), second)
            if at_empty_poll:
                this.session.acquire_errors.append(errors.Unavailable("down"))
            this.session.acquire_errors.append(errors.SessionLost("expired"))
            async with running(this):
                await until(lambda: second.did("acknowledge") == [1], within_s=100)
            assert this.session.did("acknowledge") == ([1] if at_empty_poll else [])

        run_virtual(scene())


class TestKubernetesInTrouble:
    @pytest.mark.behaviour("C2 T149")
    def test_a_missing_set_is_told_and_waited_for(self, run_virtual: Run) -> None:
        async def scene() -> None:
            this = world(session(assigned=1))
            del this.api.objects["ephemeralrunnersets", "default", "set"]
            async with running(this):
                await until(lambda: bool(this.session.did("poll")), within_s=60)
                readiness = this.listener.readiness()
                assert not readiness.ready and "default/set" in readiness.why
                assert (
                    value(
                        this.metrics, "runnerscale_listener_kubernetes_failures_total", what="set"
                    )
                    or 0
                ) > 0
                this.api.put(EPHEMERAL_RUNNER_SETS, "default", "set", spec={"patchID": 0})
                await until(lambda: this.listener.readiness().ready, within_s=60)
                assert this.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")["spec"] == {
                    "patchID": 0,
                    "replicas": 1,
                }

        run_virtual(scene())

    @pytest.mark.behaviour("C2 T150")
    def test_a_number_that_failed_goes_out_again_with_its_id(self, run_virtual: Run) -> None:
        async def scene() -> None:
            this = world(session(message(1, 2, COMPLETED)))

            def second_fails(verb: str, path: str) -> None:
                if len(this.patches) == 2:
                    raise kube_errors.ServerFault(503, "", "down")

            this.api.before = second_fails
            async with running(this):
                await until(lambda: this.session.did("acknowledge") == [1])
            assert this.patches == [(0, 0), (2, 1), (2, 1)]

        run_virtual(scene())


class TestStopping:
    @pytest.mark.behaviour("C2 T194")
    def test_a_poll_is_aborted_and_the_session_given_back(self, run_virtual: Run) -> None:
        async def scene() -> None:
            this = world(session())
            task = asyncio.get_running_loop().create_task(this.listener.run())
            await until(lambda: bool(this.session.did("poll")))
            await asyncio.sleep(5)
            began_s = asyncio.get_running_loop().time()
            this.listener.stop()
            await task
            assert asyncio.get_running_loop().time() - began_s < 1
            assert this.session.did("close")
            assert this.listener.situation.state is State.STOPPING

        run_virtual(scene())

    @pytest.mark.behaviour("C2 T195")
    def test_a_message_being_handled_is_finished_and_acknowledged(self, run_virtual: Run) -> None:
        async def scene() -> None:
            this = world(session(message(1, 1, STARTED)))
            this.runner("runner-1")
            this.api.delay_s = 2.0
            task = asyncio.get_running_loop().create_task(this.listener.run())
            await until(lambda: bool(this.api.verbs("ephemeralrunners")))
            this.listener.stop()
            await task
            assert [name for name, _ in this.session.log][-2:] == ["acknowledge", "close"]
            assert this.status("runner-1")["phase"] == "Running"

        run_virtual(scene())

    def test_a_message_that_cannot_be_finished_is_left_unacknowledged(
        self, run_virtual: Run
    ) -> None:
        async def scene() -> None:
            this = world(session(message(1, 1, STARTED)))
            this.runner("runner-1")

            def hang_from_now_on(verb: str, path: str) -> None:
                this.api.delay_s = 100_000.0

            this.api.before = hang_from_now_on
            task = asyncio.get_running_loop().create_task(this.listener.run())
            await until(lambda: bool(this.session.did("poll")))
            await asyncio.sleep(0.2)
            this.listener.stop()
            began_s = asyncio.get_running_loop().time()
            await task
            assert asyncio.get_running_loop().time() - began_s < 25  # the grace may be 30 s
            assert this.session.did("acknowledge") == []
            assert this.session.did("close")

        run_virtual(scene())

    @pytest.mark.behaviour("C2 T197")
    @pytest.mark.parametrize("takes_s", [0.0, 100_000.0])
    def test_a_session_that_cannot_be_given_back_does_not_hold_the_end(
        self, takes_s: float, run_virtual: Run
    ) -> None:
        async def scene() -> None:
            this = world(session())
            this.session.close_error = errors.Unavailable("down")
            this.session.close_takes_s = takes_s
            task = asyncio.get_running_loop().create_task(this.listener.run())
            await until(lambda: bool(this.session.did("poll")))
            this.listener.stop()
            began_s = asyncio.get_running_loop().time()
            await task
            assert asyncio.get_running_loop().time() - began_s < 10

        run_virtual(scene())

    def test_it_stops_while_it_waits_for_a_session(self, run_virtual: Run) -> None:
        async def scene() -> None:
            this = world(*[errors.SessionConflict("held") for _ in range(9)])
            task = asyncio.get_running_loop().create_task(this.listener.run())
            await asyncio.sleep(50)
            this.listener.stop()
            await task

        run_virtual(scene())

    def test_a_cancelled_run_gives_the_session_back_too(self, run_virtual: Run) -> None:
        async def scene() -> None:
            this = world(session(message(1, 1, STARTED)))
            task = asyncio.get_running_loop().create_task(this.listener.run())
            await until(lambda: len(this.session.did("poll")) == 2)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled() and this.session.did("close")

        run_virtual(scene())


@pytest.mark.behaviour("C2 T198")
def test_an_idle_hour_costs_one_poll_and_one_patch_for_each_hold(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session())
        async with running(this):
            await asyncio.sleep(3600)
            polls, patches = len(this.session.did("poll")), len(this.patches)
        assert 71 <= polls <= 73  # a hold of 50 s
        assert abs(patches - polls) <= 1
        assert len(this.github.opened) == 1
        version = this.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")["metadata"]
        assert version["resourceVersion"] == "42"  # and changes nothing after the first

    run_virtual(scene())


@pytest.mark.behaviour("C2 T196")
def test_after_a_crash_the_same_message_changes_nothing_twice(run_virtual: Run) -> None:
    async def scene() -> None:
        first = world(session(message(1, 1, STARTED)))
        first.runner("runner-1")
        async with running(first):
            await until(lambda: first.session.did("acknowledge") == [1])
        status = dict(first.status("runner-1"))
        again = world(
            errors.SessionConflict("held by the dead one"), session(message(1, 1, STARTED))
        )
        again.api.objects = first.api.objects
        async with running(again):
            await until(lambda: again.session.did("acknowledge") == [1], within_s=60)
        assert again.status("runner-1") == status

    run_virtual(scene())


def test_limits_that_make_no_sense_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="scaleSetID is required"):
        world(settings=config(scale_set_id=0))


def test_a_listener_that_hears_nothing_for_long_is_not_ready(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session())
        async with running(this):
            await until(lambda: this.listener.readiness().ready)
            this.listener._last_success_s = -1000.0
            assert "no poll came back" in this.listener.readiness().why

    run_virtual(scene())


def test_a_runner_of_the_message_that_is_gone_is_moot(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(1, 1, STARTED)))
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1], within_s=1)
        assert this.api.verbs("ephemeralrunners") == ["get"]

    run_virtual(scene())


def test_other_metrics_are_followed_without_a_new_session(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(assigned=3))
        async with running(this):
            await until(lambda: bool(this.session.did("poll")))
            this.listener.apply(config(metrics=MetricsFile(gauges={"gha_assigned_jobs": {}})))
            assert value(this.metrics, "gha_assigned_jobs") == 3
            assert value(this.metrics, "gha_busy_runners") is None
        assert len(this.github.opened) == 1

    run_virtual(scene())


def test_a_message_from_before_the_opening_does_not_bring_its_old_number_back(
    run_virtual: Run,
) -> None:
    # Not acknowledged by a predecessor that was killed; found by a state machine. Two jobs are
    # ours, the message says none: one of them would wait until the next message.
    async def scene() -> None:
        this = world(session(message(1, 0), 50.0, 50.0, 50.0, assigned=2))
        this.github.scale_set = errors.Unavailable("503")
        async with running(this):
            await until(lambda: this.github.asked == 1)
            assert this.patches[:2] == [(2, 0), (0, 1)]
            this.github.scale_set = RunnerScaleSet(7, "set", statistics=statistics(2))
            await until(lambda: this.patches[-1] == (2, 0), within_s=160)
            assert this.github.asked == 2

    run_virtual(scene())


def test_a_message_from_after_the_opening_is_believed(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(1, 0), 50.0, 50.0, assigned=2))
        this.github.scale_set = RunnerScaleSet(7, "set", statistics=statistics(0))
        async with running(this):
            await until(lambda: len(this.patches) == 4)
        assert this.patches == [(2, 0), (0, 1), (0, 0), (0, 0)]
        assert this.github.asked == 1

    run_virtual(scene())
