"""One call: what is sent, what is repeated, how long it may take."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from runnerscale.core.secret import SecretText
from runnerscale.kube import errors
from runnerscale.kube.builtin import LEASES, NODES, PODS, SECRETS
from runnerscale.kube.calls import may_repeat
from runnerscale.kube.client import PatchType
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.transport import Answer
from runnerscale.kube.watch import Added, Bookmark
from tests.unit.kube.scripted import (
    WIDGETS,
    ListedStream,
    MiniServer,
    Reply,
    Scripted,
    Sent,
    answer,
    client_on,
    lines_of,
    path_of,
    status,
)

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
A = {"metadata": {"name": "a", "namespace": "ns", "uid": "u1", "resourceVersion": "5"}}


def replies(*items: Reply) -> Callable[[Sent], Reply]:
    """One after another; the last one for ever."""
    left = [*items]
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


async def test_who_may_not_write_any_more_reads_and_keeps_to_his_lease() -> None:
    transport = Scripted(lambda _: answer(200, A))
    client = client_on(transport)
    client.guard_writes(lambda: False)
    with pytest.raises(errors.Unreachable, match="the lease has run out") as caught:
        await client.create(PODS, "ns", {"metadata": {"name": "a"}})
    assert not caught.value.sent
    with pytest.raises(errors.Unreachable):
        await client.delete(WIDGETS, "leases", "leases")
    assert transport.sent == []
    await client.get(WIDGETS, "ns", "a")
    await client.replace(LEASES, "ns", "lease", A)
    assert [sent.method for sent in transport.sent] == ["GET", "PUT"]


def test_whether_he_may_is_asked_again_before_each_try(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        may = [True, False]
        transport = Scripted(lambda _: status(429, "TooManyRequests"))
        client = client_on(transport)
        client.guard_writes(lambda: may.pop(0))
        with pytest.raises(errors.Unreachable):
            await client.create(PODS, "ns", {"metadata": {"name": "a"}})
        assert len(transport.sent) == 1

    run_virtual(scenario())


# --- what is sent ---------------------------------------------------------------------------


async def test_get_asks_for_one_object_and_types_it() -> None:
    transport = Scripted(lambda _: answer(200, {**A, "spec": {"size": 2}}))
    found = await client_on(transport, user_agent="me/1").get(WIDGETS, "ns", "a")
    assert found.spec is not None
    assert (found.kind, found.spec.size) == ("Widget", 2)
    (sent,) = transport.sent
    assert (sent.method, sent.path) == ("GET", "/apis/example.com/v1/namespaces/ns/widgets/a")
    assert sent.headers == {"Accept": "application/json", "User-Agent": "me/1"}


async def test_create_fills_in_the_kind_and_can_be_a_dry_run() -> None:
    transport = Scripted(lambda _: answer(201, A))
    client = client_on(transport)
    raw = msgspec.Raw(b'{"deep":[1]}')
    await client.create(WIDGETS, "ns", {"metadata": {"name": "a"}, "spec": raw}, dry_run=True)
    (sent,) = transport.sent
    assert (sent.method, sent.path, sent.query) == (
        "POST",
        "/apis/example.com/v1/namespaces/ns/widgets",
        {"dryRun": "All"},
    )
    assert sent.json == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"deep": [1]},
    }


@pytest.mark.parametrize("patch_type", PatchType)
async def test_a_patch_says_which_kind_it_is(patch_type: PatchType) -> None:
    transport = Scripted(lambda _: answer(200, A))
    await client_on(transport).patch(
        WIDGETS, "ns", "a", {"status": {"x": None}}, patch_type=patch_type, subresource="status"
    )
    (sent,) = transport.sent
    assert sent.path == "/apis/example.com/v1/namespaces/ns/widgets/a/status"
    assert sent.headers["Content-Type"] == patch_type.value
    assert sent.json == {"status": {"x": None}}


async def test_delete_carries_its_preconditions() -> None:
    transport = Scripted(lambda _: answer(200, {**A, "kind": "Widget"}))
    left = await client_on(transport).delete(
        WIDGETS,
        "ns",
        "a",
        uid="u1",
        resource_version="5",
        grace_period_s=0,
        propagation="Background",
    )
    assert left is not None
    assert transport.sent[0].json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1", "resourceVersion": "5"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


@pytest.mark.parametrize(
    "reply", [status(404, "NotFound"), answer(200, {"kind": "Status", "status": "Success"})]
)
async def test_delete_of_what_is_gone_is_none(reply: Answer) -> None:
    transport = Scripted(lambda _: reply)
    assert await client_on(transport).delete(WIDGETS, "ns", "a") is None
    assert transport.sent[0].body is None  # no options: no body


async def test_delete_of_a_namesake_is_a_conflict() -> None:
    transport = Scripted(lambda _: status(409, "Conflict", "the uid in the precondition is not"))
    with pytest.raises(errors.Conflict):
        await client_on(transport).delete(WIDGETS, "ns", "a", uid="old")


async def test_a_token_is_requested_from_the_service_account() -> None:
    transport = Scripted(lambda _: answer(201, {"status": {"token": "t0k"}}))
    assert await client_on(transport).create_token("ns", "sa", expiration_s=600) == "t0k"
    (sent,) = transport.sent
    assert sent.path == "/api/v1/namespaces/ns/serviceaccounts/sa/token"
    assert sent.json["spec"] == {"expirationSeconds": 600}


async def test_logs_are_bounded_text() -> None:
    transport = Scripted(lambda _: Answer(200, {}, b"hello\xff"))
    text = await client_on(transport).pod_logs("ns", "p", container="runner", tail_lines=5)
    assert text == "hello\ufffd"
    assert transport.sent[0].query == {
        "tailLines": "5",
        "limitBytes": "65536",
        "container": "runner",
    }


@pytest.mark.parametrize("name", ["", ".", "..", "../secrets/x", "a/b", "a?b", "a%2fb", "a b"])
async def test_a_name_that_would_lead_astray_is_never_sent(name: str) -> None:
    # An empty name would delete the collection; these come from users' specs.
    transport = Scripted(lambda _: answer(200, A))
    client = client_on(transport)
    for call in (
        client.get(SECRETS, "ns", name),
        client.delete(SECRETS, "ns", name),
        client.patch(SECRETS, "ns", name, {}),
        client.get(SECRETS, name, "x"),
    ):
        with pytest.raises(errors.BadRequest):
            await call
    assert transport.sent == []


async def test_a_cluster_wide_object_needs_no_namespace() -> None:
    transport = Scripted(lambda _: answer(200, {"metadata": {"name": "n1"}}))
    await client_on(transport).get(NODES, "", "n1")
    assert transport.sent[0].path == "/api/v1/nodes/n1"


# --- lists -----------------------------------------------------------------------------------


def filled(count: int) -> MiniServer:
    server = MiniServer()
    for number in range(count):
        server.put(path_of(f"w{number:04}"), {"spec": {"size": number}})
    return server


async def test_a_list_comes_in_pages_and_ends_up_whole() -> None:
    server = filled(1234)
    listed = await client_on(server).list(WIDGETS, "ns", label_selector="a=b")
    assert [item.spec.size for item in listed.items if item.spec] == [*range(1234)]
    assert listed.resource_version == str(server.version)
    assert [s.query.get("limit") for s in server.sent] == ["500", "500", "500"]
    assert {s.query.get("labelSelector") for s in server.sent} == {"a=b"}


async def test_a_version_that_runs_out_between_pages_starts_over() -> None:
    server = filled(600)
    hooks = [server.compact]

    def page_hook() -> None:
        if hooks:
            server.put(path_of("late"), {})
            hooks.pop()()

    server.page_hook = page_hook
    listed = await client_on(server).list(WIDGETS, "ns")
    assert len(listed.items) == 601
    assert [bool(s.query.get("continue")) for s in server.sent] == [False, True, False, True]


async def test_when_pages_never_last_everything_is_asked_for_at_once() -> None:
    server = filled(600)

    def page_hook() -> None:
        server.put(path_of("late"), {})
        server.compact()

    server.page_hook = page_hook
    listed = await client_on(server).list(WIDGETS, "ns")
    assert len(listed.items) == 601
    assert "limit" not in server.sent[-1].query


async def test_one_poisoned_object_does_not_hide_the_rest_of_a_list() -> None:
    server = filled(3)
    server.put(path_of("bad"), {"spec": {"size": "huge"}})
    listed = await client_on(server).list(WIDGETS, "ns")
    assert len(listed.items) == 3
    assert [found.key for found in listed.poisoned] == ["ns/bad"]


# --- watches ---------------------------------------------------------------------------------


async def test_a_watch_asks_for_bookmarks_from_a_version_on() -> None:
    transport = Scripted(
        stream=lambda _: ListedStream(
            200,
            lines_of(
                {"type": "ADDED", "object": A},
                {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
            ),
        )
    )
    events = [
        event
        async for event in client_on(transport).watch(
            WIDGETS, "ns", resource_version="4", field_selector="x=y", timeout_s=60.5
        )
    ]
    assert isinstance(events[0], Added)
    assert events[1] == Bookmark("9")
    assert transport.sent[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "4",
        "timeoutSeconds": "60",
        "fieldSelector": "x=y",
    }


async def test_a_watch_that_is_refused_raises_why() -> None:
    gone = status(410, "Expired")
    transport = Scripted(stream=lambda _: ListedStream(410, lines_of(), body=gone.body))
    with pytest.raises(errors.Gone):
        async for _ in client_on(transport).watch(WIDGETS, resource_version="1"):
            pass


def test_a_watch_whose_answer_never_begins_is_given_up(run_virtual: RunVirtual) -> None:
    class Hanging(Scripted):
        def stream(self, *_: Any, **__: Any) -> Any:
            class Never:
                async def __aenter__(self) -> Any:
                    await asyncio.sleep(10_000)

                async def __aexit__(self, *_: object) -> None:
                    return None

            return Never()

    async def scenario() -> float:
        with pytest.raises(errors.Unreachable):
            async for _ in client_on(Hanging()).watch(WIDGETS, resource_version="1"):
                pass
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) == pytest.approx(30.0)


# --- what is repeated -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "get", "post"),
    [
        (errors.TooManyRequests(429, "", ""), True, True),  # had no effect
        (errors.Unreachable("refused", sent=False), True, True),  # had no effect
        (errors.Unreachable("reset"), True, False),
        (errors.ServerFault(500, "", ""), True, False),
        (errors.ServerFault(503, "", ""), True, False),
        (errors.ServerFault(501, "", ""), False, False),
        (errors.NotFound(404, "", ""), False, False),
        (errors.Conflict(409, "", ""), False, False),
        (errors.BadAnswer("x"), False, False),
        (errors.ConfigError("x"), False, False),
    ],
)
def test_what_may_be_repeated_without_asking(
    error: errors.KubeError, get: bool, post: bool
) -> None:
    assert may_repeat("GET", error) is get
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        assert may_repeat(method, error) is post


def test_429_is_waited_for_as_long_as_it_asks(run_virtual: RunVirtual) -> None:
    transport = Scripted(replies(answer(429, {}, retry_after="3"), answer(201, A)))

    async def scenario() -> float:
        await client_on(transport).create(WIDGETS, "ns", {"metadata": {"name": "a"}})
        return asyncio.get_running_loop().time()

    assert 3.0 <= run_virtual(scenario()) <= 3.1  # never earlier, and not all at once
    assert len(transport.sent) == 2


def test_an_absurd_retry_after_is_capped(run_virtual: RunVirtual) -> None:
    transport = Scripted(replies(answer(429, {}, retry_after="3600"), answer(200, A)))

    async def scenario() -> float:
        await client_on(transport).get(WIDGETS, "ns", "a")
        return asyncio.get_running_loop().time()

    assert 10.0 <= run_virtual(scenario()) <= 10.1


def test_429_without_end_is_raised_within_the_deadline(run_virtual: RunVirtual) -> None:
    transport = Scripted(lambda _: answer(429, {}, retry_after="4"))

    async def scenario() -> float:
        with pytest.raises(errors.TooManyRequests):
            await client_on(transport).get(WIDGETS, "ns", "a", timeout_s=10)
        return asyncio.get_running_loop().time()

    # Two waits of 4 s fit; a third would not, so nobody sits it out.
    assert 8.0 <= run_virtual(scenario()) < 10.0
    assert len(transport.sent) == 3


def test_a_call_without_answer_ends_with_its_deadline(run_virtual: RunVirtual) -> None:
    async def never(_: Sent) -> Answer:
        await asyncio.sleep(10_000)
        raise AssertionError

    transport = Scripted(never)

    async def scenario() -> tuple[str, float]:
        with pytest.raises(errors.Unreachable) as caught:
            await client_on(transport).patch(WIDGETS, "ns", "a", {}, timeout_s=7)
        return str(caught.value), asyncio.get_running_loop().time()

    text, took_s = run_virtual(scenario())
    assert took_s == pytest.approx(7.0)
    assert "api.test:443" in text


def test_the_last_words_of_the_server_are_kept_when_time_runs_out(run_virtual: RunVirtual) -> None:
    calls = 0

    async def reply(_: Sent) -> Answer:
        nonlocal calls
        calls += 1
        if calls == 1:
            return status(503, "ServiceUnavailable", "etcd is down")
        await asyncio.sleep(10_000)
        raise AssertionError

    async def scenario() -> str:
        with pytest.raises(errors.ServerFault) as caught:
            await client_on(Scripted(reply)).get(WIDGETS, "ns", "a", timeout_s=5)
        return caught.value.message

    assert run_virtual(scenario()) == "etcd is down"


def test_a_get_survives_a_restart_of_the_server(run_virtual: RunVirtual) -> None:
    transport = Scripted(
        replies(
            errors.Unreachable("reset"),
            errors.Unreachable("refused", sent=False),
            status(503, "ServiceUnavailable"),
            answer(200, A),
        )
    )
    found = run_virtual(client_on(transport).get(WIDGETS, "ns", "a"))
    assert found.metadata.name == "a"


async def test_a_create_whose_answer_was_lost_is_not_repeated() -> None:
    transport = Scripted(lambda _: errors.Unreachable("reset"))
    with pytest.raises(errors.Unreachable):
        await client_on(transport).create(WIDGETS, "ns", {"metadata": {"name": "a"}})
    assert len(transport.sent) == 1


def test_tries_are_bounded_whatever_the_deadline(run_virtual: RunVirtual) -> None:
    transport = Scripted(lambda _: status(500, "InternalError"))

    async def scenario() -> None:
        with pytest.raises(errors.ServerFault):
            await client_on(transport).get(WIDGETS, "ns", "a", timeout_s=100_000)

    run_virtual(scenario())
    assert len(transport.sent) == 10


# --- who we are -------------------------------------------------------------------------------


class Rotating:
    """A source whose token was exchanged after it was read."""

    def __init__(self) -> None:
        self.tokens = ["Bearer old", "Bearer new"]
        self.rejected: list[SecretText | None] = []

    async def authorization(self) -> SecretText:
        return SecretText(self.tokens[0])

    def reject(self, used: SecretText | None) -> None:
        self.rejected.append(used)
        if len(self.tokens) > 1:
            self.tokens.pop(0)


def only_new(sent: Sent) -> Answer:
    good = sent.headers.get("Authorization") == "Bearer new"
    return answer(200, A) if good else status(401, "Unauthorized")


async def test_401_reads_the_token_again_once_even_for_a_create() -> None:
    transport = Scripted(only_new)
    credentials = Rotating()
    client = client_on(transport, credentials=credentials)
    await client.create(WIDGETS, "ns", {"metadata": {"name": "a"}})
    assert [s.headers["Authorization"] for s in transport.sent] == ["Bearer old", "Bearer new"]
    assert credentials.rejected == [SecretText("Bearer old")]


async def test_401_twice_is_unauthorized() -> None:
    transport = Scripted(lambda _: status(401, "Unauthorized"))
    with pytest.raises(errors.Unauthorized) as caught:
        await client_on(transport, credentials=Rotating()).get(WIDGETS, "ns", "a")
    assert len(transport.sent) == 2
    assert "Bearer" not in repr(caught.value)


async def test_a_watch_reads_the_token_again_too() -> None:
    def stream(sent: Sent) -> ListedStream:
        if sent.headers.get("Authorization") == "Bearer new":
            return ListedStream(200, lines_of({"type": "ADDED", "object": A}))
        return ListedStream(401, lines_of(), body=status(401, "Unauthorized").body)

    client = client_on(Scripted(stream=stream), credentials=Rotating())
    events = [event async for event in client.watch(WIDGETS, resource_version="1")]
    assert len(events) == 1


# --- what is counted --------------------------------------------------------------------------


async def test_each_try_is_counted_by_code_method_and_host() -> None:
    registry = CollectorRegistry()
    transport = Scripted(replies(status(500, "InternalError"), answer(200, A)))
    client = client_on(transport, metrics=KubeMetrics(registry))
    await client.get(WIDGETS, "ns", "a")
    for code in ("500", "200"):
        labels = {"code": code, "method": "GET", "host": "api.test:443"}
        assert registry.get_sample_value("rest_client_requests_total", labels) == 1


async def test_a_call_without_answer_is_counted_as_an_error() -> None:
    registry = CollectorRegistry()
    transport = Scripted(lambda _: errors.Unreachable("reset"))
    client = client_on(transport, metrics=KubeMetrics(registry))
    with pytest.raises(errors.Unreachable):
        await client.patch(WIDGETS, "ns", "a", {})
    labels = {"code": "<error>", "method": "PATCH", "host": "api.test:443"}
    assert registry.get_sample_value("rest_client_requests_total", labels) == 1


async def test_an_unreadable_object_is_a_bad_answer() -> None:
    transport = Scripted(lambda _: answer(200, {**A, "spec": {"size": "x"}}))
    with pytest.raises(errors.BadAnswer, match=r"Widget.*size"):
        await client_on(transport).get(WIDGETS, "ns", "a")


async def test_raw_reads_are_plain_values() -> None:
    transport = Scripted(lambda _: answer(200, {"gitVersion": "v1.37"}))
    assert await client_on(transport).get_raw("/version") == {"gitVersion": "v1.37"}
    broken = Scripted(lambda _: Answer(200, {}, b"<html>"))
    with pytest.raises(errors.BadAnswer):
        await client_on(broken).get_raw("/version")


async def test_closing_the_client_closes_the_network() -> None:
    transport = Scripted()
    await client_on(transport).close()
    assert transport.closed


def test_pods_of_a_real_server_decode() -> None:
    # The shape that Kubernetes 1.3x answers with, nulls included.
    body = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**A["metadata"], "creationTimestamp": None, "managedFields": [{"x": 1}]},
        "spec": {"containers": [{"name": "runner", "env": [{"name": "A", "valueFrom": {"b": 1}}]}]},
        "status": {"phase": "Pending", "conditions": None},
    }
    transport = Scripted(lambda _: answer(200, body))
    pod = asyncio.run(client_on(transport).get(PODS, "ns", "a"))
    assert pod.spec is not None
    assert pod.spec.containers[0].env is not None
    assert json.loads(bytes(memoryview(pod.spec.containers[0].env[0].value_from))) == {"b": 1}


async def test_a_watch_is_counted_as_a_get_and_not_timed() -> None:
    # As client-go does: its verb for a watch is GET, and only answers that end are timed.
    registry = CollectorRegistry()
    stream = ListedStream(200, lines_of({"type": "ADDED", "object": A}))
    client = client_on(Scripted(stream=lambda _: stream), metrics=KubeMetrics(registry))
    assert len([event async for event in client.watch(WIDGETS, resource_version="1")]) == 1
    labels = {"code": "200", "method": "GET", "host": "api.test:443"}
    assert registry.get_sample_value("rest_client_requests_total", labels) == 1
    timed = {"verb": "GET", "host": "api.test:443"}
    count = "rest_client_request_duration_seconds_count"
    assert registry.get_sample_value(count, timed) is None
