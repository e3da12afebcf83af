"""How the demo looks: a live table on a terminal, plain lines elsewhere.

rich is imported only for the terminal. The values are made in `app/demo_state.py`.
"""

import sys
from typing import TYPE_CHECKING, TextIO

from runnerscale.app.demo_state import DemoState, DemoView, RunnerRow
from runnerscale.core.plain_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS_MAX = 20
LINE_CHARS_MAX = 2000
CELL_CHARS_MAX = 200
PLAIN_EVERY_S = 1.0


class PlainView:
    """A line when something is said, and one when the counts have changed, at most one a second."""

    def __init__(self, stream: TextIO) -> None:
        """`stream`: usually standard output."""
        self._stream = stream
        self._last = ""
        self._last_s = -PLAIN_EVERY_S
        self._told: set[str] = set()

    def say(self, text: str) -> None:
        """One line."""
        print(shown(text), file=self._stream, flush=True)

    def show(self, state: DemoState) -> None:
        """The counts, and each trouble once."""
        for trouble in state.troubles:
            if trouble not in self._told:
                self._told.add(trouble)
                self.say(f"trouble  {one_line(trouble, LINE_CHARS_MAX)}")
        line = counts(state)
        if line != self._last and state.elapsed_s - self._last_s >= PLAIN_EVERY_S:
            self._last, self._last_s = line, state.elapsed_s
            self.say(f"{state.elapsed_s:6.1f} s  {line}")

    def close(self) -> None:
        """Nothing to give back."""


class LiveView:
    """A table of jobs and runners that is redrawn in place."""

    def __init__(self) -> None:
        """Takes the terminal until `close`."""
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(), refresh_per_second=4, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        """A line above the table."""
        self._live.console.print(shown(text), highlight=False, markup=False)

    def show(self, state: DemoState) -> None:
        """Redraw."""
        self._live.update(_panel(state))

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()


def make_view(stream: TextIO | None = None) -> DemoView:
    """The view that fits where the output goes."""
    target = stream or sys.stdout
    return LiveView() if target.isatty() else PlainView(target)


def counts(state: DemoState) -> str:
    """One line: jobs by state, runners by phase."""
    pending = sum(r.alive and r.phase != "Running" for r in state.runners)
    running = sum(r.alive and r.phase == "Running" for r in state.runners)
    skipped = state.count("skipped")
    bad = state.done - state.count("succeeded") - skipped
    return (
        f"jobs: {state.count('queued', 'assigned')} waiting, {state.count('running')} running, "
        f"{state.count('succeeded')} succeeded, {bad} failed"
        f"{f', {skipped} skipped' if skipped else ''}"
        f" | runners: {pending} Pending, {running} Running"
    )


def runner_cells(row: RunnerRow) -> tuple[str, str, str, str, str]:
    """Name, phase, age, reason, job."""
    phase = "deleting" if row.deleting else row.phase or "-"
    cells = (row.name, phase, f"{row.age_s:.0f}s", row.reason or "", row.job)
    name, phase, age, reason, job = (one_line(cell, CELL_CHARS_MAX) for cell in cells)
    return name, phase, age, reason, job


def shown(text: str) -> str:
    """Line by line: names are the workflow's, the reasons other people's."""
    return "\n".join(one_line(line, LINE_CHARS_MAX) for line in text.split("\n"))


def _panel(state: DemoState) -> "RenderableType":
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table("Runner", "Phase", "Age", "Reason", "Job", expand=True)
    for row in state.runners[:ROWS_MAX]:
        table.add_row(*(Text(cell) for cell in runner_cells(row)))
    if len(state.runners) > ROWS_MAX:
        table.add_row(Text(f"and {len(state.runners) - ROWS_MAX} more"), "", "", "", "")
    bar = ProgressBar(total=max(1, len(state.jobs)), completed=state.done)
    head = Text(f"{state.elapsed_s:6.1f} s  {counts(state)}")
    told = (one_line(text, LINE_CHARS_MAX) for text in state.troubles[:5])
    troubles = [Text(f"trouble  {text}", style="yellow") for text in told]
    return Group(head, bar, table, *troubles)
