"""Invariant 4: no leak. At rest, everything has a live owner, and nothing hangs on its way out.

Registrations, scale sets and sessions at GitHub; pods, Secrets, accounts, roles, bindings and all
else that names an owner or a runner set at the API server; containers on the machine.
"""

from collections.abc import Iterable
from typing import Any

from tests.simulation.invariants.names import (
    FOREIGN_OWNER,
    FOREIGN_SCALE_SET,
    LISTENERS,
    RUNNER_SETS,
    RUNNERS,
    SCALE_SETS,
    TERMINAL,
    Json,
    is_going,
    meta,
    owner,
    phase,
)
from tests.simulation.invariants.seen import Seen

NAME_LABEL = "actions.github.com/scale-set-name"
NAMESPACE_LABEL = "actions.github.com/scale-set-namespace"
NOT_OURS = ("events", "leases.coordination.k8s.io", "nodes", "namespaces")
OF_A_LISTENER = (
    "secrets",
    "serviceaccounts",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
)


def leaks(seen: Seen, world: Any) -> Iterable[str]:
    """All that has no owner any more."""
    yield from _at_github(seen, world)
    yield from _objects(seen)
    yield from _of_finished_runners(seen)
    yield from _of_listeners(seen)
    yield from _containers(seen, world)


def scale_set_name(runner_set: Json) -> str:
    """What a runner set is called at GitHub."""
    return str(runner_set["spec"].get("runnerScaleSetName") or meta(runner_set)["name"])


def _at_github(seen: Seen, world: Any) -> Iterable[str]:
    github = seen.github
    ours = {scale_set_name(each) for each in seen.all(SCALE_SETS)}
    alive = {meta(r)["name"] for r in seen.all(RUNNERS) if phase(r) not in TERMINAL}
    listening = {process.spec.pod.name for process in world.machine.running("listener")}
    for scale_set in github.scale_sets.values():
        if scale_set.name == FOREIGN_SCALE_SET:
            continue
        if scale_set.name not in ours:
            yield f"scale set {scale_set.id} ({scale_set.name}) has no runner set any more"
        session = scale_set.session
        if session and session.owner not in (FOREIGN_OWNER, *listening):
            yield f"the session of {session.owner} on {scale_set.name} has no listener any more"
    for runner in github.runners.values():
        found = github.scale_sets.get(runner.scale_set_id)
        foreign = found is not None and found.name == FOREIGN_SCALE_SET
        if not foreign and not runner.forgotten and runner.name not in alive:
            yield f"registration {runner.name} has no runner object any more"


def _objects(seen: Seen) -> Iterable[str]:
    for resource, table in seen.objects.items():
        if resource in NOT_OURS:
            continue
        for (_, name), obj in table.items():
            if is_going(obj):
                yield f"{resource} {name} is still being deleted"
            for reference in meta(obj).get("ownerReferences") or ():
                if reference["uid"] not in seen.uids:
                    yield f"{resource} {name} outlived its {reference['kind']}"
    served = [owner(each).get("name") for each in seen.all(RUNNER_SETS)]
    for name in {name for name in served if served.count(name) > 1}:
        yield f"{name} has {served.count(name)} EphemeralRunnerSets"


def _of_finished_runners(seen: Seen) -> Iterable[str]:
    """Kept as evidence is the object, not what it ran with."""
    finished = {meta(r).get("uid") for r in seen.all(RUNNERS) if phase(r) in TERMINAL}
    for resource in ("pods", "secrets"):
        for obj in seen.all(resource):
            if owner(obj).get("uid") in finished:
                yield f"{resource} {meta(obj)['name']} is left of a runner that has ended"


def _of_listeners(seen: Seen) -> Iterable[str]:
    """What serves a runner set from another namespace can have no owner reference to it."""
    sets = {(meta(s)["namespace"], meta(s)["name"]) for s in seen.all(SCALE_SETS)}
    served = set()
    for listener in seen.all(LISTENERS):
        spec = listener["spec"]
        key = spec["autoscalingRunnerSetNamespace"], spec["autoscalingRunnerSetName"]
        served.add(key)
        if key not in sets:
            yield f"listener {meta(listener)['name']} has no runner set any more"
    for resource in OF_A_LISTENER:
        for obj in seen.all(resource):
            labels = meta(obj).get("labels") or {}
            key = (labels.get(NAMESPACE_LABEL), labels.get(NAME_LABEL))
            if None not in key and key not in sets | served:
                yield f"{resource} {meta(obj)['name']} outlived the listener of {'/'.join(key)}"


def _containers(seen: Seen, world: Any) -> Iterable[str]:
    pods = {meta(pod).get("uid") for pod in seen.all("pods")}
    for process in world.machine.started:
        if process.exit is None and process.spec.pod.uid not in pods:
            yield f"a container of {process.spec.pod.name} runs, but its pod is gone"
