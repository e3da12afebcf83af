"""Which virtual sockets are ready, without asking each of them each time.

async-solipsism asks every socket at every turn of the loop: with sixty connections that was a
sixth of all time. Here whoever writes, reads or closes says which socket has been stirred, and
only those are asked. The answers and their order are the same.
"""

import asyncio
import selectors
from typing import Any

import async_solipsism
import async_solipsism.selector
from async_solipsism.socket import ListenSocket, Queue, Socket

from tests.simulation.component import COMPONENT, Component

Keys = dict[Any, selectors.SelectorKey]


class _Queue(Queue):  # type: ignore[misc]
    """Bytes on their way, which say whom they concern."""

    reader: Any = None
    writer: Any = None
    stirred: set[Any]

    def write(self, data: Any) -> Any:
        """Whoever reads has something to read."""
        self.stirred.add(self.reader)
        return super().write(data)

    def write_eof(self) -> None:
        """Both see the end."""
        self.stirred.add(self.reader)
        self.stirred.add(self.writer)
        super().write_eof()

    def read(self, size: int = -1) -> Any:
        """Whoever writes may go on."""
        self.stirred.add(self.writer)
        return super().read(size)


class _ListenSocket(ListenSocket):  # type: ignore[misc]
    """Says when somebody calls."""

    stirred: set[Any]

    async def make_connection(self, peername: Any) -> Any:
        """Stands in the queue."""
        self.stirred.add(self)
        return await super().make_connection(peername)


class QuickSelector(async_solipsism.selector.Selector):  # type: ignore[misc]
    """Level-triggered, as any selector: what is ready stays so until it has been dealt with."""

    def __init__(self, clock: Any = None) -> None:
        super().__init__(clock)
        self._stirred: set[Any] = set()  # sockets, and None for an end that nobody watches
        self._places = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a socket from now on."""
        key: selectors.SelectorKey = super().register(fileobj, events, data)
        socket: Any = key.fd.socket  # type: ignore[attr-defined]
        self._places += 1
        socket.place = self._places
        socket.watched = key
        self._listen_to(socket)
        self._stirred.add(socket)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Watch it no longer."""
        key: selectors.SelectorKey = super().unregister(fileobj)
        socket: Any = key.fd.socket  # type: ignore[attr-defined]
        socket.watched = None
        self._stirred.discard(socket)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch it for something else."""
        key: selectors.SelectorKey = super().modify(fileobj, events, data)
        socket: Any = key.fd.socket  # type: ignore[attr-defined]
        socket.watched = key
        self._stirred.add(socket)
        return key

    def _listen_to(self, socket: Any) -> None:
        if type(socket) is ListenSocket:
            socket.__class__ = _ListenSocket
            socket.stirred = self._stirred
        elif isinstance(socket, Socket) and socket._read_queue is not None:
            for queue in (socket._read_queue, socket._write_queue):
                queue.__class__ = _Queue
                queue.stirred = self._stirred
            socket._read_queue.reader = socket
            socket._write_queue.writer = socket

    def select(self, timeout: float | None = None) -> list[Any]:
        """The keys that are ready; else time moves on."""
        stirred = self._stirred
        ready = self._ready(stirred) if stirred else []
        if not ready:
            if timeout is None or timeout >= asyncio.base_events.MAXIMUM_SELECT_TIMEOUT:
                raise async_solipsism.SleepForeverError("nothing will ever happen any more")
            if timeout > 0:  # at least a tick: time that rounds to nothing would stand still
                self.clock.advance(max(timeout, self.clock.resolution))
        return ready

    def _ready(self, stirred: set[Any]) -> list[Any]:
        stirred.discard(None)
        for socket in [socket for socket in stirred if socket.watched is None]:
            stirred.discard(socket)
        ready = []
        for socket in sorted(stirred, key=_place) if len(stirred) > 1 else [*stirred]:
            key = socket.watched
            wanted, events = key.events, 0
            if wanted & selectors.EVENT_READ and socket.read_ready():
                events |= selectors.EVENT_READ
            if wanted & selectors.EVENT_WRITE and socket.write_ready():
                events |= selectors.EVENT_WRITE
            if not events:
                stirred.discard(socket)
                continue
            owner = _owner(key.data)
            if owner is not None and owner.dead:
                self.unregister(key.fd)  # a connection that was being made when its owner died
                socket.close()
            elif owner is None or not owner.paused:
                ready.append((key, events))
        return ready


def _place(socket: Any) -> int:
    place: int = socket.place
    return place


def _owner(handles: tuple[Any, Any]) -> Component | None:
    """Whose socket it is, as far as it belongs to a component."""
    for handle in handles:
        if handle is not None:
            component = handle._context.get(COMPONENT)
            if component is not None:
                return component
    return None
