"""Collections: selectors, pages of one consistent state, and the versions a reader may ask for.

Pages are cut from a kept snapshot (a list of records, which never change), so that all pages
show the same moment; a snapshot that is gone is 410 with a token to go on from the present.
Watching a collection is `watching.py`.
"""

import base64
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec

from runnerscale.apiserver.failures import (
    bad_request,
    expired,
    invalid,
    not_allowed,
    too_large_version,
    unsupported,
)
from runnerscale.apiserver.go_json import syntax_error
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.plain_values import whole_number
from runnerscale.apiserver.record import Record, encode_json
from runnerscale.apiserver.selectors import Match, combined, parse_fields, parse_labels
from runnerscale.apiserver.store import Store
from runnerscale.core.clock import Clock

Json = dict[str, Any]

SNAPSHOTS_MAX = 64
SNAPSHOT_KEPT_S = 300.0
TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can"
    " start a new list without the continue parameter, or use the continue token in this"
    " response to retrieve the remainder of the results. Continuing with the provided token"
    " results in an inconsistent list - objects that were created, modified, or deleted between"
    " the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind are meant."""

    kind: Kind
    namespace: str  # empty: all of them
    match: Match | None
    only_name: str  # the selector asks for this one name
    selective: bool


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a collection at one version."""

    records: list[Record]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    def meta(self) -> Json:
        """The list's metadata."""
        meta: Json = {"resourceVersion": str(self.version)}
        if self.continue_token:
            meta["continue"] = self.continue_token
            if self.remaining is not None:
                meta["remainingItemCount"] = self.remaining
        return meta


@dataclass(slots=True)
class _Snapshot:
    records: list[Record]
    keys: list[tuple[str, str]]
    last: tuple[str, str]  # of the whole collection, selected or not
    until_s: float


def select(kind: Kind, namespace: str, query: dict[str, str]) -> Selection:
    """The selection that a query means.

    Raises:
        ApiFailure: 400, a selector cannot be read.
    """
    labels = parse_labels(query.get("labelSelector") or "")
    fields, only_name = parse_fields(query.get("fieldSelector") or "", kind)
    match = combined(labels, fields)
    return Selection(kind, namespace, match, only_name, match is not None)


class Lists:
    """Reads collections from the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Snapshots of unfinished lists are kept here, and bounded."""
        self._store = store
        self._clock = clock
        self._snapshots: OrderedDict[tuple[int, str], _Snapshot] = OrderedDict()

    def records(self, selection: Selection) -> list[Record]:
        """All that is selected now, in order."""
        kind = selection.kind
        table = self._store.table(kind.resource, kind.selectable)
        if selection.only_name and (selection.namespace or not kind.namespaced):
            found = table.get(selection.namespace, selection.only_name)
            records = [found] if found is not None else []
        else:
            everywhere = kind.namespaced and not selection.namespace
            records = table.list(selection.namespace, everywhere=everywhere)
        if selection.match is None:
            return records
        return [record for record in records if selection.match(record)]

    def page(self, selection: Selection, query: dict[str, str]) -> Page:
        """The page that a query means.

        Raises:
            ApiFailure: 400, 410, 504.
        """
        limit = _limit(query)
        token = query.get("continue") or ""
        asked = query.get("resourceVersion") or ""
        if token:
            if asked and asked != "0":
                raise bad_request("specifying resource version is not allowed when using continue")
            return self._next_page(selection, query, token, limit)
        version = self._version(selection.kind, query, asked)
        records = self.records(selection)
        if not limit or len(records) < limit:
            return Page(records, version)
        snapshot = self._keep(selection, query, version, records)
        return self._cut(selection, snapshot, 0, version, limit)

    def _version(self, kind: Kind, query: dict[str, str], asked: str) -> int:
        match = query.get("resourceVersionMatch") or ""
        current = self._store.version
        if match:
            _check_match(match, asked)
        if not asked:
            return current
        wanted = parse_version(asked)
        if wanted > current:
            raise too_large_version(wanted, current)
        if match == "Exact" and wanted != current:
            table = self._store.table(kind.resource, kind.selectable)
            if wanted < max(table.revision, table.log.floor):
                raise expired("The resourceVersion for the provided list is too old.")
            return wanted
        return current

    def _keep(
        self, selection: Selection, query: dict[str, str], version: int, records: list[Record]
    ) -> _Snapshot:
        now_s = self._clock.monotonic_s()
        keys = [(r.namespace, r.name) for r in records]
        snapshot = _Snapshot(records, keys, self._last(selection, keys), now_s + SNAPSHOT_KEPT_S)
        self._snapshots[(version, _scope(selection, query))] = snapshot
        while len(self._snapshots) > SNAPSHOTS_MAX:
            self._snapshots.popitem(last=False)
        return snapshot

    def _last(self, selection: Selection, keys: list[tuple[str, str]]) -> tuple[str, str]:
        """Where the collection ends: a full page promises more while it has not come there.

        Whether what is left matches the selector is not known before it was read.
        """
        end = keys[-1] if keys else ("", "")
        if selection.match is None or selection.only_name:
            return end
        kind = selection.kind
        table = self._store.table(kind.resource, kind.selectable)
        everywhere = kind.namespaced and not selection.namespace
        last = table.list(selection.namespace, everywhere=everywhere)[-1:]
        return max([end, *((record.namespace, record.name) for record in last)])

    def _next_page(
        self, selection: Selection, query: dict[str, str], token: str, limit: int
    ) -> Page:
        version, start = _read_token(selection, token)
        if version < 0:  # go on from the present, knowing that it is not consistent
            version = self._store.version
            records = self.records(selection)
            snapshot = self._keep(selection, query, version, records)
        else:
            found = self._snapshots.get((version, _scope(selection, query)))
            if found is None or found.until_s < self._clock.monotonic_s():
                raise expired(TOO_OLD, {"continue": _write_token(selection, -1, start)})
            snapshot = found
        position = bisect_right(snapshot.keys, start)
        return self._cut(selection, snapshot, position, version, limit)

    def _cut(
        self, selection: Selection, snapshot: _Snapshot, position: int, version: int, limit: int
    ) -> Page:
        end = position + limit if limit else len(snapshot.records)
        records = snapshot.records[position:end]
        left = len(snapshot.records) - end
        full = bool(limit) and len(records) == limit
        if not full or snapshot.keys[end - 1] >= snapshot.last:
            return Page(records, version)
        token = _write_token(selection, version, snapshot.keys[end - 1])
        return Page(records, version, token, None if selection.selective else left)


def _scope(selection: Selection, query: dict[str, str]) -> str:
    parts = (
        selection.kind.resource,
        selection.namespace,
        query.get("labelSelector") or "",
        query.get("fieldSelector") or "",
    )
    return "\n".join(parts)


def _limit(query: dict[str, str]) -> int:
    text = query.get("limit") or "0"
    try:
        return max(0, int(text))
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def parse_version(text: str) -> int:
    """A resourceVersion.

    Raises:
        ApiFailure: 400, no number.
    """
    number = whole_number(text)
    if number is None:
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}":'
            f' strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return number


def _check_match(match: str, asked: str) -> None:
    if not asked:
        error = not_allowed(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )
    elif match not in ("Exact", "NotOlderThan"):
        error = unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
    elif match == "Exact" and asked == "0":
        error = not_allowed(
            "resourceVersionMatch",
            'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"',
        )
    else:
        return
    raise invalid("meta.k8s.io", "ListOptions", "", [error])


def _write_token(selection: Selection, version: int, start: tuple[str, str]) -> str:
    """Where to go on; `start` is the last object that was sent."""
    namespace, name = start
    everywhere = selection.kind.namespaced and not selection.namespace
    place = f"{namespace}/{name}" if everywhere else name
    text = encode_json({"v": "meta.k8s.io/v1", "rv": version, "start": f"{place}\0"})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(selection: Selection, token: str) -> tuple[int, tuple[str, str]]:
    text = b""
    try:
        padded = token + "=" * (-len(token) % 4)
        text = base64.urlsafe_b64decode(padded)
        raw = msgspec.json.decode(text)
        version, place = int(raw["rv"]), str(raw["start"]).removesuffix("\0")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, msgspec.DecodeError):
        why = (syntax_error(text) if text else "") or "the token is unreadable"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}") from None
    if selection.kind.namespaced and not selection.namespace:
        namespace, _, name = place.partition("/")
        return version, (namespace, name)
    return version, (selection.namespace, place)
