"""From method and path to what is asked: verb, kind, namespace, name, subresource.

Pure; which kinds exist is in the registry.
"""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from runnerscale.apiserver.failures import invalid, unsupported
from runnerscale.apiserver.rbac import Ask

Json = dict[str, Any]


@dataclass(slots=True)
class Request:
    """One request, parsed."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    is_resource: bool = False
    verb: str = ""
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def ask(self) -> Ask:
        """What RBAC is asked."""
        if not self.is_resource:
            return Ask(self.method.lower(), path=self.path)
        return Ask(
            self.verb,
            self.group,
            self.plural,
            self.subresource,
            self.namespace,
            self.name,
        )

    @property
    def dry_run(self) -> bool:
        """`dryRun=All` was asked for."""
        return bool(self.query.get("dryRun"))


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def parse_request(method: str, raw_path: str) -> Request:
    """Read the request line."""
    raw, _, raw_query = raw_path.partition("?")
    path = unquote(raw) if "%" in raw else raw
    query = dict(parse_qsl(raw_query, keep_blank_values=True)) if raw_query else {}
    request = Request(method, path, query)
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        request.version, rest = parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        request.group, request.version, rest = parts[1], parts[2], parts[3:]
    else:
        return request
    request.is_resource = True
    _place(request, rest)
    request.verb = _verb(request)
    return request


_OF_NAMESPACES = ("status", "finalize")


def _place(request: Request, rest: list[str]) -> None:
    if rest[0] == "namespaces" and not request.group and len(rest) >= 2:
        request.namespace = rest[1]
        if len(rest) == 2 or rest[2] in _OF_NAMESPACES:
            # The namespace itself; it counts as being in itself.
            request.plural, request.name = "namespaces", rest[1]
            request.subresource = rest[2] if len(rest) > 2 else ""
            return
        rest = rest[2:]
    elif rest[0] == "namespaces" and len(rest) >= 3:
        request.namespace = rest[1]
        rest = rest[2:]
    request.plural = rest[0]
    request.name = rest[1] if len(rest) > 1 else ""
    request.subresource = "/".join(rest[2:])


def _verb(request: Request) -> str:
    if request.method in ("GET", "HEAD"):
        if request.name:
            return "get"
        return "watch" if is_true(request.query.get("watch")) else "list"
    if request.method == "DELETE":
        return "delete" if request.name else "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def is_true(text: str | None) -> bool:
    """A boolean of a query."""
    return text is not None and text.lower() in ("", "1", "true")


def options_name(verb: str) -> str:
    """The kind of the options that a verb has, for errors about them."""
    names = {"update": "UpdateOptions", "patch": "PatchOptions"}
    return "DeleteOptions" if verb.startswith("delete") else names.get(verb, "CreateOptions")


def check_dry_run(request: Request) -> None:
    """Only `All` is known.

    Raises:
        ApiFailure: 422.
    """
    value = request.query.get("dryRun")
    if value not in (None, "", "All"):
        error = unsupported("dryRun", [value], ("All",))
        raise invalid("meta.k8s.io", options_name(request.verb), "", [error])
