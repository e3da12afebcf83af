"""The cache by machine, and what reads of it promise: never back, never less than it says.

A server that drops streams in a line, says 410, 429, 500, tells things twice or once more from
before, answers lists from the past, compacts, poisons, and takes and gives the same names again.
The model is the server's own log. Beside it `OwnWrites`: a key is settled only when the cache
shows everything that was written for it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import async_solipsism
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runnerscale.core.clock import SystemClock
from runnerscale.kube.errors import Unreachable
from runnerscale.kube.informer import STALE_LISTS_MAX
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.store import Change
from runnerscale.kube.transport import Answer
from tests.properties import examples
from tests.unit.kube.scripted import MiniServer, Sent, Widget, answer, path_of, status
from tests.unit.kube.test_informer import bookmark, informer_on

NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from(["one", "two"])
HEALED_S = 1000.0


class WickedServer(MiniServer):
    """Remembers everything, and says it in bad order."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.twice = False  # every event is told twice
        self.replays = 0  # so many events of before come again with each new watch
        self.bookmarks = False
        self.stale_lists = 0  # so many lists are answered from the past
        self.lied = False  # a list of the past was answered
        self.past: list[tuple[int, dict[str, dict[str, Any]]]] = [(self.version, {})]

    def _note(self, kind: str, path: str, document: dict[str, Any]) -> None:
        self.log.append((self.version, kind, path, document))
        self.past.append((self.version, dict(self.objects)))
        super()._note(kind, path, document)

    def _get(self, request: Sent) -> Answer:
        if self.stale_lists and request.path.endswith("/widgets"):
            self.stale_lists -= 1
            self.lied = True
            version, objects = self.past[-min(3, len(self.past))]
            items = [objects[path] for path in sorted(objects)]
            return answer(200, {"metadata": {"resourceVersion": str(version)}, "items": items})
        return super()._get(request)

    async def _watch(
        self, path: str, since: int, cut: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        before = [entry for entry in self.log if entry[0] <= since]
        for _, kind, at, document in before[-self.replays :] if self.replays else ():
            if at.startswith(path + "/"):
                yield json.dumps({"type": kind, "object": document}).encode()
        async for line in super()._watch(path, since, cut):
            yield line
            if self.twice:
                yield line
            if self.bookmarks and b'"ERROR"' not in line:
                seen = int(json.loads(line)["object"]["metadata"]["resourceVersion"])
                yield json.dumps(bookmark(seen)).encode()


class InformerMachine(RuleBasedStateMachine):
    """Judged by the log after every step, and by the server once all is healed."""

    @initialize()
    def begin(self) -> None:
        self.loop = async_solipsism.EventLoop()
        self.server = WickedServer()
        self.mirror: dict[str, Widget] = {}  # made from changes alone
        self.newest: dict[str, int] = {}  # by uid, as far as was ever shown
        self.faults: list[Any] = []
        self.server.before = self._fault
        self.noted: dict[str, list[tuple[str, int, str]]] = {"one": [], "two": []}
        self.parked: dict[str, int] = {"one": 0, "two": 0}  # calls that are still owed
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        self.informer = informer_on(self.server)
        self.informer.on_change(self._mirror)
        self.writes = OwnWrites(clock=SystemClock())
        self.task = asyncio.create_task(self.informer.run())

    def _fault(self, _: Sent) -> Any:
        if not self.faults:
            return None
        fault = self.faults.pop()
        if isinstance(fault, Exception):
            raise fault
        return fault

    def _mirror(self, change: Change[Widget]) -> None:
        assert self.mirror.get(change.key) is change.old, "a change is missing"
        if change.new is None:
            del self.mirror[change.key]
            return
        self.mirror[change.key] = change.new
        meta = change.new.metadata
        assert change.old is None or change.old.metadata.uid == meta.uid, "an end was not told"
        version = int(meta.resource_version or "0")
        assert version >= self.newest.get(meta.uid or "", 0), "it went back"
        self.newest[meta.uid or ""] = version

    def _sleep(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    # --- what the world does ----------------------------------------------------------------------

    @rule(name=NAMES, size=st.sampled_from([0, 1, "poison"]))
    def put(self, name: str, size: Any) -> None:
        self.server.put(path_of(name), {"spec": {"size": size}})

    @rule(name=NAMES)
    def drop(self, name: str) -> None:
        if path_of(name) in self.server.objects:
            self.server.drop(path_of(name))

    @rule(name=NAMES)
    def exchange(self, name: str) -> None:
        """Another object of the same name."""
        self.drop(name)
        self.put(name, 0)

    @rule(key=KEYS, name=NAMES)
    def write(self, key: str, name: str) -> None:
        """Our own, for a key."""
        made = self.server.put(path_of(name), {"spec": {"size": 2}})
        version = made["metadata"]["resourceVersion"]
        self._in_loop(self.writes.wrote, key, self.informer, f"ns/{name}", version)
        self.noted[key].append((f"ns/{name}", int(version), ""))

    @rule(key=KEYS, name=NAMES)
    def delete(self, key: str, name: str) -> None:
        found = self.server.objects.get(path_of(name))
        if found is None:
            return
        uid = found["metadata"]["uid"]
        self.server.drop(path_of(name))
        self._in_loop(self.writes.deleted, key, self.informer, f"ns/{name}", uid)
        self.noted[key].append((f"ns/{name}", self.server.version, uid))

    @rule(key=KEYS)
    def park(self, key: str) -> None:
        def told() -> None:
            assert self.writes.is_settled(key)
            self.parked[key] -= 1
            assert self.parked[key] >= 0, "told twice"

        self.parked[key] = 1  # a later wish replaces an earlier one
        self._in_loop(self.writes.when_settled, key, told)

    def _in_loop(self, call: Any, *arguments: Any) -> None:
        async def within() -> None:
            call(*arguments)

        self.loop.run_until_complete(within())

    # --- what goes wrong --------------------------------------------------------------------------

    @rule()
    def cut(self) -> None:
        self.server.cut_watches()

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @rule()
    def freeze(self) -> None:
        self.server.frozen = True

    @rule(twice=st.booleans(), replays=st.integers(0, 4), bookmarks=st.booleans())
    def bad_order(self, twice: bool, replays: int, bookmarks: bool) -> None:
        self.server.twice, self.server.replays = twice, replays
        self.server.bookmarks = bookmarks

    @rule(count=st.integers(1, STALE_LISTS_MAX - 1))
    def lists_of_the_past(self, count: int) -> None:
        self.server.stale_lists = count
        self._in_loop(self.informer.relist)

    @rule(kind=st.sampled_from(["reset", "500", "410", "429"]), count=st.integers(1, 3))
    def fail(self, kind: str, count: int) -> None:
        fault = Unreachable("reset") if kind == "reset" else status(int(kind), "Expired")
        self.faults += [fault] * count

    @rule(seconds=st.sampled_from([0.01, 0.3, 3.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self._sleep(seconds)

    # --- what always holds ------------------------------------------------------------------------

    @invariant()
    def what_it_says_it_shows_it_shows(self) -> None:
        if not hasattr(self, "informer"):
            return
        last: dict[str, tuple[int, str, dict[str, Any]]] = {}
        for version, kind, path, document in self.server.log:
            if self.informer.is_caught_up(str(version)):
                last[path] = (version, kind, document)
        for path, (version, kind, document) in last.items():
            self._shows(f"ns/{path.rsplit('/', 1)[1]}", version, kind, document)

    def _shows(self, key: str, version: int, kind: str, document: dict[str, Any]) -> None:
        known = self.informer.store.get(key)
        shown = int(known.metadata.resource_version or "0") if known else 0
        if shown > version or key in self.informer.poisoned:
            return  # something later, or kept out and told
        if kind == "DELETED":
            gone = document["metadata"]["uid"]
            assert known is None or known.metadata.uid != gone, "it says less than it knows"
        elif document["spec"]["size"] != "poison":
            assert shown == version, "it says less than it knows"

    @invariant()
    def a_settled_key_sees_its_own_writes(self) -> None:
        for key, noted in getattr(self, "noted", {}).items():
            if not self.writes.is_settled(key):
                continue
            assert self.parked[key] == 0, "nobody was told"
            for object_key, version, uid in noted:
                known = self.informer.store.get(object_key)
                if uid and not self.server.lied:
                    assert known is None or known.metadata.uid != uid, "it still shows the deleted"
                elif uid:
                    continue  # a list of the past cannot tell; deleting twice does no harm
                elif known is None:
                    ends = [e for e in self.server.log if e[1] == "DELETED" and e[0] > version]
                    poisoned = object_key in self.informer.poisoned
                    assert ends or poisoned, "our own write does not show"
                elif object_key not in self.informer.poisoned:
                    assert int(known.metadata.resource_version or "0") >= version

    @rule()
    def healed_it_equals_the_server(self) -> None:
        self.faults.clear()
        self.server.stale_lists = self.server.replays = 0
        self.server.twice = False
        self.server.thaw()
        self._sleep(HEALED_S)
        for path, document in self.server.objects.items():
            key = f"ns/{path.rsplit('/', 1)[1]}"
            if document["spec"]["size"] == "poison":
                assert key in self.informer.poisoned
                continue
            known = self.informer.store.get(key)
            assert known is not None
            assert known.metadata.resource_version == document["metadata"]["resourceVersion"]
        names = {f"ns/{path.rsplit('/', 1)[1]}" for path in self.server.objects}
        assert {*self.informer.store.keys()} <= names
        assert self.mirror == {key: self.informer.store.get(key) for key in self.informer.store}
        assert len(self.writes) == 0, "a key waits for ever"

    def teardown(self) -> None:
        try:
            self.healed_it_equals_the_server()
        finally:
            self.task.cancel()
            self.loop.run_until_complete(asyncio.wait([self.task]))
            self.loop.close()


TestInformerMachine = InformerMachine.TestCase
TestInformerMachine.settings = examples(40, steps=30)
