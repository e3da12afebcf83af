"""A values file as Helm reads it, with the line of every value.

Helm parses YAML 1.1 in Go's way (`yes` is true, `12:30` is text, `1e3` a number), takes the
first document only and lets the last of two equal keys win. This does the same and says where a
person probably meant otherwise. Nothing in a file can make it fail with anything but a sentence,
or work for long: size, depth and the nodes after aliases are bounded.

The file's bytes come from `cli/values_command.py`; merging is in `merge.py`.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from runnerscale.chart_values.findings import Finding, Place, ValuePath, dotted

BYTES_MAX = 1 << 20  # Helm keeps the values in a Secret of the release, which holds no more
DEPTH_MAX = 100
NUMBER_LETTERS_MAX = 400  # longer digits are beyond every float, and text to Helm as well
NODES_MAX = 20_000  # aliases counted as often as they are used

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
}
_NO_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WHOLE = (
    (10, re.compile(r"[-+]?(0|[1-9][0-9]*)")),
    (8, re.compile(r"[-+]?0[oO]?[0-7]+")),
    (16, re.compile(r"[-+]?0[xX][0-9a-fA-F]+")),
    (2, re.compile(r"[-+]?0[bB][01]+")),
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# With any other tag a scalar is text.
_LOOKED_AT_TAGS = {
    None,
    *(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null")),
}


class NotValuesError(Exception):
    """The file holds no values at all: what is wrong at which line, and what to do."""

    def __init__(self, line: int, what: str, remedy: str) -> None:
        """`line` is counted from 1."""
        super().__init__(f"{what}. {remedy}.")
        self.line = line
        self.what = what
        self.remedy = remedy


@dataclass(slots=True)
class ReadValues:
    """What one file, or several merged ones, say."""

    values: dict[str, Any]
    places: dict[ValuePath, Place] = field(default_factory=dict)
    findings: list[tuple[Finding, Place]] = field(default_factory=list)


@dataclass(slots=True)
class _Node:
    line: int
    scalar: str = ""
    tag: str | None = None  # None: by the look of the scalar
    items: "list[_Node] | None" = None  # a list
    pairs: "list[tuple[_Node, _Node]] | None" = None  # a map


def read_values(file: str, content: bytes) -> ReadValues:
    """The values in a file's bytes.

    Raises:
        NotValuesError: not text, no YAML, not a map at the top, or beyond the bounds.
    """
    if len(content) > BYTES_MAX:
        raise NotValuesError(
            1,
            f"the file is larger than {BYTES_MAX} bytes",
            "Values of these charts are far smaller",
        )
    root, more_at = _compose(_text(content))
    result = ReadValues({}, {(): Place(file, 1)})
    if more_at:
        finding = Finding(
            (),
            "a second document begins here, and Helm reads the first only",
            "Put it into a file of its own and give both with -f",
        )
        result.findings.append((finding, Place(file, more_at)))
    if root is None:
        return result
    top = _Conversion(file, result).plain(root, ())
    if top is not None and not isinstance(top, dict):
        kind = "a list" if isinstance(top, list) else "a single value"
        raise NotValuesError(
            root.line, f"the file holds {kind} at the top", "Values are `name: value` lines"
        )
    result.values = top or {}
    return result


def _text(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = "this is not UTF-8 text"
        raise NotValuesError(line, what, "Save the file as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise NotValuesError(line, "this is binary data, not text", "Give a YAML file")
    return text


def _compose(text: str) -> tuple[_Node | None, int]:
    """The first document's root, and the line where a second one begins (0: none)."""
    root: _Node | None = None
    documents, is_whole = 0, False
    try:
        events = yaml.parse(text, Loader=_Loader)
        for event in events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            documents += 1
            line = _line(event)
            if documents > 1:
                return root, line
            if event.version not in (None, (1, 1)):
                what = "Helm reads YAML 1.1 only"
                raise NotValuesError(line, what, "Take the %YAML line away")
            root = _Composer(events).document()
            is_whole = True
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        if documents and is_whole:
            return root, line  # what Helm does not read need not be YAML
        if "nesting depth" in str(error.problem):
            raise _too_deep(line) from None
        raise NotValuesError(
            line,
            f"this is not YAML: {error.problem or error.context}",
            "Look at the indentation and the quotes here and just above",
        ) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        what = f"this is not YAML: {' '.join(str(error).split())[:100]}"
        raise NotValuesError(1, what, "Give a YAML file") from None
    return root, 0


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return mark.line + 1 if mark else 1


class _Composer:
    """Events to nodes, without recursion: nesting is the file's choice, the stack is ours."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, _Node] = {}

    def document(self) -> _Node | None:
        root: _Node | None = None
        open_nodes: list[_Node] = []
        keys: list[_Node | None] = []  # of each open map, the key that waits for its value
        for event in self._events:
            if isinstance(event, yaml.DocumentEndEvent):
                break
            if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                open_nodes.pop()
                keys.pop()
                continue
            node = self._node(event)
            if not open_nodes:
                root = node
            elif (items := open_nodes[-1].items) is not None:
                items.append(node)
            elif (key := keys[-1]) is None:
                keys[-1] = node
            else:
                pairs = open_nodes[-1].pairs
                assert pairs is not None
                pairs.append((key, node))
                keys[-1] = None
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append(node)
                keys.append(None)
                if len(open_nodes) > DEPTH_MAX:
                    raise _too_deep(node.line)
        return root

    def _node(self, event: Any) -> _Node:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            found = self._anchors.get(str(event.anchor))
            if found is None:
                what = f"the alias *{event.anchor} has no anchor above it"
                raise NotValuesError(line, what, f"Write &{event.anchor} where the value stands")
            return found
        if isinstance(event, yaml.ScalarEvent):
            quoted = event.tag is None and not event.implicit[0]
            node = _Node(line, event.value, "!" if quoted else event.tag)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = _Node(line, items=[])
        else:
            node = _Node(line, pairs=[])
        if event.anchor:
            self._anchors[event.anchor] = node
        return node


class _Conversion:
    """Nodes to plain values, aliases and merge keys followed, with the places of all."""

    def __init__(self, file: str, result: ReadValues) -> None:
        self._file = file
        self._result = result
        self._nodes = 0
        self._merging = 0  # how many maps are being merged into one another

    def _count(self, node: _Node) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise NotValuesError(
                node.line,
                f"the file grows to more than {NODES_MAX} values when its aliases are followed",
                "Write it without these aliases",
            )

    def plain(self, node: _Node, path: ValuePath) -> Any:
        self._count(node)
        if len(path) > DEPTH_MAX:
            raise _too_deep(node.line)
        self._result.places[path] = Place(self._file, node.line)
        if node.pairs is not None:
            return self._map(node, path)
        if node.items is not None:
            return [self.plain(item, (*path, i)) for i, item in enumerate(node.items)]
        return scalar(node.scalar, node.tag, node.line)

    def _map(self, node: _Node, path: ValuePath) -> dict[str, Any]:
        """Merge keys in their turn: like Helm, what comes later wins."""
        result: dict[str, Any] = {}
        own: set[str] = set()
        for key_node, value_node in node.pairs or ():
            if key_node.scalar == "<<" and key_node.tag is None:
                for source in reversed(_merge_sources(value_node)):
                    result |= self._merged(source, path)
                continue
            key = _key(key_node)
            here = (*path, key)
            if key in own:
                self._twin(here, key_node.line)
            own.add(key)
            result[key] = self.plain(value_node, here)
            self._result.places[here] = Place(self._file, key_node.line)
        return result

    def _merged(self, source: _Node, path: ValuePath) -> dict[str, Any]:
        """A map that is merged into another; an empty one is work too, and it may hold itself."""
        self._count(source)
        self._merging += 1
        if self._merging > DEPTH_MAX:
            raise _too_deep(source.line)
        found = self._map(source, path)
        self._merging -= 1
        return found

    def _twin(self, path: ValuePath, line: int) -> None:
        first = self._result.places[path]
        what = f"{dotted(path)} is given twice, here and in line {first.line}; the last one counts"
        finding = Finding(path, what, "Keep one of them")
        self._result.findings.append((finding, Place(self._file, line)))


def _merge_sources(node: _Node) -> list[_Node]:
    sources = node.items if node.items is not None else [node]
    if any(source.pairs is None for source in sources):
        what = "<< takes a map or a list of maps"
        raise NotValuesError(node.line, what, "Write the keys themselves")
    return sources


def _key(node: _Node) -> str:
    value = scalar(node.scalar, node.tag, node.line)
    if node.pairs is not None or node.items is not None or value is None:
        raise NotValuesError(node.line, "a name before `:` is not plain text", "Put it in quotes")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _too_deep(line: int) -> NotValuesError:
    what = f"values are nested more than {DEPTH_MAX} levels deep"
    return NotValuesError(line, what, "No value of these charts is")


def scalar(text: str, tag: str | None, line: int) -> Any:
    """A value by its look, or by its tag; JSON's kinds only, as Helm makes JSON of it.

    Raises:
        NotValuesError: infinity and the like, which JSON has not.
    """
    if tag not in _LOOKED_AT_TAGS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _NO_JSON.fullmatch(text):
        raise NotValuesError(line, f"{text} is no number that Helm takes", "Write a finite number")
    if not text[0].isascii() or not (text[0].isdigit() or text[0] in "+-."):
        return text
    return _number(text)


def _number(text: str) -> int | float | str:
    if len(text) > NUMBER_LETTERS_MAX:
        return text
    plain = text.replace("_", "")
    for base, look in _WHOLE:
        if look.fullmatch(plain):
            digits = plain if base == 10 else re.sub("^([-+]?)0[xXbBoO]?(?=.)", r"\1", plain)
            whole = int(digits, base)
            if -(1 << 63) <= whole < (1 << 64):
                return whole
            if base != 10:
                return text
            break
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if math.isfinite(number):
            return number
    return text
