"""Label selectors as text: the grammar of Kubernetes, and its words for what is wrong with one.

What a requirement means for the labels of an object is `selectors.py`.
"""

import re
from dataclasses import dataclass

from runnerscale.apiserver import formats
from runnerscale.apiserver.failures import ApiFailure, bad_request, quoted

SPECIAL = "=!(),><"
_TOKENS = (")", ",", "!", "==", "=", ">", "<", "!=", "(")
_WORDS = ("in", "notin")
_OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")
_OPERATOR_NAMES = "in, notin, =, ==, !=, gt, lt"
END = ("end", "")
Token = tuple[str, str]  # what it is: a special token, a word, "identifier" or "end"; its text


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a selector. `operator`: exists, !, in, notin, =, ==, !=, >, <."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def read_selector(text: str) -> list[Requirement]:
    """The requirements, all of which must hold.

    Raises:
        ApiFailure: 400, the selector cannot be read.
    """
    return _Reader(_tokens(text)).requirements()


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char in " \t\r\n":
            position += 1
        elif char in SPECIAL:
            run = re.match(r"[=!(),><]+", text[position:])
            assert run is not None
            # The longest token that the run begins with.
            found = next(n for n in (2, 1) if run[0][:n] in _TOKENS and len(run[0]) >= n)
            token = run[0][:found]
            tokens.append((token, token))
            position += found
        else:
            word = re.match(r"[^=!(),>< \t\r\n]+", text[position:])
            assert word is not None
            kind = word[0] if word[0] in _WORDS else "identifier"
            tokens.append((kind, word[0]))
            position += len(word[0])
    return tokens


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0

    def _look(self) -> Token:
        """The next token, where a value may stand: there `in` is a word like any other."""
        token = self._raw()
        return ("identifier", token[1]) if token[0] in _WORDS else token

    def _raw(self) -> Token:
        return self._tokens[self._position] if self._position < len(self._tokens) else END

    def _take(self) -> Token:
        token = self._look()
        self._position += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, text = self._look()
            if kind == "end":
                return found
            if kind not in ("identifier", "!"):
                raise bad_request(f"found '{text}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            kind, text = self._take()
            if kind == "end":
                return found
            if kind != ",":
                raise bad_request(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self._look()
            if kind not in ("identifier", "!"):
                raise bad_request(f"found '{text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        kind, text = self._take()
        operator = "exists"
        if kind == "!":
            operator = "!"
            kind, text = self._take()
        if kind != "identifier":
            raise _unreadable(f"found '{text}', expected: identifier")
        key = text
        errors = formats.label_key(key)
        if errors:
            raise _unreadable(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(errors)}")
        if operator == "!" or self._look()[0] in ("end", ","):
            return Requirement(key, operator)
        operator, text = self._raw()
        self._position += 1
        if operator not in _OPERATORS:
            raise _unreadable(f"found '{text}', expected: {_OPERATOR_NAMES}")
        values = self._values() if operator in _WORDS else self._exact_value()
        return _checked(key, operator, values)

    def _exact_value(self) -> list[str]:
        if self._look()[0] in ("end", ","):
            return [""]
        kind, text = self._take()
        if kind == "identifier":
            return [text]
        raise _unreadable(f"found '{text}', expected: identifier")

    def _values(self) -> list[str]:
        kind, text = self._take()
        if kind != "(":
            raise _unreadable(f"found '{text}' expected: '('")
        kind, text = self._look()
        if kind == ")":
            self._take()
            return []
        if kind not in ("identifier", ","):
            raise _unreadable(f"found '{text}', expected: ',', ')' or identifier")
        values = self._identifiers()
        kind, text = self._take()
        if kind != ")":
            raise _unreadable(f"found '{text}', expected: ')'")
        return sorted(values)

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            kind, text = self._take()
            if kind == "identifier":
                values.add(text)
                kind, text = self._look()
                if kind == ")":
                    return values
                if kind != ",":
                    raise _unreadable(f"found '{text}', expected: ',' or ')'")
            elif kind == ",":
                if not values:  # "(,"
                    values.add("")
                kind, _ = self._look()
                if kind == ")":
                    values.add("")
                    return values
                if kind == ",":
                    self._take()
                    values.add("")
            else:
                raise _unreadable(f"found '{text}', expected: ',', or identifier")


def _checked(key: str, operator: str, values: list[str]) -> Requirement:
    errors = []
    for place, value in enumerate(values):
        if operator in (">", "<") and not re.fullmatch(r"[+-]?\d+", value):
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(f"values[{place}]: Invalid value: {quoted(value)}: {text}")
        wrong = formats.label_value(value)
        if wrong:
            where = f"values[{place}][{key}]"
            errors.append(f"{where}: Invalid value: {quoted(value)}: {'; '.join(wrong)}")
    if errors:
        raise _unreadable(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return Requirement(key, operator, tuple(values))


def _unreadable(why: str) -> ApiFailure:
    return bad_request(f"unable to parse requirement: {why}")
