"""What the node agent asks of the API server beyond the common client: placing a pod."""

from typing import Protocol

from runnerscale.kube.client import Client


class NodeClient(Client, Protocol):
    """`kube.client.KubeClient` is one."""

    async def bind_pod(
        self, namespace: str, name: str, *, node: str, uid: str, timeout_s: float | None = None
    ) -> None:
        """Place a pod on a node. `Conflict` if it has one already, or is another of that name."""
        ...
