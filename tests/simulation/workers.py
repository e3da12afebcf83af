"""Seeds on several processes: each takes a chunk of seeds and ends, so that memory stays bounded.

Processes are forked from one that has everything imported; the dead of a history are never
finalised, they go with the process. A process that dies is the failure of the seed it was at;
the rest of its chunk is taken up by another.
"""

import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Chunk = tuple[int, int]  # first seed, and the one after the last
Play = Callable[[int], Json]  # a seed's result, with its `seed`

READ_MAX = 1 << 20


@dataclass(slots=True)
class _Worker:
    pid: int
    chunk: Chunk
    read: int
    text: bytearray = field(default_factory=bytearray)


def chunks(first: int, end: int, size: int) -> list[Chunk]:
    """The seeds in pieces."""
    return [(place, min(place + size, end)) for place in range(first, end, size)]


def played(todo: list[Chunk], play: Play, *, workers: int) -> Iterator[tuple[Chunk, list[Json]]]:
    """The results of each chunk, as they come in; a chunk of which a part died comes in parts."""
    waiting = todo[::-1]
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or selector.get_map():
                while waiting and len(selector.get_map()) < workers:
                    worker = _started(waiting.pop(), play)
                    selector.register(worker.read, selectors.EVENT_READ, worker)
                for key, _ in selector.select():
                    data = os.read(key.fd, READ_MAX)
                    key.data.text += data
                    if not data:
                        selector.unregister(key.fd)
                        chunk, results, rest = _ended(key.data)
                        waiting += [rest] if rest else []
                        yield chunk, results
        finally:
            for key in [*selector.get_map().values()]:
                os.kill(key.data.pid, signal.SIGKILL)
                os.waitpid(key.data.pid, 0)


def _started(chunk: Chunk, play: Play) -> _Worker:
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(write)
        return _Worker(pid, chunk, read)
    code = 1
    try:
        os.close(read)
        with os.fdopen(write, "w") as out:
            for seed in range(*chunk):
                print(json.dumps(play(seed)), file=out, flush=True)
        code = 0
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        if os.getppid() == parent:  # else there is nobody any more to play for
            traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # the dead are not finalised


def _ended(worker: _Worker) -> tuple[Chunk, list[Json], Chunk | None]:
    """The part that was played, its results, and the part that is still to be played."""
    os.close(worker.read)
    _, status = os.waitpid(worker.pid, 0)
    lines = worker.text.decode().splitlines(keepends=True)
    results = [json.loads(line) for line in lines if line.endswith("\n")]
    first, end = worker.chunk
    at = first + len(results)
    if at == end:
        return worker.chunk, results, None
    code = os.waitstatus_to_exitcode(status)
    told = f"seed {at} FAILED:\n  the process that played it ended with {code}"
    # Whoever goes on from here later plays it again: it may have been killed from outside.
    results.append({"seed": at, "failed": told, "died": True})
    return (first, at + 1), results, (at + 1, end) if at + 1 < end else None
