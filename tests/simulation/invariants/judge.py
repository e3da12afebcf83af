"""The judge: hands every write, every event of GitHub and every tick to all invariants."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runnerscale.apiserver.handler import Served
from runnerscale.fake_github.state import State
from tests.simulation.invariants.breach import Breach
from tests.simulation.invariants.calm import Calm
from tests.simulation.invariants.job_safety import NoJobDiesByOurHand
from tests.simulation.invariants.maximum import NoRunnerBeyondTheMaximum
from tests.simulation.invariants.pace import NoHotLoop
from tests.simulation.invariants.phases import (
    RunningIsNotTakenBack,
    RunningIsTheListenersWord,
    TerminalPhasesStay,
)
from tests.simulation.invariants.registrations import OneRegistrationPerName, OneStartPerConfig
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.running import BusyRunnersSaySo
from tests.simulation.invariants.secrecy import NoSecretIsTold
from tests.simulation.invariants.seen import Seen
from tests.simulation.invariants.sessions import (
    OneListenerAtATime,
    OneOpenSession,
    SessionsAreGivenBack,
)
from tests.simulation.invariants.visibility import WhatBlocksIsVisible
from tests.simulation.writes import Write

RULES: tuple[type[Rule], ...] = (
    Calm,
    NoJobDiesByOurHand,
    OneStartPerConfig,
    OneRegistrationPerName,
    NoRunnerBeyondTheMaximum,
    OneOpenSession,
    OneListenerAtATime,
    SessionsAreGivenBack,
    RunningIsTheListenersWord,
    RunningIsNotTakenBack,
    TerminalPhasesStay,
    BusyRunnersSaySo,
    NoHotLoop,
    WhatBlocksIsVisible,
    NoSecretIsTold,
)


class Judge:
    """Hears everything, decides nothing itself."""

    def __init__(
        self,
        github: State,
        now_s: Callable[[], float],
        containers: Callable[[], Sequence[Any]] = tuple,
        *,
        rules: Sequence[type[Rule]] = RULES,
    ) -> None:
        self.seen = Seen(github, now_s, containers)
        self.breaches: list[Breach] = []
        self._rules = [rule(self.seen) for rule in rules]
        # What comes often goes to those only who listen.
        self._heard = _overriding(self._rules, "hear")
        self._served = _overriding(self._rules, "served")
        self._logged = _overriding(self._rules, "logged")
        self._happened = _overriding(self._rules, "happened")
        self._violations = 0
        self._last_event = 0

    def hear(self, write: Write) -> None:
        """One stored change."""
        self.ask_github()
        self.seen.hear(write)
        for rule in self._heard:
            self._breaches(rule, rule.hear(write))

    def tick(self, world: Any) -> None:
        """Some seconds have passed."""
        self.ask_github()
        for rule in self._rules:
            self._breaches(rule, rule.tick(world))

    def at_rest(self, world: Any) -> None:
        """The end of the history."""
        for rule in self._rules:
            self._breaches(rule, rule.at_rest(world))

    def served(self, served: Served) -> None:
        """One answered request of the API server."""
        for rule in self._served:
            self._breaches(rule, rule.served(served))

    def logged(self, component: str, line: dict[str, Any]) -> None:
        """One log line of that process."""
        for rule in self._logged:
            self._breaches(rule, rule.logged(component, line))

    def ask_github(self) -> None:
        """What happened there; and it notices by itself what must never happen to it."""
        github = self.seen.github
        if github.events.last_id != self._last_event:
            events, _ = github.events.after(self._last_event)
            for event in events:
                for rule in self._happened:
                    self._breaches(rule, rule.happened(event))
            self._last_event = github.events.last_id
        if len(github.violations) != self._violations:
            for violation in list(github.violations)[self._violations :]:
                self.breach(f"GitHub saw: {violation.kind}", violation.detail)
            self._violations = len(github.violations)

    def breach(self, rule: str, detail: str) -> None:
        """Report."""
        self.breaches.append(Breach(rule, detail, self.seen.now_s()))

    def _breaches(self, rule: Rule, details: Iterable[str]) -> None:
        for detail in details:
            self.breach(rule.sentence, detail)


def _overriding(rules: Sequence[Rule], method: str) -> list[Rule]:
    return [r for r in rules if getattr(type(r), method) is not getattr(Rule, method)]
