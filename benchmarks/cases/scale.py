"""Scale: from 100 to 5,000 runners at once; what one costs must not grow with their number.

At each size: whole lives, what the controller and the listener hold when all are busy, how long
passes take by the controller's own metrics, where its event loop stood still, and how long a new
controller takes from its start to its first decision while all are there (its caches are cold).
"""

import asyncio
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.budget import Rounds
from benchmarks.cases.burst import ready, until_running
from benchmarks.own_words import pass_percentile, stall_lines, stalls_in
from benchmarks.report import Figures, Row, median_of, ratios_of
from benchmarks.spent import cpu_ms, lists_of, moment
from benchmarks.world import Setting, World, world
from runnerscale.app.stall_watch import VARIABLE

STALL_MS = 50
WITHIN_S = 1_200.0
CALM_S = 5.0


async def measure(setting: Setting, sizes: Sequence[int], rounds: Rounds) -> list[Row]:
    """Round by round all sizes, so that sizes can be compared with the smallest of its round."""
    found: dict[int, list[Figures]] = {size: [] for size in sizes}
    notes: dict[int, str] = {}
    for _ in rounds:
        for size in sizes:
            figures, notes[size] = await _at(setting, size)
            found[size].append(figures)
            print(f"  scale {size}: {figures}", flush=True)
    rows = []
    for size in sizes:
        figures = median_of(found[size])
        least = ratios_of(found[size], found[sizes[0]])
        figures[f"× CPU ms/life at {sizes[0]}"] = least.get("CPU ms/life")
        note = "; ".join(filter(None, (notes.get(size, ""), rounds.note)))
        rows.append(Row(f"scale {size}", setting.server, figures, rounds=rounds.done, note=note))
    return rows


async def _at(setting: Setting, count: int) -> tuple[Figures, str]:
    async with world(setting, environ={VARIABLE: str(STALL_MS)}) as made:
        await ready(made, count + 1)
        before, quiet = await moment(made), Told.now(made)
        began_s = time.monotonic()
        for _ in range(count):
            made.github.queue("bench", seconds=0.0)
        await until_running(made, count)
        running_s = time.monotonic() - began_s
        born = await moment(made)
        await made.pause(CALM_S)
        busy, while_busy = await moment(made), Told.now(made)
        figures: Figures = {
            "all Running s": running_s,
            "RSS MiB": busy.controller.rss_mib,
            "RSS KiB/runner": 1024 * (busy.controller.rss_mib - before.controller.rss_mib) / count,
            "listener RSS MiB": busy.listeners.rss_mib,
            **await _passes(made),
            "lists of runners or pods": float(lists_of(before, busy)),
            "first decision s": await _restart(made, count),
        }
        settled, restarted = await moment(made), Told.now(made)
        made.nodes.let_go()
        await made.eyes.until(lambda s: len(s.gone) >= count + 1, within_s=WITHIN_S)
        after, ended = await moment(made), Told.now(made)
        # Both halves, without rest and restart between them: those cost few runners the most.
        for name, value in cpu_ms(before, born, count).items():
            later = cpu_ms(settled, after, count)[name]
            figures[name] = (value or 0.0) + (later or 0.0)
        figures["peak RSS MiB"] = max(busy.controller.peak_rss_mib, after.controller.peak_rss_mib)
        made.say_problems()
        lines = while_busy.since(quiet) + ended.since(restarted)
        stalls, note = _stalls(lines, restarted.since(while_busy))
        return figures | stalls, note


@dataclass(frozen=True, slots=True)
class Told:
    """The stalls in all logs at some time."""

    by_log: dict[Path, list[str]]

    @classmethod
    def now(cls, made: World) -> "Told":
        """So far."""
        return cls({log: stall_lines(log.read_text()) for log in made.logs() if log.exists()})

    def since(self, earlier: "Told") -> list[str]:
        """What has been added: logs only grow."""
        return [
            line
            for log, lines in self.by_log.items()
            for line in lines[len(earlier.by_log.get(log, [])) :]
        ]


def _stalls(lines: list[str], at_restart: list[str]) -> tuple[Figures, str]:
    """At work, and while a controller starts; who did it."""
    working, starting = stalls_in(lines, STALL_MS), stalls_in(at_restart, STALL_MS)
    figures: Figures = {
        "stalls over 50 ms": float(working.count),
        "of them of our own CPU": float(working.worked),
        "longest of our own ms": working.longest_worked_ms,
        "at the restart, of our own CPU": float(starting.worked),
        "longest at the restart ms": starting.longest_worked_ms,
    }
    culprits = {"stall": working, "stall at the restart": starting}
    return figures, "; ".join(f"{k}: {v.culprit}" for k, v in culprits.items() if v.worked)


async def _passes(made: World) -> Figures:
    url = f"http://127.0.0.1:{made.metrics_port}/metrics"

    def read() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    text = await asyncio.to_thread(read)
    return {"pass p99 s": pass_percentile(text, 0.99)}


async def _restart(made: World, count: int) -> float:
    """One more job comes while the controller is away: its first effect is a runner for it."""
    assert made.controller is not None
    await made.controller.stop()
    made.github.queue("bench", seconds=0.0)
    await made.pause(CALM_S)  # the listener has said it
    began_s = time.monotonic()
    await made.start_controller()
    await made.eyes.until(lambda s: len(s.created) > count, within_s=WITHIN_S)
    first_s = time.monotonic() - began_s
    await made.eyes.until(lambda s: len(s.running) > count, within_s=WITHIN_S)
    await made.pause(CALM_S)
    return first_s
