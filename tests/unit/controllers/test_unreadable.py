"""An object that no cache takes in says so on itself, and until it is mended or gone."""

from typing import Any

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS, AutoscalingRunnerSet
from runnerscale.api.conditions import READABLE
from runnerscale.controllers.unreadable import mark_unreadable, report_unreadable
from runnerscale.kube.objects import Condition
from runnerscale.kube.store import Change
from runnerscale.kube.watch import Poisoned


class FakeInformer:
    """Keeps its handlers."""

    resource = AUTOSCALING_RUNNER_SETS

    def on_poison(self, handler: Any) -> None:
        self.poison = handler

    def on_poison_end(self, handler: Any) -> None:
        self.end = handler

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


def test_what_cannot_be_read_is_told_on_the_object_until_it_can() -> None:
    informer, reporter = FakeInformer(), FakeReporter()
    report_unreadable(informer, reporter)  # type: ignore[arg-type]  # no more is needed of them
    informer.poison(Poisoned("ADDED", "ns/bad", "u", "7", "it is nested too deeply"))
    [(kind, key, uid, line, [why])] = reporter.said
    assert (kind, key, uid) == ("AutoscalingRunnerSet", "ns/bad", "u")
    assert line != key  # a pass over the last good state reports under the key itself
    assert why.reason == "ObjectUnreadable"
    assert "nested too deeply" in why.happened
    informer.end("ns/bad")  # read again, or gone, though no good state of it was ever known
    assert reporter.said[1:] == [("forget", "AutoscalingRunnerSet", line)]
    informer.poison(Poisoned("ADDED", "", "", "", "no name"))
    assert len(reporter.said) == 2


class FakeWriter:
    """Keeps what is to be written."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, bool, str]] = []

    def say(self, resource: Any, verdict: Any) -> None:
        self.said.append((resource.kind, verdict.about.key, verdict.good, verdict.reason))


def test_it_is_a_condition_too_until_a_state_of_it_can_be_read() -> None:
    informer, writer = FakeInformer(), FakeWriter()
    mark_unreadable(informer, writer)  # type: ignore[arg-type]  # no more is needed of them
    informer.poison(Poisoned("ADDED", "ns/bad", "u", "7", "it is nested too deeply"))
    bad = ("AutoscalingRunnerSet", "ns/bad", False, "ObjectUnreadable")
    assert writer.said == [bad]
    informer.poison(Poisoned("ADDED", "", "", "", "no name"))
    item = AutoscalingRunnerSet()
    informer.change(Change("ns/bad", None, item))
    informer.change(Change("ns/bad", item, None))
    assert writer.said == [bad]
    item.status.conditions = [Condition(READABLE, "False")]
    informer.change(Change("ns/bad", None, item))  # also one that an earlier process marked
    assert writer.said[1:] == [("AutoscalingRunnerSet", "ns/bad", True, "Recovered")]
