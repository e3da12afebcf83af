"""One session per scale set: opened, renewed, kept alive, ended; and its queue token."""

import pytest

from runnerscale.fake_github import scale_sets, sessions
from runnerscale.fake_github.model import Session
from runnerscale.fake_github.refusals import Refused
from tests.unit.fake_github.world import World

EXPIRED = "RunnerScaleSetSessionExpiredException"


def refusal(refused: pytest.ExceptionInfo[Refused]) -> tuple[int, str]:
    return refused.value.status, refused.value.type_name.split(",")[0].rpartition(".")[2]


def test_a_second_session_is_refused_even_to_the_same_owner() -> None:
    world = World()
    scale_set = world.scale_set()
    world.do(sessions.open_session, scale_set, "me")
    for owner in ("me", "other"):
        with pytest.raises(Refused) as refused:
            world.do(sessions.open_session, scale_set, owner)
        assert refusal(refused) == (409, "RunnerScaleSetSessionConflictException")
        assert "me" in refused.value.message  # some live answers name the owner


def test_a_session_nobody_polls_ends_after_its_life() -> None:
    world = World(session_life_s=5)
    scale_set = world.scale_set()
    session = world.do(sessions.open_session, scale_set, "me")
    world.pass_time(4.9)
    assert scale_set.session is session
    world.pass_time(0.1)
    assert scale_set.session is None
    world.do(sessions.open_session, scale_set, "successor")


def test_a_held_poll_keeps_a_session_alive_and_its_end_starts_the_countdown() -> None:
    world = World(session_life_s=5)
    scale_set = world.scale_set()
    session = world.listen(scale_set)
    world.pass_time(500)
    assert scale_set.session is session
    world.do(lambda _state, now_s: sessions.end_poll(now_s, session))
    world.pass_time(4.9)
    assert scale_set.session is session
    world.pass_time(0.1)
    assert scale_set.session is None


def test_a_refresh_keeps_a_session_alive_and_replaces_its_token_at_once() -> None:
    world = World(session_life_s=5)
    scale_set = world.scale_set()
    session = world.do(sessions.open_session, scale_set, "me")
    old = session.token
    world.pass_time(4)
    world.do(sessions.refresh_session, scale_set, session.id)
    world.pass_time(4)
    assert scale_set.session is session
    assert session.token != old
    with pytest.raises(Refused) as refused:
        world.do(sessions.check_queue_token, old)
    assert refused.value.status == 401
    assert world.do(sessions.check_queue_token, session.token)[1] is scale_set


def test_a_queue_token_expires_and_a_refresh_heals_it() -> None:
    world = World(queue_token_life_s=60, session_life_s=1_000)
    scale_set = world.scale_set()
    session = world.do(sessions.open_session, scale_set, "me")
    world.pass_time(60)
    with pytest.raises(Refused) as refused:
        world.do(sessions.check_queue_token, session.token)
    assert refused.value.status == 401
    world.do(sessions.refresh_session, scale_set, session.id)
    world.do(sessions.check_queue_token, session.token)


@pytest.mark.parametrize("token", ["", "queue_guess"])
def test_an_unknown_queue_token_is_refused(token: str) -> None:
    world = World()
    world.listen(world.scale_set())
    with pytest.raises(Refused) as refused:
        world.do(sessions.check_queue_token, token)
    assert refused.value.status == 401


def test_an_ended_session_is_told_from_a_bad_token() -> None:
    world = World()
    scale_set = world.scale_set()
    session = world.do(sessions.open_session, scale_set, "me")
    world.do(sessions.close_session, scale_set, session.id)
    for command in (
        lambda: world.do(sessions.check_queue_token, session.token),
        lambda: world.do(sessions.refresh_session, scale_set, session.id),
        lambda: world.do(sessions.close_session, scale_set, session.id),
    ):
        with pytest.raises(Refused) as refused:
            command()
        assert refusal(refused) == (400, EXPIRED)


def test_when_the_scale_set_is_gone_its_queue_says_so() -> None:
    world = World()
    scale_set = world.scale_set()
    session = world.listen(scale_set)
    world.do(scale_sets.delete, scale_set)
    with pytest.raises(Refused) as refused:
        world.do(sessions.take_envelope, session.token, 0)
    assert refusal(refused) == (404, "RunnerScaleSetNotFoundException")


def test_undeleted_messages_outlive_the_session_and_keep_their_ids() -> None:
    world = World()
    scale_set = world.scale_set()
    session = world.listen(scale_set)
    world.job()
    first = world.do(sessions.take_envelope, session.token, 0)
    assert first is not None
    world.do(sessions.close_session, scale_set, session.id)
    successor = world.listen(scale_set)
    again = world.do(sessions.take_envelope, successor.token, 0)
    assert again is first
    world.do(sessions.acknowledge, successor.token, first.id)
    world.job()
    later = world.do(sessions.take_envelope, successor.token, 0)
    assert later is not None
    assert later.id == first.id + 1  # ids grow across sessions


def test_what_is_assigned_stays_assigned_while_no_listener_is_there() -> None:
    world = World(session_life_s=5)
    scale_set = world.scale_set()
    session = world.do(sessions.open_session, scale_set, "me")
    world.do(sessions.begin_poll, session.token, 10)
    world.do(lambda _state, now_s: sessions.end_poll(now_s, session))
    world.job()
    world.pass_time(10)
    late = world.job()
    assert scale_set.session is None
    assert world.statistics(scale_set)["totalAssignedJobs"] == 1
    assert late.assigned_s == 0  # nobody is there to say how much may be assigned
    again: Session = world.do(sessions.open_session, scale_set, "me")
    assert world.statistics(scale_set)["totalAssignedJobs"] == 1  # told before any poll
    world.do(sessions.begin_poll, again.token, 10)
    assert world.statistics(scale_set)["totalAssignedJobs"] == 2


@pytest.mark.parametrize("owner", ["", None, 7, "x" * 300])
def test_a_session_needs_an_owner(owner: object) -> None:
    world = World()
    with pytest.raises(Refused) as refused:
        world.do(sessions.open_session, world.scale_set(), owner)
    assert refused.value.status == 400


@pytest.mark.parametrize("text", ["-1", "a", "", "1.5", "9" * 30, "１"])
def test_a_capacity_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        sessions.capacity_from(text)
    assert refused.value.status == 400


def test_a_capacity_may_be_zero_or_missing() -> None:
    assert sessions.capacity_from("0") == 0
    assert sessions.capacity_from(None) is None
