"""When a probe's answers change what a container is: started, ready, or given up. Pure.

Asking is `prober.py`. Defaults are Kubernetes'.
"""

from dataclasses import dataclass, replace

from runnerscale.core.whole_number import whole_number
from runnerscale.node.pod_spec import Container, Probe

PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Tally:
    """The answers in a row, and what they came to. Starts as failing (readiness: not ready)."""

    good: int = 0
    bad: int = 0
    passing: bool = False
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often to ask, how long to wait, how many answers in a row count."""

    initial_delay_s: float = 0.0
    period_s: float = 10.0
    timeout_s: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3


def rhythm_of(probe: Probe) -> Rhythm:
    """A probe's numbers with Kubernetes' defaults."""
    return Rhythm(
        initial_delay_s=max(0, probe.initial_delay_seconds or 0),
        period_s=max(1, probe.period_seconds or 10),
        timeout_s=max(1, probe.timeout_seconds or 1),
        success_threshold=max(1, probe.success_threshold or 1),
        failure_threshold=max(1, probe.failure_threshold or 3),
    )


def count(tally: Tally, *, good: bool, rhythm: Rhythm) -> Tally:
    """The tally after one more answer."""
    if good:
        row = tally.good + 1
        passing = tally.passing or row >= rhythm.success_threshold
        return replace(tally, good=row, bad=0, passing=passing, gave_up=False)
    row = tally.bad + 1
    over = row >= rhythm.failure_threshold
    return Tally(good=0, bad=row, passing=tally.passing and not over, gave_up=over)


def port_of(port: int | str, container: Container) -> int | None:
    """A port by number or by its name in the container; None: no such port."""
    number = port if isinstance(port, int) else whole_number(port)
    if number is not None:
        return number if 0 < number <= PORT_MAX else None
    named = {item.name: item.container_port for item in container.ports or () if item.name}
    return named.get(str(port))
