"""How log lines look, per process: the one place that configures structlog.

Field names are what people's log pipelines already parse: the controller's as controller-runtime
with zap writes them (`severity`, `ts`, `logger`, `message`), the listener's as Go's slog does
(`time`, `level`, `source`, `msg`). Contract: github-service-and-listener 8. What libraries log
comes here too: `library_lines.py`.
"""

import json
import sys
from collections.abc import MutableMapping
from enum import Enum
from typing import Any, TextIO

import structlog

from runnerscale.app.library_lines import listen_to_libraries
from runnerscale.app.problem import Problem
from runnerscale.core.clock import Clock, format_micro_time
from runnerscale.core.plain_text import CUT_MARK
from runnerscale.core.whole_number import whole_number

LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40}
FORMATS = ("text", "json")
FIELD_CHARS_MAX = 4096  # a name or a sentence from outside
TRACE_CHARS_MAX = 64 * 1024
Line = MutableMapping[str, Any]


class Style(Enum):
    """Whose field names."""

    CONTROLLER = "controller"
    LISTENER = "listener"


def level_number(text: str) -> int:
    """One of the four names, any case, or (as zap takes them) an integer verbosity.

    Raises:
        Problem: neither.
    """
    if text.lower() in LEVELS:
        return LEVELS[text.lower()]
    verbosity = whole_number(text.removeprefix("-"))
    if verbosity is not None:
        # zap: -1 and below are debug (logr verbosity), 0 info, 1 warn, 2 error.
        return 10 if text.startswith("-") and verbosity else {0: 20, 1: 30}.get(verbosity, 40)
    raise Problem(f"invalid log level: {text!r}", f"Use one of {', '.join(LEVELS)}")


def configure_logging(
    level: str, log_format: str, *, style: Style, clock: Clock, stream: TextIO | None = None
) -> None:
    """Set up structlog for this process, and what its libraries log.

    Raises:
        Problem: an unknown level or format.
    """
    number = level_number(level)
    if log_format not in FORMATS:
        raise Problem(f"invalid log format: {log_format!r}", "Use text or json")
    encode = json.JSONEncoder(default=str).encode
    shape = _controller_line if style is Style.CONTROLLER else _listener_line

    def finish(_logger: object, method: str, line: Line) -> str:
        shaped = {key: _bounded(key, value) for key, value in shape(line, method, clock).items()}
        return encode(shaped) if log_format == "json" else _text(shaped)

    processors: list[Any] = [structlog.contextvars.merge_contextvars]
    if style is Style.LISTENER:
        processors.append(
            structlog.processors.CallsiteParameterAdder(
                {
                    structlog.processors.CallsiteParameter.FILENAME,
                    structlog.processors.CallsiteParameter.FUNC_NAME,
                    structlog.processors.CallsiteParameter.LINENO,
                }
            )
        )
    processors += [_exception, finish]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stdout),
        cache_logger_on_first_use=True,
    )
    listen_to_libraries(number, clock)


def _exception(_logger: object, _method: str, line: Line) -> Line:
    line.pop("_record", None)  # of a library's line: its place has been read
    line.pop("_from_structlog", None)
    info = line.pop("exc_info", None)
    if info:
        line["exc_info"] = info
        return structlog.processors.format_exc_info(_logger, _method, line)
    return line


def _controller_line(line: Line, method: str, clock: Clock) -> dict[str, Any]:
    head = {
        "severity": _level(method),
        "ts": format_micro_time(clock.now_s()),
        "logger": line.pop("logger", "runnerscale"),
        "message": line.pop("event", ""),
    }
    return head | _beside(head, line)


def _listener_line(line: Line, method: str, clock: Clock) -> dict[str, Any]:
    source = {
        "function": line.pop("func_name", ""),
        "file": line.pop("filename", ""),
        "line": line.pop("lineno", 0),
    }
    head = {
        "time": format_micro_time(clock.now_s()),
        "level": _level(method).upper(),
        "source": source,
        "msg": line.pop("event", ""),
    }
    return head | _beside(head, line)


def _beside(head: dict[str, Any], line: Line) -> dict[str, Any]:
    """The fields; one that is named like a part of the head must not replace it."""
    return {f"{key}_" if key in head else key: value for key, value in line.items()}


def _level(method: str) -> str:
    return {"warning": "warn", "exception": "error", "critical": "error"}.get(method, method)


def _bounded(key: str, value: Any) -> Any:
    """No field is without end, whoever wrote it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict) and key == "source":
        return value  # our own place in the code
    chars_max = TRACE_CHARS_MAX if key == "exception" else FIELD_CHARS_MAX
    text = value if isinstance(value, str) else str(value)
    if len(text) > chars_max:
        return text[: chars_max - len(CUT_MARK)] + CUT_MARK
    return value


def _text(line: dict[str, Any]) -> str:
    parts = []
    for key, value in line.items():
        if isinstance(value, dict) and "file" in value:
            value = f"{value['file']}:{value['line']}"
        parts.append(f"{_quoted(key)}={_quoted(str(value))}")
    return " ".join(parts)


def _quoted(text: str) -> str:
    plain = text and text.isprintable() and not any(c in text for c in ' "=')
    return text if plain else json.dumps(text)
