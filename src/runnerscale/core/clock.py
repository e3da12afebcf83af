"""The clock everybody is handed, so that the whole system also runs on a virtual one.

Two readings that must not be mixed: `now_s` is wall time (seconds since the epoch, may
jump), for what is stored or compared with other machines; `monotonic_s` never goes back,
for deadlines and waits inside this process.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast

import msgspec

# The remainder of a subtraction is no wait: loops round it to nothing, or spin on it.
WAIT_MIN_S = 1e-6
KNOWN_CHARS_MAX = 40  # of a time that is remembered; a fraction may have any number of digits
JUMP_MIN_S = 2.0  # less is drift, and shorter than any wait that matters


class Clock(Protocol):
    """Where time comes from; nothing else in the project may read or await it."""

    def now_s(self) -> float:
        """Wall time, seconds since the epoch."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary point, never going back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields to the event loop."""
        ...


class SystemClock:
    """The machine's clock. Waits go through the event loop, so a virtual loop may own them."""

    def __init__(self) -> None:
        """The loop is found when it is needed."""
        # Remembered, because asking for it asks the kernel for the process's number each time.
        self._loop: asyncio.AbstractEventLoop | None = None

    def now_s(self) -> float:
        """Wall time, seconds since the epoch."""
        return time.time()

    def monotonic_s(self) -> float:
        """The time of the running loop, or of the process outside of one."""
        loop = self._loop
        if loop is None or not loop.is_running():
            try:
                loop = self._loop = asyncio.get_running_loop()
            except RuntimeError:
                return time.monotonic()
        return loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds if seconds >= WAIT_MIN_S else 0.0)


class LoopClock:
    """Wall time made from the running loop's time: for loops that run on virtual time."""

    def __init__(self, epoch_s: float) -> None:
        """`epoch_s`: the wall time, seconds since the epoch, at loop time zero."""
        self._epoch_s = epoch_s

    def now_s(self) -> float:
        """Wall time, seconds since the epoch."""
        return self._epoch_s + asyncio.get_running_loop().time()

    def monotonic_s(self) -> float:
        """The loop's own time."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds if seconds >= WAIT_MIN_S else 0.0)


class ManualClock:
    """A clock that stands still until told: for tests of pure parts and of single calls.

    `sleep` returns at once and moves the time on; what was asked for is in `slept_s`.
    """

    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        """Start at `now_s`, seconds since the epoch; the monotonic reading starts at 0."""
        self._start_s = now_s
        self._passed_s = 0.0
        self.slept_s: list[float] = []

    def now_s(self) -> float:
        """Wall time, seconds since the epoch."""
        return self._start_s + self._passed_s

    def monotonic_s(self) -> float:
        """Seconds moved on so far."""
        return self._passed_s

    def advance(self, seconds: float) -> None:
        """Move the time on."""
        self._passed_s += seconds

    async def sleep(self, seconds: float) -> None:
        """Move the time on and yield once."""
        self.slept_s.append(seconds)
        self._passed_s += max(0.0, seconds)
        await asyncio.sleep(0)


def format_time(seconds: float) -> str:
    """RFC 3339 with second precision in UTC, as Kubernetes writes times: `2026-01-02T03:04:05Z`."""
    whole, _ = _rounded(seconds)
    return f"{_written(whole)}Z"


def format_micro_time(seconds: float) -> str:
    """RFC 3339 with microseconds in UTC (Kubernetes MicroTime): `2026-01-02T03:04:05.000000Z`."""
    whole, micros = _rounded(seconds)
    return f"{_written(whole)}.{micros:06d}Z"


def _rounded(seconds: float) -> tuple[int, int]:
    """Whole seconds, and microseconds beside them, as `datetime` rounds."""
    whole = math.floor(seconds)
    micros = round((seconds - whole) * 1e6)
    return (whole + 1, 0) if micros == 1_000_000 else (whole, micros)


@lru_cache(maxsize=64)  # a log writes many lines in one second
def _written(seconds: int) -> str:
    # Not strftime: it writes the years before 1000, such as Go's zero time, without their zeros.
    found = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return found.removesuffix("+00:00")


def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time with an offset, any fraction length.

    Raises:
        ValueError: not such a time, one without an offset, or one that no year from 1 to 9999
            has: `format_time` could not write it.
    """
    return _known(text) if len(text) <= KNOWN_CHARS_MAX else _parsed(text)


def _parsed(text: str) -> float:
    parsed = datetime.fromisoformat(_with_microseconds(text))
    if parsed.tzinfo is None:
        raise ValueError(f"time {text!r} has no offset")
    try:
        return parsed.astimezone(UTC).timestamp()
    except OverflowError as error:
        raise ValueError(f"time {text!r} is out of range") from error


# Every pass reads the same few times again.
_known = lru_cache(maxsize=4096)(_parsed)


def _with_microseconds(text: str) -> str:
    # .NET writes seven digits of fraction; datetime reads six at most before Python 3.11.4.
    head, dot, tail = text.partition(".")
    if not dot:
        return text
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}.{tail[:digits][:6]:0<6}{tail[digits:]}"


class FollowingClock:
    """Tells of a jump of the wall clock, as a time server or a person sets it, before it tells a
    time: what is remembered with it is right from the start.

    What a process remembers with wall times is moved along (`shifted`): a wait of a minute must
    not become one of an hour, because the clock was an hour ahead when it began. All that is
    remembered must be noted with this clock: what is noted with another between a jump and the
    next look for jumps would be moved once too often.
    """

    def __init__(self, clock: Clock, *, jumped: Callable[[float], None]) -> None:
        """`jumped`: moves all that is remembered by so many seconds."""
        self._clock = clock
        self._offset_s = clock.now_s() - clock.monotonic_s()
        self._jumped = jumped

    def now_s(self) -> float:
        """Wall time, seconds since the epoch; where it drifts only a little, nothing is told."""
        now_s = self._clock.now_s()
        by_s = now_s - self._clock.monotonic_s() - self._offset_s
        if abs(by_s) >= JUMP_MIN_S:
            self._offset_s += by_s
            self._jumped(by_s)
        return now_s

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary point, never going back."""
        return self._clock.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._clock.sleep(seconds)


T = TypeVar("T")


def shifted(remembered: T, by_s: float) -> T:
    """The same, with every instant in it moved: each float in records, rows and tables.

    Records are dataclasses and frozen Structs whose floats are all instants; what is no such
    record, tuple, deque or dict stays as it is, and so does what bears no instant.
    """
    return cast(T, _shifted(remembered, by_s))


def _shifted(value: Any, by_s: float) -> Any:
    if isinstance(value, float):
        return value + by_s
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_shifted(each, by_s) for each in value)
    if isinstance(value, deque):
        return deque((_shifted(each, by_s) for each in value), maxlen=value.maxlen)
    if isinstance(value, dict):
        return {key: _shifted(each, by_s) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        changed = _moved(value, (f.name for f in fields(value) if f.init), by_s)
        return replace(value, **changed) if changed else value
    if isinstance(value, msgspec.Struct) and value.__struct_config__.frozen:
        changed = _moved(value, value.__struct_fields__, by_s)
        return msgspec.structs.replace(value, **changed) if changed else value
    return value


def _moved(record: Any, names: Iterable[str], by_s: float) -> dict[str, Any]:
    news = {name: _shifted(getattr(record, name), by_s) for name in names}
    return {name: new for name, new in news.items() if new != getattr(record, name)}
