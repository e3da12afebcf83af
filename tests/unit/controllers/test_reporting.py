"""How trouble becomes visible."""

import dataclasses
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers import reporting
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.kube.objects import ObjectReference

ABOUT = ObjectReference("v1", "Thing", "ns", "x", "uid")
MISSING = trouble(Reason.CREDENTIALS_MISSING, about="Thing ns/x", happened="no Secret")
WAITS = trouble(Reason.DELETION_WAITS, about="Thing ns/x", happened="it waits")


class Events:
    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def record(self, about: Any, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.said.append((type, reason, message))


def make() -> tuple[Reporter, Events, CollectorRegistry]:
    events, registry = Events(), CollectorRegistry()
    return Reporter(events, ControllerMetrics(registry)), events, registry


def gauge(registry: CollectorRegistry, reason: str) -> float | None:
    labels = {"kind": "Thing", "namespace": "ns", "name": "x", "reason": reason}
    return registry.get_sample_value("runnerscale_trouble", labels)


def test_one_trouble_is_an_event_a_gauge_and_a_log_line_with_the_same_word() -> None:
    reporter, events, registry = make()
    with capture_logs() as lines:
        reporter.report(ABOUT, "ns/x", [MISSING])
    assert events.said == [("Warning", "CredentialsMissing", MISSING.message)]
    assert gauge(registry, "CredentialsMissing") == 1
    (line,) = lines
    assert line["event"] == "trouble"
    assert line["log_level"] == "error"
    assert line["reason"] == "CredentialsMissing"
    assert line["object"] == "Thing ns/x"


def test_what_persists_is_said_once_and_what_changes_again() -> None:
    reporter, events, _ = make()
    for _ in range(5):
        reporter.report(ABOUT, "ns/x", [MISSING])
    assert len(events.said) == 1
    reporter.report(ABOUT, "ns/x", [dataclasses.replace(MISSING, happened="another Secret")])
    assert len(events.said) == 2


def test_another_id_of_the_same_answer_is_no_news() -> None:
    # GitHub numbers every answer: each try of a refused call would be told as a new trouble.
    reporter, events, _ = make()
    for number in range(5):
        said = f'failed(status="401", activity_id="a{number}", github_request_id="{number}"): no'
        reporter.report(ABOUT, "ns/x", [dataclasses.replace(MISSING, happened=said)])
    assert len(events.said) == 1
    assert 'activity_id="a0"' in events.said[0][2]
    reporter.report(
        ABOUT, "ns/x", [dataclasses.replace(MISSING, happened='failed(status="403"): no')]
    )
    assert len(events.said) == 2


def test_the_end_of_it_is_a_log_line_and_the_gauge_is_gone() -> None:
    reporter, events, registry = make()
    reporter.report(ABOUT, "ns/x", [MISSING])
    with capture_logs() as lines:
        reporter.report(ABOUT, "ns/x", [])
    assert [line["event"] for line in lines] == ["trouble is over"]
    assert gauge(registry, "CredentialsMissing") is None
    reporter.report(ABOUT, "ns/x", [MISSING])
    assert len(events.said) == 2


def test_what_passes_by_itself_is_a_normal_event() -> None:
    reporter, events, _ = make()
    with capture_logs() as lines:
        reporter.report(ABOUT, "ns/x", [WAITS])
    assert events.said[0][:2] == ("Normal", "DeletionWaits")
    assert lines[0]["log_level"] == "info"


def test_a_reason_said_twice_in_a_pass_counts_once() -> None:
    reporter, events, registry = make()
    reporter.report(ABOUT, "ns/x", [MISSING, dataclasses.replace(MISSING, happened="other")])
    assert len(events.said) == 1
    assert gauge(registry, "CredentialsMissing") == 1


def test_an_object_that_is_gone_takes_its_troubles_with_it() -> None:
    reporter, _, registry = make()
    reporter.report(ABOUT, "ns/x", [MISSING])
    reporter.forget("Thing", "ns/x")
    assert gauge(registry, "CredentialsMissing") is None


def test_two_kinds_of_one_name_are_two_objects() -> None:
    reporter, events, _ = make()
    reporter.report(ABOUT, "ns/x", [MISSING])
    reporter.report(replace(ABOUT, kind="Other"), "ns/x", [MISSING])
    assert len(events.said) == 2


def test_what_was_told_is_remembered_only_for_so_many(monkeypatch: Any) -> None:
    monkeypatch.setattr(reporting, "TOLD_MAX", 2)
    reporter, events, _ = make()
    for number in range(3):
        reporter.report(ABOUT, str(number), [MISSING])
    reporter.report(ABOUT, "0", [MISSING])
    assert len(events.said) == 4
