"""How a history ended, without what no two histories share: names, uids, times, versions.

Two ends are equal when nobody who looks at them could tell that one was disturbed: the objects
with their contents, what GitHub knows, what became of each job, what still runs.
"""

import json
import re
from itertools import zip_longest
from typing import Any

from runnerscale.fake_github.model import JobState
from runnerscale.fake_github.state import State
from tests.simulation.world import World

Json = dict[str, Any]

RESOURCES = (
    "autoscalingrunnersets.actions.github.com",
    "autoscalinglisteners.actions.github.com",
    "ephemeralrunnersets.actions.github.com",
    "ephemeralrunners.actions.github.com",
    "pods",
    "secrets",
    "serviceaccounts",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
)
DRAWN = (  # names that are drawn, and numbers and ids inside of texts
    (re.compile(r"(?<!gha)-runner-[a-z0-9]{5}\b"), "-runner-*"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}\b"), "kube-api-access-*"),
    (re.compile(r"GitHub's id is \d+"), "GitHub's id is *"),
    (re.compile(r"\brunner \d+\b"), "runner *"),
    # After the place that a set had when its listener was first made.
    (re.compile(r"\b(set|other)-[0-9a-f]{8}-listener"), "*-listener"),
)
# Numbers of a history, not of its end: versions and generations count writes, patch ids and
# runner ids count messages and registrations, restarts count deaths, times are times.
COUNTED = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "observedGeneration",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "lastProbeTime",
        "lastUpdateTime",
        "startTime",
        "startedAt",
        "finishedAt",
        "managedFields",
        "patchID",
        "runnerId",
        "containerID",
        "podIP",
        "podIPs",
        "hostIP",
        "hostIPs",
        "restartCount",
        "restarts",
        "lastTermination",
        "runnerscale.dev/restarts",
        "runnerscale.dev/last-termination",
        "settledRunners",
        "actions.github.com/patch-id",
        "runnerscale.dev/service-account-uid",
        "runnerscale.dev/controller",
        "pod-template-hash",
        "actions.github.com/integrity-hash",  # of contents that are compared themselves
    }
)
SECRETS = ("data", "stringData")
# What the set was called at GitHub, and which chart made it, when this was made: for people.
MADE_FROM_THE_SET = ("ephemeralrunners.actions.github.com", "pods")
OF_THEN = (
    "actions.github.com/runner-group-name",
    "actions.github.com/runner-scale-set-name",
    "app.kubernetes.io/version",
)
UNTOLD = ("", False)  # said once and taken back is as never said
# Said with the next runner that is made; nobody who was killed before it was said says it later.
# That passes succeed again is said of those that failed for a minute, that a runner is well of one
# that was not, or was not in an old view. What is wrong in the end is compared.
UNSAID = (
    {"type": "Healthy", "status": "True"},
    {"type": "TemplateAccepted", "status": "True"},
    {"type": "Reconciled", "status": "True"},
    {"type": "RunnersWritable", "status": "True"},
)


def end_of(world: World) -> Json:
    """The whole end, as sorted lines by what they are about."""
    found: dict[str, list[str]] = {}
    for resource in RESOURCES:
        lines = [_text(resource, obj) for obj in world.objects(resource)]
        found[resource.partition(".")[0]] = sorted(lines)
    found["github"] = _github(world.github.state)
    found["jobs"] = _jobs(world.github.state)
    found["containers"] = sorted(
        process.spec.argv[0] for process in world.machine.started if process.exit is None
    )
    return found


def difference(expected: Json, found: Json) -> list[str]:
    """What is there and what is not, one line each."""
    lines = []
    for about in expected:
        missing, more = _less(expected[about], found[about]), _less(found[about], expected[about])
        for one, other in zip_longest(missing, more):
            lines += [f"{about}: {line}" for line in _unlike(one, other)]
    return lines


def _unlike(one: str | None, other: str | None) -> list[str]:
    """In which places two objects differ; or that one of them is missing."""
    if one is None or other is None:
        shown = str(one or other)
        name = _flat(json.loads(shown)).get("metadata.name") if shown.startswith("{") else shown
        return [f"{'too much' if one is None else 'missing'}: {name}"]
    if not one.startswith("{"):
        return [f"expected {one!r}, found {other!r}"]
    a, b = _flat(json.loads(one)), _flat(json.loads(other))
    name = a.get("metadata.name")
    return [
        f"{name}: {place}: expected {a.get(place)!r}, found {b.get(place)!r}"
        for place in sorted(a.keys() | b.keys())
        if a.get(place) != b.get(place)
    ]


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(each.get("type", str(n)) if isinstance(each, dict) else str(n), each)
                 for n, each in enumerate(value)]  # fmt: skip
    else:
        return {place: value}
    found: dict[str, Any] = {}
    for key, each in pairs:
        found |= _flat(each, f"{place}.{key}" if place else key)
    return found


def _less(one: list[str], other: list[str]) -> list[str]:
    left = list(other)
    missing = []
    for line in one:
        if line in left:
            left.remove(line)
        else:
            missing.append(line)
    return missing


def _text(resource: str, obj: Json) -> str:
    if resource in MADE_FROM_THE_SET:
        meta = dict(obj["metadata"])
        for name in ("annotations", "labels"):
            meta[name] = {k: v for k, v in (meta.get(name) or {}).items() if k not in OF_THEN}
        obj = {**obj, "metadata": meta}
    if resource == "secrets":
        obj = {**obj, **{key: sorted(obj[key]) for key in SECRETS if key in obj}}
    text = json.dumps(_without(obj), sort_keys=True)
    for drawn, shown in DRAWN:
        text = drawn.sub(shown, text)
    return text


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without(each)
            for key, each in value.items()
            if key not in COUNTED and each not in UNTOLD
        }
    if isinstance(value, list):
        return [_without(each) for each in value if not _is_unsaid(each)]
    return value


def _is_unsaid(value: Any) -> bool:
    return isinstance(value, dict) and any(said.items() <= value.items() for said in UNSAID)


def _github(state: State) -> list[str]:
    lines = []
    for each in state.scale_sets.values():
        labels = sorted(each.label_names)
        session = "a session" if each.session else "no session"
        runners = len([r for r in state.runners.values() if r.scale_set_id == each.id])
        lines.append(
            f"{'deleted ' if each.deleted else ''}{each.name} in group {each.group_id}, {labels}:"
            f" {session}, {runners} runners, {len(each.waiting)} waiting, {len(each.running)} busy"
        )
    return sorted(lines)


def _jobs(state: State) -> list[str]:
    return [
        f"job {job.number}: {job.result if job.state is JobState.COMPLETED else job.state},"
        f" started {job.starts} times"
        for job in sorted(state.jobs.values(), key=lambda job: job.number)
    ]
