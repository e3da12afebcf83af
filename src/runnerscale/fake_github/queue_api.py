"""The message queue as a listener sees it: the held poll, and the acknowledgement.

The queue token alone says whose queue it is (contract C2 2.9, 2.10). The rules are in
`sessions.py` and `message_queue.py`; this file only waits.
"""

from runnerscale.fake_github import sessions
from runnerscale.fake_github.addresses import moved, scale_set_url
from runnerscale.fake_github.answers import Answer, Call, nothing, service_answer
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.refusals import bad_argument
from runnerscale.fake_github.state import queue_topic
from runnerscale.fake_github.wire import Json, envelope_json, statistics_json

POLL_ACCEPT = "api-version=6.0-preview"


async def poll(hub: Hub, call: Call) -> Answer:
    """The next message, at once or within the hold time; 202 if there is none."""
    if hub.options.strict and POLL_ACCEPT not in call.headers.get("accept", ""):
        raise bad_argument(f"Accept must be application/json; {POLL_ACCEPT}")
    capacity = sessions.capacity_from(call.headers.get("x-scalesetmaxcapacity"))
    cursor = int(call.query_number("lastMessageId", 0))
    token = call.bearer()
    session, scale_set = hub.run(sessions.begin_poll, token, capacity)
    ends_s = hub.now_s() + hub.options.poll_hold_s
    try:
        while True:
            envelope = hub.run(sessions.take_envelope, token, cursor)
            if envelope is not None:
                statistics = statistics_json(scale_set)
                messages = [_with_url(hub, call, scale_set.id, m) for m in envelope.messages]
                return service_answer(envelope_json(envelope.id, messages, statistics))
            left_s = ends_s - hub.now_s()
            if left_s <= 0:
                return nothing(202)
            await hub.wait(queue_topic(scale_set.id), left_s)
    finally:
        sessions.end_poll(hub.now_s(), session)


async def acknowledge(hub: Hub, call: Call) -> Answer:
    """Delete a message."""
    hub.run(sessions.acknowledge, call.bearer(), call.number("message"))
    return nothing()


def _with_url(hub: Hub, call: Call, scale_set_id: int, message: Json) -> Json:
    """An offer says where it can be claimed (C2 4.3; clients do not use it)."""
    if message.get("messageType") != "JobAvailable":
        return message
    url = scale_set_url(
        call.scheme, call.host, call.place, scale_set_id=scale_set_id, what="acquirejobs"
    )
    return {**message, "acquireJobUrl": moved(url, hub.options.public_url)}
