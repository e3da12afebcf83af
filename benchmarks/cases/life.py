"""Clean lives, counted: what each costs the API server and GitHub from its creation to its end.

No time is measured here, so it says the same on a busy machine: `.ci/run` fails by it.
"""

from benchmarks.budget import Rounds
from benchmarks.cases.burst import ready
from benchmarks.report import Row
from benchmarks.spent import lists_of, moment, requests_of, set_patches_of
from benchmarks.world import Setting, world

WITHIN_S = 300.0
JOB_S = 3.0  # longer than it takes to store that it has begun, else GitHub is asked at its end

# Design section 6 and issue 6: nine writes, one read, one call. A conflict between listener and
# controller costs one more, and on a busy machine they meet more often: what is above the whole
# number is for that, and for the one pod that the API server is asked about and that is not made.
BUDGET = {
    "writes/life": 9.6,
    "reads/life": 1.5,
    "GitHub calls/life": 1.0,
    "set patches/message": 4.0,
    "lists of runners or pods": 0.0,
    "stuck runners": 0.0,
}
# Less than a life can do with was not saved: then something is no longer counted.
LEAST = {"writes/life": 7.0, "reads/life": 0.9, "GitHub calls/life": 1.0}


async def measure(setting: Setting, count: int, _rounds: Rounds) -> list[Row]:
    """So many jobs, half of them queued when the first half has begun."""
    async with world(setting) as made:
        await ready(made, count)
        before = await moment(made)
        for first in (0, count // 2):
            for _ in range(count // 2):
                made.github.queue("bench", seconds=JOB_S)
            await made.eyes.until_started(first + count // 2, within_s=WITHIN_S)
        await made.eyes.until(lambda s: len(s.gone) >= count, within_s=WITHIN_S)
        after = await moment(made)
        lives = len(made.eyes.sights.gone)
        return [
            Row(
                f"life {count}",
                setting.server,
                {
                    **requests_of(before, after, lives),
                    "set patches/message": set_patches_of(before, after),
                    "lists of runners or pods": float(lists_of(before, after)),
                    "stuck runners": float(len(made.eyes.sights.created) - lives),
                },
            )
        ]


def over_budget(row: Row) -> list[str]:
    """What costs more than it may, or was not counted."""
    wrong = []
    for name, most in BUDGET.items():
        value, least = row.figures.get(name), LEAST.get(name, 0.0)
        if value is None or value < least - 1e-9:
            wrong.append(f"{row.case} on {row.server}: {name} is {value}, which is not counted")
        elif value > most + 1e-9:
            wrong.append(
                f"{row.case} on {row.server}: {name} is {value:.2f}, at most {most:g} is allowed"
            )
    return wrong
