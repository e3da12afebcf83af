"""What lives cost: CPU of each side, requests by kind, calls at GitHub, between two moments."""

import time
from collections import Counter
from dataclasses import dataclass

from benchmarks.floor.script import Floor
from benchmarks.machine import Used, used
from benchmarks.report import Figures
from benchmarks.servers import WRITES, Requests
from benchmarks.world import NAMESPACE, World
from runnerscale.app.manifests import SYSTEM_NAMESPACE

OF_A_LIFE = ("ephemeralrunners", "ephemeralrunners/status", "pods", "secrets")
SETS = ("ephemeralrunnersets", "ephemeralrunnersets/status", "autoscalingrunnersets/status")
AT_GITHUB = ("jit-config", "remove-runner", "get-runner", "find-runner")
READS = ("get", "list")
OUR_ACCOUNTS = tuple(f"system:serviceaccount:{n}:" for n in (SYSTEM_NAMESPACE, NAMESPACE))
NOBODY = Used(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Moment:
    """All counters at one time."""

    controller: Used
    listeners: Used
    floor: Used
    server_s: float
    bench_s: float  # this process: nodes, the pretended GitHub, the eyes
    requests: Requests
    calls: Counter[str]


async def moment(made: World, floor: Floor | None = None) -> Moment:
    """Now."""
    controller = made.controller
    alive = controller is not None and not controller.has_ended
    return Moment(
        controller=used([controller.pid]) if controller is not None and alive else NOBODY,
        listeners=used(made.listener_pids()),
        floor=floor.used() if floor is not None else NOBODY,
        server_s=used(made.server.pids()).cpu_s,
        bench_s=time.process_time(),
        requests=await made.server.requests(),
        calls=Counter(made.github.calls()),
    )


def count(requests: Requests, verbs: tuple[str, ...], resources: tuple[str, ...]) -> int:
    """Of service accounts: ours, and the floor's, which uses the controller's."""
    return sum(
        n
        for (who, verb, what), n in requests.items()
        if is_ours(who) and verb in verbs and what in resources
    )


def is_ours(user: str) -> bool:
    """Kubernetes' own controllers (owner garbage collection above all) have accounts as well."""
    return user.startswith(OUR_ACCOUNTS)


def cpu_ms(before: Moment, after: Moment, lives: int) -> Figures:
    """Per life; controller and listener together are compared with the floor."""
    controller_s = after.controller.cpu_s - before.controller.cpu_s
    listeners_s = after.listeners.cpu_s - before.listeners.cpu_s
    floor_s = after.floor.cpu_s - before.floor.cpu_s
    found: Figures = {"CPU ms/life": 1000 * (controller_s + listeners_s + floor_s) / lives}
    if not floor_s:
        found["of that controller"] = 1000 * controller_s / lives
        found["of that listener"] = 1000 * listeners_s / lives
    found["API server CPU ms/life"] = 1000 * (after.server_s - before.server_s) / lives
    found["benchmark's own CPU ms/life"] = 1000 * (after.bench_s - before.bench_s) / lives
    return found


def requests_of(before: Moment, after: Moment, lives: int) -> Figures:
    """Per life, as the server counted them."""
    spent, calls = after.requests - before.requests, after.calls - before.calls
    return {
        "writes/life": count(spent, WRITES, OF_A_LIFE) / lives,
        "reads/life": count(spent, ("get",), OF_A_LIFE) / lives,
        "GitHub calls/life": sum(calls[each] for each in AT_GITHUB) / lives,
    }


def lists_of(before: Moment, after: Moment) -> int:
    """Whole lists of runners or pods: on the hot path there is none."""
    return count(after.requests - before.requests, ("list",), ("ephemeralrunners", "pods"))


def set_patches_of(before: Moment, after: Moment) -> float:
    """Writes of the set and of both statuses, for each message."""
    spent, calls = after.requests - before.requests, after.calls - before.calls
    return count(spent, WRITES, SETS) / max(1, calls["acknowledge"])
