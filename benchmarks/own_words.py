"""What our processes say about themselves: stalls in their logs, passes in their metrics. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_STALL = re.compile(r"the event loop stood still")
_FIELD = re.compile(r'"?\b(ms|cpu_ms|culprit)"?[:=] ?("[^"]*"|[^",}\s]+)')
_BUCKET = re.compile(
    r"^controller_runtime_reconcile_time_seconds_bucket\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Stalls:
    """Of some logs. `worked`: those in which our thread really ran for so long."""

    count: int
    worked: int
    longest_ms: float
    longest_worked_ms: float
    culprit: str  # of the longest in which it worked


def stall_lines(text: str) -> list[str]:
    """Of a log."""
    return [line for line in text.splitlines() if _STALL.search(line)]


def stalls_in(lines: Iterable[str], over_ms: float) -> Stalls:
    """Of lines as `app/stall_watch.py` writes them.

    On a machine that is busy with others the thread does not run while the time goes by: these
    count, but not as `worked`.
    """
    count, worked, longest, longest_worked, culprit = 0, 0, 0.0, 0.0, ""
    for line in lines:
        if not _STALL.search(line):
            continue
        fields = {name: value.strip('"') for name, value in _FIELD.findall(line)}
        count += 1
        longest = max(longest, float(fields.get("ms", 0)))
        cpu_ms = float(fields.get("cpu_ms", 0))
        if cpu_ms > over_ms:
            worked += 1
        if cpu_ms > longest_worked:
            longest_worked, culprit = cpu_ms, fields.get("culprit", "")
    return Stalls(count, worked, longest, longest_worked, culprit)


def pass_percentile(metrics: str, share: float, controller: str = "") -> float:
    """How long `share` of the passes took at most, from the text of `/metrics`, in seconds.

    Within a bucket it is reckoned as Prometheus does. "": of all controllers together.
    """
    buckets: dict[float, float] = {}
    for labels, value in _BUCKET.findall(metrics):
        found = dict(_LABEL.findall(labels))
        if not controller or found.get("controller") == controller:
            most = float(found["le"])
            buckets[most] = buckets.get(most, 0.0) + float(value)
    return percentile_of_buckets(sorted(buckets.items()), share)


def percentile_of_buckets(buckets: list[tuple[float, float]], share: float) -> float:
    """Of cumulative counts by upper bound; not a number where nothing was counted."""
    if not buckets or not buckets[-1][1]:
        return float("nan")
    wanted = share * buckets[-1][1]
    below, before = 0.0, 0.0
    for most, count in buckets:
        if count >= wanted:
            if most == float("inf"):
                return below
            return below + (most - below) * (wanted - before) / (count - before or 1.0)
        below, before = most, count
    return below
