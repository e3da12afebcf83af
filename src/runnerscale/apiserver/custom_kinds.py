"""CRD objects in the store become served kinds, and cease to be.

What a CRD means is `crds.py`; this file keeps the registry in step with the store. Deleting
all objects of a kind whose CRD goes is `housekeeping.py`.
"""

from collections.abc import Sequence
from typing import Any

from runnerscale.apiserver.change_log import Change, ChangeType
from runnerscale.apiserver.crds import default_crd, read_crd
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.kinds import Kind, Registry
from runnerscale.apiserver.operations import SYSTEM, Operations
from runnerscale.apiserver.record import Record

Json = dict[str, Any]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class BadDefinition(Exception):
    """A CRD given at start is not acceptable: one sentence."""


class CustomKinds:
    """Follows the CRD table."""

    def __init__(self, registry: Registry, operations: Operations) -> None:
        """Nothing is served before `load`."""
        self._registry = registry
        self._operations = operations
        self._specs: dict[str, Any] = {}
        operations.store.on_change(self._on_change)

    @property
    def _crd_kind(self) -> Kind:
        kind = self._registry.of_resource(CRDS)
        assert kind is not None
        return kind

    def load(self, given: Sequence[Json]) -> None:
        """Serve what is stored, after the CRDs given at start have been created or updated.

        Raises:
            BadDefinition: one of those is wrong.
        """
        for record in list(self._operations.table(self._crd_kind)):
            self._serve(record)
        for crd in given:
            self._ensure(crd)

    def _ensure(self, crd: Json) -> None:
        name = str((crd.get("metadata") or {}).get("name") or "")
        present = self._operations.table(self._crd_kind).get("", name)
        try:
            if present is None:
                self._operations.create(self._crd_kind, "", _copy(crd), SYSTEM)
                return
            wanted = _copy(crd)
            default_crd(wanted)

            def apply(obj: Json) -> Json:
                return {**obj, "spec": wanted["spec"]}

            self._operations.patch(self._crd_kind, "", name, apply, SYSTEM)
        except ApiFailure as failure:
            raise BadDefinition(
                f"CustomResourceDefinition {name or '(without a name)'}: {failure.message};"
                " correct the file and start again"
            ) from None

    def _on_change(self, change: Change) -> None:
        if change.record.key[0] != CRDS:
            return
        if change.type is ChangeType.DELETED:
            self._specs.pop(change.record.name, None)
            self._registry.replace_custom(change.record.name, ())
        else:
            self._serve(change.record)

    def _serve(self, record: Record) -> None:
        obj = record.object()
        if self._specs.get(record.name) == obj["spec"]:
            return
        definition = read_crd(obj)
        if definition.errors:
            return
        self._specs[record.name] = obj["spec"]
        self._registry.replace_custom(record.name, definition.kinds)
        for kind in definition.kinds:
            self._operations.table(kind)  # index what is stored of it


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copy(v) for v in value]
    return value
