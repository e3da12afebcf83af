"""Log lines carry the field names that people's pipelines already parse."""

import io
import json

import pytest
import structlog

from runnerscale.app.logs import Style, configure_logging, level_number
from runnerscale.app.problem import Problem
from runnerscale.core.clock import ManualClock

CLOCK = ManualClock(now_s=1767323045.25)


def lines(style: Style, log_format: str, level: str = "info") -> list[str]:
    stream = io.StringIO()
    configure_logging(level, log_format, style=style, clock=CLOCK, stream=stream)
    log = structlog.get_logger("test")
    log.debug("too detailed")
    log.info("runner deleted", runner="r-1", why="it ended")
    log.warning("slow")
    structlog.reset_defaults()
    return stream.getvalue().splitlines()


def test_the_controllers_json_has_zaps_names() -> None:
    first = json.loads(lines(Style.CONTROLLER, "json")[0])
    assert first["severity"] == "info"
    assert first["ts"] == "2026-01-02T03:04:05.250000Z"
    assert first["message"] == "runner deleted"
    assert first["runner"] == "r-1"
    assert "logger" in first


def test_the_listeners_json_has_slogs_names_and_the_place_in_the_source() -> None:
    first, second = (json.loads(line) for line in lines(Style.LISTENER, "json"))
    assert list(first)[:4] == ["time", "level", "source", "msg"]
    assert (first["level"], second["level"]) == ("INFO", "WARN")
    assert first["source"]["file"] == "test_logs.py"
    assert first["source"]["function"] == "lines"
    assert first["source"]["line"] > 0


def test_text_is_key_value_and_quotes_what_needs_it() -> None:
    first = lines(Style.LISTENER, "text")[0]
    assert first.startswith("time=2026-01-02T03:04:05.250000Z level=INFO source=test_logs.py:")
    assert 'msg="runner deleted"' in first
    assert 'why="it ended"' in first


def test_a_key_with_a_space_is_quoted_as_slog_does() -> None:
    stream = io.StringIO()
    configure_logging("info", "text", style=Style.LISTENER, clock=CLOCK, stream=stream)
    structlog.get_logger("test").info("set scaled", **{"assigned job": 2})
    structlog.reset_defaults()
    assert '"assigned job"=2' in stream.getvalue()


@pytest.mark.parametrize(
    ("style", "event", "field"),
    [(Style.CONTROLLER, "message", "message_"), (Style.LISTENER, "msg", "msg")],
)
def test_a_field_cannot_replace_the_event(style: Style, event: str, field: str) -> None:
    stream = io.StringIO()
    configure_logging("info", "json", style=style, clock=CLOCK, stream=stream)
    structlog.get_logger("test").info("trouble", message="something else", level="odd")
    structlog.reset_defaults()
    line = json.loads(stream.getvalue())
    assert line[event] == "trouble"
    assert "something else" in (line.get(field), line.get("message"))


def test_a_line_below_the_level_is_not_written() -> None:
    assert len(lines(Style.CONTROLLER, "text", "warn")) == 1
    assert len(lines(Style.CONTROLLER, "text", "DEBUG")) == 3


@pytest.mark.parametrize(("text", "number"), [("debug", 10), ("INFO", 20), ("-1", 10), ("0", 20)])
def test_levels_are_names_in_any_case_or_zaps_numbers(text: str, number: int) -> None:
    assert level_number(text) == number


@pytest.mark.parametrize("text", ["", "verbose"])
def test_an_unknown_level_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(Problem, match=r"invalid log level.*debug, info, warn, error"):
        level_number(text)


@pytest.mark.parametrize("text", ["", "JSON"])
def test_an_unknown_format_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="invalid log format"):
        configure_logging("info", text, style=Style.LISTENER, clock=CLOCK)
