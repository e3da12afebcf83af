"""Reads the log of a container as `shim_logs.py` wrote it: whole, its end, or as it grows.

Two files at most (`log.1` is the older one). Lines are handed out as the container wrote them,
with their time in front if that is asked for.
"""

import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runnerscale.core.clock import Clock, parse_time
from runnerscale.node.shim_logs import LOG_NAME, OLD_LOG_NAME

FOLLOW_WAIT_S = 0.2
READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What a reader wants to see; the names are those of the Kubernetes API."""

    tail_lines: int | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    since_s: float | None = None  # only lines from that time on, seconds since the epoch


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, or a part of one."""

    time: str
    stream: str
    whole: bool
    text: bytes

    def shown(self, *, timestamps: bool) -> bytes:
        """As it goes to the reader."""
        head = f"{self.time} ".encode() if timestamps else b""
        return head + self.text + (b"\n" if self.whole else b"")


def parse_line(raw: bytes) -> LogLine | None:
    """One stored line without its line end; None: not one of ours (a torn write)."""
    parts = raw.split(b" ", 3)
    if len(parts) != 4 or parts[1] not in (b"stdout", b"stderr"):
        return None
    return LogLine(
        time=parts[0].decode(errors="replace"),
        stream=parts[1].decode(),
        whole=parts[2] == b"F",
        text=parts[3],
    )


class LogReader:
    """The log of one attempt."""

    def __init__(self, folder: Path) -> None:
        """`folder`: that of the attempt."""
        self._current = folder / LOG_NAME
        self._old = folder / OLD_LOG_NAME

    def read(self, request: LogRequest) -> bytes:
        """What is there now."""
        return self._read(request, self._place())

    def _read(self, request: LogRequest, until: tuple[int, int]) -> bytes:
        lines: Iterator[LogLine] | deque[LogLine] = self._lines(request.since_s, until)
        if request.tail_lines is not None:
            lines = deque(lines, maxlen=max(0, request.tail_lines))
        shown = bytearray()
        for line in lines:
            shown += line.shown(timestamps=request.timestamps)
            if request.limit_bytes is not None and len(shown) >= request.limit_bytes:
                return bytes(shown[: request.limit_bytes])
        return bytes(shown)

    def tail(self, *, lines: int, max_bytes: int) -> str:
        """The last lines as text, no longer than `max_bytes`."""
        shown = self.read(LogRequest(tail_lines=lines))
        return shown[-max_bytes:].decode(errors="replace")

    async def follow(
        self, request: LogRequest, *, clock: Clock, ended: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """What is there, then what comes, until the container has ended and all was handed out.

        `limit_bytes` bounds the whole; `ended` says that nothing more will be written.
        """
        left = request.limit_bytes
        place = self._place()
        chunk = self._read(request, place)
        rest = b""
        while True:
            if chunk:
                chunk = chunk if left is None else chunk[:left]
                yield chunk
                left = None if left is None else left - len(chunk)
                if left is not None and left <= 0:
                    return
            over = ended()
            fresh, place, rest = self._grown(place, rest)
            parsed = [parse_line(raw) for raw in fresh]
            chunk = b"".join(
                line.shown(timestamps=request.timestamps) for line in parsed if line is not None
            )
            if not chunk:
                if over:
                    return
                await clock.sleep(FOLLOW_WAIT_S)

    def _lines(self, since_s: float | None, until: tuple[int, int]) -> Iterator[LogLine]:
        inode, end = until
        for path in (self._old, self._current):
            try:
                with path.open("rb") as file:
                    last = os.fstat(file.fileno()).st_ino == inode
                    for raw in file:
                        end -= len(raw) if last else 0
                        if end < 0:
                            return  # written after we began to read
                        line = parse_line(raw.rstrip(b"\n"))
                        if line is not None and _is_since(line, since_s):
                            yield line
            except FileNotFoundError:
                continue

    def _place(self) -> tuple[int, int]:
        """Which file (inode) and how far it goes now, at the end of its last whole line."""
        try:
            data = self._current.read_bytes()
            return self._current.stat().st_ino, data.rfind(b"\n") + 1
        except FileNotFoundError:
            return 0, 0

    def _grown(
        self, place: tuple[int, int], rest: bytes
    ) -> tuple[list[bytes], tuple[int, int], bytes]:
        """The whole lines after `place`; a log that was put aside is read to its end first."""
        inode, offset = place
        for path in (self._old, self._current):
            try:
                with path.open("rb") as file:
                    status = path.stat()
                    if status.st_ino != inode and path is self._old:
                        continue
                    if status.st_ino != inode:
                        inode, offset, rest = status.st_ino, 0, b""
                    file.seek(offset)
                    data = rest + file.read(READ_BYTES)
            except FileNotFoundError:
                continue
            offset += len(data) - len(rest)
            *lines, rest = data.split(b"\n")
            if lines or path is self._current:
                return lines, (inode, offset), rest
        return [], (inode, offset), rest


def _is_since(line: LogLine, since_s: float | None) -> bool:
    if since_s is None:
        return True
    try:
        return parse_time(line.time) >= since_s
    except ValueError:
        return False
