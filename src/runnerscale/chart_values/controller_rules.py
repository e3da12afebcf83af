"""What the controller's chart refuses although every value is of its kind.

The same rules as in the chart's `templates/_checks.tpl`; a test holds the two together.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runnerscale.chart_values.findings import Finding, ValuePath, dotted
from runnerscale.chart_values.reading import list_of, map_of, text_of

PORT_MAX = 65535
NAME_MAX = 63  # names are values of labels too
_WORD = "gha-rs-controller"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
LISTS_OF_MAPS = ("env", "volumes", "volumeMounts", "tolerations", "topologySpreadConstraints")


def controller_problems(
    values: Mapping[str, Any], *, release: str = "", namespace: str = ""
) -> list[Finding]:
    """`values` with the chart's defaults below; empty names are not known and not looked at."""
    return [
        *_account(map_of(values, "serviceAccount")),
        *_names(values, release, namespace),
        *_addresses(values),
        *_lists(values),
        *_monitors(values),
    ]


def _account(account: Mapping[str, Any]) -> Iterator[Finding]:
    name = text_of(account.get("name"))
    path: ValuePath = ("serviceAccount", "name")
    if name == "default":
        what = 'serviceAccount.name "default" is not allowed: pods that name no account would get'
        yield Finding(path, f"{what} the controller's rights", "Choose another name")
    elif not name and account.get("create") is False:
        what = "serviceAccount.name is missing, and serviceAccount.create is false"
        yield Finding(path, what, "Name an account that exists, or let the chart create one")


def _names(values: Mapping[str, Any], release: str, namespace: str) -> Iterator[Finding]:
    word = text_of(values.get("nameOverride")) or _WORD
    full = text_of(values.get("fullnameOverride"))
    source = "fullnameOverride" if full else "nameOverride"
    if not full:
        release = release or "release"
        full = release if word in release else f"{release}-{word}"
    full = _cut(full)
    account = text_of(map_of(values, "serviceAccount").get("name")) or full
    home = text_of(values.get("namespaceOverride")) or namespace
    watched = text_of(map_of(values, "flags").get("watchSingleNamespace"))
    checks: tuple[tuple[ValuePath, str, re.Pattern[str]], ...] = (
        (("nameOverride",), _cut(word), _LABEL),
        ((source,), full, _NAME),
        (("namespaceOverride",), home, _NAMESPACE),
        (("serviceAccount", "name"), account, _NAME),
        (("flags", "watchSingleNamespace"), watched, _NAMESPACE),
    )
    for path, name, allowed in checks:
        if not name and allowed is _NAMESPACE:
            continue  # not given
        if not (len(name.encode()) <= NAME_MAX and allowed.fullmatch(name)):
            what = f"{dotted(path)} makes the name {name[:80]!r}, which Kubernetes does not take"
            remedy = (
                f"Use at most {NAME_MAX} small letters, digits and dashes, the ends no dash"
                if allowed is not _LABEL
                else f"Use at most {NAME_MAX} letters, digits, dashes, dots and underscores"
            )
            yield Finding(path, what, remedy)


def _cut(name: str) -> str:
    """As the chart cuts names."""
    return name.encode()[:NAME_MAX].decode(errors="replace").removesuffix("-")


def _addresses(values: Mapping[str, Any]) -> Iterator[Finding]:
    metrics = map_of(values, "metrics")
    needed: list[tuple[ValuePath, Any]] = []
    if metrics.keys() & {"controllerManagerAddr", "listenerAddr", "listenerEndpoint"}:
        needed.append((("metrics", "controllerManagerAddr"), metrics.get("controllerManagerAddr")))
    for path in (
        ("metrics", "listenerAddr"),
        ("pprof", "addr"),
        ("flags", "healthProbeBindAddress"),
    ):
        value = map_of(values, path[0]).get(path[1])
        if value:
            needed.append((path, value))
    for where, value in needed:
        given = text_of(value)
        if given == "0" or (isinstance(value, bool | int | float | list | dict)):
            continue  # "0" is nowhere; a wrong kind is told elsewhere
        port = re.search(r":([0-9]{1,5})\Z", given)
        if port is None or not 1 <= int(port[1]) <= PORT_MAX:
            what = f"{dotted(where)} does not end in a port from 1 to {PORT_MAX}"
            yield Finding(where, what, 'Write it as ":8080"')


def _lists(values: Mapping[str, Any]) -> Iterator[Finding]:
    for index, item in enumerate(list_of(values.get("imagePullSecrets"))):
        if isinstance(item, Mapping) and not text_of(item.get("name")):
            path: ValuePath = ("imagePullSecrets", index)
            yield Finding(path, f"{dotted(path)} names no Secret", "Write it as {name: SECRET}")
    for index, item in enumerate(list_of(values.get("env"))):
        value = item.get("value") if isinstance(item, Mapping) else None
        if value is not None and not isinstance(value, str):
            path = ("env", index, "value")
            yield Finding(path, f"{dotted(path)} is not text", "Put it in quotes")
    prefixes = map_of(values, "flags").get("excludeLabelPropagationPrefixes")
    for index, item in enumerate(list_of(prefixes)):
        if item == "":
            path = ("flags", "excludeLabelPropagationPrefixes", index)
            yield Finding(path, f"{dotted(path)} is empty", "Take it away: every label begins so")


def _monitors(values: Mapping[str, Any]) -> Iterator[Finding]:
    metrics = map_of(values, "metrics")
    controller = _published(metrics.get("controllerManagerAddr"))
    listeners = metrics.get("listenerEndpoint") and _published(metrics.get("listenerAddr"))
    set_it = 'Set metrics.controllerManagerAddr, such as ":8080"'
    if map_of(values, "podMonitor").get("enabled") is True and not (controller or listeners):
        yield Finding(
            ("podMonitor", "enabled"), "podMonitor is on, but no metrics are published", set_it
        )
    if map_of(values, "serviceMonitor").get("enabled") is True and not controller:
        what = "serviceMonitor is on, but the controller publishes no metrics"
        yield Finding(("serviceMonitor", "enabled"), what, set_it)


def _published(address: Any) -> bool:
    return re.search(r":[0-9]+\Z", text_of(address)) is not None
