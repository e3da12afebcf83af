"""From YAML text to a tree of nodes that know their line, with bounds on everything.

Own reading on top of PyYAML's event stream, for three reasons: errors must name the line;
`on`, `yes` and `no` are words in a workflow, not booleans (GitHub reads YAML 1.2); and a
hostile file (deep nesting, alias bombs, huge text) must end in a sentence, not in a crash.
"""

import re
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

TEXT_MAX = 512 * 1024
EVENTS_MAX = 50_000
DEPTH_MAX = 40

_NOT_TEXT = re.compile("[\0\ud800-\udfff]")

Scalar: TypeAlias = str | int | float | bool | None


class WorkflowError(ValueError):
    """A workflow file that cannot be used: `file`, `line` (from 1, 0: none), and a sentence."""

    def __init__(self, file: str, line: int, message: str) -> None:
        """The text reads `file:line: message`."""
        place = f"{file}:{line}" if line else file
        super().__init__(f"{place}: {message}")
        self.file = file
        self.line = line
        self.message = message


@dataclass(slots=True)
class Node:
    """A value with its line; exactly one of the three kinds."""

    line: int
    kind: str  # scalar, list, map
    scalar: Scalar = None
    items: list["Node"] = field(default_factory=list)
    entries: dict[str, tuple["Node", "Node"]] = field(default_factory=dict)  # key: (key, value)

    def plain(self) -> object:
        """The value without lines."""
        if self.kind == "list":
            return [item.plain() for item in self.items]
        if self.kind == "map":
            return {key: value.plain() for key, (_, value) in self.entries.items()}
        return self.scalar


def read_yaml(text: str, file: str) -> Node:
    """The one document of a YAML text.

    Raises:
        WorkflowError: not YAML, too large, too deep, an alias, a duplicate key.
    """
    if len(text) > TEXT_MAX:
        raise WorkflowError(file, 0, f"the file is larger than {TEXT_MAX // 1024} KiB")
    if not text.isascii():
        # Half a character, as JSON can hold it, is no text for the parser.
        text = text.encode(errors="replace").decode()
    builder = _Builder(file)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for count, event in enumerate(yaml.parse(text, Loader=loader)):
            if count > EVENTS_MAX:
                raise WorkflowError(file, 0, f"the file has more than {EVENTS_MAX} parts")
            builder.take(event)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = mark.line + 1 if mark is not None else 0
        raise WorkflowError(file, line, f"this is not YAML: {problem.problem}") from None
    except yaml.YAMLError as problem:
        reason = str(problem).splitlines()[0]
        raise WorkflowError(file, 0, f"this is not YAML: {reason}") from None
    if builder.root is None:
        raise WorkflowError(file, 0, "the file is empty; a workflow needs at least 'jobs'")
    return builder.root


class _Builder:
    """Puts events together; its own stack instead of recursion."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._stack: list[tuple[Node, Node | None]] = []  # container, key waiting for its value
        self.root: Node | None = None

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        match event:
            case yaml.AliasEvent():
                raise WorkflowError(self._file, line, "aliases (*name) are not supported here")
            case yaml.DocumentStartEvent() if self.root is not None:
                raise WorkflowError(self._file, line, "the file holds a second YAML document")
            case yaml.ScalarEvent():
                self._place(Node(line, "scalar", scalar=self._scalar(event, line)))
            case yaml.SequenceStartEvent():
                self._open(Node(line, "list"))
            case yaml.MappingStartEvent():
                self._open(Node(line, "map"))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                node, _ = self._stack.pop()
                self._place(node)

    def _open(self, node: Node) -> None:
        if len(self._stack) >= DEPTH_MAX:
            raise WorkflowError(self._file, node.line, f"nested deeper than {DEPTH_MAX} levels")
        self._stack.append((node, None))

    def _place(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        parent, key = self._stack[-1]
        if parent.kind == "list":
            parent.items.append(node)
        elif key is None:
            if node.kind != "scalar":
                raise WorkflowError(self._file, node.line, "a key must be a plain word")
            self._stack[-1] = (parent, node)
        else:
            name = "" if key.scalar is None else str(key.scalar)
            if isinstance(key.scalar, bool):
                name = name.lower()
            if name in parent.entries:
                raise WorkflowError(self._file, key.line, f"the key {name!r} appears twice")
            parent.entries[name] = (key, node)
            self._stack[-1] = (parent, None)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Scalar:
        if event.tag and event.tag.startswith("!") and event.tag != "!":
            raise WorkflowError(
                self._file,
                line,
                f"{event.tag!r} is read as a YAML tag; put the whole value in quotes",
            )
        text: str = event.value
        if _NOT_TEXT.search(text):
            # Neither a process nor a file name can have it; nor can it be sent to a runner.
            raise WorkflowError(
                self._file, line, "holds a NUL or half a character, which is no text"
            )
        return _resolve(text) if event.style is None or event.style == "" else text


def _resolve(text: str) -> Scalar:
    """A plain scalar by the YAML 1.2 core rules, as far as workflows use them."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if len(text) <= 24 and (text[0].isdigit() or text[0] in "-+.") and text.isascii():
        digits = text[1:] if text[0] in "-+" else text
        if digits.isdigit():
            return int(text)
        if digits.count(".") == 1 and digits.replace(".", "").isdigit():
            return float(text)
    return text
