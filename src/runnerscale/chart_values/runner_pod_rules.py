"""What the scale-set chart refuses in the runner's pod and its container mode.

Only what the chart itself reads of the pod: the rest is for the API server to judge. The same
rules as in the chart's `templates/_checks.tpl`; a test holds the two together.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from runnerscale.chart_values.findings import Finding, ValuePath, dotted
from runnerscale.chart_values.reading import list_of, map_of, text_of

SPEC: ValuePath = ("template", "spec")
KUBERNETES_MODES = ("kubernetes", "kubernetes-novolume")


def runner_pod_problems(values: Mapping[str, Any]) -> list[Finding]:
    """`values` with the chart's defaults below."""
    spec = map_of(values, "template", "spec")
    mode = text_of(map_of(values, "containerMode").get("type"))
    return [
        *_entries(spec),
        *_containers(spec, mode),
        *_volumes(spec),
        *_work_volume(values, spec, mode),
        *_unused(values, mode),
    ]


def _entries(spec: Mapping[str, Any]) -> Iterator[Finding]:
    for section in ("containers", "initContainers", "volumes"):
        path = (*SPEC, section)
        yield from _named(spec.get(section), path)
        for index, entry in enumerate(list_of(spec.get(section))):
            for field in ("env", "volumeMounts"):
                yield from _named(map_of(entry).get(field), (*path, index, field))


def _named(entries: Any, path: ValuePath) -> Iterator[Finding]:
    """Entries are merged by name, so each is a map that has one."""
    if entries is None:
        return
    if not isinstance(entries, list):
        yield Finding(path, f"{dotted(path)} is no list", "Write it as in a pod")
        return
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            here = (*path, index)
            yield Finding(here, f"{dotted(here)} has no name, or none that is text", "Name it")


def _containers(spec: Mapping[str, Any], mode: str) -> Iterator[Finding]:
    names = [_name(entry) for entry in list_of(spec.get("containers"))]
    all_names = names + [_name(entry) for entry in list_of(spec.get("initContainers"))]
    if not all(all_names):
        return  # told above
    path: ValuePath = (*SPEC, "containers")
    twins = sorted(name for name, count in Counter(all_names).items() if count > 1)
    if twins:
        what = f"template.spec has two containers named {', '.join(twins)}"
        yield Finding(path, what, "Give each, init containers too, a name of its own")
    others = [name for name in names if name != "dind" or mode != "dind"]
    if others and "runner" not in names:
        what = "template.spec.containers has no container named runner: nothing would run jobs"
        yield Finding(path, what, "Name the container with the runner so")


def _volumes(spec: Mapping[str, Any]) -> Iterator[Finding]:
    names = Counter(_name(volume) for volume in list_of(spec.get("volumes")))
    twins = sorted(name for name, count in names.items() if count > 1 and name)
    if twins:
        path: ValuePath = (*SPEC, "volumes")
        what = f"{dotted(path)} has two volumes named {', '.join(twins)}"
        yield Finding(path, what, "Give each a name of its own")


def _work_volume(
    values: Mapping[str, Any], spec: Mapping[str, Any], mode: str
) -> Iterator[Finding]:
    claim = map_of(values, "containerMode").get("kubernetesModeWorkVolumeClaim")
    volumes = [_name(volume) for volume in list_of(spec.get("volumes"))]
    if mode == "kubernetes" and not claim and "work" not in volumes:
        what = "containerMode.type is kubernetes, but there is no kubernetesModeWorkVolumeClaim"
        remedy = "Set it, or give a volume named work, or take the mode kubernetes-novolume"
        yield Finding(("containerMode", "type"), what, remedy)


def _unused(values: Mapping[str, Any], mode: str) -> Iterator[Finding]:
    given = map_of(values, "containerMode")
    if given.get("kubernetesModeWorkVolumeClaim") and mode != "kubernetes":
        path: ValuePath = ("containerMode", "kubernetesModeWorkVolumeClaim")
        what = f"{dotted(path)} is used in mode kubernetes only"
        yield Finding(path, what, "Set containerMode.type, or take it away", is_problem=False)
    own_account = text_of(map_of(values, "template", "spec").get("serviceAccountName"))
    rules = given.get("kubernetesModeAdditionalRoleRules")
    if rules and (mode not in KUBERNETES_MODES or own_account):
        path = ("containerMode", "kubernetesModeAdditionalRoleRules")
        what = f"{dotted(path)} is not used: no Role is made for the runners"
        yield Finding(path, what, "Take it away", is_problem=False)


def _name(entry: Any) -> str:
    return text_of(map_of(entry).get("name"))
