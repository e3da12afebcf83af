"""What libraries and Python itself have to say is one line of ours, without a stranger's bytes."""

import asyncio
import io
import json
import logging
import warnings

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from runnerscale.app.library_lines import EVENT_CHARS_MAX, LINES_MAX, WINDOW_S, LibraryLines, hidden
from runnerscale.app.logs import Style, configure_logging
from runnerscale.core.clock import ManualClock

SECRET = "gho_" + "s3cr3t" * 4


def begun(
    level: str = "info", log_format: str = "json", style: Style = Style.CONTROLLER
) -> tuple[io.StringIO, ManualClock]:
    stream, clock = io.StringIO(), ManualClock()
    configure_logging(level, log_format, style=style, clock=clock, stream=stream)
    return stream, clock


def refuse(name: str = "aiohttp.server") -> None:
    try:
        try:
            raise BadHttpMessage(f"Invalid header value: {SECRET}")
        except BadHttpMessage as error:
            raise ValueError(SECRET) from error
    except ValueError:
        logging.getLogger(name).exception("Error handling request from %s", "127.0.0.1")


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_request_that_cannot_be_read_is_one_line_at_debug(
    log_format: str, style: Style, capfd: pytest.CaptureFixture[str]
) -> None:
    stream, _ = begun("info", log_format, style)
    refuse()
    assert stream.getvalue() == ""
    stream, _ = begun("debug", log_format, style)
    refuse()
    assert stream.getvalue().count("\n") == 1
    assert "a request could not be read" in stream.getvalue()
    assert SECRET not in stream.getvalue()
    assert "Traceback" not in stream.getvalue()
    assert capfd.readouterr() == ("", "")


def test_strangers_do_not_fill_the_disk_with_mistakes() -> None:
    stream, clock = begun("debug")
    for _ in range(LINES_MAX + 70):
        refuse()
    assert stream.getvalue().count("\n") == LINES_MAX
    clock.advance(WINDOW_S)
    refuse()
    assert json.loads(stream.getvalue().splitlines()[-1])["lines_left_out"] == 70
    refuse("asyncio")  # another logger is not kept quiet by this one
    assert stream.getvalue().count("\n") == LINES_MAX + 2


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_trace_of_a_library_is_one_line_and_has_no_secret(log_format: str) -> None:
    stream, _ = begun("info", log_format)
    try:
        raise RuntimeError(f"Authorization: Bearer {SECRET}\n\x1b[31m")
    except RuntimeError as error:
        context = {"message": f"Task failed\n{SECRET}", "exception": error}
        loop = asyncio.new_event_loop()
        loop.call_exception_handler(context)
        loop.close()
    text = stream.getvalue()
    assert text.count("\n") == 1 and text[:-1].isprintable()
    assert "RuntimeError" in text and __name__.rsplit(".", maxsplit=1)[-1] in text
    assert SECRET not in text
    if log_format == "json":
        line = json.loads(text)
        assert (line["severity"], line["logger"]) == ("error", "asyncio")
        assert line["message"] == "Task failed"


def test_a_line_of_a_library_says_where_it_is_from() -> None:
    stream, _ = begun(style=Style.LISTENER)
    logging.getLogger("aiohttp.client").warning("Can not load response cookies")
    source = json.loads(stream.getvalue())["source"]
    assert source["file"] == "test_library_lines.py"


def test_no_line_of_a_library_is_without_end() -> None:
    stream, _ = begun()
    handler = next(h for h in logging.getLogger().handlers if isinstance(h, LibraryLines))
    for text, args in (("y" * 10_000_000, ()), ("%d", ("no number",))):
        handler.emit(logging.LogRecord("x", logging.ERROR, "x.py", 1, text, args, None))
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert len(first["message"]) == EVENT_CHARS_MAX
    assert second["message"] == "%d"


def test_a_warning_of_python_is_a_line_as_well(capfd: pytest.CaptureFixture[str]) -> None:
    stream, _ = begun()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging(
            "info", "json", style=Style.CONTROLLER, clock=ManualClock(), stream=stream
        )
        warnings.warn("this goes away", DeprecationWarning, stacklevel=1)
    line = json.loads(stream.getvalue())
    assert (line["logger"], line["message"]) == ("py.warnings", "this goes away")
    assert line["details"].startswith("DeprecationWarning at test_library_lines.py:")
    assert capfd.readouterr() == ("", "")


def test_information_and_a_closed_stream_are_no_matter(capfd: pytest.CaptureFixture[str]) -> None:
    stream, _ = begun("debug")
    logging.getLogger("asyncio").debug("Using selector: EpollSelector")
    assert stream.getvalue() == ""
    stream.close()
    logging.getLogger("asyncio").error("too late %s", SECRET)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {SECRET}",
        f"token: '{SECRET}'",
        f'"authorization": "Basic {SECRET}"',
        "https://user:pa55word@proxy/",
        "eyJhbGciOiJIUzI1NiJ9.e30.abcdef",
        "seen github_pat_11AAAAAAA0abcdef",
    ],
)
def test_what_looks_like_a_secret_is_not_shown(text: str) -> None:
    shown = hidden(text)
    assert "[hidden]" in shown
    assert not any(part in shown for part in (SECRET, "pa55word", "eyJ", "11AAAA"))


def test_what_looks_like_none_stays() -> None:
    text = "SSL handshake failed: token bucket is empty, https://example.org/a@b"
    assert hidden("https://example.org/a@b: 3 tokens") == "https://example.org/a@b: 3 tokens"
    assert hidden(text).startswith("SSL handshake failed: ")
