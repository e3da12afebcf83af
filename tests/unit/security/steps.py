"""How much work a regular expression is, counted in steps instead of seconds.

A plain backtracking matcher over Python's own parse of the pattern: it visits what `re` would
visit without its shortcuts, and counts. Where the count grows faster than the square of the
text, a hostile text can stop the process.
"""

import re._constants as c
import re._parser as parser
from collections.abc import Callable
from typing import Any

Next = Callable[[int], bool]


class TooManySteps(Exception):
    """More than the bound: it grows without end."""


class Counter:
    """Counts the steps of one attempt."""

    def __init__(self, pattern: str, flags: int, steps_max: int) -> None:
        self.tree = parser.parse(pattern, flags)
        self.steps = 0
        self.steps_max = steps_max
        self.text = ""
        self.end = -1  # where the last match ended; -1: there was none

    def run(self, text: str, *, start: int = 0, full: bool = False) -> int:
        """Steps of matching at one place; `full`: up to the end of the text."""
        self.text, self.steps, self.end = text, 0, -1

        def ended(at: int) -> bool:
            if full and at != len(text):
                return False
            self.end = at
            return True

        self._seq(list(self.tree), 0, start, ended)
        return self.steps

    def search(self, text: str) -> int:
        """Steps of finding every place where it fits, as `finditer` does."""
        total = start = 0
        while start <= len(text):
            total += self.run(text, start=start)
            start = max(start + 1, self.end)
        return total

    def _tick(self) -> None:
        self.steps += 1
        if self.steps > self.steps_max:
            raise TooManySteps

    def _seq(self, items: list[Any], index: int, at: int, then: Next) -> bool:
        self._tick()
        if index == len(items):
            return then(at)
        op, value = items[index]

        def rest(after: int) -> bool:
            return self._seq(items, index + 1, after, then)

        return self._one(op, value, at, rest)

    def _one(self, op: Any, value: Any, at: int, then: Next) -> bool:
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return at < len(self.text) and self._fits(op, value, self.text[at]) and then(at + 1)
        if op is c.SUBPATTERN:
            return self._seq(list(value[3]), 0, at, then)
        if op is c.BRANCH:
            return any(self._seq(list(branch), 0, at, then) for branch in value[1])
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            low, high, body = value
            lazy = op is c.MIN_REPEAT
            return self._repeat(list(body), int(low), high, at, then, lazy=lazy, count=0)
        if op is c.AT:
            return self._anchored(value, at) and then(at)
        if op in (c.ASSERT, c.ASSERT_NOT):
            direction, body = value
            begin = at if direction > 0 else max(0, at - 1)
            found = self._seq(list(body), 0, begin, lambda _: True)
            return found is (op is c.ASSERT) and then(at)
        raise AssertionError(f"teach the counter about {op}")

    def _repeat(
        self, body: list[Any], low: int, high: Any, at: int, then: Next, *, lazy: bool, count: int
    ) -> bool:
        self._tick()

        def more() -> bool:
            if high is not c.MAXREPEAT and count >= high:
                return False
            return self._seq(body, 0, at, again)

        def again(after: int) -> bool:
            if after == at:
                return False  # an empty turn leads nowhere new
            return self._repeat(body, low, high, after, then, lazy=lazy, count=count + 1)

        if count < low:
            return more() or (not body and then(at))
        return (then(at) or more()) if lazy else (more() or then(at))

    def _anchored(self, where: Any, at: int) -> bool:
        if where in (c.AT_BEGINNING, c.AT_BEGINNING_STRING):
            return at == 0
        if where in (c.AT_END, c.AT_END_STRING):
            return at == len(self.text)
        word = [0 <= i < len(self.text) and self.text[i].isalnum() for i in (at - 1, at)]
        return (word[0] != word[1]) is (where is c.AT_BOUNDARY)

    def _fits(self, op: Any, value: Any, char: str) -> bool:
        if op is c.ANY:
            return True
        if op is c.LITERAL:
            return ord(char) == value
        if op is c.NOT_LITERAL:
            return ord(char) != value
        negated = value[0][0] is c.NEGATE
        found = any(self._member(o, v, char) for o, v in value if o is not c.NEGATE)
        return found is not negated

    def _member(self, op: Any, value: Any, char: str) -> bool:
        if op is c.RANGE:
            return value[0] <= ord(char) <= value[1]
        if op is c.LITERAL:
            return ord(char) == value
        kind = str(value)
        fits = (
            char.isdigit()
            if kind.endswith("DIGIT")
            else char.isspace()
            if kind.endswith("SPACE")
            else char.isalnum() or char == "_"
        )
        return fits is not ("NOT" in kind)
