"""The strategic merge patch of the built-in kinds: lists of named things merge by their key.

A file of its own beside `patch.py`, because it alone needs to know the field types. Follows
the directives `$patch`, `$retainKeys`, `$deleteFromPrimitiveList` and `$setElementOrder`
that kubectl writes.
"""

from copy import deepcopy
from typing import Any

from runnerscale.apiserver.builtin_types import FieldType, types
from runnerscale.apiserver.failures import bad_request

Json = dict[str, Any]

_DELETE_LIST = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_patch(target: Json, patch: Any, type_name: str) -> Json:
    """A new object; `target` is not changed.

    Raises:
        ApiFailure: 400, the patch is no object or a directive makes no sense.
    """
    if not isinstance(patch, dict):
        raise bad_request("the patch must be an object")
    return _merge(deepcopy(target), patch, type_name)


def _fields(type_name: str) -> dict[str, FieldType]:
    return types().get(type_name, {})


def _merge(target: Json, patch: Json, type_name: str) -> Json:
    directive = patch.get("$patch")
    if directive == "replace":
        return {k: deepcopy(v) for k, v in patch.items() if k != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type {directive!r}")
    if "$retainKeys" in patch:
        retained = set(patch["$retainKeys"])
        target = {k: v for k, v in target.items() if k in retained}
    fields = _fields(type_name)
    before = dict(target)
    for name, value in patch.items():
        if name in ("$patch", "$retainKeys") or name.startswith(_ORDER):
            continue
        if name.startswith(_DELETE_LIST):
            _delete_from(target, name[len(_DELETE_LIST) :], value)
        elif value is None:
            target.pop(name, None)
        else:
            target[name] = _merge_value(target.get(name), value, fields.get(name))
    for name, order in patch.items():
        if name.startswith(_ORDER):
            field = name[len(_ORDER) :]
            wanted = fields.get(field)
            if isinstance(target.get(field), list) and wanted is not None:
                old = before.get(field) or []
                target[field] = _ordered(target[field], order, wanted.merge_key, old)
    return target


def _delete_from(target: Json, name: str, values: Any) -> None:
    if isinstance(target.get(name), list):
        target[name] = [item for item in target[name] if item not in values]


def _merge_value(old: Any, new: Any, wanted: FieldType | None) -> Any:
    if isinstance(new, dict):
        base = old if isinstance(old, dict) else {}
        if wanted is not None and wanted.values is not None:
            return _merge_map(base, new, wanted.values)
        return _merge(base, new, wanted.type if wanted is not None else "")
    if isinstance(new, list) and wanted is not None and wanted.merge:
        base_list = old if isinstance(old, list) else []
        if wanted.merge_key:
            item_type = wanted.items.type if wanted.items is not None else ""
            merged = _merge_list(base_list, new, wanted.merge_key, item_type)
            return _ordered(merged, new, wanted.merge_key, base_list)
        merged = base_list + [item for item in dict.fromkeys(new) if item not in base_list]
        return _ordered(merged, new, "", base_list)
    return deepcopy(new)


def _merge_map(base: Json, new: Json, values: FieldType) -> Json:
    if new.get("$patch") == "replace":
        return {k: v for k, v in new.items() if k != "$patch"}
    merged = dict(base)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, values)
    return merged


def _merge_list(base: list[Any], new: list[Any], key: str, item_type: str) -> list[Any]:
    if any(isinstance(i, dict) and i.get("$patch") == "replace" for i in new):
        return [deepcopy(i) for i in new if i.get("$patch") != "replace"]
    merged = list(base)
    for item in new:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        place = next((i for i, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del merged[place]
        elif place is None:
            merged.append(_merge({}, item, item_type))
        else:
            merged[place] = _merge(merged[place], item, item_type)
    return merged


def _ordered(items: list[Any], order: list[Any], key: str, before: list[Any]) -> list[Any]:
    """Items that `order` names in its order, the others where they stood before.

    Between the two, who stood first before comes first; who is new comes first of all.
    """

    def name_of(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    names = [name_of(entry) for entry in order]
    places = {str(name_of(item)): place for place, item in reversed(list(enumerate(before)))}
    by_name = {str(name_of(item)): item for item in items}
    named = [by_name[str(name)] for name in dict.fromkeys(names) if str(name) in by_name]
    others = [item for item in items if name_of(item) not in names]
    result: list[Any] = []
    for other in others:
        place = places.get(str(name_of(other)), len(before))
        while named and places.get(str(name_of(named[0])), -1) < place:
            result.append(named.pop(0))
        result.append(other)
    return result + named
