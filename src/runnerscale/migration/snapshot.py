"""An installation as it was found: plain objects, and what could not be looked at.

Plain JSON, because anything may stand in a cluster: a rule that cannot read an object says so about
that one. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]

# What is listed, by the name that messages give it.
DEPLOYMENTS = "deployments"
RUNNER_SETS = "autoscalingrunnersets"
LISTENERS = "autoscalinglisteners"
SETS = "ephemeralrunnersets"
RUNNERS = "ephemeralrunners"
ROLES = "listener roles"
CLUSTER_ROLES = "clusterroles"
CLUSTER_ROLE_BINDINGS = "clusterrolebindings"
SCHEMAS = "installed CRDs"
# Without these nothing can be said.
ESSENTIAL = (DEPLOYMENTS, RUNNER_SETS, LISTENERS, SETS, RUNNERS)


@dataclass(frozen=True, slots=True)
class Ours:
    """What would take the place."""

    version: str  # the release of ARC that it stands in for
    image: str
    flags: frozenset[str]  # that it knows, without dashes
    idle_flags: Mapping[str, str]  # known and without effect: why


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look."""

    now_s: float
    ours: Ours
    found: Mapping[str, Sequence[Json]]
    unseen: Mapping[str, str] = field(default_factory=dict)  # what: why
    installed: bool = True  # the API server knows the four kinds
    dropped: Mapping[str, Sequence[str]] = field(default_factory=dict)  # CRD: fields of ours
    namespace: str = ""  # only this one was looked at; empty: all
    namespace_there: bool = True

    def of(self, what: str) -> Sequence[Json]:
        """What was found of a kind; nothing where nobody could look."""
        return self.found.get(what, ())

    def children(self, what: str, owner: Json) -> Iterator[Json]:
        """Objects that this one controls."""
        uid = meta(owner).get("uid")
        for item in self.of(what):
            owners = meta(item).get("ownerReferences") or ()
            if any(o.get("controller") and o.get("uid") == uid for o in owners):
                yield item

    def listeners_of(self, runner_set: Json) -> list[Json]:
        """Listeners that say they serve it."""
        key = name_of(runner_set)
        return [item for item in self.of(LISTENERS) if _serves(item) == key]


def _serves(listener: Json) -> str:
    spec = part(listener, "spec")
    names = ("autoscalingRunnerSetNamespace", "autoscalingRunnerSetName")
    return "/".join(str(spec.get(name, "")) for name in names)


def part(item: Json, name: str) -> Json:
    """A member that should be an object."""
    found = item.get(name)
    return found if isinstance(found, Mapping) else {}


def meta(item: Json) -> Json:
    """metadata."""
    return part(item, "metadata")


def labels(item: Json) -> Json:
    """metadata.labels."""
    return part(meta(item), "labels")


def annotations(item: Json) -> Json:
    """metadata.annotations."""
    return part(meta(item), "annotations")


def name_of(item: Json) -> str:
    """namespace/name."""
    return f"{meta(item).get('namespace', '')}/{meta(item).get('name', '')}"


def status_of(item: Json) -> Json:
    """status."""
    return part(item, "status")
