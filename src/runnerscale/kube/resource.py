"""Which REST path and which type belong to a kind."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from runnerscale.kube.objects import KubeObject

T = TypeVar("T", bound=KubeObject)

WHOLE = "application/json"
METADATA_ONLY = f"{WHOLE};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{WHOLE}"


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind at one version. `type` decodes it; a slim struct is enough."""

    group: str  # "" for the core group
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True
    accept: str = WHOLE  # the form in which lists are asked for

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """The path before namespaces: `/apis/group/version` or `/api/version`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The REST path of the collection, one object, or one of its subresources."""
        parts = [self.prefix]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)
