"""From a request to its answer: who handles it, which fault hits it, what is counted.

The one path that every request takes. Faults strike around the handler in the order that
`faults.Action` promises; refusals become error bodies here; each answer gets the
correlation headers (contract C2 2.1, 2.15 item 8).
"""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import structlog

from runnerscale.fake_github import (
    control_api,
    queue_api,
    rest_api,
    runner_api,
    service_api,
)
from runnerscale.fake_github.addresses import Area, Place, locate
from runnerscale.fake_github.answers import Answer, Call, refusal_answer
from runnerscale.fake_github.faults import Drop, Facts, Rule
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.ids import new_request_id, new_uuid
from runnerscale.fake_github.operations import Operation, resolve
from runnerscale.fake_github.refusals import Refused, rest
from runnerscale.fake_github.state import FAULTS, State
from runnerscale.fake_github.twists import AFTER, BEFORE, Spoilt

log = structlog.get_logger(__name__)

Handler: TypeAlias = Callable[[Hub, Call], Awaitable[Answer]]

BLACK_HOLE_MAX_S = 3_600.0
AGENT_MAX = 2_000

HANDLERS: dict[str, Handler] = {
    "installation-token": rest_api.installation_token,
    "registration-token": rest_api.registration_token,
    "runner-registration": rest_api.runner_registration,
    "find-groups": service_api.find_groups,
    "find-scale-sets": service_api.find_scale_sets,
    "create-scale-set": service_api.create_scale_set,
    "get-scale-set": service_api.get_scale_set,
    "update-scale-set": service_api.update_scale_set,
    "delete-scale-set": service_api.delete_scale_set,
    "open-session": service_api.open_session,
    "refresh-session": service_api.refresh_session,
    "delete-session": service_api.delete_session,
    "jit-config": service_api.make_jit_config,
    "acquire-jobs": service_api.acquire_jobs,
    "acquirable-jobs": service_api.acquirable_jobs,
    "find-runner": service_api.find_runner,
    "get-runner": service_api.get_runner,
    "remove-runner": service_api.remove_runner,
    "poll": queue_api.poll,
    "acknowledge": queue_api.acknowledge,
    "runner-connect": runner_api.connect,
    "runner-disconnect": runner_api.disconnect,
    "runner-poll": runner_api.poll,
    "runner-confirm": runner_api.confirm,
    "runner-report": runner_api.report,
    "runner-finish": runner_api.finish,
    **control_api.HANDLERS,
}


class Dropped(Exception):
    """The connection shall be cut instead of an answer; the server does it."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as the server read it. Header names are in lower case."""

    method: str
    scheme: str
    host: str
    path: str  # as sent, still escaped
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


async def dispatch(hub: Hub, incoming: Incoming) -> Answer:
    """Answer a request.

    Raises:
        Dropped: a fault cuts the connection.
    """
    place = locate(incoming.host, incoming.path)
    name = "unknown"
    try:
        operation = resolve(place, incoming.method)
        assert place is not None  # otherwise `resolve` has refused
        name = operation.name
        call = _call(incoming, place, operation)
        if place.area is Area.CONTROL:
            _check_control(hub, call, name)
            answer = await HANDLERS[name](hub, call)
        else:
            answer = await _serve(hub, call, name)
    except Refused as refused:
        service = place is not None and place.area in (Area.SERVICE, Area.QUEUE)
        answer = refusal_answer(refused, in_service=service)
    except Dropped:
        hub.calls[(client_of(incoming), name, "dropped")] += 1
        raise
    hub.calls[(client_of(incoming), name, str(answer.status))] += 1
    answer.headers.setdefault("ActivityId", new_uuid(hub.random))
    answer.headers.setdefault("X-GitHub-Request-Id", new_request_id(hub.random))
    return answer


def client_of(incoming: Incoming) -> str:
    """Who asks, by the subsystem in the User-Agent's JSON (contract C2 2.1)."""
    agent = incoming.headers.get("user-agent", "")
    if agent.startswith("runnerscale-demo-runner/"):
        return "runner"
    if not agent.startswith("{") or len(agent) > AGENT_MAX:
        return "other"
    try:
        subsystem = json.loads(agent).get("subsystem")
    except (ValueError, AttributeError, RecursionError):
        return "other"
    return subsystem[:64] if isinstance(subsystem, str) and subsystem else "other"


async def _serve(hub: Hub, call: Call, name: str) -> Answer:
    spoilt = _spoilt(hub, call)
    rule = hub.faults.pick(_facts(hub, call, name, spoilt), hub.now_s(), hub.random)
    if rule is None:
        return await _handle(hub, call, name)
    action = rule.action
    spoilt = replace(spoilt, value=action.value)
    _tell(hub, rule, name)
    if action.delay_s:
        await hub.clock.sleep(action.delay_s)
    if action.black_hole:
        await _swallow(hub, rule)
    if action.drop is Drop.BEFORE:
        raise Dropped
    if action.status:
        return Answer(
            action.status, action.body.encode(), action.content_type, dict(action.headers)
        )
    before = BEFORE.get(action.twist)
    if before is not None:
        hub.run(before, spoilt)
    answer = await _handle(hub, call, name)
    after = AFTER.get(action.twist)
    if after is not None:
        body = hub.run(after, spoilt, answer.body) if answer.status == 200 else None
        if body is None:
            hub.faults.give_back(rule)
        else:
            answer.body = body
    if action.drop is Drop.AFTER:
        raise Dropped
    return answer


async def _handle(hub: Hub, call: Call, name: str) -> Answer:
    if call.place.area is not Area.REST:
        return await HANDLERS[name](hub, call)
    headers = hub.rate_limit.count(call.headers.get("authorization", ""), hub.shown_s())
    answer = await HANDLERS[name](hub, call)
    answer.headers.update(headers)
    return answer


async def _swallow(hub: Hub, rule: Rule) -> None:
    """Hold the request until the rule is over; then the connection breaks."""
    ends_s = hub.now_s() + BLACK_HOLE_MAX_S
    while hub.now_s() < ends_s and hub.faults.stands(rule, hub.now_s()):
        until_s = rule.until_s if rule.until_s is not None else ends_s
        await hub.wait(FAULTS, min(until_s, ends_s) - hub.now_s())
    raise Dropped


def _call(incoming: Incoming, place: Place, operation: Operation) -> Call:
    return Call(
        method=incoming.method,
        scheme=incoming.scheme,
        host=incoming.host,
        path=incoming.path,
        query=incoming.query,
        headers=incoming.headers,
        body=incoming.body,
        place=place,
        params=operation.params,
    )


def _spoilt(hub: Hub, call: Call) -> Spoilt:
    """Which scale set and tenant a request is about, before anybody has checked its token."""
    state = hub.state
    scale_set_id = 0
    text = call.params.get("id", "")
    runner_session = call.params.get("session", "") if call.place.area is Area.RUNNER else ""
    if text.isascii() and text.isdigit():
        scale_set_id = int(text[:18])
    elif runner_session in state.runners_by_session:
        scale_set_id = state.runners_by_session[runner_session].scale_set_id
    elif (runner := state.runners_by_secret.get(call.bearer())) is not None:
        scale_set_id = runner.scale_set_id
    elif (session := state.queue_tokens.get(call.bearer())) is not None:
        scale_set_id = session.scale_set_id
    scale_set = state.scale_sets.get(scale_set_id)
    return Spoilt(
        scale_set_id=scale_set_id,
        tenant_id=scale_set.tenant_id if scale_set is not None else "",
        runner_session_id=runner_session,
        body=call.body,
        value="",
        params=dict(call.params),
    )


def _facts(hub: Hub, call: Call, name: str, spoilt: Spoilt) -> Facts:
    scale_set = hub.state.scale_sets.get(spoilt.scale_set_id)
    return Facts(
        operation=name,
        method=call.method,
        path=call.path,
        host=call.host,
        scale_set_id=spoilt.scale_set_id,
        scale_set_name=scale_set.name if scale_set is not None else "",
    )


def _tell(hub: Hub, rule: Rule, name: str) -> None:
    hub.state.counters["faults fired"] += 1

    def emit(state: State, now_s: float) -> None:
        state.emit(now_s, "fault", rule=rule.id, name=rule.name, operation=name)

    hub.run(emit)
    log.debug("fault fired", rule=rule.id, fault=rule.name, operation=name)


def _check_control(hub: Hub, call: Call, name: str) -> None:
    wanted = hub.options.control_token.reveal()
    if not wanted or name == "control-health":
        return
    if not hmac.compare_digest(call.bearer().encode(errors="surrogateescape"), wanted.encode()):
        raise rest(401, "The control API needs its token as 'Authorization: Bearer ...'.")
