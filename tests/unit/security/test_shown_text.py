"""Names and messages from GitHub, workflows and other people's objects, where people read them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import structlog
from rich.console import Console

from runnerscale.app.demo_state import DemoState, RunnerRow
from runnerscale.app.github_control import job_row
from runnerscale.app.logs import Style, configure_logging
from runnerscale.cli.demo_view import PlainView, _panel
from runnerscale.core.clock import ManualClock
from runnerscale.core.plain_text import one_line
from runnerscale.kube.events import MESSAGE_BYTES_MAX, cut

SOURCE = Path(__file__).resolve().parents[3] / "src" / "runnerscale"
HOSTILE = "job\r\nlevel=INFO msg=forged\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp.exe\u2028\x00"


def logged(log_format: str, style: Style, **fields: Any) -> str:
    stream = io.StringIO()
    configure_logging("info", log_format, style=style, clock=ManualClock(), stream=stream)
    structlog.get_logger("test").info("runner deleted", **fields)
    structlog.reset_defaults()
    return stream.getvalue()


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_log_line_stays_one_line_and_moves_no_terminal(log_format: str, style: Style) -> None:
    text = logged(log_format, style, runner=HOSTILE, **{HOSTILE: 1})
    assert text.endswith("\n") and text[:-1].isprintable()
    if log_format == "json":
        assert json.loads(text)["runner"] == HOSTILE  # nothing is lost, only written down


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_name_without_end_does_not_fill_the_disk(log_format: str) -> None:
    text = logged(log_format, Style.LISTENER, runner="x" * 10_000_000, jobs=["y" * 10_000_000])
    assert len(text) < 20_000


@pytest.mark.parametrize("message", [HOSTILE, "x" * 100_000, "é" * 5000, "\ud800" * 900, ""])
def test_an_event_is_one_bounded_line(message: str) -> None:
    said = cut(message)
    assert said == "" or said.isprintable()
    assert len(said.encode()) <= MESSAGE_BYTES_MAX


def state() -> DemoState:
    row = RunnerRow(name=HOSTILE, phase=HOSTILE, age_s=1.0, reason=HOSTILE, job="j" * 100_000)
    return DemoState(elapsed_s=5.0, runners=(row,), troubles=(HOSTILE,))


def test_the_demo_prints_no_escape_of_a_workflow_on_a_terminal() -> None:
    stream = io.StringIO()
    Console(file=stream, width=200, color_system=None, force_terminal=False).print(_panel(state()))
    lines = stream.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("level=INFO") for line in lines)
    assert sum(map(len, lines)) < 20_000


def test_the_demo_prints_no_escape_of_a_workflow_in_a_pipe() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    view.show(state())
    view.say(f"job {job_row({'name': HOSTILE}, 1).name} failed")
    lines = stream.getvalue().split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("level=INFO") for line in lines)


def test_text_is_cut_to_its_bound_and_marked() -> None:
    assert one_line("plain é", 10) == "plain é"
    assert one_line("a\nb", 10) == "a\\nb"
    assert one_line("x" * 11, 10) == "xxxxxxx..."
    assert len(one_line("\x1b" * 10, 10)) == 10


def test_every_process_says_how_its_lines_look_before_it_works() -> None:
    # Without that structlog writes traces with the values of local variables, tokens among them.
    for path in sorted((SOURCE / "app").glob("*.py")):
        text = path.read_text()
        if "import run_process\n" in text:
            assert "configure_logging(" in text, path.name
    stream = io.StringIO()
    configure_logging("info", "text", style=Style.CONTROLLER, clock=ManualClock(), stream=stream)
    try:
        broken(b"very" + b"-secret")
    except RuntimeError:
        structlog.get_logger("test").exception("it broke")
    structlog.reset_defaults()
    assert "RuntimeError" in stream.getvalue()
    assert "very-secret" not in stream.getvalue()


def broken(token: bytes) -> None:
    raise RuntimeError(len(token))
