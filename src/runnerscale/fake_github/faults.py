"""Fault rules: which request is hit, how often, for how long, and what happens to it.

A rule matches a request and says one `Action`. Rules are asked in the order in which they
were added; the first one that fires wins. What an action means for a socket is done in
`dispatch.py` and `server.py`; ready-made rules for known troubles are in `presets.py`;
faults that change what GitHub remembers or says are `twists.py`. Pure: time and chance are
arguments. The control API is never hit.
"""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from runnerscale.core.randomness import Random

RULES_MAX = 500
PATTERN_MAX = 300


class FaultInvalid(ValueError):
    """A rule that cannot be used; the text is one sentence."""


class Drop(StrEnum):
    """Whether the connection breaks, and on which side of the effect."""

    NO = ""
    BEFORE = "before"  # nothing was done
    AFTER = "after"  # done, but the answer is lost


@dataclass(frozen=True, slots=True)
class Facts:
    """What a rule can look at."""

    operation: str
    method: str
    path: str
    host: str
    scale_set_id: int = 0
    scale_set_name: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests; what is empty matches all."""

    methods: tuple[str, ...] = ()
    path: str = ""  # regular expression, searched
    host: str = ""  # regular expression, searched
    operations: tuple[str, ...] = ()
    scale_set: str = ""  # id or name

    def hits(self, facts: Facts) -> bool:
        """Whether the rule is about this request."""
        return (
            (not self.methods or facts.method in self.methods)
            and (not self.operations or facts.operation in self.operations)
            and (not self.path or re.search(self.path, facts.path) is not None)
            and (not self.host or re.search(self.host, facts.host) is not None)
            and (
                not self.scale_set
                or self.scale_set in (str(facts.scale_set_id), facts.scale_set_name)
            )
        )


@dataclass(frozen=True, slots=True)
class Action:
    """What happens; the parts that are set are combined in this order: delay, black hole,
    drop before, canned answer, twist, drop after."""

    delay_s: float = 0.0
    black_hole: bool = False  # never answered while the rule stands
    drop: Drop = Drop.NO
    status: int = 0  # a canned answer instead of the real one; 0: none
    body: str = ""
    content_type: str = "application/json; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    twist: str = ""  # a name of twists.py
    value: str = ""  # its argument


@dataclass(slots=True)
class Rule:
    """A fault that stands until it is used up, its time is over, or it is removed."""

    match: Match
    action: Action
    times: int | None = None  # how often it fires; None: without bound
    after: int = 0  # how many matching requests are spared first
    until_s: float | None = None
    rate: float = 1.0  # by chance, 0 to 1
    name: str = ""
    id: int = 0
    fired: int = 0


@dataclass(slots=True)
class FaultBook:
    """The rules that stand."""

    rules: dict[int, Rule] = field(default_factory=dict)
    _last_id: int = 0

    def add(self, rule: Rule) -> Rule:
        """Let a rule stand.

        Raises:
            FaultInvalid: a pattern cannot be read, a number is out of range, too many rules.
        """
        _check(rule)
        if len(self.rules) >= RULES_MAX:
            raise FaultInvalid(f"more than {RULES_MAX} fault rules stand; remove some first")
        self._last_id += 1
        rule.id = self._last_id
        self.rules[rule.id] = rule
        return rule

    def remove(self, rule_id: int) -> bool:
        """Remove a rule; false if there is none with that id."""
        return self.rules.pop(rule_id, None) is not None

    def clear(self) -> int:
        """Remove all rules; how many there were."""
        count = len(self.rules)
        self.rules.clear()
        return count

    def pick(self, facts: Facts, now_s: float, chance: Random) -> Rule | None:
        """The rule that fires on this request; it has then been counted."""
        self.drop_expired(now_s)
        for rule in list(self.rules.values()):
            if not rule.match.hits(facts):
                continue
            if rule.after > 0:
                rule.after -= 1
                continue
            if rule.rate < 1.0 and chance.random() >= rule.rate:
                continue
            rule.fired += 1
            if rule.times is not None:
                rule.times -= 1
                if rule.times <= 0:
                    del self.rules[rule.id]
            return rule
        return None

    def give_back(self, rule: Rule) -> None:
        """The rule fired, but there was nothing to spoil: it may fire again."""
        rule.fired -= 1
        if rule.times is not None:
            rule.times += 1
            self.rules.setdefault(rule.id, rule)

    def stands(self, rule: Rule, now_s: float) -> bool:
        """Whether the rule is still there: a black hole ends with it."""
        self.drop_expired(now_s)
        return rule.id in self.rules

    def drop_expired(self, now_s: float) -> None:
        """Remove the rules whose time is over."""
        over = [
            rule.id
            for rule in self.rules.values()
            if rule.until_s is not None and rule.until_s <= now_s
        ]
        for rule_id in over:
            del self.rules[rule_id]


def for_scale_set(rule: Rule, scale_set: str) -> Rule:
    """The rule, for one scale set only."""
    return replace(rule, match=replace(rule.match, scale_set=scale_set)) if scale_set else rule


def _check(rule: Rule) -> None:
    for what, pattern in (("path", rule.match.path), ("host", rule.match.host)):
        if len(pattern) > PATTERN_MAX:
            raise FaultInvalid(f"the {what} pattern is longer than {PATTERN_MAX} characters")
        try:
            re.compile(pattern)
        except re.error as problem:
            raise FaultInvalid(f"the {what} pattern cannot be read: {problem}") from None
    action = rule.action
    if action.status and not 200 <= action.status <= 599:
        raise FaultInvalid(f"status {action.status} is not between 200 and 599")
    if not 0 <= action.delay_s <= 3_600:
        raise FaultInvalid("delay_s must be between 0 and 3600")
    if not 0 <= rule.rate <= 1:
        raise FaultInvalid("rate must be between 0 and 1")
    if rule.times is not None and rule.times < 1:
        raise FaultInvalid("times must be at least 1")
    if any("\r" in text or "\n" in text for pair in action.headers for text in pair):
        raise FaultInvalid("a header must not hold a line break")
