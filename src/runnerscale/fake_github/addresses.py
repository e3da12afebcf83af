"""Which part of GitHub an address means, and which addresses we hand out.

Two forms (contract C2 1.4, 2.15 item 1, Annex A). Hosted: `api.*` serves REST without a
prefix and sends clients to `broker.actions.*` or `pipelines*.actions.*`. GHES: any other host,
REST under `/api/v3`, the service under `/_services/pipelines/{tenant}`. The runner protocol
and the control API are under `/runner` and `/control` on every host. Pure.
"""

from dataclasses import dataclass
from enum import StrEnum

from runnerscale.fake_github.options import HostedBackend

GHES_SERVICE = "/_services/pipelines/"


class Area(StrEnum):
    """The parties behind one server."""

    REST = "rest"
    SERVICE = "service"  # the Actions service, path after /_apis/
    QUEUE = "queue"  # the broker's message queue, path after /scalesets
    RUNNER = "runner"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request belongs; `tenant_id` is what its path says, None: it says nothing."""

    area: Area
    path: str
    tenant_id: str | None = None


def locate(host: str, path: str) -> Place | None:
    """The part of GitHub that `path` on `host` (with or without a port) belongs to."""
    name = host_name(host)
    for prefix, area in (("/runner/", Area.RUNNER), ("/control/", Area.CONTROL)):
        if path.startswith(prefix):
            return Place(area, path[len(prefix) - 1 :])
    if is_api_host(name):
        return Place(Area.REST, path)
    if name.startswith("broker.actions."):
        if path.startswith("/scalesets/"):
            return Place(Area.QUEUE, path[len("/scalesets") :])
        if path.startswith("/rest/_apis/"):
            return Place(Area.SERVICE, path[len("/rest/_apis") :])
        return None
    if name.startswith("pipelines") and ".actions." in name:
        return _in_tenant(path[1:])
    if path.startswith("/api/v3/"):
        return Place(Area.REST, path[len("/api/v3") :])
    if path.startswith(GHES_SERVICE):
        return _in_tenant(path[len(GHES_SERVICE) :])
    return None


def _in_tenant(path: str) -> Place | None:
    tenant_id, found, rest = path.partition("/_apis/")
    if not found or not tenant_id or "/" in tenant_id:
        return None
    return Place(Area.SERVICE, f"/{rest}", tenant_id)


def host_name(host: str) -> str:
    """The host without its port, in lower case."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def is_api_host(name: str) -> bool:
    """Whether this is the API of github.com or of a data-residency host."""
    if not name.startswith("api."):
        return False
    domain = name[len("api.") :]
    return domain in ("github.com", "github.localhost") or domain.endswith(".ghe.com")


def tenant_url(scheme: str, host: str, tenant_id: str, backend: HostedBackend) -> str:
    """Where runner-registration sends a client that asked on `host`."""
    name = host_name(host)
    if not is_api_host(name):
        return f"{scheme}://{host}{GHES_SERVICE}{tenant_id}/"
    domain = name[len("api.") :]
    port = host[len(name) :]
    if domain == "github.com":
        domain = "githubusercontent.com"
    if backend is HostedBackend.BROKER:
        return f"{scheme}://broker.actions.{domain}{port}/rest"
    return f"{scheme}://pipelines.actions.{domain}{port}/{tenant_id}/"


def queue_url(scheme: str, host: str, place: Place, *, scale_set_id: int, session_id: str) -> str:
    """The queue of a session that was opened on `host`."""
    if place.tenant_id is None:
        return f"{scheme}://{host}/scalesets/message"  # live: no query, the token says it all
    url = scale_set_url(scheme, host, place, scale_set_id=scale_set_id, what="message")
    return f"{url}?sessionId={session_id}"


def scale_set_url(scheme: str, host: str, place: Place, *, scale_set_id: int, what: str) -> str:
    """An address of the Actions service about one scale set, as answers on `host` name it."""
    if place.tenant_id is None:
        root = "/rest"  # the broker
    else:
        name = host_name(host)
        hosted = name.startswith("pipelines") and ".actions." in name
        root = f"/{place.tenant_id}" if hosted else f"{GHES_SERVICE}{place.tenant_id}"
    return f"{scheme}://{host}{root}/_apis/runtime/runnerscalesets/{scale_set_id}/{what}"


def moved(url: str, public_url: str) -> str:
    """The same address below another base; without one as it is."""
    if not public_url:
        return url
    return public_url.rstrip("/") + url[url.index("/", url.index("://") + 3) :]
