"""What it must reach (issue 6, section 2), and what a run says about it. Pure."""

from dataclasses import dataclass

from benchmarks.report import Row, shown

NOT_YET = "not yet measured"
FLOOR = 1.5  # times
GROWTH = 1.25  # times, in paired rounds


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure of one case, and the most that it may be."""

    what: str
    case: str
    figure: str
    most: float
    to_floor: bool = False  # the ratio to the floor of the same run is meant
    unit: str = ""

    @property
    def bound(self) -> str:
        """For the table."""
        return f"{self.most:g} × floor" if self.to_floor else f"{self.most:g}{self.unit}"

    def of(self, row: Row) -> float | None:
        """What the row says; None: nothing."""
        if row.case != self.case:
            return None
        return (row.ratios if self.to_floor else row.figures).get(self.figure)


def _ratio(what: str, case: str, figure: str) -> Goal:
    return Goal(what, case, figure, FLOOR, to_floor=True)


def _all() -> list[Goal]:
    ended = (
        ("exit → runner gone p95", "gone p95 s"),
        ("exit → next job started p95", "replaced p95 s"),
    )
    found = [_ratio(f"0 → {n:,} online", f"burst {n}", "online s") for n in (100, 500, 1000)]
    found += [
        _ratio(f"{what}, {n} at once", f"churn {n}", name)
        for what, name in ended
        for n in (100, 500)
    ]
    late = "started to Running p95 s"
    found += [
        _ratio(f"job started → `Running` stored p95, {n:,} at once", f"burst {n}", late)
        for n in (100, 500, 1000)
    ]
    found += [
        _ratio(
            f"CPU of controller and listener per life, {n:,} at once", f"burst {n}", "CPU ms/life"
        )
        for n in (100, 500, 1000)
    ]
    return [
        *found,
        Goal("Kubernetes writes per clean life", "life 60", "writes/life", 9.0),
        Goal("reads per clean life", "life 60", "reads/life", 1.0),
        Goal("GitHub calls per clean life", "life 60", "GitHub calls/life", 1.0),
        Goal("set-level patches per message", "life 60", "set patches/message", 4.0),
        Goal("whole lists of runners or pods on the way", "life 60", "lists of runners or pods", 0),
        Goal("CPU per life at 5,000, × that at 100", "scale 5000", "× CPU ms/life at 100", GROWTH),
        Goal("controller RSS at 1,000", "scale 1000", "RSS MiB", 98, unit=" MiB"),
        Goal("its peak", "scale 1000", "peak RSS MiB", 123, unit=" MiB"),
        Goal("controller RSS at 5,000", "scale 5000", "RSS MiB", 200, unit=" MiB"),
        Goal("start → first decision with 100", "scale 100", "first decision s", 1, unit=" s"),
        Goal("start → first decision with 5,000", "scale 5000", "first decision s", 3, unit=" s"),
        Goal("event-loop stalls over 50 ms at 5,000", "scale 5000", "of them of our own CPU", 0),
        Goal("listener RSS", "listener 200", "RSS MiB", 48, unit=" MiB"),
        Goal("listener start → session", "listener 200", "start to session s", 0.6, unit=" s"),
        Goal("idle 100: set patches a minute", "idle 100", "set patches/min", 1),
        Goal("idle 100: polls a minute (one a hold of 50 s)", "idle 100", "polls/min", 1.3),
        Goal("idle 100: reads of the Secret a minute", "idle 100", "Secret reads/min", 1.05),
        Goal("idle 100: CPU a minute", "idle 100", "CPU ms/min", 100, unit=" ms"),
        Goal("49 sets beside a hanging host: p95, × undisturbed", "sets 50", "× p95 s", GROWTH),
    ]


GOALS = _all()


def table(rows: list[Row], servers: tuple[str, ...] = ("kube-apiserver", "embedded")) -> str:
    """As Markdown; without rows it says that nothing was measured."""
    lines = [
        f"| goal | at most | {' | '.join(servers)} | reached |",
        f"|---|---|{'---|' * len(servers)}---|",
    ]
    for goal in GOALS:
        values = [_value(goal, [row for row in rows if row.server == name]) for name in servers]
        known = [value for value in values if value is not None]
        reached = "" if not known else "yes" if max(known) <= goal.most * 1.0001 else "**no**"
        cells = [NOT_YET if value is None else shown(value) for value in values]
        lines.append(f"| {goal.what} | {goal.bound} | {' | '.join(cells)} | {reached} |")
    return "\n".join(lines)


def _value(goal: Goal, rows: list[Row]) -> float | None:
    found = [value for row in rows if (value := goal.of(row)) is not None]
    return found[-1] if found else None
