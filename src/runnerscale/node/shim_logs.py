"""The log of one container, bounded: what the shim writes and `log_files.py` reads.

One line is `<time> <stdout|stderr> <F|P> <text>`, as container runtimes write it; P is a part of
a line that goes on. When the file is full it becomes `log.1` and a new one begins, so a container
never holds more than two files. Standard library only: it runs in the shim.
"""

# pathlib would double the memory and the start-up time of every shim.
# ruff: noqa: PTH105

import os
import time

LOG_NAME, OLD_LOG_NAME = "log", "log.1"
PART_MAX_BYTES = 16 * 1024
BATCH_BYTES = 32 * 1024


class LogFile:
    """Appends chunks of two streams as whole lines."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        """`max_bytes`: when the current file is put aside."""
        self._path = f"{folder}/{LOG_NAME}"
        self._old_path = f"{folder}/{OLD_LOG_NAME}"
        self._max_bytes = max_bytes
        self._open: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self._file = -1
        self._size = 0
        self._reopen()

    def write(self, stream: str, chunk: bytes) -> None:
        """Take what a stream has said; an unfinished line waits for its end."""
        lines = (self._open[stream] + chunk).split(b"\n")
        rest = lines.pop()
        head = self._head(stream)
        parts: list[bytes] = []
        for line in lines:
            while len(line) > PART_MAX_BYTES:
                parts.append(head + b"P " + line[:PART_MAX_BYTES] + b"\n")
                line = line[PART_MAX_BYTES:]
            parts.append(head + b"F " + line + b"\n")
        while len(rest) > PART_MAX_BYTES:
            parts.append(head + b"P " + rest[:PART_MAX_BYTES] + b"\n")
            rest = rest[PART_MAX_BYTES:]
        self._open[stream] = rest
        self._append(parts)

    def close(self) -> None:
        """Write out unfinished lines, as such: a reader gets what the container wrote."""
        for stream, rest in self._open.items():
            if rest:
                self._append([self._head(stream) + b"P " + rest + b"\n"])
        self._open = {"stdout": b"", "stderr": b""}

    def _append(self, parts: list[bytes]) -> None:
        # Many short lines grow by their heads: written in batches, so that the bound holds.
        batch: list[bytes] = []
        size = 0
        for part in parts:
            if size and size + len(part) > BATCH_BYTES:
                self._store(b"".join(batch))
                batch, size = [], 0
            batch.append(part)
            size += len(part)
        if batch:
            self._store(b"".join(batch))

    def _store(self, data: bytes) -> None:
        try:
            if self._size and self._size + len(data) > self._max_bytes:
                os.replace(self._path, self._old_path)
                before = self._file
                self._reopen()
                os.close(before)
            self._size += len(data)
            os.write(self._file, data)
        except OSError:
            return  # a full disk must not end the container

    def _reopen(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    @staticmethod
    def _head(stream: str) -> bytes:
        now_ns = time.time_ns()
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ns // 1_000_000_000))
        return f"{second}.{now_ns % 1_000_000_000:09d}Z {stream} ".encode()
