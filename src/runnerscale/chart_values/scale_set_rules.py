"""What the scale-set chart refuses although every value is of its kind.

The same rules as in the chart's `templates/_checks.tpl`; a test holds the two together. The pod
of the runner has a page of its own, `runner_pod_rules.py`. A text that may hold a secret is
never repeated.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runnerscale.chart_values.findings import Finding, ValuePath, dotted
from runnerscale.chart_values.reading import list_of, map_of, text_of

NAME_BYTES_MAX = 45
NAMESPACE_LETTERS_MAX = 63
LABEL_LETTERS_MAX = 255
RUNNERS_MAX = 2147483647
_OBJECT_NAME = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SECRET_NAME = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?", re.ASCII)
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_COUNT = re.compile(r"([0-9]+)([.][0-9]*)?", re.ASCII)
_APP_FIELDS = ("github_app_id", "github_app_installation_id", "github_app_private_key")
_VAULT_KEYS = {
    "url": "url",
    "tenantId": "tenant_id",
    "clientId": "client_id",
    "certificatePath": "certificate_path",
}


def scale_set_problems(values: Mapping[str, Any], *, release: str, namespace: str) -> list[Finding]:
    """`values` with the chart's defaults below; empty names are not known and not looked at."""
    return [
        *_names(values, release, namespace),
        *_github(values),
        *_labels(values.get("scaleSetLabels")),
        *_counts(values),
        *_proxy(map_of(values, "proxy"), ("proxy",)),
        *_certificates(map_of(values, "githubServerTLS")),
        *_vault(map_of(values, "keyVault")),
    ]


def _names(values: Mapping[str, Any], release: str, namespace: str) -> Iterator[Finding]:
    given = text_of(values.get("runnerScaleSetName"))
    name = given or release
    path: ValuePath = ("runnerScaleSetName",) if given else ()
    whose = "runnerScaleSetName" if given else "the release's name"
    if len(name.encode()) > NAME_BYTES_MAX:
        size = len(name.encode())
        what = f"{whose} has {size} bytes, and a scale set's name may have {NAME_BYTES_MAX}"
        yield Finding(path, what, "Set runnerScaleSetName to a shorter name")
    elif name and not _OBJECT_NAME.fullmatch(name.replace("_", "-")):
        what = f"{whose} {name!r} cannot name an object in Kubernetes"
        remedy = (
            "Use small letters, digits, dashes, underscores and dots, the ends a letter or digit"
        )
        yield Finding(path, what, remedy)
    override = text_of(values.get("namespaceOverride"))
    if len((override or namespace).encode()) > NAMESPACE_LETTERS_MAX:
        what = f"the namespace has more than {NAMESPACE_LETTERS_MAX} characters"
        yield Finding(("namespaceOverride",) if override else (), what, "Choose a shorter one")
    elif (override or namespace) and not _NAMESPACE.fullmatch(override or namespace):
        what = f"the namespace {(override or namespace)!r} is none that Kubernetes could have"
        remedy = "Use small letters, digits and dashes, the ends a letter or digit"
        yield Finding(("namespaceOverride",) if override else (), what, remedy)


def _github(values: Mapping[str, Any]) -> Iterator[Finding]:
    if not text_of(values.get("githubConfigUrl")).rstrip("/"):
        example = "such as https://github.com/my-org"
        what = "githubConfigUrl is missing: nobody knows for whom the runners are"
        remedy = f"Set it to the repository's, organization's or enterprise's address, {example}"
        yield Finding(("githubConfigUrl",), what, remedy)
    secret = values.get("githubConfigSecret")
    path: ValuePath = ("githubConfigSecret",)
    if not isinstance(secret, Mapping):
        if not secret:
            what = "githubConfigSecret is empty: there are no credentials for GitHub"
            yield Finding(path, what, "Name a Secret, or set github_token below it")
        elif isinstance(secret, str) and not _SECRET_NAME.fullmatch(secret):
            what = "githubConfigSecret is a text that cannot name a Secret; it may be a token"
            yield Finding(path, what, "Write a token as githubConfigSecret.github_token")
        return
    if not all(_SECRET_KEY.fullmatch(key) for key in secret):
        what = "githubConfigSecret has a key that no Secret may have"
        yield Finding(path, what, "Use letters, digits, dashes, dots and underscores")
    token = text_of(secret.get("github_token"))
    app_id, installation, key = (text_of(secret.get(field)) for field in _APP_FIELDS)
    if not token and not app_id:
        what = "githubConfigSecret has neither a github_token nor a github_app_id"
        yield Finding(path, what, "Set one, or write the name of a Secret instead of the map")
    if app_id and not (installation and key):
        what = "githubConfigSecret has a github_app_id, but not both other fields of a GitHub App"
        yield Finding(path, what, f"Set {_APP_FIELDS[1]} and {_APP_FIELDS[2]}")
    if token and (app_id or installation or key):
        what = "githubConfigSecret has a github_token and fields of a GitHub App"
        yield Finding(path, what, "Keep one of them")


def _labels(labels: Any) -> Iterator[Finding]:
    for index, label in enumerate(list_of(labels)):
        path: ValuePath = ("scaleSetLabels", index)
        if label == "":
            yield Finding(path, f"{dotted(path)} is empty", "Take it away")
        elif isinstance(label, str) and len(label) > LABEL_LETTERS_MAX:
            what = f"{dotted(path)} has {len(label)} characters, GitHub takes {LABEL_LETTERS_MAX}"
            yield Finding(path, what, "Shorten it")


def _counts(values: Mapping[str, Any]) -> Iterator[Finding]:
    counts: dict[str, int] = {}
    for key in ("minRunners", "maxRunners"):
        text = text_of(values.get(key)).strip()
        if not text:
            continue
        found = _COUNT.fullmatch(text)
        if found is None:
            what = f"{key} is {text[:30]}, and no whole number from 0 on"
            yield Finding((key,), what, "Write digits, or leave it out")
        elif len(digits := found[1].lstrip("0")) > 10 or int(digits or "0") > RUNNERS_MAX:
            what = f"{key} is {text[:30]}, more than {RUNNERS_MAX}"
            yield Finding((key,), what, "Leave maxRunners out for no limit")
        else:
            counts[key] = int(digits or "0")
            yield from _remarks_on_count(key, values[key], text)
    low, high = counts.get("minRunners"), counts.get("maxRunners")
    if low is not None and high is not None and low > high:
        what = f"minRunners is {low} and maxRunners {high}: the least is more than the most"
        yield Finding(("minRunners",), what, "Lower minRunners or raise maxRunners")


def _remarks_on_count(key: str, value: Any, text: str) -> Iterator[Finding]:
    if isinstance(value, str):
        what = f"{key} is a number in quotes: it counts here, and ARC ignored it"
        yield Finding((key,), what, "Take the quotes away to be sure", is_problem=False)
    elif "." in text:
        what = f"{key} is {text}: the part after the point is cut"
        yield Finding((key,), what, "Write a whole number", is_problem=False)


def _proxy(proxy: Mapping[str, Any], path: ValuePath) -> Iterator[Finding]:
    for scheme in ("http", "https"):
        server = map_of(proxy, scheme)
        if text_of(server.get("credentialSecretRef")) and not text_of(server.get("url")):
            where = (*path, scheme)
            what = f"{dotted(where)} has a credentialSecretRef but no url"
            yield Finding(where, what, "Set its url, such as http://proxy.example.com:8080")


def _certificates(tls: Mapping[str, Any]) -> Iterator[Finding]:
    if not tls.keys() & {"certificateFrom", "runnerMountPath"}:
        return  # an unknown key alone asks for nothing
    path: ValuePath = ("githubServerTLS", "certificateFrom", "configMapKeyRef")
    reference = map_of(tls, "certificateFrom", "configMapKeyRef")
    for part in ("name", "key"):
        if not text_of(reference.get(part)):
            what = f"githubServerTLS is set, but {dotted((*path, part))} is not"
            yield Finding(path, what, "Set name and key of the ConfigMap with the certificate")


def _vault(vault: Mapping[str, Any]) -> Iterator[Finding]:
    kind = text_of(vault.get("type"))
    if vault and not kind:
        what = "keyVault has no type and is not used"
        remedy = "Set keyVault.type to azure_key_vault"
        yield Finding(("keyVault",), what, remedy, is_problem=False)
    elif kind and kind != "azure_key_vault":
        what = f"keyVault.type {kind[:60]!r} is not supported"
        yield Finding(("keyVault", "type"), what, "The only kind of vault is azure_key_vault")
    elif kind:
        given = map_of(vault, "azureKeyVault") or map_of(vault, "azure_key_vault")
        for key, other in _VAULT_KEYS.items():
            if not (text_of(given.get(key)) or text_of(given.get(other))):
                what = f"keyVault.type is set, but keyVault.azureKeyVault.{key} is not"
                yield Finding(("keyVault",), what, "Set it")
    yield from _proxy(map_of(vault, "proxy"), ("keyVault", "proxy"))
