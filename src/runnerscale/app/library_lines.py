"""What libraries log (asyncio, aiohttp, warnings of Python), as lines of ours: one each, bounded.

Without this, the standard library writes to standard error as it likes: traces over many lines,
in them whatever a stranger sent, a token among it. A request that cannot be read is a stranger's
mistake: one line at debug, without its bytes. Nobody fills a disk by making mistakes: what is
beyond a number of lines a minute is counted, and told with the next line. How lines look is
`logs.py`.
"""

import logging
import re
import traceback
import warnings

import structlog

from runnerscale.core.clock import Clock
from runnerscale.core.plain_text import one_line

LINES_MAX = 30  # a minute, of each logger
WINDOW_S = 60.0
LOGGERS_MAX = 64  # more than that share one bound
EVENT_CHARS_MAX = 256
DETAIL_CHARS_MAX = 2048
TRACE_CHARS_MAX = 16 * 1024
CHAIN_MAX = 8
FRAMES_MAX = 32
SERVER_LOGGER = "aiohttp.server"
PARSER_MODULE = "aiohttp.http_exceptions"  # its exceptions quote what was sent
UNREADABLE = "a request could not be read"
HIDDEN = "[hidden]"
SECRETS = re.compile(
    r"(?i:\b(?:bearer|basic|remoteauth|token|password|secret|authorization)\b[\"']?[ :=]{1,3})"
    r"(?:(?i:bearer|basic|remoteauth|token) )?[^\s\"',;&)]{4,4096}"
    r"|\beyJ[\w.-]{8,4096}"  # a JWT
    r"|\b(?:gh[a-z]_|github_pat_)\w{8,4096}"
    r"|(?<=://)[^/\s@]{1,4096}@"  # whoever logs in by an address
)


class LibraryLines(logging.Handler):
    """The only handler of the standard library's root logger."""

    def __init__(self, clock: Clock) -> None:
        """Lines go where structlog's go."""
        super().__init__()
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """One line, or one more that was left out."""
        try:
            self._emit(record)
        except Exception:  # noqa: BLE001 - the stream is closed, or a bug: a log must not end the work
            return

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Nothing: it would write the record, arguments and all, to standard error."""

    def _emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        stranger = error is not None and quotes_a_stranger(error)
        level = logging.DEBUG if stranger else record.levelno
        log = structlog.get_logger()
        if not log.is_enabled_for(level):
            return
        fields: dict[str, object] = {}
        if stranger:
            event = UNREADABLE
            fields["error"] = type(error).__name__
        else:
            event, _, details = _message(record).partition("\n")
            event = one_line(hidden(event), EVENT_CHARS_MAX)
            if details:
                fields["details"] = one_line(hidden(details), DETAIL_CHARS_MAX)
            if error is not None:
                fields["error"] = type(error).__name__
                fields["exception"] = trace_of(error)
        left_out = self._window(record.name).left_out(self._clock.monotonic_s())
        if left_out is None:
            return
        if left_out:
            fields["lines_left_out"] = left_out
        place = {"_record": record, "_from_structlog": False}  # of the library, not of this file
        log.log(_known(level), event, logger=record.name, **fields, **place)

    def _window(self, name: str) -> "_Window":
        if name not in self._windows and len(self._windows) >= LOGGERS_MAX:
            name = ""
        return self._windows.setdefault(name, _Window())


class _Window:
    """The lines of a minute."""

    def __init__(self) -> None:
        self._began_s = float("-inf")
        self._lines = 0
        self._left_out = 0

    def left_out(self, now_s: float) -> int | None:
        """How many were left out before this line; None: so is this one."""
        if now_s - self._began_s >= WINDOW_S:
            self._began_s, self._lines = now_s, 0
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return None
        self._lines += 1
        told, self._left_out = self._left_out, 0
        return told


def listen_to_libraries(level: int, clock: Clock) -> None:
    """From now on this process writes no line of a library in another form."""
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, LibraryLines)]:
        root.removeHandler(handler)
    root.addHandler(LibraryLines(clock))
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger(SERVER_LOGGER).setLevel(level)
    warnings.showwarning = _show_warning


def quotes_a_stranger(error: BaseException) -> bool:
    """Whether it, or what led to it, is about bytes that no request should have."""
    at: BaseException | None = error
    for _ in range(CHAIN_MAX):
        if at is None:
            return False
        if any(kind.__module__ == PARSER_MODULE for kind in type(at).__mro__):
            return True
        at = at.__cause__ or at.__context__
    return False


def hidden(text: str) -> str:
    """The text without what looks like a secret."""
    return SECRETS.sub(HIDDEN, text[: 2 * TRACE_CHARS_MAX])


def trace_of(error: BaseException) -> str:
    """Where it happened; no values of variables, bounded, secrets out."""
    text = "".join(traceback.format_exception(error, limit=FRAMES_MAX, chain=True))
    if len(text) > TRACE_CHARS_MAX:  # the end says what it was
        text = text[-TRACE_CHARS_MAX:]
    return hidden(text).rstrip()


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the library's arguments do not fit its text
        return str(record.msg)


def _known(level: int) -> int:
    """structlog knows five levels."""
    return max(10, min(50, level // 10 * 10))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,  # noqa: ARG001 - the signature is Python's
    line: str | None = None,  # noqa: ARG001
) -> None:
    at = f"{filename.rsplit('/', 1)[-1]}:{lineno}"
    logging.getLogger("py.warnings").warning("%s\n%s at %s", message, category.__name__, at)
