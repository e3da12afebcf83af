"""The JSONPath of printer columns: `.status.phase`, `.spec.ports[0].name`, filters by equality.

Only what CRDs write there; not a query language. A path that cannot be read finds nothing.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(
    r"""\.?\[\?\(\s*@\.(?P<fkey>[\w.-]+)\s*==\s*(?P<fval>"[^"]*"|'[^']*'|[\w.-]+)\s*\)\]"""
    r"""|\.?\[(?P<index>-?\d+|\*)\]"""
    r"""|\.?\[(?P<quoted>'[^']*'|"[^"]*")\]"""
    r"""|\.(?P<key>(?:[^.\[\]\\]|\\.)+)"""
)


@lru_cache(maxsize=1024)
def compile_path(path: str) -> tuple[tuple[str, str, str], ...]:
    """Steps of a path: (what, key, value)."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = text.removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[tuple[str, str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return (("nothing", "", ""),)
        position = match.end()
        if match["fkey"] is not None:
            steps.append(("filter", match["fkey"], match["fval"].strip("\"'")))
        elif match["index"] is not None:
            steps.append(
                ("all", "", "") if match["index"] == "*" else ("index", match["index"], "")
            )
        elif match["quoted"] is not None:
            steps.append(("key", match["quoted"][1:-1], ""))
        else:
            steps.append(("key", match["key"].replace("\\.", "."), ""))
    return tuple(steps)


def find(obj: Any, path: str) -> list[Any]:
    """All values at a path."""
    values = [obj]
    for what, key, value in compile_path(path):
        values = list(_step(values, what, key, value))
        if not values:
            break
    return values


def _step(values: list[Any], what: str, key: str, wanted: str) -> Iterator[Any]:
    for value in values:
        if what == "key":
            if isinstance(value, dict) and key in value:
                yield value[key]
        elif what == "index":
            if isinstance(value, list) and -len(value) <= int(key) < len(value):
                yield value[int(key)]
        elif what == "all":
            if isinstance(value, dict | list):
                yield from value.values() if isinstance(value, dict) else value
        elif what == "filter" and isinstance(value, list):
            yield from (item for item in value if _matches(item, key, wanted))


def _matches(item: Any, key: str, wanted: str) -> bool:
    for part in key.split("."):
        if not isinstance(item, dict) or part not in item:
            return False
        item = item[part]
    text = ("true" if item else "false") if isinstance(item, bool) else str(item)
    return text == wanted
