"""The cache follows the server, whatever the watch does (research/libraries.md, section 3)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import async_solipsism
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.errors import Unreachable
from runnerscale.kube.informer import Informer
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.store import Change
from runnerscale.kube.watch import Poisoned
from tests.unit.kube.scripted import (
    WIDGETS,
    ListedStream,
    MiniServer,
    Scripted,
    Sent,
    Widget,
    answer,
    client_on,
    lines_of,
    path_of,
    status,
)

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


def informer_on(transport: Any, **options: Any) -> Informer[Widget]:
    given: dict[str, Any] = {"namespace": "ns", "random": seeded(1), **options}
    return Informer(client_on(transport), WIDGETS, clock=SystemClock(), **given)


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def sizes(informer: Informer[Widget]) -> dict[str, int]:
    return {
        key: item.spec.size
        for key in informer.store
        if (item := informer.store.get(key)) is not None and item.spec is not None
    }


def widget(name: str, version: int, *, uid: str = "u", size: int = 0) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"size": size}}


def event(type: str, document: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    return {"type": type, "object": document}


def bookmark(version: int) -> dict[str, Any]:
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    return event("BOOKMARK", {"metadata": meta, "spec": {"size": None}})


def gone_event() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})


class WatchScript(Scripted):
    """A list that stays the same, and a stream per watch as the test says."""

    def __init__(self, *streams: Any, items: list[Any] | None = None, version: int = 10) -> None:
        self.streams = [*streams]
        self.items = [widget("a", 5)] if items is None else items
        self.version = version
        super().__init__(self._list, self._next)

    def _list(self, _: Sent) -> Any:
        meta = {"resourceVersion": str(self.version)}
        return answer(200, {"metadata": meta, "items": self.items})

    def _next(self, _: Sent) -> Any:
        if not self.streams:
            return ListedStream(200, lines_of(100_000))  # silent
        found = self.streams.pop(0)
        if isinstance(found, Exception | ListedStream):
            return found
        return ListedStream(200, lines_of(*found))

    def asked(self) -> list[str]:
        return [
            f"watch {sent.query['resourceVersion']}" if sent.method == "WATCH" else "list"
            for sent in self.sent
            if not sent.is_comparison
        ]


async def after(seconds: float, transport: Any, **options: Any) -> Informer[Widget]:
    informer = informer_on(transport, **options)
    async with running(informer):
        await asyncio.sleep(seconds)
    return informer


# --- the seven cases -------------------------------------------------------------------------


def test_a_stream_that_ends_right_away_is_not_reopened_hot(run_virtual: RunVirtual) -> None:
    transport = WatchScript(*([[]] * 1000))
    run_virtual(after(2.0, transport))
    watches = [asked for asked in transport.asked() if asked != "list"]
    assert transport.asked().count("list") == 1
    assert 3 <= len(watches) <= 6


def test_after_a_cut_the_stream_goes_on_from_the_last_bookmark(run_virtual: RunVirtual) -> None:
    transport = WatchScript([bookmark(20)], [event("MODIFIED", widget("a", 25))], [])
    run_virtual(after(2.0, transport))
    assert transport.asked()[:4] == ["list", "watch 10", "watch 20", "watch 25"]


def test_410_in_the_stream_lists_again_and_finds_what_was_deleted(run_virtual: RunVirtual) -> None:
    transport = WatchScript([event("ADDED", widget("b", 11, uid="u2")), gone_event()])
    changes: list[Change[Widget]] = []

    async def scenario() -> Informer[Widget]:
        informer = informer_on(transport)
        informer.on_change(changes.append)
        async with running(informer):
            await asyncio.sleep(0.05)
            transport.items, transport.version = [widget("b", 30, uid="u2", size=3)], 31
            await asyncio.sleep(2)
        return informer

    informer = run_virtual(scenario())
    assert sizes(informer) == {"ns/b": 3}
    told = [(c.key, c.old is None, c.new is None) for c in changes]
    assert told == [
        ("ns/a", True, False),
        ("ns/b", True, False),
        ("ns/a", False, True),  # deleted in the gap, and heard of
        ("ns/b", False, False),
    ]
    assert transport.asked() == ["list", "watch 10", "list", "watch 31"]


def test_410_as_an_answer_lists_again(run_virtual: RunVirtual) -> None:
    refused = ListedStream(410, lines_of(), body=status(410, "Expired").body)
    transport = WatchScript(refused)
    run_virtual(after(2.0, transport))
    assert transport.asked() == ["list", "watch 10", "list", "watch 10"]


@pytest.mark.parametrize("code", [500, 429])
def test_a_refused_watch_is_tried_again_with_backoff(run_virtual: RunVirtual, code: int) -> None:
    def refused() -> ListedStream:
        return ListedStream(code, lines_of(), body=status(code, "Whatever").body)

    transport = WatchScript(*(refused() for _ in range(1000)))
    run_virtual(after(2.0, transport))
    assert transport.asked().count("list") == 1
    assert 3 <= transport.asked().count("watch 10") <= 6


def test_a_reset_in_a_line_resumes_where_it_was(run_virtual: RunVirtual) -> None:
    cut = [event("ADDED", widget("b", 11, uid="u2")), Unreachable("connection reset")]
    transport = WatchScript(cut, [])
    informer = run_virtual(after(1.0, transport))
    assert transport.asked()[:3] == ["list", "watch 10", "watch 11"]
    assert sorted(sizes(informer)) == ["ns/a", "ns/b"]


# --- and what else streams do ----------------------------------------------------------------


def test_a_stream_gone_silent_past_its_own_end_is_opened_again(run_virtual: RunVirtual) -> None:
    transport = WatchScript([100_000])
    run_virtual(after(600.0, transport))
    # 300 to 450 s asked for, 15 s of grace: at least one and at most two in ten minutes.
    assert transport.asked().count("list") == 1
    assert 2 <= transport.asked().count("watch 10") <= 3


def test_watches_that_began_together_do_not_end_together() -> None:
    timeouts = set()
    for seed in range(5):
        transport = WatchScript()
        informer = Informer(client_on(transport), WIDGETS, clock=SystemClock(), random=seeded(seed))

        async def once(informer: Informer[Any] = informer) -> None:
            async with running(informer):
                await asyncio.sleep(1)

        with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
            runner.run(once())
        timeouts.add(transport.sent[-1].query["timeoutSeconds"])
    assert len(timeouts) >= 4
    assert all(300 <= int(timeout) <= 450 for timeout in timeouts)


def test_a_long_healthy_stream_ends_the_row_of_failures(run_virtual: RunVirtual) -> None:
    failing = [Unreachable("no") for _ in range(6)]
    transport = WatchScript(*failing, [60.0], [])

    async def scenario() -> list[float]:
        at: list[float] = []
        real = transport._next

        def noted(sent: Sent) -> Any:
            at.append(asyncio.get_running_loop().time())
            return real(sent)

        transport._stream = noted
        await after(200, transport)
        return at

    at = run_virtual(scenario())
    assert at[6] - at[5] > 3.0  # the sixth failure in a row waits long
    assert at[7] - (at[6] + 60.0) < 0.3  # after a minute of health, the first wait again


def test_replayed_and_older_events_change_nothing(run_virtual: RunVirtual) -> None:
    transport = WatchScript(
        [
            event("MODIFIED", widget("a", 30, size=3)),
            event("MODIFIED", widget("a", 20, size=2)),  # older
            event("DELETED", widget("a", 25)),  # older still: a replay of a life before
            event("MODIFIED", widget("a", 30, size=3)),  # the same again
        ]
    )
    changes: list[Change[Widget]] = []

    async def scenario() -> Informer[Widget]:
        informer = informer_on(transport)
        informer.on_change(changes.append)
        async with running(informer):
            await asyncio.sleep(0.1)
        return informer

    assert sizes(run_virtual(scenario())) == {"ns/a": 3}
    assert len(changes) == 2


def test_another_object_of_the_same_name_is_an_end_and_a_beginning(
    run_virtual: RunVirtual,
) -> None:
    transport = WatchScript([event("MODIFIED", widget("a", 30, uid="second"))])
    changes: list[Change[Widget]] = []

    async def scenario() -> None:
        informer = informer_on(transport)
        informer.on_change(changes.append)
        async with running(informer):
            await asyncio.sleep(0.1)

    run_virtual(scenario())
    uids = [
        (c.old.metadata.uid if c.old else None, c.new.metadata.uid if c.new else None)
        for c in changes
    ]
    assert uids == [(None, "u"), ("u", None), (None, "second")]


def test_the_late_end_of_an_earlier_namesake_deletes_nobody(run_virtual: RunVirtual) -> None:
    transport = WatchScript([event("DELETED", widget("a", 40, uid="earlier"))])
    assert sizes(run_virtual(after(0.1, transport))) == {"ns/a": 0}


def test_a_list_older_than_the_cache_is_asked_for_again(run_virtual: RunVirtual) -> None:
    transport = WatchScript([bookmark(50), gone_event()])

    async def scenario() -> Informer[Widget]:
        informer = informer_on(transport)
        async with running(informer):
            await asyncio.sleep(0.01)
            transport.items = []  # what a lagging server still shows, at version 10
            await asyncio.sleep(1.0)
            assert sizes(informer) == {"ns/a": 0}
            assert "version 10" in informer.trouble
            transport.version = 60
            await asyncio.sleep(10)
        return informer

    informer = run_virtual(scenario())
    assert sizes(informer) == {}
    assert informer.trouble == ""


def test_a_server_restored_from_a_backup_is_believed_in_the_end(run_virtual: RunVirtual) -> None:
    transport = WatchScript([bookmark(50), gone_event()])
    informer = run_virtual(after(30.0, transport))
    assert informer.synced
    assert not informer.is_caught_up("50")
    assert informer.is_caught_up("10")


def test_something_unreadable_at_one_version_is_gone_around_by_a_list(
    run_virtual: RunVirtual,
) -> None:
    transport = WatchScript([b"garbage"], [b"garbage"], [b"garbage"])
    run_virtual(after(10.0, transport))
    assert transport.asked() == ["list", *["watch 10"] * 3, "list", "watch 10"]


# --- poison ------------------------------------------------------------------------------------


def test_poison_is_kept_out_reported_once_and_stops_nobody(run_virtual: RunVirtual) -> None:
    registry = CollectorRegistry()
    bad = widget("bad", 11, uid="u9")
    bad["spec"]["size"] = "huge"
    transport = WatchScript(
        [event("ADDED", bad), event("ADDED", widget("b", 12, uid="u2"))], [event("MODIFIED", bad)]
    )
    reports: list[Poisoned] = []

    async def scenario() -> Informer[Widget]:
        informer = informer_on(transport, metrics=KubeMetrics(registry))
        informer.on_poison(reports.append)
        async with running(informer):
            await asyncio.sleep(2)
        return informer

    informer = run_virtual(scenario())
    assert sorted(sizes(informer)) == ["ns/a", "ns/b"]
    assert [(p.key, p.uid) for p in reports] == [("ns/bad", "u9")]
    assert "ns/bad" in informer.poisoned
    labels = {"resource": "widgets"}
    assert registry.get_sample_value("reflector_poisoned_objects_total", labels) == 1
    assert transport.asked()[2] == "watch 12"  # the version advanced past the poison


def test_an_object_that_turns_to_poison_keeps_its_last_good_state_until_it_heals_or_ends(
    run_virtual: RunVirtual,
) -> None:
    # Taking it out would look like a deletion, and things are destroyed after deletions.
    server = MiniServer()
    server.put(path_of("a"), {"spec": {"size": 1}})

    async def scenario() -> None:
        informer = informer_on(server)
        async with running(informer):
            await asyncio.sleep(0.1)
            server.put(path_of("a"), {"spec": {"size": "x"}})
            await asyncio.sleep(0.1)
            assert sizes(informer) == {"ns/a": 1}
            assert [*informer.poisoned] == ["ns/a"]
            informer.relist()
            await asyncio.sleep(1)
            assert sizes(informer) == {"ns/a": 1}
            server.put(path_of("a"), {"spec": {"size": 2}})
            await asyncio.sleep(0.1)
            assert sizes(informer) == {"ns/a": 2}
            assert not informer.poisoned
            server.put(path_of("a"), {"spec": {"size": "x"}})
            server.drop(path_of("a"))
            await asyncio.sleep(0.1)
            assert sizes(informer) == {}
            assert not informer.poisoned

    run_virtual(scenario())


@pytest.mark.parametrize("how", ["watch", "list"])
def test_the_end_of_poison_is_told_though_no_good_state_was_ever_known(
    run_virtual: RunVirtual, how: str
) -> None:
    # No change is told of it, so whoever reported it would report it until a restart.
    server = MiniServer()
    server.put(path_of("bad"), {"spec": {"size": "x"}})
    ended: list[str] = []

    async def scenario() -> None:
        informer = informer_on(server)
        informer.on_poison_end(ended.append)
        async with running(informer):
            await informer.wait_synced()
            assert ended == []
            if how == "list":
                server.frozen = True
            server.drop(path_of("bad"))
            if how == "list":
                informer.relist()
            await asyncio.sleep(1)
            assert ended == ["ns/bad"]
            server.thaw()
            server.put(path_of("bad"), {"spec": {"size": "x"}})
            server.put(path_of("bad"), {"spec": {"size": 1}})
            await asyncio.sleep(1)
            assert ended == ["ns/bad", "ns/bad"]

    run_virtual(scenario())


@pytest.mark.parametrize("how", ["watch", "list"])
def test_poison_under_a_known_name_is_the_end_of_the_one_before(
    run_virtual: RunVirtual, how: str
) -> None:
    server = MiniServer()
    server.put(path_of("a"), {"spec": {"size": 1}})

    async def scenario() -> None:
        informer = informer_on(server)
        async with running(informer):
            await informer.wait_synced()
            if how == "list":
                server.frozen = True
            server.drop(path_of("a"))
            server.history.clear()  # its end is not heard of
            server.put(path_of("a"), {"spec": {"size": "x"}})
            if how == "list":
                informer.relist()
            await asyncio.sleep(1)
            assert sizes(informer) == {}
            assert [*informer.poisoned] == ["ns/a"]
            server.thaw()
            server.drop(path_of("a"))
            await asyncio.sleep(1)
            assert (sizes(informer), informer.poisoned) == ({}, {})

    run_virtual(scenario())


def test_an_index_that_stumbles_over_an_object_makes_it_poison(run_virtual: RunVirtual) -> None:
    def by_label(item: Widget) -> list[str]:
        return [(item.metadata.labels or {})["needed"]]

    good = widget("good", 6, uid="u2")
    good["metadata"]["labels"] = {"needed": "x"}
    transport = WatchScript(items=[widget("a", 5), good])
    informer = run_virtual(after(0.1, transport, indexers={"label": by_label}))
    assert informer.store.keys() == ["ns/good"]
    assert [*informer.poisoned] == ["ns/a"]


# --- what others ask ---------------------------------------------------------------------------


def test_a_handler_that_fails_does_not_stop_the_others(run_virtual: RunVirtual) -> None:
    told: list[str] = []

    def broken(_: Any) -> None:
        raise RuntimeError("mine")

    async def scenario() -> None:
        informer = informer_on(WatchScript())
        informer.on_change(broken)
        informer.on_change(lambda change: told.append(change.key))
        async with running(informer):
            await informer.wait_synced()

    with capture_logs() as logs:
        run_virtual(scenario())
    assert told == ["ns/a"]
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"]


def test_it_is_synced_only_when_a_list_came_through(run_virtual: RunVirtual) -> None:
    server = MiniServer()
    failing = [status(403, "Forbidden", "widgets is forbidden")] * 3

    def before(sent: Sent) -> Any:
        return failing.pop() if failing and sent.method == "GET" else None

    server.before = before

    async def scenario() -> None:
        informer = informer_on(server)
        async with running(informer):
            await asyncio.sleep(0.1)
            assert not informer.synced
            assert "forbidden" in informer.trouble
            assert not informer.is_caught_up("1")
            await informer.wait_synced()
            assert informer.trouble == ""

    with capture_logs() as logs:
        run_virtual(scenario())
    assert len([e for e in logs if e["log_level"] == "warning"]) == 1  # one line, not three


def test_progress_is_told_after_every_step_of_the_version(run_virtual: RunVirtual) -> None:
    seen: list[bool] = []

    async def scenario() -> None:
        informer = informer_on(WatchScript([bookmark(20)]))
        informer.on_progress(lambda: seen.append(informer.is_caught_up("20")))
        async with running(informer):
            await asyncio.sleep(0.1)

    run_virtual(scenario())
    assert seen == [False, True]


def test_selectors_and_namespace_are_part_of_both_questions(run_virtual: RunVirtual) -> None:
    transport = WatchScript()
    options = {"namespace": "ns", "label_selector": "a=b", "field_selector": "c=d"}
    run_virtual(after(0.1, transport, **options))
    for sent in transport.sent:
        assert sent.path.endswith("/namespaces/ns/widgets")
        assert (sent.query["labelSelector"], sent.query["fieldSelector"]) == ("a=b", "c=d")


def test_versions_that_are_no_numbers_are_compared_for_equality(run_virtual: RunVirtual) -> None:
    transport = WatchScript()
    transport.items = []
    transport.version = "zz"  # type: ignore[assignment]
    informer = run_virtual(after(0.1, transport))
    assert informer.is_caught_up("zz")
    assert not informer.is_caught_up("5")


def test_an_index_finds_and_forgets(run_virtual: RunVirtual) -> None:
    server = MiniServer()
    server.put(path_of("a"), {"spec": {"size": 1}})
    server.put(path_of("b"), {"spec": {"size": 1}})

    def by_size(item: Widget) -> list[str]:
        return [str(item.spec.size)] if item.spec else []

    async def scenario() -> None:
        informer = informer_on(server, indexers={"size": by_size})
        async with running(informer):
            await informer.wait_synced()
            names = [w.metadata.name for w in informer.store.by_index("size", "1")]
            assert names == ["a", "b"]
            server.put(path_of("a"), {"spec": {"size": 2}})
            server.drop(path_of("b"))
            await asyncio.sleep(0.1)
            assert informer.store.by_index("size", "1") == []
            assert len(informer.store.by_index("size", "2")) == 1
            with pytest.raises(KeyError):
                informer.store.by_index("colour", "1")

    run_virtual(scenario())


def test_a_relist_asked_for_during_a_list_is_another_list(run_virtual: RunVirtual) -> None:
    server = MiniServer()

    async def scenario() -> int:
        informer = informer_on(server)
        async with running(informer):
            await informer.wait_synced()
            server.hold = asyncio.Event()
            informer.relist()
            await asyncio.sleep(1)
            informer.relist()
            server.hold.set()
            await asyncio.sleep(1)
        return sum(1 for sent in server.sent if sent.method == "GET")

    assert run_virtual(scenario()) == 3


def test_trouble_is_over_when_the_stream_speaks_again(run_virtual: RunVirtual) -> None:
    transport = WatchScript(Unreachable("no route"), [1.0, bookmark(20), 100.0])

    async def scenario() -> list[str]:
        informer = informer_on(transport)
        seen = []
        async with running(informer):
            for _ in range(2):
                await asyncio.sleep(1.0)
                seen.append(informer.trouble)
        return seen

    assert run_virtual(scenario()) == ["no route", ""]


def test_how_long_it_has_been_failing_is_counted_and_ends_without_news(
    run_virtual: RunVirtual,
) -> None:
    # Down for two minutes; then the stream opens again and says nothing for an hour.
    refused = [Unreachable("no route")] * 400

    def stream(_: Sent) -> Any:
        if asyncio.get_running_loop().time() < 120:
            return refused.pop()
        return ListedStream(200, lines_of(3600.0))

    async def scenario() -> list[int]:
        informer = informer_on(Scripted(WatchScript()._list, stream))
        seen = []
        async with running(informer):
            for _ in range(8):
                seen.append(round(informer.troubled_s))
                await asyncio.sleep(30.0)
        return seen

    assert run_virtual(scenario()) == [0, 30, 60, 90, 120, 150, 0, 0]


def test_events_decode_as_they_travel() -> None:
    # The script's events are what a server would send; keeps the helpers honest.
    assert json.loads(json.dumps(bookmark(3)))["object"]["metadata"]["resourceVersion"] == "3"


def test_a_long_first_list_lets_others_go_on_and_a_later_one_is_taken_at_once(
    run_virtual: RunVirtual,
) -> None:
    many = [widget(f"w{n}", n + 1, uid=f"u{n}") for n in range(1000)]
    transport = WatchScript([gone_event()], items=many, version=2000)
    informer = informer_on(transport)
    pieces: list[int] = []
    between: list[list[str]] = []

    def changed(change: Change[Widget]) -> None:
        if informer.synced and not between:  # the next that runs after the first change
            between.append([])
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: between[0].extend(informer.store.keys()))

    async def scenario() -> None:
        informer.on_change(changed)
        async with running(informer):
            while not informer.synced:
                await asyncio.sleep(0)
                if len(informer.store) not in pieces:
                    pieces.append(len(informer.store))
            transport.items = [widget(f"x{n}", 3000 + n, uid=f"y{n}") for n in range(1000)]
            transport.version = 5000
            await asyncio.sleep(30)

    run_virtual(scenario())
    # Pieces while nobody acts on it; nothing half-way once somebody may.
    assert pieces == [249, 499, 749, 999, 1000]
    assert between == [[f"ns/x{n}" for n in range(1000)]]
