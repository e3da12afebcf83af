"""Which numbers of which message count: those of the newest, and a body only for a while."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from runnerscale.scaleset.errors import SessionLost
from runnerscale.scaleset.model import JobEventKind, Statistics
from tests.unit.listener.conftest import running, until, world
from tests.unit.listener.fakes import FakeSession
from tests.unit.listener.test_loop import STARTED, message, session

ASSIGNED = replace(STARTED, kind=JobEventKind.ASSIGNED, runner_name="")
Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_a_message_that_comes_again_does_not_bring_its_old_numbers_back(run_virtual: Run) -> None:
    # Its acknowledgement was lost and the session too; the job has ended since, which the new
    # session says. No message follows: the runner of the old number would idle for ever.
    async def scene() -> None:
        first = session(message(1, 1, ASSIGNED))
        first.replies.append(SessionLost("the service forgot it"))
        second = FakeSession(statistics=Statistics())
        second.replies.append(message(1, 1, ASSIGNED))
        this = world(first, second)
        async with running(this):
            await until(lambda: second.did("acknowledge") == [1])
            await until(lambda: len(second.did("poll")) >= 4)
        assert this.patches[-1] == (0, 0)

    run_virtual(scene())


def test_what_a_renewed_session_says_counts_until_the_next_message(run_virtual: Run) -> None:
    async def scene() -> None:
        this = world(session(message(1, 3)))
        async with running(this):
            await until(lambda: this.session.did("acknowledge") == [1])
            this.session.statistics = replace(Statistics(), assigned_jobs=5)
            await until(lambda: len(this.session.did("poll")) >= 4)
        assert this.patches[-1][0] == 5

    run_virtual(scene())


def test_jobs_that_only_a_body_knows_count_for_ten_minutes(run_virtual: Run) -> None:
    # Statistics that say 0 beside an assigned job (issue log 40): the job has its time to be
    # started. Were it still there, another message would have said so.
    async def scene() -> None:
        this = world(session(message(1, 0, ASSIGNED)))
        async with running(this):
            await until(lambda: len(this.session.did("poll")) >= 11)  # 50 s each
            assert this.patches[-1][0] == 1
            await until(lambda: this.patches[-1] == (0, 0), within_s=300.0)

    run_virtual(scene())
