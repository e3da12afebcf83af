"""Merge, JSON and strategic merge patches: pure functions from an object to a new one.

Which patch type a request means and what may be patched is decided in `operations.py`. The
strategic patch needs the field types of built-in kinds (`builtin_types.py`); CRDs have none,
so it is refused for them, as Kubernetes does.
"""

from copy import deepcopy
from typing import Any

from runnerscale.apiserver.failures import (
    BODY_BYTES_MAX,
    ApiFailure,
    bad_request,
    too_large,
    unprocessable_patch,
)
from runnerscale.apiserver.go_json import type_name
from runnerscale.apiserver.record import encode_json

Json = dict[str, Any]

OPERATIONS_MAX = 10_000  # as Kubernetes
COPIED_BYTES_MAX = BODY_BYTES_MAX  # by all copies of a patch: a few dozen can double endlessly


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386. Neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge_patch(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def json_patch(target: Json, operations: Any) -> Json:
    """RFC 6902. `target` is not changed.

    Raises:
        ApiFailure: 400 the patch is malformed; 422 it does not fit the object.
    """
    if not isinstance(operations, list) or not all(isinstance(o, dict) for o in operations):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {type_name(operations)} into Go value"
            " of type []handlers.jsonPatchOp"
        )
    if len(operations) > OPERATIONS_MAX:
        raise ApiFailure(
            413,
            "RequestEntityTooLarge",
            f"Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {OPERATIONS_MAX}, got {len(operations)}",
        )
    document: Any = deepcopy(target)
    copied = 0
    for operation in operations:
        try:
            if operation.get("op") == "copy":
                copied += len(encode_json(_get(document, _pointer(operation["from"]))))
                if copied > COPIED_BYTES_MAX:
                    raise too_large()
            document = _operate(document, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise unprocessable_patch(str(error)) from None
    if not isinstance(document, dict):
        raise unprocessable_patch("the document is no object any more")
    return document


def _operate(document: Any, operation: Json) -> Any:
    name = operation["op"]
    path = _pointer(operation["path"])
    if name in ("add", "replace", "test"):
        value = deepcopy(operation.get("value"))
        if name == "add":
            return _add(document, path, value)
        if name == "replace":
            return _replace(document, path, value)
        if not _same(_get(document, path), value):
            raise ValueError(f"testing value {operation['path']} failed")
        return document
    if name == "remove":
        return _remove(document, path)
    if name == "move":
        source = _pointer(operation["from"])
        value = _get(document, source)
        return _add(_remove(document, source), path, value)
    if name == "copy":
        return _add(document, path, deepcopy(_get(document, _pointer(operation["from"]))))
    raise ValueError(f"unexpected kind: {name}")


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _pointer(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise ValueError(f"path {text} does not start with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[_index(part)] if isinstance(document, list) else document[part]
    return document


def _index(part: str) -> int:
    if not part.isdigit():
        raise ValueError(f"{part} is no index of a list")
    return int(part)


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        place = len(parent) if path[-1] == "-" else _index(path[-1])
        if place > len(parent):
            raise IndexError(f"index {place} is past the end")
        parent.insert(place, value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise ValueError("the parent is neither object nor list")
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1])] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value  # also where nothing is: Kubernetes takes it for `add`
    else:
        raise ValueError("the parent is neither object nor list")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        raise ValueError("the whole document cannot be removed")
    parent = _get(document, path[:-1])
    del parent[_index(path[-1]) if isinstance(parent, list) else path[-1]]
    return document
