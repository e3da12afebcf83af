"""GitHub's expressions, the part we need: `${{ matrix.os }}`, `if: failure() && env.X == '1'`.

Literals, contexts, `! && || == != < <= > >=`, parentheses, and a handful of functions. Pure:
an expression is compiled once, when the file is read, so that a mistake is reported with its
line, and evaluated when its job or step is prepared.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

LENGTH_MAX = 4_000
DEPTH_MAX = 40

CONTEXTS = ("github", "matrix", "env", "needs", "strategy")
STATUS_FUNCTIONS = ("success", "failure", "always", "cancelled")
FUNCTIONS = ("contains", "startsWith", "endsWith", "format")

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[()!<>,]))"
)

Value: TypeAlias = object
Contexts: TypeAlias = Mapping[str, Value]


class ExpressionError(ValueError):
    """An expression that cannot be read or evaluated; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Status:
    """How the job, or the jobs it needs, stand; answers the status functions."""

    success: bool = True
    failure: bool = False
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression; `uses_status`: it calls one of the status functions itself."""

    source: str
    tree: "Tree"
    uses_status: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """A part of an expression: `op` with its parts, or a leaf with its value."""

    op: str
    parts: tuple["Tree", ...] = ()
    value: Value = None


def compile_expression(source: str, *, status_allowed: bool) -> Expression:
    """Read an expression, with or without `${{ }}` around it.

    Raises:
        ExpressionError: cannot be read, or names what is not supported here.
    """
    text = source.strip()
    if text.startswith("${{") and text.endswith("}}"):
        text = text[3:-2].strip()
    if "${{" in text:
        raise ExpressionError("mixes text and ${{ }}; write one expression")
    if len(text) > LENGTH_MAX:
        raise ExpressionError(f"is longer than {LENGTH_MAX} characters")
    reader = _Reader(_tokens(text), status_allowed=status_allowed)
    tree = reader.read_all()
    return Expression(source, tree, reader.uses_status)


def check_template(text: str) -> None:
    """Whether every `${{ }}` in a text can be read.

    Raises:
        ExpressionError: one cannot.
    """
    for _, source in _pieces(text):
        if source is not None:
            compile_expression(source, status_allowed=False)


def has_expression(text: str) -> bool:
    """Whether there is a `${{ }}` in the text."""
    return "${{" in text


def substitute(text: str, contexts: Contexts) -> str:
    """The text with every `${{ }}` replaced by its value.

    Raises:
        ExpressionError: one cannot be read or evaluated.
    """
    if "${{" not in text:
        return text
    parts: list[str] = []
    for before, source in _pieces(text):
        parts.append(before)
        if source is not None:
            expression = compile_expression(source, status_allowed=False)
            parts.append(as_text(evaluate(expression, contexts, Status())))
    return "".join(parts)


def _pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """Pairs of plain text and the expression after it; no pattern, so linear in any text."""
    place = 0
    while (start := text.find("${{", place)) >= 0:
        end = text.find("}}", start)
        if end < 0:
            raise ExpressionError("has a ${{ without its }}")
        yield text[place:start], text[start + 3 : end]
        place = end + 2
    yield text[place:], None


def holds(expression: Expression | None, contexts: Contexts, status: Status) -> bool:
    """Whether an `if:` says yes; without a status function it also asks for success."""
    if expression is None:
        return status.success
    if not expression.uses_status and not status.success:
        return False
    return truthy(evaluate(expression, contexts, status))


def evaluate(expression: Expression, contexts: Contexts, status: Status) -> Value:
    """The value of an expression.

    Raises:
        ExpressionError: a function was given what it cannot use.
    """
    return _evaluate(expression.tree, contexts, status)


def truthy(value: Value) -> bool:
    """GitHub's truth: false, 0, empty text and null are false."""
    return not (value is None or value is False or value == 0 or value == "")


def as_text(value: Value) -> str:
    """How a value is written into a text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Mapping):
        return "Object"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "Array"
    return str(value)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        if text[place:].isspace():
            break
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            raise ExpressionError(f"cannot be read at {text[place : place + 20]!r}")
        tokens.append((found.lastgroup, found.group(found.lastgroup)))
        place = found.end()
    if not tokens:
        raise ExpressionError("is empty")
    return tokens


class _Reader:
    """Recursive descent, from weak to strong: || && comparison ! primary."""

    def __init__(self, tokens: list[tuple[str, str]], *, status_allowed: bool) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0
        self._status_allowed = status_allowed
        self.uses_status = False

    def read_all(self) -> Tree:
        tree = self._or()
        if self._place < len(self._tokens):
            raise ExpressionError(f"has something left over: {self._tokens[self._place][1]!r}")
        return tree

    def _next_sign(self, *signs: str) -> str | None:
        if self._place < len(self._tokens):
            kind, text = self._tokens[self._place]
            if kind == "sign" and text in signs:
                self._place += 1
                return text
        return None

    def _or(self) -> Tree:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ExpressionError(f"is nested deeper than {DEPTH_MAX} levels")
        tree = self._and()
        while self._next_sign("||"):
            tree = Tree("||", (tree, self._and()))
        self._depth -= 1
        return tree

    def _and(self) -> Tree:
        tree = self._comparison()
        while self._next_sign("&&"):
            tree = Tree("&&", (tree, self._comparison()))
        return tree

    def _comparison(self) -> Tree:
        tree = self._not()
        while sign := self._next_sign("==", "!=", "<", "<=", ">", ">="):
            tree = Tree(sign, (tree, self._not()))
        return tree

    def _not(self) -> Tree:
        count = 0
        while self._next_sign("!"):
            count += 1
        tree = self._primary()
        for _ in range(count % 2 or 2 * bool(count)):
            tree = Tree("!", (tree,))
        return tree

    def _primary(self) -> Tree:
        if self._next_sign("("):
            tree = self._or()
            self._expect(")")
            return tree
        if self._place >= len(self._tokens):
            raise ExpressionError("ends too early")
        kind, text = self._tokens[self._place]
        self._place += 1
        if kind == "text":
            return Tree("literal", value=text[1:-1].replace("''", "'"))
        if kind == "number":
            return Tree("literal", value=float(text) if "." in text else int(text))
        if kind == "word":
            return self._word(text)
        raise ExpressionError(f"cannot be read at {text!r}")

    def _word(self, text: str) -> Tree:
        constants: dict[str, Value] = {"true": True, "false": False, "null": None}
        if text in constants:
            return Tree("literal", value=constants[text])
        if self._next_sign("("):
            return self._call(text)
        context = text.split(".")[0]
        if context not in CONTEXTS:
            raise ExpressionError(
                f"uses {text!r}, which is not known here; known are the contexts "
                f"{', '.join(CONTEXTS)}"
            )
        return Tree("context", value=tuple(text.split(".")))

    def _call(self, name: str) -> Tree:
        arguments: list[Tree] = []
        if not self._next_sign(")"):
            arguments.append(self._or())
            while self._next_sign(","):
                arguments.append(self._or())
            self._expect(")")
        if name in STATUS_FUNCTIONS:
            if not self._status_allowed:
                raise ExpressionError(f"calls {name}(), which only works in 'if'")
            if arguments:
                raise ExpressionError(f"calls {name}() with arguments; it takes none")
            self.uses_status = True
        elif name not in FUNCTIONS:
            known = ", ".join([*STATUS_FUNCTIONS, *FUNCTIONS])
            raise ExpressionError(f"calls {name}(), which is not known here; known are {known}")
        elif len(arguments) != 2 and name != "format":
            raise ExpressionError(f"calls {name}() with {len(arguments)} arguments; it takes 2")
        elif not arguments:
            raise ExpressionError("calls format() without arguments")
        return Tree("call", tuple(arguments), value=name)

    def _expect(self, sign: str) -> None:
        if not self._next_sign(sign):
            raise ExpressionError(f"lacks a {sign!r}")


def _evaluate(tree: Tree, contexts: Contexts, status: Status) -> Value:
    match tree.op:
        case "literal":
            return tree.value
        case "context":
            return _look_up(tree.value, contexts)
        case "!":
            return not truthy(_evaluate(tree.parts[0], contexts, status))
        case "&&" | "||":
            left = _evaluate(tree.parts[0], contexts, status)
            if truthy(left) is (tree.op == "||"):
                return left
            return _evaluate(tree.parts[1], contexts, status)
        case "call":
            return _call_function(tree, contexts, status)
    left, right = (_evaluate(part, contexts, status) for part in tree.parts)
    return _compare(tree.op, left, right)


def _look_up(path: Value, contexts: Contexts) -> Value:
    value: Value = contexts
    for part in path if isinstance(path, tuple) else ():
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _call_function(tree: Tree, contexts: Contexts, status: Status) -> Value:
    match tree.value:
        case "always":
            return True
        case "success":
            return status.success
        case "failure":
            return status.failure
        case "cancelled":
            return status.cancelled
    values = [_evaluate(part, contexts, status) for part in tree.parts]
    if tree.value == "format":
        return _format(as_text(values[0]), [as_text(value) for value in values[1:]])
    if tree.value == "contains" and isinstance(values[0], list):
        return any(_compare("==", each, values[1]) for each in values[0])
    whole, part = (as_text(value).casefold() for value in values)
    tests: dict[Value, Callable[[str, str], bool]] = {
        "contains": lambda a, b: b in a,
        "startsWith": str.startswith,
        "endsWith": str.endswith,
    }
    return tests[tree.value](whole, part)


def _format(template: str, values: Sequence[str]) -> str:
    def replace(found: re.Match[str]) -> str:
        text = found.group(0)
        if text in ("{{", "}}"):
            return text[0]
        place = int(text[1:-1])
        if place >= len(values):
            raise ExpressionError(f"calls format() without a value for {text}")
        return values[place]

    return re.sub(r"\{\{|\}\}|\{\d{1,3}\}", replace, template)


def _compare(op: str, left: Value, right: Value) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        a: str | float = left.casefold()
        b: str | float = right.casefold()
    elif isinstance(left, Mapping | list) or isinstance(right, Mapping | list):
        return (left is right) is (op == "==")
    else:
        a, b = _number(left), _number(right)
    answers = {
        "==": a == b,
        "!=": a != b,
        "<": a < b,  # type: ignore[operator]  # both are of one kind here
        "<=": a <= b,  # type: ignore[operator]
        ">": a > b,  # type: ignore[operator]
        ">=": a >= b,  # type: ignore[operator]
    }
    return answers[op]


def _number(value: Value) -> float:
    if value is None or value == "":
        return 0.0
    if isinstance(value, bool | int | float):
        return float(value)
    try:
        return float(str(value))
    except ValueError:
        return float("nan")
