"""Trouble on purpose: answers delayed, refused or lost, watches cut, history forgotten.

For tests, simulations and the demo's `--fault`. Rules are asked in the order they were added;
a rule that has been used up is dropped. Nothing here happens unless somebody adds a rule.
"""

from dataclasses import dataclass, field

from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.paths import Request

RULES_MAX = 1000


@dataclass(slots=True)
class FaultRule:
    """Which requests are hit, and what happens to them. Empty means any."""

    verbs: frozenset[str] = frozenset()
    resource: str = ""  # plural, or `plural/subresource`
    namespace: str = ""
    name: str = ""
    user: str = ""
    times: int | None = None  # how often; None: until it is removed
    skip: int = 0  # let so many matching requests pass first
    chance: float = 1.0  # of being hit, drawn from the server's random
    delay_s: float = 0.0
    failure: ApiFailure | None = None  # the answer, instead of doing it
    drop_before: bool = False  # the connection breaks, nothing was done
    drop_after: bool = False  # it was done, the answer is lost

    def matches(self, request: Request, user: str) -> bool:
        """Whether this rule speaks of a request."""
        full = f"{request.plural}/{request.subresource}" if request.subresource else request.plural
        return (
            (not self.verbs or request.verb in self.verbs)
            and self.resource in ("", full)
            and self.namespace in ("", request.namespace)
            and self.name in ("", request.name)
            and self.user in ("", user)
        )


@dataclass(slots=True)
class Faults:
    """The rules in force."""

    rules: list[FaultRule] = field(default_factory=list)

    def add(self, rule: FaultRule) -> FaultRule:
        """Put a rule in force; the rule itself, for `remove`."""
        if len(self.rules) >= RULES_MAX:
            raise ValueError(f"more than {RULES_MAX} fault rules")
        self.rules.append(rule)
        return rule

    def remove(self, rule: FaultRule) -> None:
        """Take a rule out of force."""
        self.rules = [r for r in self.rules if r is not rule]

    def clear(self) -> None:
        """No faults any more."""
        self.rules = []

    def hit(self, request: Request, user: str, draw: float) -> FaultRule | None:
        """The rule that hits a request, counted; None: it passes. `draw`: 0 to 1, by chance."""
        for rule in self.rules:
            if not rule.matches(request, user):
                continue
            if rule.skip > 0:
                rule.skip -= 1
                continue
            if draw >= rule.chance:
                continue
            if rule.times is not None:
                rule.times -= 1
                if rule.times <= 0:
                    self.remove(rule)
            return rule
        return None
