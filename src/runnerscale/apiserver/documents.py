"""Everything that is served and is no resource: health, version, discovery, OpenAPI, metrics."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

from runnerscale.apiserver import discovery
from runnerscale.apiserver.failures import ApiFailure, no_such_path
from runnerscale.apiserver.kinds import Registry
from runnerscale.apiserver.openapi import OpenApi
from runnerscale.apiserver.paths import Request
from runnerscale.apiserver.record import encode_json

Document = tuple[bytes, str]  # body, content type

_HEALTH = ("/healthz", "/livez", "/readyz")
# The older form of /openapi/v3 without any content: kubectl asks for it about unknown kinds.
NO_DOCUMENT = b"\x0a\x032.0"  # a Document whose field 1, its version, is "2.0"
PROTO_OPENAPI = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class Documents:
    """Bodies by path."""

    def __init__(
        self,
        registry: Registry,
        *,
        address: Callable[[], str],
        healthy: Callable[[], str],
        metrics: CollectorRegistry | None,
    ) -> None:
        """`healthy`: empty, or why not."""
        self._registry = registry
        self._openapi = OpenApi(registry)
        self._address = address
        self._healthy = healthy
        self._metrics = metrics

    def get(self, request: Request, accept: str) -> Document:
        """The document at a path.

        Raises:
            ApiFailure: 404, or 500 from an unhealthy server.
        """
        path = request.path.rstrip("/") or "/"
        if path.startswith(_HEALTH):
            return self._health()
        if path == "/version":
            return encode_json(discovery.VERSION), JSON
        if path in ("/api", "/apis"):
            return self._groups(path, accept)
        if path.startswith(("/api/", "/apis/")):
            return self._resources(path)
        if path == "/openapi/v3":
            return self._openapi.index(), JSON
        if path == "/openapi/v2":
            return NO_DOCUMENT, PROTO_OPENAPI
        if path.startswith("/openapi/v3/"):
            found = self._openapi.document(path.removeprefix("/openapi/v3/"))
            if found is not None:
                return found, JSON
        if path == "/metrics" and self._metrics is not None:
            return generate_latest(self._metrics), "text/plain; version=0.0.4; charset=utf-8"
        raise no_such_path()

    def _health(self) -> Document:
        why = self._healthy()
        if why:
            raise ApiFailure(500, "InternalError", why)
        return b"ok", TEXT

    def _groups(self, path: str, accept: str) -> Document:
        if "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", ""):
            body = discovery.aggregated(self._registry, core=path == "/api")
            return encode_json(body), discovery.AGGREGATED_TYPE
        if path == "/api":
            return encode_json(discovery.core_versions(self._address())), JSON
        return encode_json(discovery.group_list(self._registry)), JSON

    def _resources(self, path: str) -> Document:
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) == 2:
            body = discovery.resource_list(self._registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            body = discovery.group(self._registry, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            body = discovery.resource_list(self._registry, parts[1], parts[2])
        else:
            body = None
        if body is None:
            raise no_such_path()
        return encode_json(body), JSON
