"""Whether and when a container that has ended is started again.

kubelet's rules: the first restart is immediate, then 10 s, doubling to 5 min; who ran for ten
minutes begins anew. Pure.
"""

from runnerscale.core.backoff import Backoff
from runnerscale.node.pod_view import ContainerView, Kind
from runnerscale.node.processes import ExitStatus

CRASH_BACKOFF = Backoff(first_s=10.0, cap_s=300.0, jitter=0.0)
PULL_BACKOFF = Backoff(first_s=10.0, cap_s=300.0, jitter=0.0)
# Config errors and missing volumes are looked at again soon: what is missing is mostly on its way.
CONFIG_BACKOFF = Backoff(first_s=1.0, cap_s=30.0, jitter=0.0)
STEADY_S = 600.0  # who ran that long is forgiven its earlier ends


def comes_back(container: ContainerView, policy: str) -> bool:
    """Whether its newest end is followed by another start, as long as the pod lives."""
    ended = container.exit
    if ended is None:
        return False
    if container.kind is Kind.SIDECAR:
        return True
    if container.kind is Kind.INIT and ended.code == 0:
        return False
    if policy == "Never":
        return False
    return policy == "Always" or ended.code != 0 or container.kind is Kind.INIT


def restart_delay_s(container: ContainerView) -> float:
    """Seconds after its end until it is started again."""
    ended = container.exit
    if ended is None or container.attempts <= 1:
        return 0.0
    if ended.started_s and ended.finished_s - ended.started_s >= STEADY_S:
        return 0.0
    return CRASH_BACKOFF.delay_s(container.attempts - 2)


def restart_at_s(container: ContainerView) -> float:
    """When it may be started again, in seconds since the epoch."""
    ended: ExitStatus | None = container.exit
    return (ended.finished_s if ended else 0.0) + restart_delay_s(container)
