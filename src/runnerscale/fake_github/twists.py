"""Faults that change what GitHub remembers, or what it says: by name, for fault rules.

A `before` twist acts on the state, then the request is served as usual. An `after` twist
gets the answer's body and returns another one, or None: there was nothing to spoil, the
rule may wait for the next request. What each is for is said in `presets.py`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runnerscale.fake_github import jobs, runner_sessions, scale_sets
from runnerscale.fake_github.model import JobState, Result, ScaleSet, Session
from runnerscale.fake_github.runners import register
from runnerscale.fake_github.sessions import end_session, open_session
from runnerscale.fake_github.state import State, queue_topic
from runnerscale.fake_github.timers import Due

FOREIGN_SCALE_SET = "somebody-elses"
FOREIGN_OWNER = "another-listener"


@dataclass(frozen=True, slots=True)
class Spoilt:
    """The request a twist works on."""

    scale_set_id: int
    tenant_id: str
    runner_session_id: str
    body: bytes
    value: str
    params: dict[str, str]


def name_taken(state: State, now_s: float, call: Spoilt) -> None:
    """Register the wanted runner name for another scale set, so that the call collides."""
    try:
        name = json.loads(call.body).get("name")
    except (ValueError, AttributeError):
        return
    tenant = state.tenants_by_id.get(call.tenant_id)
    if tenant is None or (tenant.id, str(name).casefold()) in state.runner_names:
        return
    known = scale_sets.find(state, tenant, group_id=1, name=FOREIGN_SCALE_SET)
    wanted = scale_sets.Wanted(name=FOREIGN_SCALE_SET, group_id=1)
    foreign = known[0] if known else scale_sets.create(state, now_s, tenant, wanted)
    register(state, now_s, foreign, str(name))


def lose_session(state: State, now_s: float, call: Spoilt) -> None:
    """The service forgets the session."""
    for scale_set in _addressed(state, call):
        if scale_set.session is not None:
            end_session(state, now_s, scale_set.session, "fault: lost")


def hold_session(state: State, now_s: float, call: Spoilt) -> None:
    """Somebody else takes the session and keeps it for `value` seconds."""
    lose_session(state, now_s, call)
    for scale_set in _addressed(state, call):
        session: Session = open_session(state, now_s, scale_set, FOREIGN_OWNER)
        session.held_until_s = now_s + _number(call.value, 30.0)
        session.last_seen_s = now_s - state.options.session_life_s
        state.timers.at(session.held_until_s, Due.SESSION, session.id)


def delete_scale_set(state: State, now_s: float, call: Spoilt) -> None:
    """Somebody deletes the scale set at GitHub."""
    for scale_set in _addressed(state, call):
        scale_sets.delete(state, now_s, scale_set)


def expire_tokens(state: State, _now_s: float, call: Spoilt) -> None:
    """Admin and queue tokens are worth nothing from now on; renewing them works."""
    state.tokens.revoke("admin")
    for scale_set in _addressed(state, call):
        if scale_set.session is not None:
            scale_set.session.token_expires_s = 0.0


def ghost(state: State, now_s: float, call: Spoilt) -> None:
    """The waiting runner's registration vanishes; its process is not told."""
    runner = state.runners_by_session.get(call.runner_session_id)
    if runner is not None:
        runner_sessions.make_ghost(state, now_s, runner)


def repeat_message(state: State, _now_s: float, call: Spoilt) -> None:
    """The next poll gets the last message once more, acknowledged or not."""
    for scale_set in _addressed(state, call):
        if scale_set.queue.repeat_last():
            state.touch(queue_topic(scale_set.id))


def reverse_messages(state: State, _now_s: float, call: Spoilt) -> None:
    """What waits in the queue is delivered in the wrong order."""
    for scale_set in _addressed(state, call):
        scale_set.queue.reverse_pending()


def send_statistics(state: State, _now_s: float, call: Spoilt) -> None:
    """An envelope without job messages, so that a spoilt one is not waited for."""
    for scale_set in _addressed(state, call):
        scale_set.queue.add_news()
        state.touch(queue_topic(scale_set.id))


def complete_early(state: State, now_s: float, call: Spoilt, body: bytes) -> bytes | None:
    """The service says the job is complete while its runner works on it."""
    job = state.jobs.get(call.params.get("job", ""))
    if job is None or job.state is not JobState.RUNNING:
        return None
    jobs.complete(state, now_s, job, Result.SUCCEEDED)
    return body


def lie(state: State, now_s: float, call: Spoilt, body: bytes) -> bytes | None:
    """The statistics claim `value` assigned jobs; the next envelope tells the truth again."""
    envelope = _object(body)
    if envelope is None or not isinstance(envelope.get("statistics"), dict):
        return None
    envelope["statistics"]["totalAssignedJobs"] = int(_number(call.value, 0.0))
    send_statistics(state, now_s, call)
    return json.dumps(envelope).encode()


def malformed_element(_state: State, _now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """Among the job messages is one that cannot be decoded."""
    broken = {"messageType": "JobStarted", "runnerId": "not a number", "jobId": 17}
    return _with_first(body, broken)


def malformed_body(state: State, now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """The envelope's body is no array."""
    envelope = _object(body)
    if envelope is None or "messageType" not in envelope:
        return None
    _told_as_lost(state, now_s, envelope)
    envelope["body"] = '{"not": "an array"'
    return json.dumps(envelope).encode()


def unknown_element(_state: State, _now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """Among the job messages is one of a type that does not exist yet."""
    return _with_first(body, {"messageType": "JobTeleported", "jobId": "x", "planet": 3})


def unknown_envelope(state: State, now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """The envelope itself is of an unknown type."""
    envelope = _object(body)
    if envelope is None or "messageType" not in envelope:
        return None
    _told_as_lost(state, now_s, envelope)
    envelope["messageType"] = "RunnerScaleSetTeleportMessages"
    return json.dumps(envelope).encode()


def no_queue_url(_state: State, _now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """The session answer lacks its queue URL."""
    session = _object(body)
    if session is None or "messageQueueUrl" not in session:
        return None
    session["messageQueueUrl"] = ""
    return json.dumps(session).encode()


def bom(_state: State, _now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """A byte order mark before a good answer."""
    return b"\xef\xbb\xbf" + body if body else None


def empty(_state: State, _now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """A success without a body."""
    return b"" if body else None


def cut(_state: State, _now_s: float, _call: Spoilt, body: bytes) -> bytes | None:
    """Half an answer."""
    return body[: len(body) // 2] if body else None


BEFORE: dict[str, Callable[[State, float, Spoilt], None]] = {
    "name-taken": name_taken,
    "lose-session": lose_session,
    "hold-session": hold_session,
    "delete-scale-set": delete_scale_set,
    "expire-tokens": expire_tokens,
    "ghost": ghost,
    "repeat-message": repeat_message,
    "reverse-messages": reverse_messages,
    "send-statistics": send_statistics,
}

AFTER: dict[str, Callable[[State, float, Spoilt, bytes], bytes | None]] = {
    "complete-early": complete_early,
    "lie": lie,
    "malformed-element": malformed_element,
    "malformed-body": malformed_body,
    "unknown-element": unknown_element,
    "unknown-envelope": unknown_envelope,
    "no-queue-url": no_queue_url,
    "bom": bom,
    "empty": empty,
    "cut": cut,
}


def _addressed(state: State, call: Spoilt) -> list[ScaleSet]:
    """The scale set of the request, or all of them where it names none."""
    if call.scale_set_id:
        found = state.scale_sets.get(call.scale_set_id)
        return [found] if found is not None else []
    return [s for s in list(state.scale_sets.values()) if s.name != FOREIGN_SCALE_SET]


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _told_as_lost(state: State, now_s: float, envelope: dict[str, Any]) -> None:
    """In the event log: which runners' jobs began in an envelope that nobody can read."""
    elements = json.loads(envelope.get("body") or "[]")
    started = [e.get("runnerName", "") for e in elements if e.get("messageType") == "JobStarted"]
    state.emit(now_s, "message", id=envelope.get("messageId"), state="spoilt", started=started)


def _with_first(body: bytes, element: dict[str, object]) -> bytes | None:
    envelope = _object(body)
    if envelope is None or "messageType" not in envelope:
        return None
    elements = json.loads(envelope.get("body") or "[]")
    envelope["body"] = json.dumps([element, *elements])
    return json.dumps(envelope).encode()


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default
