"""The controllers of an installation: how many there are, and what they are told.

Two that look at the same namespace fight over every object; that is ARC's rule too, but nobody
enforces it. Flags of ARC are all taken; those that mean nothing here are named. Pure.
Contract: charts-and-operations 1.4, 5.1, 9.5.
"""

from collections.abc import Iterator, Sequence

from runnerscale.migration.findings import Finding, changes, guarded, in_the_way, note
from runnerscale.migration.snapshot import DEPLOYMENTS, Json, Snapshot, labels, name_of, part

WATCHED = "actions.github.com/controller-watch-single-namespace"
CONTAINER = "manager"


def findings(seen: Snapshot) -> Iterator[Finding]:
    """About all controllers together, then about each."""
    found = seen.of(DEPLOYMENTS)
    if not found and DEPLOYMENTS not in seen.unseen:
        yield note(
            "no-controller",
            "the cluster",
            "no Deployment is labelled app.kubernetes.io/part-of=gha-rs-controller",
            "Nobody works on the objects now; an exchange is an installation",
        )
    yield from _several(found)
    for item in found:
        yield from guarded(_one(seen, item), f"controller {name_of(item)}")


def _several(items: Sequence[Json]) -> Iterator[Finding]:
    everywhere = [item for item in items if not labels(item).get(WATCHED)]
    if len(everywhere) > 1:
        names = ", ".join(sorted(map(name_of, everywhere)))
        yield in_the_way(
            "several-controllers",
            "the cluster",
            f"several controllers look at every namespace: {names}",
            "Remove all but one: they would fight over every object",
        )
    if everywhere and len(everywhere) < len(items):
        yield in_the_way(
            "mixed-controllers",
            "the cluster",
            "one controller looks at every namespace, another at a single one",
            "Have either one for all, or one for each namespace",
        )
    watched = [str(labels(item).get(WATCHED)) for item in items if labels(item).get(WATCHED)]
    for namespace in sorted({each for each in watched if watched.count(each) > 1}):
        yield in_the_way(
            "several-controllers",
            f"namespace {namespace}",
            "several controllers look at it",
            "Remove all but one",
        )


def _one(seen: Snapshot, item: Json) -> Iterator[Finding]:
    about = f"controller {name_of(item)}"
    pod = part(part(part(item, "spec"), "template"), "spec")
    container = next((c for c in pod.get("containers") or () if c.get("name") == CONTAINER), None)
    if container is None:
        yield in_the_way(
            "no-manager-container",
            about,
            f"its pod has no container named {CONTAINER}",
            "Install it by the chart of ARC or by ours",
        )
        return
    if container.get("image") != seen.ours.image:
        yield changes(
            "image", about, f"its image {container.get('image')} becomes {seen.ours.image}"
        )
    given = [_flag(text) for text in container.get("args") or ()]
    for flag in given:
        if flag and flag not in seen.ours.flags:
            yield in_the_way(
                "unknown-flag",
                about,
                f"it is given --{flag}, which is no flag of ours",
                "Take it away: the process would end with exit code 2",
            )
        elif flag in seen.ours.idle_flags:
            yield note("idle-flag", about, f"--{flag} has no effect: {seen.ours.idle_flags[flag]}")
    if (part(item, "spec").get("replicas") or 1) > 1 and "enable-leader-election" not in given:
        yield in_the_way(
            "no-leader-election",
            about,
            "it has several replicas and no leader election",
            "Set one replica, or --enable-leader-election",
        )


def _flag(argument: object) -> str:
    text = str(argument)
    return text.lstrip("-").partition("=")[0] if text.startswith("-") else ""
