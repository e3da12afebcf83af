"""How an answer looks: plain JSON, a table, or metadata only, as the client asked.

Bytes of stored objects are passed on as they are; only tables and partial objects decode.
"""

from dataclasses import dataclass
from typing import Any

from runnerscale.apiserver.failures import ApiFailure, not_acceptable
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.lists import Page
from runnerscale.apiserver.record import decode_object, encode_json
from runnerscale.apiserver.tables import partial_metadata, table

Json = dict[str, Any]

TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Form:
    """What the Accept header and the query ask for."""

    form: str = ""  # "", Table, PartialObjectMetadata
    include: str = "Metadata"


_PLAIN = Form()


def form_of(accept: str, query: dict[str, str], *, many: bool = False, go_list: str = "") -> Form:
    """The first acceptable form. `many`: of a list, whose Go type a refusal names.

    Raises:
        ApiFailure: 406, none is.
    """
    if "as=" not in accept:
        if not accept or "json" in accept or "*/*" in accept or "application/*" in accept:
            return _PLAIN
        if "yaml" in accept:
            raise _not_acceptable()
        raise _not_acceptable()
    for part in accept.split(","):
        words = [w.strip() for w in part.split(";")]
        parameters = dict(w.split("=", 1) for w in words[1:] if "=" in w)
        wanted = parameters.get("as", "")
        if words[0] not in (JSON_TYPE, "*/*", "application/*"):
            continue
        if wanted == TABLE and parameters.get("v") == "v1":
            return Form(TABLE, query.get("includeObject") or "Metadata")
        if wanted == PARTIAL + ("List" if many else "") and parameters.get("v") == "v1":
            return Form(PARTIAL)
        if wanted == PARTIAL and many:
            raise not_acceptable(
                "you requested PartialObjectMetadata, but the requested object is a list"
                f" ({go_list})"
            )
        if not wanted:
            return _PLAIN
    raise _not_acceptable()


def _not_acceptable() -> ApiFailure:
    return not_acceptable(
        "only the following media types are accepted: application/json, application/yaml,"
        " application/vnd.kubernetes.protobuf"
    )


def render_object(kind: Kind, data: bytes, form: Form, now_s: float) -> bytes:
    """One object."""
    if not form.form:
        return data
    obj = decode_object(data)
    if form.form == PARTIAL:
        return encode_json(partial_metadata(obj))
    meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return encode_json(table(kind, [obj], now_s=now_s, include=form.include, list_meta=meta))


def render_list(kind: Kind, page: Page, form: Form, now_s: float) -> bytes:
    """A collection."""
    meta = page.meta()
    if not form.form:
        if kind.custom:
            meta.setdefault("continue", "")  # a list of no Go type has all its fields
        head = encode_json(
            {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta}
        )
        items = b",".join(_items(kind, page))
        return head[:-1] + b',"items":[' + items + b"]}"
    objects = [record.object() for record in page.records]
    if form.form == PARTIAL:
        body: Json = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "items": [partial_metadata(obj) for obj in objects],
        }
        return encode_json(body)
    return encode_json(table(kind, objects, now_s=now_s, include=form.include, list_meta=meta))


def _items(kind: Kind, page: Page) -> list[bytes]:
    """Items of built-in kinds do not repeat what they are, as in Kubernetes."""
    if kind.custom:
        return [record.data for record in page.records]
    head = b'{"kind":"%s","apiVersion":"%s",' % (kind.kind.encode(), kind.api_version.encode())
    size = len(head)
    return [
        b"{" + record.data[size:] if record.data.startswith(head) else record.data
        for record in page.records
    ]


class EventRenderer:
    """Watch lines in the form asked for; the columns are sent once."""

    def __init__(self, kind: Kind, form: Form) -> None:
        """Plain lines pass through."""
        self._kind = kind
        self._form = form
        self._headers = True

    def line(self, event: str, line: bytes, now_s: float) -> bytes:
        """One line."""
        if not self._form.form or event == "ERROR":
            return line
        obj: Json = decode_object(line)["object"]
        shown: Json
        if self._form.form == PARTIAL:
            shown = partial_metadata(obj)
        elif event == "BOOKMARK":
            shown = table(
                self._kind, [], now_s=now_s, headers=self._headers, list_meta=obj["metadata"]
            )
        else:
            shown = table(
                self._kind,
                [obj],
                now_s=now_s,
                include=self._form.include,
                headers=self._headers,
                list_meta={"resourceVersion": obj["metadata"].get("resourceVersion", "")},
            )
        if event != "BOOKMARK":
            self._headers = False
        return encode_json({"type": event, "object": shown}) + b"\n"
