"""What a write means: create, replace, patch and delete of one object, for every kind.

Synchronous from the first read to the store, so no other write can come in between: nothing
here awaits. Durability (waiting for the journal) and HTTP are the caller's. The rules of
single kinds are `builtin_rules.py`, `schema.py` and `admission.py`; deletion is
`deletion.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runnerscale.apiserver import metadata
from runnerscale.apiserver.admission import Admission, Attributes
from runnerscale.apiserver.bodies import not_registered, shape, strict_failure, unknown_texts
from runnerscale.apiserver.builtin_kinds import CRD_GROUP, RBAC
from runnerscale.apiserver.builtin_rules import NO_RULES, RULES
from runnerscale.apiserver.crds import accepted_status
from runnerscale.apiserver.failures import (
    ApiFailure,
    FieldError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    no_unique_name,
    not_found,
    wrong,
)
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.pod_defaults import quality_of_service
from runnerscale.apiserver.rbac import Authorizer, User
from runnerscale.apiserver.record import Record, encode_json
from runnerscale.apiserver.schema import ABSENT
from runnerscale.apiserver.store import Store, Table
from runnerscale.apiserver.write_rules import (
    custom_errors,
    is_last_update,
    keep_system_fields,
    new_uid,
    wish,
    with_status_rules,
    wrong_uid,
)
from runnerscale.core.clock import Clock, format_time
from runnerscale.core.randomness import Random, name_suffix

Json = dict[str, Any]

GENERATE_TRIES_MAX = 8
GENERATED_BASE_MAX = 58


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the query of a write says."""

    dry_run: bool = False
    field_validation: str = "Warn"  # Strict, Warn, Ignore
    # Of a patch, for the words of a strict refusal: what it repeats, or empty for the object.
    patch: str | None = None


@dataclass(slots=True)
class Written:
    """The outcome: the object as it is now, and what to warn of."""

    data: bytes
    record: Record | None = None  # None: nothing was stored (dry run), or it is gone
    created: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom a write is done."""

    user: User
    options: WriteOptions = WriteOptions()


SYSTEM = Caller(User("system:apiserver", ("system:masters",)))


class Operations:
    """Writes to the store by the rules of the kinds."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        authorizer: Authorizer,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        """`on_namespace_created` is set by who fills new namespaces."""
        self.store = store
        self.admission = admission
        self._authorizer = authorizer
        self._clock = clock
        self._random = random
        self._second = -1
        self._now = ""
        self.on_namespace_created: Callable[[str], None] = lambda _name: None

    def now(self) -> str:
        """The time as it is stored; formatted once a second."""
        second = int(self._clock.now_s())
        if second != self._second:
            self._second, self._now = second, format_time(second)
        return self._now

    def now_s(self) -> float:
        """Wall time."""
        return self._clock.now_s()

    def table(self, kind: Kind) -> Table:
        """The objects of a kind."""
        return self.store.table(kind.resource, kind.selectable)

    def get(self, kind: Kind, namespace: str, name: str) -> Record:
        """One object.

        Raises:
            ApiFailure: 404.
        """
        record = self.table(kind).get(namespace if kind.namespaced else "", name)
        if record is None:
            raise not_found(kind.group, kind.plural, name)
        return record

    # --- create -----------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, raw: Json, caller: Caller) -> Written:
        """Store a new object.

        Raises:
            ApiFailure: 400, 403, 404 (namespace), 409, 422.
        """
        raw["kind"], raw["apiVersion"] = kind.kind, kind.api_version
        obj, warnings = self._shaped(kind, raw, caller.options)
        meta = obj["metadata"]
        self._place(kind, namespace, meta)
        prefix = meta.get("generateName") or ""
        generated = bool(prefix) and not meta.get("name")
        if kind.namespaced:
            shown = meta.get("name") or ""
            self.admission.check_namespace(kind, namespace, shown)
        tries = GENERATE_TRIES_MAX if generated else 1
        for _ in range(tries):
            if generated:
                meta["name"] = prefix[:GENERATED_BASE_MAX] + name_suffix(self._random)
            if self.table(kind).get(namespace, meta.get("name") or "") is None:
                return self._create_named(kind, namespace, obj, caller, warnings)
        name = meta["name"]
        if generated:
            raise no_unique_name(kind.group, kind.plural, name)
        # What is wrong with the object is said before that its name is taken.
        self._prepare_create(kind, namespace, obj, caller)
        raise already_exists(kind.group, kind.plural, name)

    def _shaped(self, kind: Kind, raw: Json, options: WriteOptions) -> tuple[Json, list[str]]:
        strict_patch = options.patch is not None and options.field_validation == "Strict"
        shown = (options.patch or encode_json(raw).decode()) if strict_patch else ""
        obj, unknown = shape(kind, raw)
        if not unknown or options.field_validation == "Ignore":
            return obj, []
        if options.field_validation == "Strict":
            if strict_patch:
                text = "strict decoding error: " + ", ".join(unknown_texts(unknown))
                raise invalid("", "", "", [wrong("patch", shown, text)])
            raise bad_request(strict_failure(kind, unknown))
        return obj, unknown_texts(unknown)

    def _place(self, kind: Kind, namespace: str, meta: Json) -> None:
        if not kind.namespaced:
            return
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )

    def _create_named(
        self, kind: Kind, namespace: str, obj: Json, caller: Caller, warnings: list[str]
    ) -> Written:
        self._prepare_create(kind, namespace, obj, caller)
        name = obj["metadata"]["name"]
        if caller.options.dry_run:
            return Written(encode_json(obj), created=True, warnings=warnings)
        where = namespace if kind.namespaced else ""
        record = self.store.put(self.table(kind), where, name, obj, kind.selectable)
        if kind.resource == "namespaces":
            self.on_namespace_created(name)
        return Written(record.data, record, created=True, warnings=warnings)

    def _prepare_create(self, kind: Kind, namespace: str, obj: Json, caller: Caller) -> None:
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise ApiFailure(500, "", message)
        meta["uid"] = new_uid(self._random)
        meta["creationTimestamp"] = self.now()
        meta.pop("deletionTimestamp", None)
        meta.pop("deletionGracePeriodSeconds", None)
        if kind.generation:
            meta["generation"] = 1
        rules = RULES.get(kind.resource, NO_RULES)
        rules.default(obj)
        self._first_status(kind, obj)
        self.admission.mutate(kind, obj, namespace)
        if kind.resource == "pods":
            obj["status"]["qosClass"] = quality_of_service(obj["spec"])
        errors = [*rules.check(obj), *metadata.check_metadata(kind, meta)]
        errors += custom_errors(kind, obj, ABSENT)
        if errors:
            raise invalid(kind.group, kind.kind, meta.get("name") or "", errors)
        self._check_grants(kind, obj, None, namespace, caller)
        self.admission.check(
            Attributes(
                "CREATE",
                kind,
                "",
                namespace,
                meta["name"],
                obj,
                None,
                caller.user.name,
                caller.options.dry_run,
            )
        )

    def _first_status(self, kind: Kind, obj: Json) -> None:
        """Nobody but the server gives a new object its status."""
        if kind.resource == "pods":
            obj["status"] = {"phase": "Pending"}
        elif kind.resource == "namespaces":
            obj["status"] = {"phase": "Active"}
        elif kind.resource == "persistentvolumeclaims":
            obj["status"] = {"phase": "Pending"}
        elif kind.group == CRD_GROUP:
            obj.pop("status", None)
            if not RULES[kind.resource].check(obj):
                obj["status"] = accepted_status(obj, self.now())
        elif kind.resource == "resourcequotas":
            obj["status"] = {}
        elif kind.has_status and kind.resource != "nodes":
            obj.pop("status", None)

    def _check_grants(
        self, kind: Kind, obj: Json, old: Json | None, namespace: str, caller: Caller
    ) -> None:
        """Nobody grants rights that they do not hold."""
        if kind.group != RBAC:
            return
        if kind.plural in ("roles", "clusterroles"):
            if old is None or old.get("rules") != obj.get("rules"):
                self._authorizer.check_escalation(caller.user, kind, obj, namespace)
        elif old is None or old.get("subjects") != obj.get("subjects"):
            self._authorizer.check_bind(caller.user, kind, obj, namespace)

    # --- replace and patch ------------------------------------------------------------------

    def replace(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        raw: Json,
        caller: Caller,
        *,
        subresource: str = "",
    ) -> Written:
        """PUT.

        Raises:
            ApiFailure: 400, 403, 404, 409, 422.
        """
        meta = raw.get("metadata")
        given = meta.get("name") if isinstance(meta, dict) else None
        if given and given != name:
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({name})"
            )
        if isinstance(meta, dict) and not given:
            meta["name"] = name
        record = self.table(kind).get(namespace if kind.namespaced else "", name)
        if record is None:
            if kind.create_on_update and not subresource:
                if isinstance(meta, dict):
                    meta.pop("resourceVersion", None)
                    meta.pop("uid", None)
                return self.create(kind, namespace, raw, caller)
            raise not_found(kind.group, kind.plural, name)
        obj, warnings = self._shaped(kind, raw, caller.options)
        self._place(kind, namespace, obj["metadata"])
        version = obj["metadata"].get("resourceVersion") or ""
        if not version and not kind.unconditional_update:
            error = wrong("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(kind.group, kind.plural, name, [error])
        written = self._update(kind, record, obj, caller, subresource)
        written.warnings += warnings
        return written

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        apply: Callable[[Json], Json],
        caller: Caller,
        *,
        subresource: str = "",
    ) -> Written:
        """PATCH; `apply` makes the new object of the present one.

        Raises:
            ApiFailure: 400, 403, 404, 409, 422.
        """
        record = self.get(kind, namespace, name)
        old = record.object()
        patched = apply(old)
        meta = patched.get("metadata")
        if not isinstance(meta, dict):
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be"
                " provided"
            )
        if meta.get("name") != name:
            raise bad_request(
                f"the name of the object ({meta.get('name')}) does not match the name on the URL"
                f" ({name})"
            )
        _check_same_type(kind, patched)
        if meta.get("uid") not in (None, record.uid):
            error = wrong("metadata.uid", meta["uid"], "field is immutable")
            raise invalid(kind.group, kind.kind, name, [error, error])  # Kubernetes asks twice
        try:
            obj, warnings = self._shaped(kind, patched, caller.options)
        except ApiFailure as failure:
            if failure.code != 400:
                raise
            # The patch reads well, but what it makes of the object does not.
            shown = encode_json(patched).decode()
            why = failure.message.partition(f" cannot be handled as a {kind.kind}: ")[2]
            error = wrong("patch", shown, why or failure.message)
            raise invalid("", "", "", [error]) from None
        self._place(kind, namespace, obj["metadata"])
        written = self._update(kind, record, obj, caller, subresource)
        written.warnings += warnings
        return written

    def _update(
        self, kind: Kind, record: Record, obj: Json, caller: Caller, subresource: str
    ) -> Written:
        old = record.object()
        self._check_preconditions(kind, record, obj["metadata"])
        obj = with_status_rules(kind, obj, old, subresource)
        meta, old_meta = obj["metadata"], old["metadata"]
        keep_system_fields(meta, old_meta)
        rules = RULES.get(kind.resource, NO_RULES)
        if not subresource or kind.resource == "nodes":
            rules.default(obj)
        meta["resourceVersion"] = old_meta["resourceVersion"]
        if obj == old:
            return Written(record.data, record)
        self._check_update(kind, obj, old, subresource)
        if kind.generation and wish(obj) != wish(old):
            meta["generation"] = old_meta.get("generation", 0) + 1
        self._check_grants(kind, obj, old, record.namespace, caller)
        user, dry_run = caller.user.name, caller.options.dry_run
        self.admission.check(
            Attributes(
                "UPDATE",
                kind,
                subresource,
                record.namespace,
                record.name,
                obj,
                old,
                user,
                dry_run,
            )
        )
        if dry_run:
            return Written(encode_json(obj))
        if is_last_update(kind, obj):
            self.store.remove(self.table(kind), record)
            return Written(encode_json(obj))
        stored = self.store.put(
            self.table(kind), record.namespace, record.name, obj, kind.selectable
        )
        return Written(stored.data, stored)

    def _check_preconditions(self, kind: Kind, record: Record, meta: Json) -> None:
        uid = meta.get("uid")
        if uid and uid != record.uid:
            raise wrong_uid(kind, record, uid)
        version = meta.get("resourceVersion") or ""
        if version and version != str(record.version):
            raise conflict(kind.group, kind.plural, record.name)

    def _check_update(self, kind: Kind, obj: Json, old: Json, subresource: str) -> None:
        meta = obj["metadata"]
        rules = RULES.get(kind.resource, NO_RULES)
        errors: list[FieldError] = []
        if not subresource:
            errors += rules.check_update(obj, old)
            if kind.resource != "pods":
                errors += rules.check(obj)
        errors += metadata.check_metadata_update(meta, old["metadata"])
        if kind.custom:  # Kubernetes asks twice, and clients count causes
            errors += list(errors)
        errors += custom_errors(kind, obj, old, subresource)
        if errors:
            raise invalid(kind.group, kind.kind, meta.get("name") or "", errors)

    def store_object(self, kind: Kind, record: Record, obj: Json) -> Record:
        """A write of the server itself, past all rules (finalizers, status of quotas)."""
        return self.store.put(self.table(kind), record.namespace, record.name, obj, kind.selectable)


def _check_same_type(kind: Kind, patched: Json) -> None:
    """A patch may not make another kind of an object."""
    found_kind, found_version = patched.get("kind"), patched.get("apiVersion")
    if (found_kind, found_version) == (kind.kind, kind.api_version):
        return
    if not kind.custom:
        shown = encode_json(patched).decode()
        raise invalid(
            "", "", "", [wrong("patch", shown, not_registered(found_kind, found_version))]
        )
    errors = []
    if found_kind != kind.kind:
        errors.append(wrong("kind", found_kind, f"must be {kind.kind}"))
    if found_version != kind.api_version:
        errors.append(wrong("apiVersion", found_version, f"must be {kind.api_version}"))
    group = str(found_version).rpartition("/")[0]
    name = patched["metadata"].get("name") or ""
    raise invalid(group, str(found_kind or ""), name, errors)
