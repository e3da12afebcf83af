"""What was measured before: an earlier floor, and the existing controller tuned, on two cores.

Against the real API server of another day and another load: beside the figures of a run they say
whether its floor is one (a slow floor is none), and what users have today. Names as in the rows.
"""

from benchmarks.report import Figures, Row

# aiohttp and uvloop, 64 at once; without the listener's read, CPU with the listener's share.
EARLIER_FLOOR: dict[str, Figures] = {
    "burst 100": {"online s": 1.6, "CPU ms/life": 3.7, "gone p95 s": 0.8},
    "burst 500": {
        "online s": 9.7,
        "CPU ms/life": 3.5,
        "gone p95 s": 4.3,
        "started to Running p95 s": 2.9,
    },
    "burst 1000": {
        "online s": 14.7,
        "CPU ms/life": 3.6,
        "gone p95 s": 8.2,
        "started to Running p95 s": 5.5,
    },
    "churn 100": {"gone p95 s": 0.8, "replaced p50 s": 1.9, "replaced p95 s": 2.3},
    "churn 500": {"gone p95 s": 4.3},
}
# With 50 workers, a client of 1,000 requests a second, and its typed limiter.
ARC_TUNED: dict[str, Figures] = {
    "burst 100": {
        "online s": 10.7,
        "CPU ms/life": 28.0,
        "gone p95 s": 9.8,
        "writes/life": 13.3,
        "reads/life": 7.9,
        "GitHub calls/life": 2.0,
        "peak RSS MiB": 55.0,
    },
    "burst 500": {
        "online s": 55.1,
        "CPU ms/life": 42.0,
        "gone p95 s": 46.5,
        "started to Running p95 s": 27.0,
    },
    "burst 1000": {
        "online s": 105.0,
        "CPU ms/life": 59.0,
        "gone p95 s": 96.6,
        "started to Running p95 s": 76.0,
        "peak RSS MiB": 123.0,
    },
    "churn 100": {"gone p95 s": 9.8, "replaced p50 s": 15.6, "replaced p95 s": 20.2},
    "churn 500": {"gone p95 s": 46.5},
}
SLOWER = 1.1  # than the earlier one: then ratios to it flatter us


def slower_than_earlier(row: Row) -> str:
    """Where the floor of this row is none; "" where it is as low as the earlier one."""
    found = [
        f"{name} {value:.3g}, earlier {earlier:.3g}"
        for name, earlier in EARLIER_FLOOR.get(row.case, {}).items()
        if earlier is not None
        and (value := row.floor.get(name)) is not None
        and value > SLOWER * earlier
    ]
    return f"slow floor ({'; '.join(found)})" if found else ""
