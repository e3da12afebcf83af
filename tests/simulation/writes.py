"""Who wrote what: every change of the API server's store with the user who made it.

The judges need both the object before and after, and the writer; the server's own audit knows
requests, not objects. So the operations of the embedded server are wrapped: while one runs,
the changes it makes are its caller's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from runnerscale.apiserver.change_log import Change, ChangeType
from runnerscale.apiserver.record import Json, Key, Record, decode_object
from runnerscale.apiserver.server import ApiServer

NOBODY = "the server itself"
# What the trace says of a write beside its object. No messages: they hold what differs between
# two plays of one seed, as the path of a folder.
TOLD: Mapping[str, tuple[str, ...]] = {
    "ephemeralrunners.actions.github.com": ("status", "phase"),
    "ephemeralrunnersets.actions.github.com": ("spec", "replicas"),
    "events": ("reason",),
    "pods": ("status", "phase"),
}


@dataclass(frozen=True, slots=True)
class Write:
    """One stored change. `before` None: created; `after` None: gone for good."""

    by: str
    resource: str
    namespace: str
    name: str
    uid: str
    before: Json | None
    after: Json | None
    text: str = ""  # the object as it is stored

    @property
    def begins_deletion(self) -> bool:
        """Whether this is the write that decides that the object goes."""
        was = self.before is None or bool(self.before["metadata"].get("deletionTimestamp"))
        return not was and (
            self.after is None or bool(self.after["metadata"].get("deletionTimestamp"))
        )

    @property
    def verb(self) -> str:
        """In the words of the trace; `delete` decides that it goes, `remove` is its end."""
        if self.after is not None and self.begins_deletion:
            return "delete"
        return "create" if self.before is None else "remove" if self.after is None else "update"

    @property
    def version(self) -> str:
        """The object's resourceVersion by this write, or the last one that it had."""
        return str((self.after or self.before or {"metadata": {}})["metadata"]["resourceVersion"])

    @property
    def change(self) -> str:
        """`: before -> after` of the field that tells most of such an object, if there is one."""
        path = TOLD.get(self.resource, ())
        was, now = _at(self.before, path), _at(self.after, path)
        if not path or self.after is None or was == now:
            return ""
        return f": {now}" if was in (None, "") else f": {was} -> {now}"

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name}{self.change}"


def _at(found: Any, path: Sequence[str]) -> Any:
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


class Writes:
    """Hands every write of one API server to the listeners."""

    def __init__(self, server: ApiServer, hear: Callable[[Write], None]) -> None:
        self._by = NOBODY
        self._hear = hear
        self._decoded: dict[Key, tuple[Record, Json]] = {}  # the last write of each object
        operations: Any = server.operations
        for name in ("create", "patch", "replace"):
            setattr(operations, name, self._wrapped(getattr(operations, name)))
        deletion: Any = server.deletion
        deletion.delete = self._wrapped(deletion.delete)
        server.store.on_change(self._changed)

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            caller = next((a for a in (*arguments, *named.values()) if hasattr(a, "user")), None)
            before = self._by
            if caller is not None and before == NOBODY:
                self._by = caller.user.name
            try:
                return method(*arguments, **named)
            finally:
                self._by = before

        return call

    def _changed(self, change: Change) -> None:
        resource, namespace, name = change.record.key
        gone = change.type is ChangeType.DELETED
        before = change.before or (change.record if gone else None)
        was = None if before is None else self._object(before)
        now = None if gone else decode_object(change.record.data)
        if now is None:
            self._decoded.pop(change.record.key, None)
        else:
            self._decoded[change.record.key] = change.record, now
        self._hear(
            Write(
                by=self._by,
                resource=resource,
                namespace=namespace,
                name=name,
                uid=change.record.uid,
                before=was,
                after=now,
                text="" if gone else change.record.data.decode(),
            )
        )

    def _object(self, record: Record) -> Json:
        known = self._decoded.get(record.key)
        return known[1] if known and known[0] is record else decode_object(record.data)
