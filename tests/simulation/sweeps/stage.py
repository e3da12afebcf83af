"""The simulated world with its points: who writes or calls is known, and can be hit right there.

Wraps the embedded API server and the pretended GitHub from outside: the handlers and stores are
the ones that are always used. A process that is hit dies at that instant (nothing of it ever
runs again); a new controller comes up after a second, a listener as its controller makes it.
"""

import asyncio
import contextvars
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from runnerscale.apiserver.failures import internal
from runnerscale.apiserver.lists import Selection
from runnerscale.apiserver.watching import WatchOptions
from runnerscale.fake_github import dispatch
from runnerscale.fake_github.answers import Answer, Call
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.options import Options
from tests.simulation.requests import AGENT
from tests.simulation.sweeps.past import Past
from tests.simulation.sweeps.points import Point, Points, Sort
from tests.simulation.world import World

DOWN_S = 1.0  # from the death of a controller to the next one
CONTROLLER = "controller-"
LISTENER = "/listener"  # its component is POD/CONTAINER
# What changes something at GitHub. Tokens are only lent; a poll counts once it brought a message.
CHANGING = (
    "create-scale-set",
    "update-scale-set",
    "delete-scale-set",
    "open-session",
    "refresh-session",
    "delete-session",
    "jit-config",
    "acquire-jobs",
    "remove-runner",
    "acknowledge",
)
DISTURBED_S = 10.0  # by a death: what follows it has begun by then
FOUND_AFTER_S = 70.0  # a lost event: by the comparison of each minute (`kube/consistency.py`)
STALE_S = (5.0, 15.0, 30.0)  # for so long a new process sees the past

Events = AsyncIterator[list[tuple[str, bytes]]]
Handler = Callable[[Hub, Call], Awaitable[Answer]]


def is_ours(component: str) -> bool:
    """Whether it is a controller or a listener."""
    return component.startswith(CONTROLLER) or component.endswith(LISTENER)


class Stage(World):
    """The world of a sweep. One in a process: it takes the handlers of GitHub for itself."""

    def __init__(self, seed: int, folder: Path, points: Points, *, github: Options) -> None:
        super().__init__(seed, folder, github=github)
        self.points = points
        self.past = Past()
        self._handlers = dict(dispatch.HANDLERS)
        for name in (*CHANGING, "poll"):
            dispatch.HANDLERS[name] = self._call_watched(name, self._handlers[name])

    async def start_api(self) -> None:
        """With everything that is watched here."""
        await super().start_api()
        server: Any = self.api
        self.past.follow(server.store)
        for name in ("create", "patch", "replace"):
            method = getattr(server.operations, name)
            setattr(server.operations, name, self._write_watched(name, method))
        server.deletion.delete = self._write_watched("delete", server.deletion.delete)
        server.watches.events = self._events_watched(server.watches.events)

    # -- writes --------------------------------------------------------------------------------

    def _write_watched(self, verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            caller = next((a for a in (*arguments, *named.values()) if hasattr(a, "user")), None)
            if caller is None or not _is_written_by_us(caller) or caller.options.dry_run:
                return method(*arguments, **named)
            return self._write(
                f"{verb} {_object_of(arguments)}", lambda: method(*arguments, **named)
            )

        return call

    def _write(self, what: str, method: Callable[[], Any]) -> Any:
        assert self.api is not None
        points, store, by = self.points, self.api.store, AGENT.get()
        points.writes += 1
        number, now_s = points.writes, self.clock.monotonic_s()
        verdict = points.perhaps_here(Point(Sort.BEFORE, number, by, what, now_s))
        if verdict is True:
            self.strike(by)
            raise internal("its sender was killed before it was sent")
        before = store.version
        try:
            return method()
        finally:
            stored = store.version != before
            if verdict is not False:
                verdict.say(stored)
            if stored and points.armed:
                points.counts[Sort.BEFORE] += 1
                self._stored(number, by, what, now_s)

    def _stored(self, number: int, by: str, what: str, now_s: float) -> None:
        points = self.points
        if points.here(Point(Sort.AFTER, number, by, what, now_s)):
            self.strike(by)
            return
        if not by.startswith(CONTROLLER):
            return  # a listener watches nothing: there is no past for it to see
        revisions = self.past.revisions()
        points.same_view += len(self.past.changes) - len(revisions)
        for revision in revisions:
            if points.here(Point(Sort.STALE, number, by, what, now_s, revision)):
                self.strike(by)
                return

    # -- GitHub --------------------------------------------------------------------------------

    def _call_watched(self, name: str, handler: Handler) -> Handler:
        async def watched(hub: Hub, call: Call) -> Answer:
            by = _component_of(call)
            if not is_ours(by):
                return await handler(hub, call)
            points = self.points
            points.calls += 1
            number, now_s = points.calls, self.clock.monotonic_s()
            if name != "poll" and points.here(Point(Sort.GITHUB_BEFORE, number, by, name, now_s)):
                self.strike(by)
                raise dispatch.Dropped
            answer = await handler(hub, call)
            told = answer.status == 200 or (name != "poll" and answer.status < 300)
            now_s = self.clock.monotonic_s()
            if told and points.here(Point(Sort.GITHUB_AFTER, number, by, name, now_s)):
                self.strike(by)
            return answer

        return watched

    # -- what the controller is told -------------------------------------------------------------

    def _events_watched(self, real: Callable[..., Events]) -> Callable[..., Events]:
        async def events(selection: Selection, options: WatchOptions, initial: list[Any]) -> Events:
            by = AGENT.get()
            ours = by.startswith(CONTROLLER)
            if ours:
                self.past.watched.append(selection)
            async for batch in real(selection, options, initial):
                told = [e for e in batch if not (ours and self._is_lost(by, selection, e))]
                if told:
                    yield told

        return events

    def _is_lost(self, by: str, selection: Selection, event: tuple[str, bytes]) -> bool:
        kind, line = event
        if kind in ("BOOKMARK", "ERROR"):
            return False
        self.points.events += 1
        number, now_s = self.points.events, self.clock.monotonic_s()
        if not self.points.armed:
            return False
        meta = json.loads(line)["object"]["metadata"]
        what = f"{kind} {selection.kind.plural} {meta.get('namespace', '')}/{meta['name']}"
        lost = self.points.here(Point(Sort.GAP, number, by, what, now_s))
        if lost:
            self._declare("watch-event-lost", FOUND_AFTER_S)
        return lost

    # -- death ---------------------------------------------------------------------------------

    def strike(self, by: str) -> None:
        """kill -9 of the process of that name, at this instant; its successor comes by itself."""
        self.note("sweep", f"{self.points.struck}")
        contextvars.Context().run(self._strike, by)  # nobody's doing, least of all the server's

    def _declare(self, what: str, seconds: float) -> None:
        """The judge is to know that something is broken, and for how long."""
        self.striking.append(what)
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self.striking.remove, what, context=contextvars.Context())

    def _strike(self, by: str) -> None:
        stale = self.points.struck is not None and self.points.struck.sort is Sort.STALE
        kind = "controller-killed" if by.startswith(CONTROLLER) else "listener-killed"
        self._declare(kind, max(STALE_S) + DOWN_S if stale else DISTURBED_S)
        for process in [c for c in self.controllers if c.component.name == by]:
            self.kill_controller(process)
            asyncio.get_running_loop().create_task(self._start_again())
        for container in [p for p in self.machine.running("listener") if p.component.name == by]:
            container.kill()

    async def _start_again(self) -> None:
        await self.clock.sleep(DOWN_S)
        self.fill_controllers()  # unless a script was quicker
        name = self.controllers[-1].component.name
        struck = self.points.struck
        if struck is None or struck.sort is not Sort.STALE:
            return
        revision = self.points.only.revision if self.points.only else struck.revision
        self.stale.freeze(name, revision)
        await self.clock.sleep(STALE_S[(struck.number + revision) % len(STALE_S)])
        self.stale.release(name)


def _is_written_by_us(caller: Any) -> bool:
    return is_ours(AGENT.get()) and caller.user.name.startswith("system:serviceaccount:")


def _object_of(arguments: tuple[Any, ...]) -> str:
    kind, place = arguments[0], arguments[1]
    if hasattr(place, "name"):  # a record, on its way out
        return f"{kind.plural} {place.namespace}/{place.name}"
    third = arguments[2]
    name = third if isinstance(third, str) else (third.get("metadata") or {}).get("name", "")
    return f"{kind.plural} {place}/{name}"


def _component_of(call: Call) -> str:
    try:
        return str(json.loads(call.headers.get("user-agent", "")).get("commit_sha", ""))
    except (ValueError, AttributeError):
        return ""
