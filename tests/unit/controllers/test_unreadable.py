"""An object that no cache takes in says so on itself, and until it is mended or gone."""

from typing import Any

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.controllers.unreadable import report_unreadable
from runnerscale.kube.watch import Poisoned


class FakeInformer:
    """Keeps its handlers."""

    resource = AUTOSCALING_RUNNER_SETS

    def on_poison(self, handler: Any) -> None:
        self.poison = handler

    def on_change(self, handler: Any) -> None:
        self.change = handler


class FakeReporter:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def report(self, about: Any, key: str, troubles: Any) -> None:
        self.said.append((about.kind, about.key, about.uid, key, [*troubles]))

    def forget(self, kind: str, key: str) -> None:
        self.said.append(("forget", kind, key))


class Changed:
    """A change of one key."""

    def __init__(self, key: str) -> None:
        self.key = key


def test_what_cannot_be_read_is_told_on_the_object_until_it_can() -> None:
    informer, reporter = FakeInformer(), FakeReporter()
    report_unreadable(informer, reporter)  # type: ignore[arg-type]  # no more is needed of them
    informer.change(Changed("ns/other"))
    assert reporter.said == []
    informer.poison(Poisoned("ADDED", "ns/bad", "u", "7", "it is nested too deeply"))
    [(kind, key, uid, line, [why])] = reporter.said
    assert (kind, key, uid) == ("AutoscalingRunnerSet", "ns/bad", "u")
    assert line != key  # a pass over the last good state reports under the key itself
    assert why.reason == "ObjectUnreadable"
    assert "nested too deeply" in why.happened
    informer.change(Changed("ns/bad"))
    informer.change(Changed("ns/bad"))
    assert reporter.said[1:] == [("forget", "AutoscalingRunnerSet", line)]
    informer.poison(Poisoned("ADDED", "", "", "", "no name"))
    assert len(reporter.said) == 2
