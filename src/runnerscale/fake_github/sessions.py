"""The one message session of a scale set: opened, renewed, polled, ended.

A session lives while polls or refreshes arrive; it ends when it is deleted, when its life is
over, or when its scale set goes. Its queue token is checked on polls, acknowledgements and
acquires; a refresh replaces it at once. Contract C2 2.8-2.10, Annex A.
"""

from runnerscale.fake_github import assignment, jobs
from runnerscale.fake_github.by_secret import same_secret
from runnerscale.fake_github.ids import new_token
from runnerscale.fake_github.message_queue import Envelope
from runnerscale.fake_github.model import ScaleSet, Session
from runnerscale.fake_github.options import AssignmentMode
from runnerscale.fake_github.refusals import (
    bad_argument,
    scale_set_not_found,
    session_conflict,
    session_expired,
    unauthorized,
)
from runnerscale.fake_github.state import State, queue_topic
from runnerscale.fake_github.timers import Due

OWNER_MAX = 256


def open_session(state: State, now_s: float, scale_set: ScaleSet, owner: object) -> Session:
    """Make the scale set's session.

    Raises:
        Refused: 409 while there is one, whoever asks; 400 without an owner.
    """
    if not isinstance(owner, str) or not owner or len(owner) > OWNER_MAX:
        raise bad_argument("A session needs an ownerName of at most 256 characters.")
    if scale_set.session is not None:
        state.counters["session conflicts"] += 1
        raise session_conflict(scale_set.session.owner)
    session = Session(
        id=state.new_uuid(),
        scale_set_id=scale_set.id,
        owner=owner,
        token="",
        token_expires_s=0.0,
        opened_s=now_s,
        last_seen_s=now_s,
    )
    _new_token(state, now_s, session)
    scale_set.session = session
    scale_set.capacity = 0  # nothing is assigned before its first poll says how much
    state.sessions[session.id] = session
    state.counters["sessions opened"] += 1
    state.timers.at(now_s + state.options.session_life_s, Due.SESSION, session.id)
    state.settle_later(scale_set.id)
    state.emit(now_s, "session", scale_set=scale_set.id, owner=owner, state="opened")
    return session


def refresh_session(state: State, now_s: float, scale_set: ScaleSet, session_id: str) -> Session:
    """A new queue token; the old one is worth nothing from now on.

    Raises:
        Refused: 400 SessionExpired.
    """
    session = live_session(scale_set, session_id)
    _new_token(state, now_s, session)
    session.last_seen_s = now_s
    state.touch(queue_topic(scale_set.id))
    return session


def close_session(state: State, now_s: float, scale_set: ScaleSet, session_id: str) -> None:
    """Its owner ends it.

    Raises:
        Refused: 400 SessionExpired.
    """
    end_session(state, now_s, live_session(scale_set, session_id), "deleted")


def live_session(scale_set: ScaleSet, session_id: str) -> Session:
    """The scale set's session, if it is the one with that id.

    Raises:
        Refused: 400 SessionExpired.
    """
    if scale_set.session is None or scale_set.session.id != session_id:
        raise session_expired(session_id)
    return scale_set.session


def end_session(state: State, now_s: float, session: Session, why: str) -> None:
    """The session is over; held polls hear it, offers nobody claimed go back to the queue."""
    if session.ended:
        return
    session.ended = why
    scale_set = state.scale_sets.get(session.scale_set_id)
    state.emit(
        now_s,
        "session",
        scale_set=session.scale_set_id,
        owner=session.owner,
        state="ended",
        why=why,
    )
    if scale_set is None:
        return
    scale_set.session = None
    scale_set.capacity = 0
    for job_id in list(scale_set.available):
        jobs.withdraw_offer(state, now_s, state.jobs[job_id])
    state.touch(queue_topic(scale_set.id))


def session_expires_s(state: State, session: Session, now_s: float) -> float:
    """When the session's life is over if nobody polls again; a held poll keeps it alive."""
    seen_s = now_s if session.polls_held else session.last_seen_s
    return max(seen_s + state.options.session_life_s, session.held_until_s)


def check_queue_token(state: State, now_s: float, token: str) -> tuple[Session, ScaleSet]:
    """Whose queue a token opens.

    Raises:
        Refused: 401 unknown, replaced or expired; 400 its session has ended; 404 its scale
            set is gone.
    """
    session = state.queue_tokens.get(token)
    if session is None or not same_secret(token, session.token):
        raise unauthorized()
    scale_set = state.scale_sets.get(session.scale_set_id)
    if scale_set is None:
        raise scale_set_not_found(session.scale_set_id)
    if session.ended:
        raise session_expired(session.id)
    if session.token_expires_s <= now_s:
        raise unauthorized()
    return session, scale_set


def begin_poll(
    state: State, now_s: float, token: str, capacity: int | None
) -> tuple[Session, ScaleSet]:
    """A poll arrives: the session lives, and jobs may be assigned up to its capacity.

    Raises:
        Refused: as `check_queue_token`.
    """
    session, scale_set = check_queue_token(state, now_s, token)
    session.polls_held += 1
    session.last_seen_s = now_s
    if scale_set.capacity != capacity:
        scale_set.capacity = capacity
        state.settle_later(scale_set.id)
    return session, scale_set


def end_poll(now_s: float, session: Session) -> None:
    """A poll was answered or broke off."""
    session.polls_held -= 1
    session.last_seen_s = now_s


def take_envelope(state: State, now_s: float, token: str, cursor: int) -> Envelope | None:
    """What the held poll may be answered with by now.

    Raises:
        Refused: as `check_queue_token`; the token may have died while the poll was held.
    """
    _, scale_set = check_queue_token(state, now_s, token)
    return scale_set.queue.next_after(cursor)


def acknowledge(state: State, now_s: float, token: str, message_id: int) -> None:
    """Delete a message; deleting it twice is no error.

    Raises:
        Refused: as `check_queue_token`.
    """
    session, scale_set = check_queue_token(state, now_s, token)
    session.last_seen_s = now_s
    scale_set.queue.delete(message_id)


def acquire_jobs(
    state: State, now_s: float, token: str, scale_set_id: int, body: object
) -> list[int]:
    """Claim jobs with the queue token.

    Raises:
        Refused: as `check_queue_token`; 400 for a body that is no array of ids.
    """
    session, scale_set = check_queue_token(state, now_s, token)
    session.last_seen_s = now_s
    if scale_set.id != scale_set_id:
        raise scale_set_not_found(scale_set_id)
    ids = [] if body is None else body
    if not isinstance(ids, list) or len(ids) > assignment.ACQUIRE_MAX:
        raise bad_argument("the body must be an array of at most 1000 request ids")
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in ids):
        raise bad_argument("request ids must be whole numbers")
    return assignment.acquire(state, now_s, scale_set, ids)


def acquires(state: State) -> bool:
    """Whether acquirejobs exists at all in this mode (push: a router-level 404)."""
    return state.options.assignment is AssignmentMode.ACQUIRE


def capacity_from(text: str | None) -> int | None:
    """The capacity a poll was sent with; None: it named none.

    Raises:
        Refused: 400 for anything but a whole number of 0 or more.
    """
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_argument("X-ScaleSetMaxCapacity must be a whole number of 0 or more")
    return int(text)


def _new_token(state: State, now_s: float, session: Session) -> None:
    state.queue_tokens.forget(session.token)
    session.token = new_token(state.random, "queue_")
    session.token_expires_s = now_s + state.options.queue_token_life_s
    state.queue_tokens.put(session.token, session)
