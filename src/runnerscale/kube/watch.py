"""What travels in lists and watches, decoded from bytes. Pure.

A typed event is decoded in one pass. Only when that fails is the envelope decoded again with
the object kept raw: then a bookmark (whose body is mostly nulls) is still a bookmark, and an
object that does not fit its type becomes `Poisoned` with whatever of its identity can be
read, so that the stream goes on. What follows an error or a cut is `informer.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from runnerscale.kube.depth import CUT, DEPTH_MAX, TOO_DEEP, cut_below
from runnerscale.kube.errors import ApiError, BadAnswer
from runnerscale.kube.objects import KubeObject
from runnerscale.kube.raw import raw_copier
from runnerscale.kube.resource import Resource
from runnerscale.kube.status import error_from_watch

T = TypeVar("T", bound=KubeObject)
REASON_MAX = 300  # a decoder's complaint names the path; more is noise
ENVELOPE_LEVELS = 3  # of a list or a watch event, around the object
# What a decoder raises for bytes that it cannot make sense of; the last for too many brackets.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Added(Generic[T]):
    """An object came into view."""

    object: T


@dataclass(frozen=True, slots=True)
class Modified(Generic[T]):
    """An object changed."""

    object: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """An object is gone, or no longer matches the selector; its last state."""

    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing happened up to this version."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The server ends the stream, with a reason; `Gone` means: list again."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Poisoned:
    """An object that does not fit its type. What could be read of its identity, and why not.

    `type` is the event's type; "" when it was found in a list.
    """

    type: str
    key: str
    uid: str
    resource_version: str
    reason: str


WatchEvent = Added[T] | Modified[T] | Deleted[T] | Bookmark | ErrorEvent | Poisoned


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    poisoned: tuple[Poisoned, ...]
    resource_version: str
    continue_token: str


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Identity(msgspec.Struct, rename="camel"):
    name: Any = None
    namespace: Any = None
    uid: Any = None
    resource_version: Any = None


class _Identified(msgspec.Struct):
    metadata: _Identity = msgspec.field(default_factory=_Identity)


_raw_event = msgspec.json.Decoder(_RawEvent)
_raw_list = msgspec.json.Decoder(_RawList)
_identified = msgspec.json.Decoder(_Identified)


class ResourceDecoder(Generic[T]):
    """Decodes objects, list pages and watch lines of one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        """Compile the decoders once; the client keeps them per resource."""
        self.resource = resource
        kind: Any = resource.type
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._event: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(_Event[kind])
        self._list: msgspec.json.Decoder[_List[T]] = msgspec.json.Decoder(_List[kind])
        self._copy_raw: Callable[[Any], None] | None = raw_copier(kind)

    def object(self, body: bytes | msgspec.Raw) -> T:
        """One object.

        Raises:
            BadAnswer: it is not JSON, or does not fit the type.
        """
        try:
            return self._finish(self._object.decode(body))
        except UNREADABLE as error:
            kind = self.resource.kind
            raise BadAnswer(f"cannot read this {kind}: {str(error)[:REASON_MAX]}") from error

    def page(self, body: bytes) -> Page[T]:
        """One page of a list; an object that does not fit is reported and the rest still comes.

        Raises:
            BadAnswer: it is not a list.
        """
        try:
            page = self._list.decode(body)
            items = [self._finish(item) for item in page.items or ()]
        except (msgspec.ValidationError, RecursionError):
            return self._page_one_by_one(body)
        except UNREADABLE as error:
            raise self._not_a_list(error) from error
        return _page(items, (), page.metadata)

    def line(self, line: bytes) -> WatchEvent[T]:
        """One line of a watch.

        Raises:
            BadAnswer: the line is not an event at all.
        """
        try:
            event = self._event.decode(line)
            match event.type:
                case "ADDED":
                    return Added(self._finish(event.object))
                case "MODIFIED":
                    return Modified(self._finish(event.object))
                case "DELETED":
                    return Deleted(self._finish(event.object))
                case "BOOKMARK":
                    return Bookmark(event.object.metadata.resource_version or "")
        except (msgspec.ValidationError, RecursionError) as error:
            return self._doubtful_line(line, error)
        except UNREADABLE as error:
            raise BadAnswer(f"not a watch event: {str(error)[:REASON_MAX]}") from error
        return self._doubtful_line(line, None)

    def _doubtful_line(self, line: bytes, why: Exception | None) -> WatchEvent[T]:
        try:
            event = _raw_event.decode(line)
        except RecursionError:
            return self._doubtful_line(_shortened(line), msgspec.ValidationError(TOO_DEEP))
        except UNREADABLE as error:
            raise BadAnswer(f"not a watch event: {str(error)[:REASON_MAX]}") from error
        if event.type == "ERROR":
            return ErrorEvent(error_from_watch(event.object, path=self.resource.path()))
        poisoned = identify(event.object, type=event.type, reason=str(why or "unknown event type"))
        if event.type == "BOOKMARK":
            return Bookmark(poisoned.resource_version)
        return poisoned

    def _page_one_by_one(self, body: bytes) -> Page[T]:
        try:
            page = _raw_list.decode(body)
        except RecursionError:
            return self._page_one_by_one(_shortened(body))
        except UNREADABLE as error:
            raise self._not_a_list(error) from error
        items: list[T] = []
        poisoned: list[Poisoned] = []
        for raw in page.items or ():
            if CUT in bytes(raw):
                poisoned.append(identify(raw, type="", reason=TOO_DEEP))
                continue
            try:
                items.append(self._finish(self._object.decode(raw)))
            except UNREADABLE as error:
                poisoned.append(identify(raw, type="", reason=str(error)))
        return _page(items, poisoned, page.metadata)

    def _not_a_list(self, error: Exception) -> BadAnswer:
        return BadAnswer(f"not a list of {self.resource.plural}: {str(error)[:REASON_MAX]}")

    def _finish(self, item: T) -> T:
        # Items of a list carry neither; whoever refers to an object needs both.
        if not item.kind:
            item.kind = self.resource.kind
        if not item.api_version:
            item.api_version = self.resource.api_version
        if self._copy_raw is not None:
            self._copy_raw(item)
        return item


def identify(raw: msgspec.Raw | bytes, *, type: str, reason: str) -> Poisoned:  # noqa: A002 - the field's word
    """What can be read of an object that does not fit its type."""
    try:
        meta = _identified.decode(raw).metadata
    except UNREADABLE:
        meta = _Identity()
    namespace, name = _text(meta.namespace), _text(meta.name)
    key = f"{namespace}/{name}" if namespace else name
    return Poisoned(type, key, _text(meta.uid), _text(meta.resource_version), reason[:REASON_MAX])


def _shortened(body: bytes) -> bytes:
    return cut_below(body, DEPTH_MAX + ENVELOPE_LEVELS)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _page(items: list[T], poisoned: Sequence[Poisoned], meta: _ListMeta) -> Page[T]:
    return Page(items, tuple(poisoned), meta.resource_version or "", meta.continue_ or "")
