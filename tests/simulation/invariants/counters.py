"""Invariant 6, its third part: at rest, counters equal the objects; in status and in metrics.

What each counter means is the contract's (C1 1.5 and 4.0, C2 7): pending runners have no job,
running ones have; finished and deleting ones are in no total; outdated ones in no column.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from tests.simulation.invariants.gauges import families
from tests.simulation.invariants.names import (
    LISTENERS,
    RUNNER_SETS,
    RUNNERS,
    SCALE_SETS,
    Json,
    is_going,
    meta,
    owner,
    phase,
    status,
)
from tests.simulation.invariants.seen import Seen

COLUMNS = ("pending", "running", "failed", "finished", "deleting")
IN_THE_TOTAL = ("pending", "running", "failed")
ENDED = {"Failed": "failed", "Succeeded": "finished", "Outdated": "outdated"}
JOB_FIELDS = ("jobId", "jobRequestId", "workflowRunId")


def column(runner: Json) -> str:
    """In which number a runner is."""
    if is_going(runner):
        return "deleting"
    if phase(runner) in ENDED:
        return ENDED[phase(runner)]
    busy = phase(runner) == "Running" or any(status(runner).get(key) for key in JOB_FIELDS)
    return "running" if busy else "pending"


def wrong_counters(seen: Seen) -> Iterable[str]:
    """Status columns that do not say what there is."""
    counts: dict[str, Counter[str]] = {}
    for runner in seen.all(RUNNERS):
        counts.setdefault(owner(runner).get("uid", ""), Counter())[column(runner)] += 1
    totals: dict[str, Counter[str]] = {}
    for each in seen.all(RUNNER_SETS):
        truth = counts.get(meta(each)["uid"], Counter())
        totals[owner(each).get("uid", "")] = truth
        yield from _differs(each, "currentReplicas", truth)
    for each in seen.all(SCALE_SETS):
        yield from _differs(each, "currentRunners", totals.get(meta(each)["uid"], Counter()))


def _differs(obj: Json, total: str, truth: Counter[str]) -> Iterable[str]:
    told = status(obj)
    wanted = {f"{name}EphemeralRunners": truth[name] for name in COLUMNS}
    wanted[total] = sum(truth[name] for name in IN_THE_TOTAL)
    for key, value in wanted.items():
        if told.get(key, 0) != value:
            yield f"{obj['kind']} {meta(obj)['name']} says {key} {told.get(key, 0)}, it is {value}"


def wrong_metrics(seen: Seen, world: Any) -> Iterable[str]:
    """Gauges of the working controller and of the listeners that do not say what there is."""
    leaders = [p for p in world.controllers if p.leads and not p.component.dead]
    for process in leaders:
        yield from _of_controller(seen, process.registry, world)
    for listener in seen.all(LISTENERS):
        registry = world.listener_program.registries.get(meta(listener)["name"])
        if registry is not None:
            yield from _of_listener(seen, listener, registry)


def samples(registry: CollectorRegistry, names: Iterable[str]) -> dict[tuple[str, str, str], float]:
    """(metric, namespace, name): value, of these gauges alone."""
    wanted = set(names)
    found = {}
    for family in families(registry, sorted(wanted)):
        for sample in family.samples:
            place = sample.labels.get("namespace", ""), sample.labels.get("name", "")
            found[(sample.name, *place)] = sample.value
    return found


def _of_controller(seen: Seen, registry: CollectorRegistry, world: Any) -> Iterable[str]:
    prefix = "gha_controller_"
    wanted: dict[tuple[str, str, str], float] = {}
    for each in seen.all(RUNNER_SETS):
        place = meta(each)["namespace"], str(owner(each).get("name", ""))
        runners = [r for r in seen.all(RUNNERS) if owner(r).get("uid") == meta(each)["uid"]]
        truth = Counter(column(r) for r in runners)
        for name in IN_THE_TOTAL:
            wanted[(f"{prefix}{name}_ephemeral_runners", *place)] = truth[name]
    running = {process.spec.pod.name for process in world.machine.running("listener")}
    for each in seen.all(LISTENERS):
        key = (f"{prefix}running_listeners", meta(each)["namespace"], meta(each)["name"])
        wanted[key] = float(meta(each)["name"] in running)
    names = [*(f"{prefix}{name}_ephemeral_runners" for name in IN_THE_TOTAL)]
    yield from _compared(samples(registry, [*names, f"{prefix}running_listeners"]), wanted)


def _of_listener(seen: Seen, listener: Json, registry: CollectorRegistry) -> Iterable[str]:
    spec = listener["spec"]
    place = spec["autoscalingRunnerSetNamespace"], spec["autoscalingRunnerSetName"]
    runner_set = seen.get(SCALE_SETS, *place)
    wished = seen.get(RUNNER_SETS, place[0], spec["ephemeralRunnerSetName"])
    if runner_set is None or wished is None:
        return
    wanted = {
        "gha_min_runners": runner_set["spec"].get("minRunners", 0),
        "gha_desired_runners": wished["spec"].get("replicas", 0),
    }
    if "maxRunners" in runner_set["spec"]:
        wanted["gha_max_runners"] = runner_set["spec"]["maxRunners"]
    told = {name: value for (name, _, _), value in samples(registry, wanted).items()}
    yield from _compared(told, {name: float(value) for name, value in wanted.items()})


def _compared(told: Mapping[Any, float], wanted: Mapping[Any, float]) -> Iterable[str]:
    for key in sorted({*told, *wanted}, key=str):
        if told.get(key) != wanted.get(key):
            yield f"metric {key} says {told.get(key)}, it is {wanted.get(key)}"
