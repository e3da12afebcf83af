"""INTERFACE DRAFT, to be filled by the owner of kube/: signatures are agreed, bodies are not."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from runnerscale.kube.objects import KubeObject
from runnerscale.kube.resource import Resource

T = TypeVar("T", bound=KubeObject)


class PatchType(StrEnum):
    """The content type of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A whole collection, all pages, at one version."""

    items: list[T]
    resource_version: str


class Client(Protocol):
    """What controllers, listener and node agent may ask of the API server.

    Every method raises only errors of `kube.errors`. `timeout_s` bounds the whole call, waits
    and retries included; None takes the client's default (30 s).
    """

    async def get(
        self, resource: Resource[T], namespace: str, name: str, *, timeout_s: float | None = None
    ) -> T: ...

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float | None = None,
    ) -> Listed[T]: ...

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> T: ...

    async def patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        body: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> T: ...

    async def delete(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
        propagation: str | None = None,
        timeout_s: float | None = None,
    ) -> T | None:
        """The object as it is now being deleted, or None when it is already gone."""
        ...

    async def create_token(
        self,
        namespace: str,
        service_account: str,
        *,
        expiration_s: int = 3600,
        timeout_s: float | None = None,
    ) -> str: ...

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float = 300.0,
    ) -> AsyncIterator[Any]:
        """Events of `kube.watch` (Added, Modified, Deleted, Bookmark, Poisoned)."""
        ...
