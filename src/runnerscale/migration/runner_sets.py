"""What users wrote: each AutoscalingRunnerSet, as our controller would take it.

What cannot be used stands in the way; ARC may serve it from an earlier state, but a controller that
starts now cannot. Known weaknesses (charts-and-operations 10.2) are named where the set has what
they are about, because there the exchange changes something. Pure.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from runnerscale.api import labels as keys
from runnerscale.api.names import RUNNER_SET_NAME_MAX
from runnerscale.api.version_gate import fits
from runnerscale.core.clock import parse_time
from runnerscale.migration.findings import Finding, changes, guarded, in_the_way, note
from runnerscale.migration.snapshot import (
    RUNNER_SETS,
    Json,
    Snapshot,
    annotations,
    labels,
    meta,
    name_of,
    part,
    status_of,
)
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.errors import InvalidConfigUrl

STUCK_AFTER_S = 600.0


def findings(seen: Snapshot) -> Iterator[Finding]:
    """About all runner sets together, then about each."""
    yield from _twice(seen)
    for item in seen.of(RUNNER_SETS):
        about = f"AutoscalingRunnerSet {name_of(item)}"
        if meta(item).get("deletionTimestamp"):
            yield from stuck(seen, item, about)
            continue
        yield from guarded(_unusable(item, about), about)
        yield from guarded(_version(seen, item, about), about)
        yield from guarded(_weaknesses(item, about), about)


def stuck(seen: Snapshot, item: Json, about: str) -> Iterator[Finding]:
    """Something that is being deleted."""
    held = ", ".join(meta(item).get("finalizers") or ()) or "nothing"
    age_s = seen.now_s - _time(meta(item).get("deletionTimestamp"))
    if age_s >= STUCK_AFTER_S:
        yield changes(
            "stuck-deletion",
            about,
            f"its deletion is stuck since {age_s / 60:.0f} minutes, held by {held}",
            "We take it up: runners with a job finish it, what cannot be reached is given up",
        )
    else:
        yield note("deletion", about, f"it is being deleted, held by {held}")


def _unusable(item: Json, about: str) -> Iterator[Finding]:
    spec = part(item, "spec")
    name = str(meta(item).get("name", ""))
    if len(name) > RUNNER_SET_NAME_MAX:
        what = f"its name is longer than {RUNNER_SET_NAME_MAX} characters"
        yield in_the_way("name", about, what, "Make it anew under a shorter name")
    try:
        parse_config_url(str(spec.get("githubConfigUrl", "")))
    except InvalidConfigUrl as error:
        fix = "Use https://HOST/ORG, https://HOST/OWNER/REPO or https://HOST/enterprises/NAME"
        yield in_the_way("config-url", about, f"githubConfigUrl cannot be used: {error}", fix)
    if not spec.get("githubConfigSecret"):
        yield in_the_way("credentials", about, "githubConfigSecret is empty", "Name a Secret")
    low, high = spec.get("minRunners"), spec.get("maxRunners")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        what = f"minRunners {low} is greater than maxRunners {high}"
        yield in_the_way("limits", about, what, "Lower the one or raise the other")
    containers = part(part(spec, "template"), "spec").get("containers") or ()
    if not any(isinstance(c, Mapping) and c.get("name") == "runner" for c in containers):
        what = "its template has no container named runner"
        yield in_the_way("template", about, what, "Name the container that runs the runner so")
    kind = part(spec, "vaultConfig").get("type")
    if kind not in (None, "", "azure_key_vault"):
        what = f"its vault is of the unknown type {kind}"
        yield in_the_way("vault", about, what, "Use azure_key_vault, or a Secret")


def _version(seen: Snapshot, item: Json, about: str) -> Iterator[Finding]:
    label = str(labels(item).get(keys.VERSION, ""))
    if label and not fits(seen.ours.version, label):
        yield changes(
            "version",
            about,
            f"its chart is of version {label}, we stand in for {seen.ours.version}: ARC would "
            "delete it, we serve it and say so (condition VersionSkew)",
            "Upgrade its chart before you go back to ARC",
        )
    elif not label:
        yield note("version", about, "it has no version label: ARC would delete it, we do not")


def _weaknesses(item: Json, about: str) -> Iterator[Finding]:
    spec = part(item, "spec")
    if status_of(item).get("phase") == "Outdated":
        yield changes(
            "outdated",
            about,
            "ARC called it Outdated and stopped it",
            "One runner is tried again; if GitHub refuses its version, put in a newer image",
        )
    if not annotations(item).get(keys.SCALE_SET_ID):
        yield note("unregistered", about, "it is not registered at GitHub; we would register it")
    if spec.get("runnerScaleSetLabels"):
        what = "runnerScaleSetLabels are compared with GitHub's and sent when they differ"
        yield changes("labels", about, what)
    if spec.get("listenerTemplate"):
        what = "what its listenerTemplate leaves out keeps its default instead of zero"
        yield changes("listener-template", about, what)
    if not spec.get("runnerGroup") and annotations(item).get(keys.RUNNER_GROUP_NAME) not in (
        None,
        "",
        "Default",
        "default",
    ):
        group = annotations(item).get(keys.RUNNER_GROUP_NAME)
        what = f"runnerGroup is empty: its scale set moves from {group} to the default group"
        yield changes("runner-group", about, what, "Set runnerGroup to keep it where it is")
    if (spec.get("minRunners") or 0) > 0:
        what = "a changed template exchanges its idle runners a few at a time; its listener stays"
        yield note("min-runners", about, what)


def _twice(seen: Snapshot) -> Iterator[Finding]:
    claims: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for item in seen.of(RUNNER_SETS):
        if meta(item).get("deletionTimestamp"):
            continue
        spec = part(item, "spec")
        name = str(spec.get("runnerScaleSetName") or meta(item).get("name", ""))
        url = str(spec.get("githubConfigUrl", "")).rstrip("/").lower()
        claims[url, str(spec.get("runnerGroup", "")).lower(), name.lower()].append(name_of(item))
    for (url, _, name), owners in sorted(claims.items()):
        if len(owners) > 1:
            yield in_the_way(
                "ambiguous",
                f"scale set {name} at {url}",
                f"several objects want it: {', '.join(sorted(owners))}",
                "Give all but one another runnerScaleSetName",
            )


def _time(text: object) -> float:
    try:
        return parse_time(str(text))
    except (ValueError, OverflowError):
        return 0.0
