"""The phases of a runner: one table."""

import pytest

from runnerscale.api.phase import (
    LIVE,
    TERMINAL,
    TRANSITIONS,
    RunnerPhase,
    Writer,
    diagram,
    is_terminal,
    may_move,
)

EACH = [phase.value for phase in RunnerPhase]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Outdated"])
def test_terminal_phases_are_never_left(phase: str) -> None:
    assert is_terminal(phase)
    assert not any(may_move(phase, target, w) for target in EACH for w in Writer)


def test_only_the_listener_says_running_and_it_says_nothing_else() -> None:
    targets = {row.target for row in TRANSITIONS if row.writer is Writer.LISTENER}
    assert targets == {RunnerPhase.RUNNING}
    assert not any(may_move(s, RunnerPhase.RUNNING, Writer.CONTROLLER) for s in EACH)


@pytest.mark.parametrize(
    ("source", "target", "writer"),
    [
        ("", "Pending", Writer.CONTROLLER),
        ("Unknown", "Pending", Writer.CONTROLLER),
        ("", "Running", Writer.LISTENER),
        ("Pending", "Running", Writer.LISTENER),
        ("Unknown", "Running", Writer.LISTENER),
        ("Running", "Failed", Writer.CONTROLLER),
        ("", "Outdated", Writer.CONTROLLER),
    ],
)
def test_moves_of_the_design(source: str, target: str, writer: Writer) -> None:
    assert may_move(source, target, writer)


def test_a_running_that_arrived_is_not_taken_back() -> None:
    assert not may_move("Running", "Pending", Writer.CONTROLLER)


def test_nobody_writes_what_is_only_read() -> None:
    for phase in (RunnerPhase.SUCCEEDED, RunnerPhase.UNKNOWN, RunnerPhase.NONE):
        assert not any(may_move(s, phase, w) for s in EACH for w in Writer)


def test_an_unknown_word_is_live_and_moves_nowhere() -> None:
    assert not is_terminal("Whatever")
    assert not may_move("Whatever", "Running", Writer.LISTENER)


def test_every_phase_is_live_or_terminal() -> None:
    assert set(RunnerPhase) == LIVE | TERMINAL
    assert not LIVE & TERMINAL


def test_the_picture_shows_every_row_of_the_table() -> None:
    lines = diagram().splitlines()
    assert lines[:2] == ["```mermaid", "stateDiagram-v2"]
    arrows = sum(len(row.sources) for row in TRANSITIONS) + len(TERMINAL) + 1
    assert sum("-->" in line for line in lines) == arrows
