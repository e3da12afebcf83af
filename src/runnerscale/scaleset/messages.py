"""Envelopes of the message queue: bytes in, a typed message out.

What can be read is used, what cannot is put aside by element and named, so that one
hostile job never stops the queue (weakness W36): such a message is still acknowledged.
Only an envelope without a readable id is an error, for there is nothing to acknowledge.
How JSON is read is `decode.py`.

Pure. Contract: github-service-and-listener 4.
"""

from typing import Any

from runnerscale.scaleset.answers import decode_statistics
from runnerscale.scaleset.decode import DecodeError, Fields, parse, parse_object
from runnerscale.scaleset.model import JobEvent, JobEventKind, Message, Statistics

ENVELOPE_TYPE = "RunnerScaleSetJobMessages"
QUARANTINED_MAX = 64  # texts kept of one envelope; the service sends at most 50 elements

_KINDS = {kind.value: kind for kind in JobEventKind}


def decode_message(body: bytes) -> Message:
    """The message in a 200 of the queue.

    Raises:
        DecodeError: no message id can be read from it.
    """
    fields = parse_object(body)
    if not fields.has("messageId"):
        raise DecodeError(f"unsupported message type: {_outer_type(fields)!r}, without an id")
    message_id = fields.integer("messageId")
    aside: list[str] = []
    statistics = _statistics(fields, aside)
    events: tuple[JobEvent, ...] = ()
    if _outer_type(fields) == ENVELOPE_TYPE:
        events = _events(fields, aside)
    else:
        aside.append(f"unsupported message type: {_outer_type(fields)!r}")
    return Message(message_id, statistics, events, tuple(aside[:QUARANTINED_MAX]))


def _outer_type(fields: Fields) -> str:
    try:
        return fields.text("messageType")
    except DecodeError:
        return "(not a string)"


def _statistics(fields: Fields, aside: list[str]) -> Statistics | None:
    try:
        return decode_statistics(fields.object("statistics"))
    except DecodeError as error:
        aside.append(f"statistics: {error}")
        return None


def _events(fields: Fields, aside: list[str]) -> tuple[JobEvent, ...]:
    try:
        batch = fields.text("body")
        elements = parse(batch.encode(errors="replace")) if batch else None
    except DecodeError as error:
        aside.append(f"failed to unmarshal batched messages: {error}")
        return ()
    if elements is None:
        return ()
    if not isinstance(elements, list):
        aside.append("failed to unmarshal batched messages: not a JSON array")
        return ()
    events = []
    for index, element in enumerate(elements):
        try:
            event = _event(element, index)
        except DecodeError as error:
            aside.append(f"element {index}: {error}")
        else:
            if event is not None:
                events.append(event)
    return tuple(events)


def _event(element: Any, index: int) -> JobEvent | None:
    """None: of a type that we do not know, which is no mistake."""
    if not isinstance(element, dict):
        raise DecodeError("not a JSON object")
    fields = Fields(element)
    kind = _KINDS.get(fields.text("messageType"))
    if kind is None:
        return None
    return JobEvent(
        kind=kind,
        index=index,
        request_id=fields.integer("runnerRequestId"),
        owner_name=fields.text("ownerName"),
        repository_name=fields.text("repositoryName"),
        job_id=fields.text("jobId"),
        job_workflow_ref=fields.text("jobWorkflowRef"),
        job_display_name=fields.text("jobDisplayName"),
        workflow_run_id=fields.integer("workflowRunId"),
        event_name=fields.text("eventName"),
        request_labels=fields.texts("requestLabels"),
        queue_time_s=fields.time_s("queueTime"),
        scale_set_assign_time_s=fields.time_s("scaleSetAssignTime"),
        runner_assign_time_s=fields.time_s("runnerAssignTime"),
        finish_time_s=fields.time_s("finishTime"),
        runner_id=fields.integer("runnerId"),
        runner_name=fields.text("runnerName"),
        result=fields.text("result"),
    )
