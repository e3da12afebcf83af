"""`pods/log`: the server asks the node, the node has the lines.

Where the node listens is in its own object (address and kubelet port). The session that
carries the question is handed in, so a virtual network can stand in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp

from runnerscale.apiserver.failures import ApiFailure, bad_request, internal, not_found
from runnerscale.apiserver.paths import is_true
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.store import Store
from runnerscale.core.secret import SecretText

Json = dict[str, Any]

CONNECT_TIMEOUT_S = 10.0
REFUSAL_BYTES_MAX = 1000
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_PASSED_ON = (
    "follow",
    "tailLines",
    "timestamps",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "limitBytes",
)


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where the lines are."""

    url: str
    follow: bool


class PodLogs:
    """Finds the node of a pod and opens its log."""

    def __init__(
        self,
        store: Store,
        session: Callable[[], aiohttp.ClientSession],
        token: SecretText,
    ) -> None:
        """`session`: makes the client session at first use; `token`: what nodes ask for."""
        self._store = store
        self._make_session = session
        self._session: aiohttp.ClientSession | None = None
        self._token = token

    def locate(self, pod: Record, query: dict[str, str]) -> LogSource | None:
        """Which log is meant; None: of a pod that nobody runs yet, so it is empty.

        Raises:
            ApiFailure: 400 about the container or the pod, 404 or 500 about the node.
        """
        obj = pod.object()
        container = _container(obj, query.get("container") or "")
        node_name = (obj.get("spec") or {}).get("nodeName")
        if not node_name:
            return None
        node = self._store.table("nodes").get("", node_name)
        if node is None:
            raise not_found("", "pods", node_name)  # as Kubernetes says it
        status = node.object().get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or ()}
        host = addresses.get("InternalIP") or addresses.get("Hostname")
        if not port or not host:
            raise internal(f"node {node_name} says no address to read logs from")
        passed = urlencode({k: query[k] for k in _PASSED_ON if k in query})
        path = f"/containerLogs/{pod.namespace}/{pod.name}/{container}"
        follow = "follow" in query and is_true(query["follow"])
        return LogSource(f"http://{host}:{port}{path}{'?' + passed if passed else ''}", follow)

    async def open(self, source: LogSource) -> aiohttp.ClientResponse:
        """The node's answer, its body still to be read.

        Raises:
            ApiFailure: what the node said, or 500 when it cannot be reached.
        """
        if self._session is None:
            self._session = self._make_session()
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=None if source.follow else 60.0
        )
        headers = {"Authorization": f"Bearer {self._token.reveal()}"}
        try:
            response = await self._session.get(source.url, headers=headers, timeout=timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise internal(
                f"the node cannot be asked for the log: {type(error).__name__}"
            ) from None
        if response.status != 200:
            said = await response.content.read(REFUSAL_BYTES_MAX)
            text = said.decode(errors="replace").strip()
            response.close()
            if response.status == 404:
                raise ApiFailure(404, "NotFound", text or "the node has no such log")
            if response.status == 400:
                raise bad_request(text)
            raise internal(f"the node answered {response.status}: {text}")
        return response

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _container(obj: Json, asked: str) -> str:
    spec, meta = obj.get("spec") or {}, obj["metadata"]
    names = [c["name"] for c in spec.get("containers") or ()]
    init = [c["name"] for c in spec.get("initContainers") or ()]
    if asked:
        if asked not in names and asked not in init:
            raise bad_request(f"container {asked} is not valid for pod {meta['name']}")
        return asked
    preferred = (meta.get("annotations") or {}).get(DEFAULT_CONTAINER)
    if preferred in names:
        return str(preferred)
    if len(names) == 1:
        return str(names[0])
    choices = f"[{' '.join(names)}]"
    if init:
        choices += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(
        f"a container name must be specified for pod {meta['name']}, choose one of: {choices}"
    )
