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
    Json,
    meta,
    phase,
    status,
)
from tests.simulation.invariants.seen import Seen
from tests.simulation.invariants.visibility import REASONS

TABLES = {
    "AutoscalingRunnerSet": SCALE_SETS,
    "EphemeralRunnerSet": RUNNER_SETS,
    "AutoscalingListener": LISTENERS,
    "EphemeralRunner": RUNNERS,
}


def wrong_words(seen: Seen) -> Iterable[str]:
    """Conditions and phases of sets and listeners that deny what is there."""
    for resource, kind in ((SCALE_SETS, "Ready"), (RUNNER_SETS, "Satisfied")):
        for obj in seen.all(resource):
            found = _condition(obj, kind)
            if found.get("status") != "True" and found.get("reason") not in REASONS:
                yield f"{obj['kind']} {meta(obj)['name']} has {kind} {found or 'not at all'}"
            if phase(obj) != "Running" and not _reasons(obj):
                yield f"{obj['kind']} {meta(obj)['name']} has the phase {phase(obj) or 'none'}"


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
