"""Envelopes as pairs of value and bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.scaleset.decode import DecodeError
from runnerscale.scaleset.messages import decode_message
from runnerscale.scaleset.model import JobEvent, JobEventKind, Message, Statistics

TYPE = "RunnerScaleSetJobMessages"
STARTED = {
    "messageType": "JobStarted",
    "runnerId": 17,
    "runnerName": "set-runner-x1",
    "runnerRequestId": 9,
    "ownerName": "org",
    "repositoryName": "repo",
    "jobId": "6f",
    "jobWorkflowRef": "org/repo/.github/workflows/ci.yml@refs/heads/main",
    "jobDisplayName": "build",
    "workflowRunId": 456,
    "eventName": "push",
    "requestLabels": ["set"],
    "queueTime": "2026-01-02T03:04:05Z",
    "scaleSetAssignTime": "2026-01-02T03:04:07.1234567Z",
    "runnerAssignTime": "2026-01-02T04:04:12+01:00",
    "finishTime": "0001-01-01T00:00:00Z",
}
START_S = 1_767_323_045.0  # 2026-01-02T03:04:05Z
EVENT = JobEvent(
    kind=JobEventKind.STARTED,
    index=0,
    request_id=9,
    owner_name="org",
    repository_name="repo",
    job_id="6f",
    job_workflow_ref="org/repo/.github/workflows/ci.yml@refs/heads/main",
    job_display_name="build",
    workflow_run_id=456,
    event_name="push",
    request_labels=("set",),
    queue_time_s=START_S,
    scale_set_assign_time_s=START_S + 2.123456,
    runner_assign_time_s=START_S + 7,
    finish_time_s=0.0,
    runner_id=17,
    runner_name="set-runner-x1",
)


def envelope(body: Any = None, **members: Any) -> bytes:
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    return json.dumps({"messageId": 1, "messageType": TYPE, "body": text} | members).encode()


@pytest.mark.behaviour("C2 T107")
def test_the_smallest_envelope_is_accepted() -> None:
    assert decode_message(b'{"messageId":1,"messageType":"RunnerScaleSetJobMessages"}') == Message(
        1, statistics=None
    )


@pytest.mark.behaviour("C2 T108")
@pytest.mark.parametrize("kind", ["Other", "", None])
def test_another_outer_type_is_named_and_can_be_acknowledged(kind: Any) -> None:
    # Weakness W36: upstream dies on it again after every restart.
    message = decode_message(envelope([STARTED], messageType=kind))
    assert message.id == 1
    assert message.events == ()
    assert message.quarantined == (f"unsupported message type: {kind or ''!r}",)


@pytest.mark.behaviour("C2 T108")
@pytest.mark.parametrize(
    "body", [b"null", b"{}", b'{"messageType":"Other"}', b'{"messageId":null}']
)
def test_an_envelope_without_an_id_is_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError, match="unsupported message type"):
        decode_message(body)


@pytest.mark.behaviour("C2 T109", "C2 T113")
def test_all_fields_of_a_job_are_read() -> None:
    assert decode_message(envelope([STARTED])).events == (EVENT,)


@pytest.mark.behaviour("C2 T109")
def test_each_type_is_read_in_its_place() -> None:
    kinds = ["JobAvailable", "JobAssigned", "JobStarted", "JobCompleted"]
    elements = [{"messageType": kind, "runnerRequestId": n} for n, kind in enumerate(kinds)]
    elements[0]["acquireJobUrl"] = "https://unused"
    elements[3] |= {"result": "canceled", "runnerId": 3, "runnerName": "r"}
    events = decode_message(envelope(elements)).events
    assert [event.kind.value for event in events] == kinds
    assert [event.index for event in events] == [event.request_id for event in events]
    assert (events[3].result, events[3].runner_id, events[3].runner_name) == ("canceled", 3, "r")


@pytest.mark.behaviour("C2 T110")
def test_an_unknown_inner_type_is_passed_over_without_a_word() -> None:
    elements = [STARTED, {"messageType": "JobDreamt", "runnerId": "x"}, STARTED]
    message = decode_message(envelope(elements))
    assert [event.index for event in message.events] == [0, 2]
    assert message.quarantined == ()


@pytest.mark.behaviour("C2 T111")
@pytest.mark.parametrize("body", ["", None, "null", "[]"])
def test_a_body_may_be_empty(body: str | None) -> None:
    message = decode_message(envelope(body))
    assert (message.events, message.quarantined) == ((), ())


@pytest.mark.behaviour("C2 T111")
@pytest.mark.parametrize("body", ["{}", "7", "[", "{"])
def test_a_body_that_is_no_array_is_put_aside(body: str) -> None:
    message = decode_message(envelope(body, statistics={"totalAssignedJobs": 2}))
    assert message.quarantined[0].startswith("failed to unmarshal batched messages")
    assert message.statistics == Statistics(assigned_jobs=2)


def test_a_body_that_is_no_string_is_put_aside() -> None:
    message = decode_message(envelope(None, BODY="x").replace(b'"body": null', b'"body": [1]'))
    assert message.quarantined == ("failed to unmarshal batched messages: body is not a string",)


@pytest.mark.behaviour("C2 T112")
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (STARTED | {"runnerId": "17"}, "runnerId is not an integer"),
        (STARTED | {"runnerId": 17.0}, "runnerId is not an integer"),
        (STARTED | {"runnerId": 2**63}, "runnerId is not a 64-bit integer"),
        (STARTED | {"queueTime": ""}, "queueTime is not an RFC 3339 time"),
        (STARTED | {"queueTime": "2026-01-02T03:04:05"}, "queueTime is not an RFC 3339 time"),
        (STARTED | {"queueTime": "2026-13-02T03:04:05Z"}, "queueTime is not a time that exists"),
        (STARTED | {"requestLabels": "set"}, "requestLabels is not a list"),
        (STARTED | {"requestLabels": [1]}, "requestLabels is not a list of strings"),
        (STARTED | {"messageType": 4}, "messageType is not a string"),
        ("JobStarted", "not a JSON object"),
        (None, "not a JSON object"),
    ],
)
def test_a_broken_element_is_put_aside_and_the_others_are_used(broken: Any, said: str) -> None:
    message = decode_message(envelope([STARTED, broken, STARTED]))
    assert [event.index for event in message.events] == [0, 2]
    (text,) = message.quarantined
    assert text.startswith(f"element 1: {said}")


def test_broken_statistics_do_not_cost_the_jobs() -> None:
    message = decode_message(envelope([STARTED], statistics={"totalAssignedJobs": "2"}))
    assert message.statistics is None
    assert len(message.events) == 1
    assert message.quarantined == ("statistics: statistics.totalAssignedJobs is not an integer",)


@pytest.mark.behaviour("C2 T113")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-02T03:04:05.1234567Z", START_S + 0.123456),
        ("2026-01-02t03:04:05z", START_S),
        ("2026-01-02T03:04:05.1+00:00", START_S + 0.1),
        ("0001-01-01T00:00:00Z", 0.0),
        (None, 0.0),
    ],
)
def test_times_are_read_as_go_writes_them(text: str | None, seconds: float) -> None:
    message = decode_message(envelope([STARTED | {"queueTime": text}]))
    assert message.events[0].queue_time_s == pytest.approx(seconds, abs=1e-6)


def test_an_absent_time_is_never() -> None:
    message = decode_message(envelope([{"messageType": "JobStarted"}]))
    assert message.events[0].queue_time_s == 0.0


@pytest.mark.behaviour("C2 T115", "C2 T33")
def test_names_match_in_any_case_and_a_bom_does_not_matter() -> None:
    shouted = [{name.upper(): value for name, value in STARTED.items()}]
    raw = json.dumps({"MESSAGEID": 4, "MessageType": TYPE, "BODY": json.dumps(shouted)})
    message = decode_message(b"\xef\xbb\xbf" + raw.encode() + b" trailing")
    assert message == Message(4, None, (EVENT,))


def test_an_envelope_of_the_largest_kind_is_read() -> None:
    message = decode_message(envelope([STARTED] * 50))
    assert len(message.events) == 50


def test_the_texts_put_aside_are_bounded() -> None:
    assert len(decode_message(envelope([1] * 1000)).quarantined) == 64


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_fail(body: bytes) -> None:
    try:
        decode_message(body)
    except DecodeError:
        pass


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*STARTED, "x"]), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(st.lists(json_values, max_size=6), json_values)
def test_no_element_does_more_than_be_put_aside(elements: list[Any], statistics: Any) -> None:
    message = decode_message(envelope(elements, statistics=statistics))
    assert message.id == 1
