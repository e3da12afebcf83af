"""Which resource types are served: one `Kind` each, and the registry that finds them.

Built-in kinds are listed in `builtin_kinds.py`; `crds.py` makes a Kind of a
CustomResourceDefinition. What may be done with objects of a kind is decided by the rules of
`operations.py` from the facts here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnerscale.apiserver.schema import Schema

Json = dict[str, Any]

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a printed table, read from the object by a JSONPath."""

    name: str
    type: str
    json_path: str
    description: str = ""
    priority: int = 0
    format: str = ""


@dataclass(eq=False, slots=True)
class Kind:
    """One resource type at one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()  # "status", "log", ...
    type_name: str = ""  # of `builtin_types.json`; empty for kinds that a CRD defines
    schema: "Schema | None" = None  # of a CRD
    columns: tuple[Column, ...] = ()  # of a CRD
    selectable: dict[str, str] = field(default_factory=dict)  # field selector: JSON path
    generation: bool = False  # metadata.generation counts changes of what is wished
    unconditional_update: bool = True  # PUT without resourceVersion is allowed
    create_on_update: bool = False  # PUT of an unknown name creates
    returns_deleted: bool = False  # DELETE answers with the object rather than a Status
    crd_name: str = ""
    resource: str = ""  # its table in the store: `pods`, `leases.coordination.k8s.io`

    def __post_init__(self) -> None:
        """Fill the names that follow from others."""
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.resource = f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Status is written only through its own subresource."""
        return "status" in self.subresources

    @property
    def custom(self) -> bool:
        """Defined by a CRD."""
        return bool(self.crd_name)


class Registry:
    """All kinds that are served now."""

    def __init__(self, builtin: Sequence[Kind]) -> None:
        """Start with the built-in ones."""
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self.revision = 0  # moves on with every change, for those who cache documents
        for kind in builtin:
            self._kinds[(kind.group, kind.version, kind.plural)] = kind

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind at a path."""
        return self._kinds.get((group, version, plural))

    def of_resource(self, resource: str) -> Kind | None:
        """The kind stored in a table, at any of its versions."""
        plural, _, group = resource.partition(".")
        for kind in self._kinds.values():
            if kind.plural == plural and kind.group == group:
                return kind
        return None

    def of_reference(self, api_version: str, kind_name: str) -> Kind | None:
        """The kind that an owner reference means; another version of its group will do."""
        group = api_version.rpartition("/")[0]
        for kind in self._kinds.values():
            if kind.kind == kind_name and kind.group == group:
                return kind
        return None

    def all(self) -> Iterator[Kind]:
        """Every kind, in the order of registration."""
        return iter(self._kinds.values())

    def stored(self) -> Iterator[Kind]:
        """One kind for each table of the store."""
        seen: set[str] = set()
        for kind in self._kinds.values():
            if "get" in kind.verbs and kind.resource not in seen:
                seen.add(kind.resource)
                yield kind

    def groups(self) -> dict[str, list[str]]:
        """Each group's versions; the core group is the empty name."""
        groups: dict[str, list[str]] = {}
        for kind in self._kinds.values():
            versions = groups.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return groups

    def of_version(self, group: str, version: str) -> list[Kind]:
        """The kinds of one group and version."""
        return [k for k in self._kinds.values() if k.group == group and k.version == version]

    def replace_custom(self, crd_name: str, kinds: Sequence[Kind]) -> None:
        """Serve these kinds for a CRD (none: serve it no longer)."""
        kept = {k: v for k, v in self._kinds.items() if v.crd_name != crd_name}
        for kind in kinds:
            kept[(kind.group, kind.version, kind.plural)] = kind
        self._kinds = kept
        self.revision += 1
