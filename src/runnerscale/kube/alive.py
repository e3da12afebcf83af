"""An object is there still: asked before something is made for it that it cannot own.

What lies at GitHub, or in a namespace that is not the owner's, no garbage collector takes away.
Made on an old view, for an object that is gone by now, it would stay for good.
"""

from typing import TypeVar

from runnerscale.kube.client import Client
from runnerscale.kube.errors import Conflict, NotFound
from runnerscale.kube.objects import KubeObject, is_deleting
from runnerscale.kube.resource import Resource

T = TypeVar("T", bound=KubeObject)


async def confirm_alive(
    client: Client, resource: Resource[T], namespace: str, name: str, *, uid: str | None
) -> None:
    """Read it from the server, past every cache.

    Raises:
        Conflict: it is going or gone, or another of that name.
        KubeError: the server did not say.
    """
    try:
        item = await client.get(resource, namespace, name)
    except NotFound:
        item = None
    if item is None or item.metadata.uid != uid or is_deleting(item):
        what = f"{resource.kind} {namespace}/{name}"
        raise Conflict(409, "Conflict", f"{what} is going or gone")
