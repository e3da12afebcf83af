"""What troubles the listener stands on its set, and nothing waits for that."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.labels import LISTENER_TROUBLE
from runnerscale.api.listener_word import ListenerWord, decoded, encoded
from runnerscale.api.reasons import Reason
from runnerscale.kube.errors import Forbidden
from runnerscale.scaleset.errors import (
    Answer,
    CredentialsRefused,
    RateLimited,
    ScaleSetNotFound,
    SessionLost,
    Unavailable,
)
from runnerscale.scaleset.model import Message, Statistics
from tests.unit.listener.conftest import World, running, value, world
from tests.unit.listener.fakes import EPOCH_S, FakeSession

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def on_the_set(this: World) -> ListenerWord | None:
    item = this.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")
    return decoded(item["metadata"].get("annotations", {}).get(LISTENER_TROUBLE))


def test_refused_credentials_are_told_at_once_and_taken_back_when_they_work(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = world(CredentialsRefused("GitHub answered 401"), FakeSession())
        async with running(this):
            await asyncio.sleep(1)
            refused = ListenerWord(Reason.CREDENTIALS_REFUSED, "GitHub answered 401", EPOCH_S, 7)
            assert on_the_set(this) == refused
            await asyncio.sleep(80)  # the next try, and a poll that holds for 50 s
            assert on_the_set(this) is None
            assert this.told == [refused, None]

    run_virtual(scene())


def test_a_scale_set_that_is_gone_is_told_at_once(run_virtual: Run) -> None:
    async def scene() -> None:
        session = FakeSession()
        session.replies.append(ScaleSetNotFound("GitHub answered 404: no scale set 7"))
        this = world(session, ScaleSetNotFound("gone"), ScaleSetNotFound("gone"))
        async with running(this):
            await asyncio.sleep(1)
            word = on_the_set(this)
            assert word is not None and word.reason is Reason.SCALE_SET_GONE

    run_virtual(scene())


def test_a_pause_asked_for_at_the_acknowledgement_is_told_and_waited_for(
    run_virtual: Run,
) -> None:
    # It was waited for in silence, and the message came again.
    async def scene() -> None:
        session = FakeSession()
        session.replies.append(Message(1, Statistics(), ()))
        asked = Answer(status=429, retry_after_s=45.0)
        session.acknowledge_errors.append(RateLimited("429", asked))
        this = world(session)
        async with running(this):
            await asyncio.sleep(40)
            word = on_the_set(this)
            assert word is not None and word.reason is Reason.GITHUB_RATE_LIMITED
            acknowledged = [entry for entry in session.log if entry[0] == "acknowledge"]
            assert len(acknowledged) == 1
            await asyncio.sleep(60)  # until a poll has passed
            acknowledged = [entry for entry in session.log if entry[0] == "acknowledge"]
            assert len(acknowledged) == 2
            assert on_the_set(this) is None

    run_virtual(scene())


def test_a_hiccup_is_not_told_at_all(run_virtual: Run) -> None:
    async def scene() -> None:
        session = FakeSession()
        session.replies.extend([Unavailable("503"), Message(1, Statistics(), ())])
        this = world(session)
        async with running(this):
            await asyncio.sleep(100)
            assert this.told == []

    run_virtual(scene())


def test_a_lost_session_is_seen_for_a_minute(run_virtual: Run) -> None:
    async def scene() -> None:
        first = FakeSession()
        first.replies.append(SessionLost("GitHub answered 404"))
        this = world(first, FakeSession())
        async with running(this):
            await asyncio.sleep(55)
            word = on_the_set(this)
            assert word is not None and word.reason is Reason.SESSION_LOST
            await asyncio.sleep(50)
            assert on_the_set(this) is None

    run_virtual(scene())


def test_the_number_is_out_though_the_word_is_refused(run_virtual: Run) -> None:
    async def scene() -> None:
        session = FakeSession(statistics=Statistics(assigned_jobs=3))
        session.replies.append(Message(1, Statistics(assigned_jobs=3), (), ("nonsense",)))
        this = world(session)
        forbidden = Forbidden(403, "Forbidden", "annotations are not for you")

        def refuse_words(verb: str, path: str) -> None:
            body = this.api.requests[-1][2]
            if verb == "patch" and "spec" not in body:
                raise forbidden

        this.api.before = refuse_words
        async with running(this):
            await asyncio.sleep(50)
            assert this.patches[0] == (3, 0)
            assert 3 <= len(this.told) <= 5  # after 0, 3, 9, 21, 45 s
            failures = "runnerscale_listener_kubernetes_failures_total"
            assert value(this.metrics, failures, what="trouble") == len(this.told)
            assert value(this.metrics, "runnerscale_listener_quarantined_total") == 1

    run_virtual(scene())


def test_what_an_earlier_listener_left_is_seen_in_the_answer_to_the_first_number(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        this = world()
        item = this.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")
        left = encoded(ListenerWord(Reason.SESSION_HELD_ELSEWHERE, "", EPOCH_S, 7))
        item["metadata"]["annotations"] = {LISTENER_TROUBLE: left, "of": "others"}
        async with running(this):
            await asyncio.sleep(1)
            assert on_the_set(this) is None
            now = this.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")
            assert now["metadata"]["annotations"] == {"of": "others"}

    run_virtual(scene())
