"""What the set's status says."""

from dataclasses import replace
from typing import Any

import msgspec

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Check,
    Counts,
    Snapshot,
    Template,
    WriteStatus,
)
from runnerscale.controllers.ephemeral_runner_set.status import stage
from tests.plan.ephemeral_runner_set.values import FAILED, IDLE, NOW, SEEN, item

FINE = Verdict()
WHY = trouble(Reason.CREATION_PAUSED, about="x", happened="some failed")
WORSE = trouble(Reason.TEMPLATE_REFUSED, about="x", happened="no")


def written(seen: Snapshot, verdict: Verdict = FINE, troubles: Any = ()) -> dict[str, Any]:
    (action,) = stage(seen, verdict, troubles).actions
    assert isinstance(action, WriteStatus)
    return action.body


def after(seen: Snapshot, body: dict[str, Any]) -> Snapshot:
    """The set as it is once that was stored."""
    return replace(seen, item=item(status=msgspec.to_builtins(body)))


def test_the_first_write_says_all_and_the_second_nothing() -> None:
    seen = replace(SEEN, replicas=1, runners=(IDLE,), counts=Counts(pending=1))
    body = written(seen)
    assert body["phase"] == "Running"
    assert (body["currentReplicas"], body["pendingEphemeralRunners"]) == (1, 1)
    assert body["failedEphemeralRunners"] == 0  # required by the schema, so even a zero is sent
    assert {(c["type"], c["status"]) for c in body["conditions"]} == {
        ("TemplateAccepted", "True"),
        ("CreationAllowed", "True"),
        ("Satisfied", "True"),
    }
    assert stage(after(seen, body), FINE, ()).actions == ()


def test_counters_wait_until_the_last_write_is_a_second_old() -> None:
    seen = after(SEEN, written(SEEN))
    busy = replace(seen, counts=Counts(running=1), status_due_s=NOW + 0.5)
    found = stage(busy, FINE, ())
    assert found.actions == () and found.again_s == 0.5
    assert written(replace(busy, now_s=NOW + 0.5))["runningEphemeralRunners"] == 1


def test_trouble_is_told_at_once_the_worst_of_it_first() -> None:
    seen = replace(after(SEEN, written(SEEN)), status_due_s=NOW + 0.9)
    refused = replace(seen, template=Template(Check.REFUSED, WORSE))
    body = written(refused, Verdict(at_once=0, trouble=WHY), (WHY, WORSE))
    assert body["reason"] == "TemplateRefused" and "no. " in body["message"]
    conditions = {c["type"]: c for c in body["conditions"]}
    assert conditions["TemplateAccepted"]["status"] == "False"
    assert conditions["CreationAllowed"]["reason"] == "CreationPaused"


def test_a_template_that_was_not_tried_has_no_verdict() -> None:
    body = written(replace(SEEN, template=Template()))
    assert "TemplateAccepted" not in {c["type"] for c in body["conditions"]}


def test_outdated_is_about_the_spec_of_now() -> None:
    refused = replace(FAILED, phase="Outdated")
    assert written(replace(SEEN, retired=(refused,)))["phase"] == "Outdated"
    other = replace(SEEN, retired=(replace(refused, current=False),))
    assert written(other)["phase"] == "Running"


def test_runners_just_made_are_counted_before_the_cache_shows_them() -> None:
    body = written(replace(SEEN, replicas=3, made=2))
    assert (body["currentReplicas"], body["pendingEphemeralRunners"]) == (2, 2)
    satisfied = next(c for c in body["conditions"] if c["type"] == "Satisfied")
    assert (satisfied["status"], satisfied["reason"]) == ("False", "TooFew")


def test_whether_there_are_enough_is_right_at_rest_though_nothing_else_changes() -> None:
    # The listener took its wish back: no number of ours changes with that (gap sweep, one-job).
    short = after(SEEN, written(replace(SEEN, replicas=1)))
    seen = replace(short, replicas=0, status_due_s=NOW + 0.5)
    assert stage(seen, FINE, ()).again_s == 0.5  # as seldom as a counter
    body = written(replace(seen, now_s=NOW + 0.5))
    satisfied = next(c for c in body["conditions"] if c["type"] == "Satisfied")
    assert satisfied["status"] == "True"


def test_a_place_that_waits_for_the_listener_is_not_empty() -> None:
    body = written(replace(SEEN, replicas=1, held=1))
    satisfied = next(c for c in body["conditions"] if c["type"] == "Satisfied")
    assert satisfied["status"] == "True"


def test_a_new_generation_alone_is_no_write() -> None:
    # The listener's patches raise it all the time.
    stored = after(SEEN, written(SEEN))
    raised = item(metadata={"generation": 99}, status=msgspec.to_builtins(stored.item.status))
    assert stage(replace(stored, item=raised), FINE, ()).actions == ()
