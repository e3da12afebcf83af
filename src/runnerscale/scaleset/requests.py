"""What is sent for each exchange: method, URL, headers, body.

All URLs are built here, and every value in them is percent-encoded (weakness W5): a name
with `&` or `#` reaches GitHub as it is. Who sends them when is `tokens.py`, `client.py`
and `session.py`.

Pure. Contract: github-service-and-listener 2.1-2.14.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.answers import NIL_UUID
from runnerscale.scaleset.config_url import ConfigUrl
from runnerscale.scaleset.transport import Request

API_VERSION = "6.0-preview"
SCALE_SETS = "_apis/runtime/runnerscalesets"
RUNNERS = "_apis/distributedtask/pools/0/agents"
RUNNER_GROUPS = "_apis/runtime/runnergroups/"
CAPACITY_HEADER = "X-ScaleSetMaxCapacity"
LABEL_TYPE = "System"


def installation_token_request(
    config_url: ConfigUrl, installation_id: int, app_jwt: str, agent: str
) -> Request:
    """App JWT for an installation's token."""
    url = config_url.api_url(f"/app/installations/{installation_id}/access_tokens")
    headers = _headers("Bearer", app_jwt, agent, content_type="application/vnd.github+json")
    return Request("POST", url, headers)


def registration_token_request(config_url: ConfigUrl, token: SecretText, agent: str) -> Request:
    """PAT or installation token for a registration token."""
    url = config_url.api_url(f"{config_url.runners_path}/registration-token")
    content_type = "application/vnd.github.v3+json"
    headers = _headers("Bearer", token.reveal(), agent, content_type=content_type)
    return Request("POST", url, headers)


def registration_request(config_url: ConfigUrl, token: SecretText, agent: str) -> Request:
    """Registration token for the tenant's URL and an admin token."""
    url = config_url.api_url("/actions/runner-registration")
    body = _json({"url": config_url.text, "runner_event": "register"})
    return Request("POST", url, _headers("RemoteAuth", token.reveal(), agent), body)


def actions_request(
    method: str,
    tenant_url: str,
    path: str,
    *,
    token: SecretText,
    agent: str,
    query: Mapping[str, str] | None = None,
    body: Any = None,
) -> Request:
    """Any call of the Actions service. `body` None: none is sent."""
    url = actions_url(tenant_url, path, query or {})
    headers = _headers("Bearer", token.reveal(), agent)
    return Request(method, url, headers, None if body is None else _json(body))


def actions_url(tenant_url: str, path: str, query: Mapping[str, str]) -> str:
    """`path` below the tenant's URL; the tenant's own query stays, `query` wins over it."""
    return _actions_url(tenant_url, path, tuple(query.items()))


@lru_cache(maxsize=1024)  # one for each scale set and kind of call; those about a runner pass by
def _actions_url(tenant_url: str, path: str, query: tuple[tuple[str, str], ...]) -> str:
    tenant = _tenant(tenant_url)
    path, _, own_query = path.partition("?")
    members = dict(tenant.query)
    members |= parse_qsl(own_query, keep_blank_values=True)
    members |= query
    if not members.get("api-version"):
        members["api-version"] = API_VERSION
    encoded = urlencode(sorted(members.items()), quote_via=quote, safe="")
    return f"{tenant.base}/{path.lstrip('/')}?{encoded}"


def create_scale_set_body(
    name: str, runner_group_id: int, labels: Sequence[str], *, disable_update: bool
) -> dict[str, Any]:
    """The whole object; without labels the name is the one label."""
    return {
        "name": name,
        "runnerGroupId": runner_group_id,
        "labels": _labels(labels or (name,)),
        "RunnerSetting": _setting(disable_update),
    }


def update_scale_set_body(
    *,
    name: str | None,
    runner_group_id: int | None,
    labels: Sequence[str] | None,
    disable_update: bool | None,
) -> dict[str, Any]:
    """Only the members that change (weakness W56)."""
    body: dict[str, Any] = {}
    if name is not None:
        body["name"] = name
    if runner_group_id is not None:
        body["runnerGroupId"] = runner_group_id
    if labels is not None:
        body["labels"] = _labels(labels)
    if disable_update is not None:
        body["RunnerSetting"] = _setting(disable_update)
    return body


def jit_config_body(runner_name: str, work_folder: str) -> dict[str, Any]:
    """Both members are always there."""
    return {"name": runner_name, "workFolder": work_folder}


def session_body(owner_name: str) -> dict[str, Any]:
    """The nil id is what the Go client always sends."""
    return {"sessionId": NIL_UUID, "ownerName": owner_name}


def poll_request(
    queue_url: SecretText, token: SecretText, *, last_message_id: int, capacity: int, agent: str
) -> Request:
    """Ask for the next message after a cursor (0 or less: none)."""
    url = urlsplit(queue_url.reveal())
    query = url.query
    if last_message_id > 0:
        query = f"{query}&" if query else ""
        query += f"lastMessageId={last_message_id}"
    headers = {
        "Accept": f"application/json; api-version={API_VERSION}",
        "Authorization": f"Bearer {token.reveal()}",
        "User-Agent": agent,
        CAPACITY_HEADER: str(max(0, capacity)),
    }
    return Request("GET", urlunsplit((url.scheme, url.netloc, url.path, query, "")), headers)


def acknowledge_request(
    queue_url: SecretText, token: SecretText, *, message_id: int, agent: str
) -> Request:
    """Delete a message; the queue URL's query stays."""
    url = urlsplit(queue_url.reveal())
    path = f"{url.path.rstrip('/')}/{message_id}"
    target = urlunsplit((url.scheme, url.netloc, path, url.query, ""))
    return Request("DELETE", target, _headers("Bearer", token.reveal(), agent))


@dataclass(frozen=True, slots=True)
class _Tenant:
    """A tenant's URL taken apart; `base` ends without a slash."""

    base: str
    query: tuple[tuple[str, str], ...]


@lru_cache(maxsize=256)  # asked for with every request; a process has few tenants
def _tenant(url: str) -> _Tenant:
    parts = urlsplit(url)
    base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return _Tenant(base, tuple(parse_qsl(parts.query, keep_blank_values=True)))


def _headers(
    scheme: str, token: str, agent: str, *, content_type: str = "application/json"
) -> dict[str, str]:
    return {
        "Authorization": f"{scheme} {token}",
        "Content-Type": content_type,
        "User-Agent": agent,
    }


def _labels(names: Sequence[str]) -> list[dict[str, str]]:
    return [{"type": LABEL_TYPE, "name": name} for name in names]


def _setting(disable_update: bool) -> dict[str, bool]:
    return {"disableUpdate": True} if disable_update else {}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
