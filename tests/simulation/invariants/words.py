"""At rest, words are true: conditions and phases say that all is well, and troubles have an object.

Counters are `counters.py`. A set that is not ready although it serves, a trouble that outlives its
object or that no condition knows of: who reads it looks for something that is not there.
"""

from collections.abc import Iterable
from typing import Any

from tests.simulation.invariants.gauges import families
from tests.simulation.invariants.names import (
    LISTENERS,
    RUNNER_SETS,
    RUNNERS,
    SCALE_SETS,
    TERMINAL,
    Json,
    meta,
    phase,
    status,
)
from tests.simulation.invariants.seen import Seen
from tests.simulation.invariants.visibility import BAD_WHEN_TRUE, REASONS

TABLES = {
    "AutoscalingRunnerSet": SCALE_SETS,
    "EphemeralRunnerSet": RUNNER_SETS,
    "AutoscalingListener": LISTENERS,
    "EphemeralRunner": RUNNERS,
}

# What may rightly stand at rest, and why; all else there has a cause that is over, as everything is
# healed, or is one that would be missed elsewhere (a set that is full has all that it may have).
AT_REST = {
    # Runners have failed within the last ten minutes: the next ones would be made more slowly.
    # All that are wanted are there, so none is waited for.
    ("EphemeralRunnerSet", "CreationAllowed"): frozenset({"CreationPaused"}),
}
WELL_WITH = ((SCALE_SETS, "Ready"), (RUNNER_SETS, "Satisfied"))  # these always say it


def wrong_words(seen: Seen) -> Iterable[str]:
    """Conditions and phases of sets, listeners and runners that deny what is there."""
    for resource, kind in WELL_WITH:
        for obj in seen.all(resource):
            if not _condition(obj, kind):
                yield f"{obj['kind']} {meta(obj)['name']} has {kind} not at all"
            if phase(obj) != "Running":
                yield f"{obj['kind']} {meta(obj)['name']} has the phase {phase(obj) or 'none'}"
    for resource in TABLES.values():
        for obj in seen.all(resource):
            if phase(obj) in TERMINAL:
                continue  # a runner that is kept as evidence says why it ended
            for found in status(obj).get("conditions") or ():
                well = (found["status"] == "True") != (found["type"] in BAD_WHEN_TRUE)
                rightly = AT_REST.get((obj["kind"], found["type"]), frozenset())
                if not well and found.get("reason") not in rightly:
                    yield f"{obj['kind']} {meta(obj)['name']} has {found['type']} {found}"


def wrong_troubles(seen: Seen, world: Any) -> Iterable[str]:
    """Series of `runnerscale_trouble` without an object, or without its word."""
    for process in world.controllers:
        if not process.leads or process.component.dead:
            continue
        for family in families(process.registry, ("runnerscale_trouble",)):
            for sample in family.samples:
                labels = sample.labels
                if sample.value <= 0 or labels["kind"] not in TABLES:
                    continue
                obj = seen.get(TABLES[labels["kind"]], labels["namespace"], labels["name"])
                told = f"trouble {labels['reason']} of {labels['kind']} {labels['name']}"
                if obj is None:
                    yield f"{told} is counted, but there is no such object"
                elif labels["reason"] not in _reasons(obj):
                    yield f"{told} is counted, but it says {_reasons(obj) or 'nothing'}"


def _condition(obj: Json, kind: str) -> Json:
    found = status(obj).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})


def _reasons(obj: Json) -> list[str]:
    """All words of the catalogue that it has anywhere."""
    told = [each.get("reason") for each in status(obj).get("conditions") or ()]
    return [reason for reason in (*told, status(obj).get("reason")) if reason in REASONS]
