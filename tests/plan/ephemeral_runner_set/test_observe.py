"""From objects to views."""

from typing import Any

import msgspec
import pytest

from runnerscale.api.ephemeral_runner import EphemeralRunner, EphemeralRunnerSpec
from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.labels import RUNNER_SPEC_HASH
from runnerscale.controllers.ephemeral_runner_set.observe import (
    PROVEN_AFTER_S,
    believed,
    is_current,
    must_list,
    retired_view,
    runner_view,
    seasoned,
    time_of,
)
from runnerscale.core.clock import format_time
from tests.plan.ephemeral_runner_set.values import NOW


def runner(
    meta: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any
) -> EphemeralRunner:
    body = {
        "metadata": {
            "name": "r",
            "uid": "u",
            "resourceVersion": "3",
            "creationTimestamp": format_time(NOW),
        }
        | (meta or {}),
        "spec": spec or {},
        "status": status,
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunner)


def condition(kind: str, status: str, at_s: float) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": format_time(at_s)}


def test_a_view_of_a_live_runner() -> None:
    online = condition("Online", "True", NOW + 9)
    view = runner_view(
        runner(phase="Pending", runnerId=7, ready=True, conditions=[online]), current=False
    )
    assert (view.name, view.uid, view.resource_version) == ("r", "u", "3")
    assert (view.created_s, view.runner_id, view.has_job, view.current) == (NOW, 7, False, False)
    assert view.online_s == NOW + 9 and view.idle
    assert runner_view(runner(workflowRunId=3), current=True).has_job
    assert runner_view(runner(ready=False, conditions=[online]), current=True).online_s is None
    started = condition("Started", "True", NOW + 4)
    assert runner_view(runner(ready=True, conditions=[started]), current=True).online_s == NOW + 4


def test_who_shows_that_the_template_works() -> None:
    ready = runner_view(runner(ready=True), current=True)
    assert not seasoned(ready, now_s=NOW + 10)  # it may yet crash
    assert seasoned(ready, now_s=NOW + PROVEN_AFTER_S)
    assert seasoned(runner_view(runner(jobId="j"), current=True), now_s=NOW)
    assert not seasoned(runner_view(runner(), current=True), now_s=NOW + 9999)


def test_a_view_of_a_retired_runner() -> None:
    failed = condition("Healthy", "False", NOW + 30)
    view = retired_view(
        runner(phase="Failed", reason="NodeLost", message="m", jobId="j", conditions=[failed]),
        current=True,
    )
    assert (view.since_s, view.reason, view.message, view.had_job) == (
        NOW + 30,
        "NodeLost",
        "m",
        True,
    )
    # One of ARC has no condition: it is as old as its object.
    assert retired_view(runner(phase="Failed"), current=True).since_s == NOW


def test_an_end_in_the_future_is_not_believed() -> None:
    # Written while the controller's clock was an hour ahead: creation would pause for an hour.
    failed = condition("Healthy", "False", NOW + 4000)
    view = retired_view(runner(phase="Failed", conditions=[failed]), current=True)
    assert believed(view, now_s=NOW + 40).since_s == NOW
    assert believed(view, now_s=NOW + 4001) == view


SPEC = {"githubConfigUrl": "u", "spec": {"containers": [{"name": "runner", "image": "i"}]}}
WISHED = msgspec.json.decode(msgspec.json.encode(SPEC), type=EphemeralRunnerSpec)
NOW_HASH = fingerprint(WISHED)


def test_our_own_fingerprint_decides() -> None:
    ours = runner({"annotations": {RUNNER_SPEC_HASH: NOW_HASH}}, {"githubConfigUrl": "other"})
    assert is_current(ours, WISHED, fingerprint=NOW_HASH)
    assert not is_current(ours, WISHED, fingerprint="r1-other")


def test_a_runner_of_arc_is_compared_by_content() -> None:
    # Empty and absent coincide, and the proxy reference is the set's addition.
    same = {**SPEC, "proxySecretRef": "p", "metadata": {}}
    assert is_current(runner(None, same), WISHED, fingerprint=NOW_HASH)
    image = {"containers": [{"name": "runner", "image": "j"}]}
    assert not is_current(runner(None, {**SPEC, "spec": image}), WISHED, fingerprint=NOW_HASH)


@pytest.mark.parametrize("text", [None, "", "yesterday", "0001-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_zero(text: str | None) -> None:
    assert time_of(text) == 0.0


def test_when_runners_are_looked_at_one_by_one() -> None:
    quiet = {
        "deleting": False,
        "asked": False,
        "stale": False,
        "outdated": False,
        "target": None,
        "alive": 5,
    }
    assert not must_list(**quiet)  # type: ignore[arg-type]
    assert not must_list(**(quiet | {"target": 5}))  # type: ignore[arg-type]
    for change in ("deleting", "asked", "stale", "outdated"):
        assert must_list(**(quiet | {change: True}))  # type: ignore[arg-type]
    assert must_list(**(quiet | {"target": 4}))  # type: ignore[arg-type]
