"""What the figures were measured on, and what processes used: read from /proc."""

import contextlib
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

# Linux makes the number of a process's clock from its id; it tells nanoseconds, /proc 10 ms.
CPU_CLOCK = 2


def facts() -> dict[str, str]:
    """Of this machine, as a reader of the table needs them."""
    model = "unknown"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    one_minute = os.getloadavg()[0]
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load before": f"{one_minute:.2f}",
    }


@dataclass(frozen=True, slots=True)
class Used:
    """By some processes so far."""

    cpu_s: float
    rss_mib: float
    peak_rss_mib: float


def used(pids: list[int]) -> Used:
    """CPU and memory of these processes together; those that are gone count as nothing."""
    cpu_s = rss = peak = 0.0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            cpu_s += time.clock_gettime((~pid << 3) | CPU_CLOCK)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name == "VmRSS":
                    rss += int(rest.split()[0]) / 1024
                elif name == "VmHWM":
                    peak += int(rest.split()[0]) / 1024
    return Used(cpu_s, rss, peak)
