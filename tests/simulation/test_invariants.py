"""Each invariant can fail: shown on a fabricated breach, and that it is quiet without one."""

import math
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import Gauge

from runnerscale.fake_github import jobs, runner_sessions, runners, scale_sets, sessions
from runnerscale.fake_github.model import JobRequest
from tests.simulation.fabricated import (
    CONTROLLER,
    INNER,
    LISTENER,
    NODE,
    RUNNER_SET,
    Case,
    Json,
    going,
    pod,
    runner_object,
    thing,
)
from tests.simulation.faults import KINDS
from tests.simulation.invariants import LISTENERS, RUNNER_SETS, RUNNERS, SCALE_SETS
from tests.simulation.invariants.calm import disturbances
from tests.simulation.invariants.counters import wrong_counters, wrong_metrics
from tests.simulation.invariants.leaks import leaks
from tests.simulation.invariants.pace import BOUNDS
from tests.simulation.invariants.secrecy import MARKS
from tests.simulation.invariants.visibility import GITHUB_AWAY
from tests.simulation.invariants.words import wrong_troubles, wrong_words
from tests.simulation.runner import SECONDS
from tests.simulation.settlement import missing
from tests.simulation.writes import NOBODY

PERSON = "a-person"


@pytest.fixture
def case() -> Case:
    return Case()


# -- 1: no job dies by our hand ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "obj"),
    [("pods", pod("r1")), (RUNNERS, runner_object("r1")), ("secrets", pod("r1"))],
)
def test_a_deletion_under_a_job_by_us_is_a_breach(case: Case, resource: str, obj: Json) -> None:
    case.busy()
    case.write(NODE, resource, "r1", obj, going(obj))  # as a pod's deletion asks for
    assert case.breaches() == []
    case.write(CONTROLLER, resource, "r1", obj, going(obj))
    assert case.breaches() == ["no job dies by our hand"]


def test_a_runner_whose_container_has_ended_may_go(case: Case) -> None:
    case.busy()
    case.containers[0].exit = object()
    case.write(CONTROLLER, RUNNERS, "r1", runner_object("r1"), going(runner_object("r1")))
    assert case.breaches() == []


@pytest.mark.parametrize(
    ("by", "told"), [("a-person", []), (CONTROLLER, ["no job dies by our hand"])]
)
def test_a_secret_may_go_whose_pod_a_person_took_from_under_its_job(
    case: Case, by: str, told: list[str]
) -> None:
    case.write(CONTROLLER, "pods", "r1", None, pod("r1"))
    case.write(by, "pods", "r1", pod("r1"), going(pod("r1")))
    case.write(by, "pods", "r1", going(pod("r1")), None)
    case.busy()  # its node has not heard of it
    case.write(CONTROLLER, "secrets", "r1", thing("secret", "r1", owner=runner_object("r1")), None)
    assert case.breaches() == told


def test_garbage_collected_under_a_job_because_we_deleted_the_owner_is_a_breach(
    case: Case,
) -> None:
    case.busy()
    case.write(CONTROLLER, RUNNER_SETS, "set-0", INNER, going(INNER))
    case.write(NOBODY, RUNNERS, "r1", runner_object("r1"), going(runner_object("r1")))
    assert case.breaches() == ["no job dies by our hand"]


def test_finalizers_dropped_under_a_job_are_a_breach(case: Case) -> None:
    case.busy()
    held = runner_object("r1")
    held["metadata"]["finalizers"] = ["one", "two"]
    case.write(CONTROLLER, RUNNERS, "r1", held, None)
    assert case.breaches() == ["no job dies by our hand"]


def test_a_job_given_to_a_runner_that_we_are_deleting_is_a_breach(case: Case) -> None:
    case.write(CONTROLLER, "pods", "r1", pod("r1"), going(pod("r1")))
    assert case.breaches() == []
    case.busy()
    assert case.breaches() == ["no job dies by our hand"]


def test_a_job_that_is_canceled_is_not_given_once_more(case: Case) -> None:
    # Seed 31069: its pod was drained, its runner deleted with its set, GitHub held on to the job.
    _, job = case.busy()
    assert case.breaches() == []
    case.containers[0].exit = object()
    case.write(CONTROLLER, RUNNERS, "r1", runner_object("r1"), going(runner_object("r1")))
    jobs.cancel(case.github, case.at_s, job)
    assert case.breaches() == []


def test_a_registration_removed_under_a_job_is_a_breach(case: Case) -> None:
    runner, _ = case.busy()
    runners.forget(case.github, case.at_s, runner, "removed")
    assert case.breaches() == ["no job dies by our hand"]


# -- 2: one start for a JIT config, one registration for a name --------------------------------


def test_a_second_container_with_the_same_config_is_a_breach(case: Case) -> None:
    case.world.runner_program.started = ["jit_1", "jit_2"]
    assert case.tick() == []
    case.world.runner_program.started += ["jit_1"]
    assert case.tick() == ["a JIT config reaches at most one started container"]


def test_a_name_registered_twice_at_once_is_a_breach(case: Case) -> None:
    elsewhere = case.github.tenant("demo-org/other")
    wanted = scale_sets.Wanted(name="set-0")
    other = scale_sets.create(case.github, 0.0, elsewhere, wanted)
    first = runners.register(case.github, case.at_s, case.scale_set, "r1")
    runners.forget(case.github, case.at_s, first, "removed")
    runners.register(case.github, case.at_s, case.scale_set, "r1")
    assert case.breaches() == []
    runners.register(case.github, case.at_s, other, "r1")
    assert case.breaches() == ["a name is never registered twice at once"]


# -- 3: never beyond the maximum ---------------------------------------------------------------


def _with_sets(case: Case, *, replicas: int, most: int) -> None:
    runner_set = {**RUNNER_SET, "spec": {"maxRunners": most}}
    case.write("a-person", SCALE_SETS, "set-0", None, runner_set)
    inner = {**INNER, "spec": {"replicas": replicas}}
    case.write(CONTROLLER, RUNNER_SETS, "set-0", None, inner)


def test_more_runners_than_were_asked_for_are_a_breach(case: Case) -> None:
    _with_sets(case, replicas=1, most=5)
    case.runner("r1")
    assert case.breaches() == []
    case.runner("r2")
    assert case.breaches() == ["no runner beyond the maximum"]


@pytest.mark.parametrize(("phase", "allowed"), [("Running", True), ("Pending", False)])
def test_who_works_for_a_scale_set_that_is_gone_takes_no_place(
    case: Case, phase: str, allowed: bool
) -> None:
    # Seed 1917: GitHub had called its job complete where nobody listened any more.
    _with_sets(case, replicas=1, most=5)
    stray = {**runner_object("r1", phase=phase), "spec": {"runnerScaleSetId": 1}}
    case.write(CONTROLLER, RUNNERS, "r1", None, stray)
    new = {**runner_object("r2"), "spec": {"runnerScaleSetId": 2}}
    case.write(CONTROLLER, RUNNERS, "r2", None, new)
    assert ("no runner beyond the maximum" not in case.breaches()) is allowed


def test_more_asked_for_than_may_be_is_a_breach_and_a_moment_is_granted(case: Case) -> None:
    _with_sets(case, replicas=0, most=3)
    asked = {**INNER, "spec": {"replicas": 3}}
    lowered = {**RUNNER_SET, "spec": {"maxRunners": 2}}
    case.at_s += 100
    case.write("a-person", SCALE_SETS, "set-0", RUNNER_SET, lowered)
    case.at_s += 5
    case.write(LISTENER, RUNNER_SETS, "set-0", INNER, asked)  # it cannot know it yet
    assert case.breaches() == []
    case.at_s += 20
    zero = {**INNER, "spec": {"replicas": 0}}
    case.write(LISTENER, RUNNER_SETS, "set-0", zero, asked)
    assert case.breaches() == ["no runner beyond the maximum"]


# -- 4: no leak --------------------------------------------------------------------------------


def _leaks(case: Case) -> list[str]:
    return list(leaks(case.judge.seen, case.world))


def test_leaks_of_every_kind_are_found(case: Case) -> None:
    _with_sets(case, replicas=0, most=1)
    assert _leaks(case) == []
    runners.register(case.github, case.at_s, case.scale_set, "r1")
    sessions.open_session(case.github, case.at_s, case.scale_set, "a-dead-listener")
    scale_sets.create(
        case.github, 0.0, case.github.tenant("demo-org/demo"), scale_sets.Wanted(name="set-9")
    )
    case.write(CONTROLLER, "secrets", "r1", None, pod("r1"))
    case.container("gone")
    satellite = thing("Role", "set-8-listener")
    labels = "actions.github.com/scale-set-"
    satellite["metadata"]["labels"] = {f"{labels}name": "set-8", f"{labels}namespace": "demo"}
    case.write(CONTROLLER, "roles.rbac.authorization.k8s.io", "set-8-listener", None, satellite)
    case.write(CONTROLLER, "configmaps", "x", None, going(thing("ConfigMap", "x")))
    assert _leaks(case) == [
        "the session of a-dead-listener on set-0 has no listener any more",
        "scale set 2 (set-9) has no runner set any more",
        "registration r1 has no runner object any more",
        "secrets r1 outlived its EphemeralRunner",
        "configmaps x is still being deleted",
        "roles.rbac.authorization.k8s.io set-8-listener outlived the listener of demo/set-8",
        "a container of gone runs, but its pod is gone",
    ]


def test_what_a_finished_runner_ran_with_is_a_leak(case: Case) -> None:
    _with_sets(case, replicas=1, most=1)
    case.runner("r1", phase="Failed")
    case.write(CONTROLLER, "secrets", "r1", None, pod("r1"))
    assert _leaks(case) == ["secrets r1 is left of a runner that has ended"]


# -- 5: one session ----------------------------------------------------------------------------


def test_two_open_sessions_of_one_runner_set_are_a_breach(case: Case) -> None:
    sessions.open_session(case.github, case.at_s, case.scale_set, "old-listener")
    elsewhere = case.github.tenant("demo-org/other")
    moved = scale_sets.create(case.github, 0.0, elsewhere, scale_sets.Wanted(name="set-0"))
    assert case.breaches() == []
    sessions.open_session(case.github, case.at_s, moved, "new-listener")
    assert case.breaches() == ["at most one open session per scale set"]


def test_the_session_of_a_killed_listener_at_a_place_that_was_left_is_none(case: Case) -> None:
    # Nobody can give it back (crash sweep, moved); at the same scale set GitHub lets no other in.
    case.container("old-listener", "listener").exit = SimpleNamespace(code=137)
    sessions.open_session(case.github, case.at_s, case.scale_set, "old-listener")
    elsewhere = case.github.tenant("demo-org/other")
    moved = scale_sets.create(case.github, 0.0, elsewhere, scale_sets.Wanted(name="set-0"))
    sessions.open_session(case.github, case.at_s, moved, "new-listener")
    assert case.breaches() == []


def test_two_listeners_of_one_runner_set_are_a_breach(case: Case) -> None:
    labels = "actions.github.com/scale-set-"
    for name in ("old", "new"):
        obj = thing("pod", name)
        obj["metadata"]["labels"] = {f"{labels}name": "set-0", f"{labels}namespace": "demo"}
        case.write(CONTROLLER, "pods", name, None, obj)
    case.container("old", "listener")
    assert case.tick() == []
    case.container("new", "listener")
    assert case.tick() == ["at most one listener runs for a runner set"]


# -- 6: phases and counters --------------------------------------------------------------------


def test_running_is_written_by_the_listener_for_a_runner_with_a_job(case: Case) -> None:
    before, after = runner_object("r1"), runner_object("r1", phase="Running")
    case.write(LISTENER, RUNNERS, "r1", before, after)
    assert case.breaches() == ["running is the listeners word about a job"]  # GitHub gave none
    case.judge.breaches.clear()
    case.busy()
    case.write(LISTENER, RUNNERS, "r1", before, after)
    assert case.breaches() == []
    case.write(CONTROLLER, RUNNERS, "r1", before, after)
    assert case.breaches() == ["running is the listeners word about a job"]


def test_a_terminal_phase_that_is_left_is_a_breach(case: Case) -> None:
    before, after = runner_object("r1", phase="Failed"), runner_object("r1", phase="Pending")
    case.write(CONTROLLER, RUNNERS, "r1", before, after)
    assert case.breaches() == ["terminal phases stay"]


def test_a_busy_runner_that_does_not_say_so_is_a_breach_after_a_while(case: Case) -> None:
    case.runner("r1", phase="Pending")
    case.busy()
    for _ in range(8):
        assert case.tick() == []
    assert "a runner with a job says so" in [*case.tick(), *case.tick()]


def test_while_something_is_broken_nobody_has_to_say_so(case: Case) -> None:
    case.runner("r1", phase="Pending")
    case.busy()
    case.world.striking.append("line-to-api-cut")
    for _ in range(30):
        assert "a runner with a job says so" not in case.tick()


def test_counters_that_do_not_equal_the_objects_are_told(case: Case) -> None:
    _with_sets(case, replicas=1, most=1)
    case.runner("r1", phase="Running")
    told = list(wrong_counters(case.judge.seen))
    assert "EphemeralRunnerSet set-0 says runningEphemeralRunners 0, it is 1" in told
    assert "AutoscalingRunnerSet set-0 says currentRunners 0, it is 1" in told


def test_gauges_that_do_not_equal_the_objects_are_told(case: Case) -> None:
    _with_sets(case, replicas=1, most=1)
    labels = ("name", "namespace")
    gauge = Gauge(
        "gha_controller_failed_ephemeral_runners", "", labels, registry=case.controller.registry
    )
    gauge.labels("set-0", "demo").set(3)
    told = list(wrong_metrics(case.judge.seen, case.world))
    assert told[0].endswith("says 3.0, it is 0")
    assert len(told) == 3  # the two that are not published, too


def test_at_rest_a_set_that_serves_says_that_it_is_ready(case: Case) -> None:
    condition = {"type": "Ready", "status": "False", "reason": "InProgress"}
    said: Json = {"phase": "Running", "conditions": [condition]}
    case.write(CONTROLLER, SCALE_SETS, "set-0", None, {**RUNNER_SET, "status": said})
    (told,) = wrong_words(case.judge.seen)
    assert told.startswith("AutoscalingRunnerSet set-0 has Ready")
    condition["reason"] = "GitHubUnavailable"  # GitHub is well: a word that outlived its cause
    (told,) = wrong_words(case.judge.seen)
    assert "GitHubUnavailable" in told
    condition["status"] = "True"
    assert list(wrong_words(case.judge.seen)) == []
    said["phase"] = "Pending"
    (told,) = wrong_words(case.judge.seen)
    assert told == "AutoscalingRunnerSet set-0 has the phase Pending"


@pytest.mark.parametrize(
    ("kind", "status", "reason", "rightly"),
    [
        ("CreationAllowed", "False", "CreationPaused", True),
        ("CreationAllowed", "False", "QuotaExceeded", False),
        ("RunnersWritable", "False", "ApiServerRefused", False),
        ("DeletionBlocked", "True", "CleanupBlocked", False),
        ("DeletionBlocked", "False", "", True),
    ],
)
def test_at_rest_only_what_may_rightly_stand_there_is_said(
    case: Case, kind: str, status: str, reason: str, rightly: bool
) -> None:
    well = {"type": "Satisfied", "status": "True", "reason": "Satisfied"}
    other = {"type": kind, "status": status, "reason": reason}
    said: Json = {"phase": "Running", "conditions": [well, other]}
    case.write(CONTROLLER, RUNNER_SETS, "set-0", None, {**INNER, "status": said})
    assert (not list(wrong_words(case.judge.seen))) is rightly


@pytest.mark.parametrize(("phase", "rightly"), [("Failed", True), ("Pending", False)])
def test_at_rest_only_a_runner_that_has_ended_says_what_was_wrong(
    case: Case, phase: str, rightly: bool
) -> None:
    healthy = {"type": "Healthy", "status": "False", "reason": "PodNotPlaced"}
    case.runner("r1", phase=phase, conditions=[healthy])
    assert (not list(wrong_words(case.judge.seen))) is rightly


def test_a_trouble_that_outlives_its_object_or_its_word_is_told(case: Case) -> None:
    _told(case, "SessionLost")
    assert list(wrong_troubles(case.judge.seen, case.world)) == []
    case.write(CONTROLLER, SCALE_SETS, "set-0", RUNNER_SET, RUNNER_SET)
    (told,) = wrong_troubles(case.judge.seen, case.world)
    assert told.endswith("it says nothing")
    case.write("a-person", SCALE_SETS, "set-0", RUNNER_SET, None)
    (told,) = wrong_troubles(case.judge.seen, case.world)
    assert told.endswith("there is no such object")


def test_at_rest_a_lacking_runner_session_or_end_is_told(case: Case) -> None:
    _with_sets(case, replicas=1, most=1)
    request = JobRequest("job", ("set-0",), (), owner="demo-org", repository="demo")
    job = jobs.queue_job(case.github, case.at_s, request)
    jobs.assign(case.github, case.at_s, job, case.scale_set)
    assert missing(case.world) == [
        "job 1 is still assigned",
        "set-0 has 0 runners, wanted are 1",
        "set-0 has no session of a listener that runs",
    ]


def test_at_rest_jobs_that_last_keep_their_runners_above_a_lowered_maximum(case: Case) -> None:
    # Seed 1749: nothing ends jobs without an end before all is at rest, and nothing may.
    _with_sets(case, replicas=1, most=1)
    for name in ("r1", "r2"):
        runner, job = case.busy(name)
        case.runner(name, phase="Running", runnerId=runner.id)
        job.request = replace(job.request, env=((SECONDS, repr(math.inf)),))
    assert not [told for told in missing(case.world) if "wanted" in told]
    job.request = replace(job.request, env=((SECONDS, "20.0"),))
    assert "set-0 has 2 runners, wanted are 1" in missing(case.world)


# -- 8: pace -----------------------------------------------------------------------------------


def _request(name: str) -> Any:
    asked = SimpleNamespace(verb="patch", plural="pods", name=name)
    return SimpleNamespace(user=CONTROLLER, user_agent="controller-1", request=asked)


def test_each_kind_of_hot_loop_is_a_breach(case: Case) -> None:
    def often(what: str) -> Iterable[int]:
        return range(BOUNDS[what] + 1)

    obj = thing("pod", "p")
    for _ in often("writes of an object"):
        case.write(CONTROLLER, "pods", "p", obj, obj)
    for _ in often("writes of a set"):
        case.write(LISTENER, RUNNER_SETS, "set-0", INNER, INNER)
    event = thing("Event", "e", involvedObject={"kind": "Pod", "name": "p"})
    for _ in often("Events about an object"):
        case.write(CONTROLLER, "events", "e", None, event)
    for _ in often("requests about an object"):
        case.judge.served(_request("p"))
    for _ in often("log lines"):
        case.judge.logged("controller-1", {"event": "again"})
    assert case.breaches() == ["no hot loop"] * 5
    case.world.hub.calls[("ghalistener", "poll", "200")] = BOUNDS["calls at GitHub"] + 1
    case.controller.component.steps = BOUNDS["steps"] + 1
    assert case.tick() == ["no hot loop"] * 7


@pytest.mark.parametrize(
    ("operation", "most"), [("poll", 60), ("registration-token", 60), ("remove-runner", 240)]
)
def test_only_what_is_asked_about_a_runner_may_be_asked_more_often_where_there_are_more(
    case: Case, operation: str, most: int
) -> None:
    _with_sets(case, replicas=6, most=6)
    for number in range(6):
        case.runner(f"r{number}")
    assert case.tick() == []  # a minute begins
    case.world.hub.calls[("a-client", operation, "200")] = most
    assert case.tick() == []
    case.world.hub.calls[("a-client", operation, "503")] = 1
    assert case.tick() == ["no hot loop"]


async def test_a_key_that_is_passed_again_and_again_is_a_breach(case: Case) -> None:
    class Passing:
        name = "ephemeralrunner"

        async def _pass(self, key: str) -> None: ...

    case.controller.manager._controllers = [Passing()]
    assert case.tick() == []
    for _ in range(BOUNDS["passes on a key"] + 1):
        await case.controller.manager._controllers[0]._pass("demo/r1")
    assert case.tick() == ["no hot loop"]


def test_a_new_minute_counts_anew(case: Case) -> None:
    for _ in range(3):
        for _ in range(BOUNDS["log lines"]):
            case.judge.logged("controller-1", {"event": "again"})
        assert case.tick(61.0) == []


# -- 9: what blocks is visible -----------------------------------------------------------------


def _told(case: Case, reason: str) -> None:
    condition = {"type": "ListenerReady", "status": "False", "reason": reason}
    told = {**RUNNER_SET, "status": {"conditions": [condition]}}
    case.write(CONTROLLER, SCALE_SETS, "set-0", RUNNER_SET, told)
    about = {"kind": "AutoscalingRunnerSet", "uid": RUNNER_SET["metadata"]["uid"]}
    event = thing("Event", "e", involvedObject=about, reason=reason)
    case.write(CONTROLLER, "events", "e", None, event)
    labels = ("kind", "namespace", "name", "reason")
    gauge = Gauge("runnerscale_trouble", "", labels, registry=case.controller.registry)
    gauge.labels("AutoscalingRunnerSet", "demo", "set-0", reason).set(1)


def test_a_set_without_a_session_and_without_a_word_is_a_breach(case: Case) -> None:
    _with_sets(case, replicas=0, most=1)
    seen = [case.tick() for _ in range(24)]
    assert seen[17] == []
    assert seen[-1] == ["what blocks work is visible"]
    assert "no condition and no Event and no metric" in case.judge.breaches[0].detail


def test_with_condition_event_and_metric_it_is_none(case: Case) -> None:
    _with_sets(case, replicas=0, most=1)
    _told(case, "SessionHeldElsewhere")
    assert [case.tick() for _ in range(24)][-1] == []


@pytest.mark.parametrize(("holds_it", "at_first"), [(True, 60), (False, 18)])
def test_too_few_runners_are_told_later_only_where_one_stands_that_nobody_knows_to_be_lost(
    case: Case, holds_it: bool, at_first: int
) -> None:
    _job_behind_a_ghost(case)
    (job,) = case.github.jobs.values()
    jobs.cancel(case.github, case.at_s, job)
    wished = {**RUNNER_SET, "spec": {"minRunners": 1, "maxRunners": 1}}
    case.write(PERSON, SCALE_SETS, "set-0", RUNNER_SET, wished)
    if not holds_it:
        case.write(PERSON, RUNNERS, "r1", runner_object("r1"), None)
    assert not any(case.tick() for _ in range(at_first))  # a tick is five seconds
    assert any(case.tick() for _ in range(8))
    (breach,) = case.judge.breaches
    assert breach.detail.startswith("set-0 has too few runners online")


@pytest.mark.parametrize(
    ("kind", "excused"),
    [
        ("github-down", True),
        ("line-to-github-cut", True),
        ("github-malformed-message", False),
        ("github-repeated-message", False),
        ("github-lying-statistics", False),
        ("github-session-held", False),
    ],
)
def test_only_a_github_that_does_not_answer_makes_a_ghost_unknowable_for_longer(
    case: Case, kind: str, excused: bool
) -> None:
    _job_behind_a_ghost(case)
    case.world.striking.append(kind)
    said = [case.tick() for _ in range(72)]
    assert any(said) is not excused


def test_what_keeps_github_from_answering_are_kinds_that_there_are() -> None:
    assert set(KINDS) >= GITHUB_AWAY


def _evidence(case: Case) -> None:
    """A runner that ran out of memory, kept for people with its words."""
    healthy = {"type": "Healthy", "status": "False", "reason": "OOMKilled"}
    case.runner("old", phase="Failed", reason="OOMKilled", conditions=[healthy])
    about = {"kind": "EphemeralRunner", "uid": runner_object("old")["metadata"]["uid"]}
    event = thing("Event", "e", involvedObject=about, reason="OOMKilled")
    case.write(CONTROLLER, "events", "e", None, event)
    labels = ("kind", "namespace", "name", "reason")
    gauge = Gauge("runnerscale_trouble", "", labels, registry=case.controller.registry)
    gauge.labels("EphemeralRunner", "demo", "old", "OOMKilled").set(1)


def test_why_a_runner_has_ended_says_nothing_of_a_session(case: Case) -> None:
    _with_sets(case, replicas=0, most=1)
    _evidence(case)
    assert [case.tick() for _ in range(24)][-1] == ["what blocks work is visible"]
    assert "no condition and no Event and no metric" in case.judge.breaches[0].detail


def test_why_a_runner_has_ended_says_why_a_job_waits(case: Case) -> None:
    _with_sets(case, replicas=1, most=1)
    _evidence(case)
    case.container("a-listener", "listener")
    sessions.open_session(case.github, case.at_s, case.scale_set, "a-listener")
    request = JobRequest("job", ("set-0",), (), owner="demo-org", repository="demo")
    jobs.queue_job(case.github, case.at_s, request)
    assert not any(case.tick() for _ in range(36))


def _taken_back(case: Case) -> None:
    case.write(CONTROLLER, SCALE_SETS, "set-0", case.judge.seen.all(SCALE_SETS)[0], RUNNER_SET)


@pytest.mark.parametrize(("another_cause", "silent_for"), [(False, 6), (True, 18)])
def test_a_cause_that_takes_the_place_of_a_told_one_has_its_own_minute(
    case: Case, another_cause: bool, silent_for: int
) -> None:
    # Seed 9961: GitHub was away, and as it came back a webhook began to refuse the runner's writes.
    _with_sets(case, replicas=0, most=1)
    case.world.striking.append("runner-held")  # of those that excuse nobody
    _told(case, "SessionHeldElsewhere")
    assert not any(case.tick() for _ in range(36))  # 180 s; a tick is five seconds
    if another_cause:
        case.world.striking.append("runner-pod-held")
    _taken_back(case)
    assert not any(case.tick() for _ in range(silent_for))  # to be told takes 30 s
    assert any(case.tick() for _ in range(3))


def test_causes_that_follow_each_other_excuse_nobody_for_longer_than_five_minutes(
    case: Case,
) -> None:
    _with_sets(case, replicas=0, most=1)
    _told(case, "SessionHeldElsewhere")
    with_word = case.judge.seen.all(SCALE_SETS)[0]
    said = []
    for number in range(6):  # 75 s told, 75 s silent, and so on
        case.world.striking.append(f"runner-held-{number}")
        before, after = (RUNNER_SET, with_word) if number % 2 == 0 else (with_word, RUNNER_SET)
        case.write(CONTROLLER, SCALE_SETS, "set-0", before, after)
        said += [case.tick() for _ in range(15)]
    assert not any(said[:75]) and any(said[75:])


def test_a_word_that_nobody_can_look_up_does_not_count(case: Case) -> None:
    _with_sets(case, replicas=0, most=1)
    _told(case, "BecauseOfReasons")
    assert [case.tick() for _ in range(24)][-1] == ["what blocks work is visible"]


def test_a_controller_that_is_down_is_excused_and_a_minute_more(case: Case) -> None:
    _with_sets(case, replicas=0, most=1)
    case.controller.leads = False
    assert [case.tick() for _ in range(24)][-1] == []
    case.controller.leads = True
    assert [case.tick() for _ in range(16)][-1] == []
    assert [case.tick() for _ in range(8)][-1] == ["what blocks work is visible"]


def test_jobs_that_the_maximum_makes_wait_are_not_blocked(case: Case) -> None:
    _with_sets(case, replicas=1, most=1)
    case.container("a-listener", "listener")
    runner, _ = case.busy()
    case.write(LISTENER, RUNNERS, "r1", None, runner_object("r1", phase="Running", jobId="1"))
    sessions.open_session(case.github, case.at_s, case.scale_set, "a-listener")
    request = JobRequest("job", ("set-0",), (), owner="demo-org", repository="demo")
    jobs.queue_job(case.github, case.at_s, request)
    for _ in range(24):
        runner.last_seen_s = case.at_s
        assert case.tick() == []


def _job_behind_a_ghost(case: Case) -> None:
    _with_sets(case, replicas=1, most=1)
    case.container("a-listener", "listener")
    sessions.open_session(case.github, case.at_s, case.scale_set, "a-listener")
    case.runner("r1", phase="Pending")
    runner = runners.register(case.github, case.at_s, case.scale_set, "r1")
    runner_sessions.connect(case.github, case.at_s, secret=runner.secret, nonce="n")
    runner_sessions.make_ghost(case.github, case.at_s, runner)
    request = JobRequest("job", ("set-0",), (), owner="demo-org", repository="demo")
    jobs.queue_job(case.github, case.at_s, request)


def test_a_job_whose_place_a_ghost_takes_is_told_when_it_can_be_known(case: Case) -> None:
    _job_behind_a_ghost(case)
    said = [case.tick() for _ in range(72)]  # a tick is five seconds
    assert not any(said[:60])  # 300 s: by then it has been asked about twice
    assert said[-1] == ["what blocks work is visible"] * len(said[-1]) != []


def _waits(case: Case) -> list[str]:
    return [breach.detail for breach in case.judge.breaches if " waits " in breach.detail]


def test_what_blocks_after_a_ghost_was_deleted_has_its_own_minute(case: Case) -> None:
    # Seed 2575: a person deleted the ghost, GitHub refused to forget it, and the job waited on.
    _job_behind_a_ghost(case)
    assert not any(case.tick() for _ in range(30))  # 150 s
    case.write(PERSON, RUNNERS, "r1", runner_object("r1"), going(runner_object("r1")))
    assert not any(case.tick() for _ in range(17))  # 60 s, and 30 s to be told
    assert [case.tick() for _ in range(3)][-1] and len(_waits(case)) == 1


def test_ghosts_that_come_and_go_excuse_nobody_for_longer_than_one(case: Case) -> None:
    _job_behind_a_ghost(case)
    alive = runner_object("r1", phase="Pending")
    for _ in range(8):  # 50 s each
        for before, after in ((alive, going(alive)), (going(alive), alive)):
            case.write(PERSON, RUNNERS, "r1", before, after)
            for _ in range(5):
                case.tick()
    assert len(_waits(case)) == 1


@pytest.mark.parametrize(("starts", "at_first"), [(True, 60), (False, 18)])
def test_a_job_whose_place_a_silent_container_takes_is_told_later(
    case: Case, starts: bool, at_first: int
) -> None:
    _with_sets(case, replicas=1, most=1)
    case.container("a-listener", "listener")
    sessions.open_session(case.github, case.at_s, case.scale_set, "a-listener")
    case.runner("r1", phase="Pending")
    runners.register(case.github, case.at_s, case.scale_set, "r1")
    if starts:  # else the cluster itself knows that nothing runs
        case.container("r1")
    request = JobRequest("job", ("set-0",), (), owner="demo-org", repository="demo")
    jobs.queue_job(case.github, case.at_s, request)
    said = [case.tick() for _ in range(72)]
    assert not any(said[:at_first])
    assert said[at_first:][11] and set(said[-1]) == {"what blocks work is visible"}


# -- 10: no secret is told ---------------------------------------------------------------------

SECRETS = (
    "jit_0123456789abcdef",
    "queue_0123456789abcdef",
    "aml0XzAxMjM0NTY3",
    "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJm",
    "a-token-of-the-simulation",
    "YS10b2tlbi1vZi10aGUtc2ltdWxhdGlvbg==",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_a_log_line_an_object_or_a_metric_is_a_breach(case: Case, secret: str) -> None:
    case.judge.logged("controller-1", {"event": "called", "error": f"401 for {secret}"})
    assert case.breaches() == ["no secret is told"]
    case.write(CONTROLLER, RUNNERS, "r1", None, runner_object("r1", message=secret))
    assert case.breaches() == ["no secret is told"] * 2
    Gauge("a_gauge", "", ("job",), registry=case.controller.registry).labels(secret).set(1)
    case.world.trace.lines.append(f"said {secret}")
    case.world.listener_program.said.append(secret)
    case.judge.at_rest(case.world)
    assert case.breaches() == ["no secret is told"] * 5
    assert not any(secret in breach.detail for breach in case.judge.breaches)


def test_a_secret_in_an_exception_is_a_breach(case: Case) -> None:
    try:
        raise ValueError(f"bad answer for {SECRETS[0]}")
    except ValueError:
        case.judge.logged("controller-1", {"event": "failed", "exc_info": True})
    assert case.breaches() == ["no secret is told"]


def test_the_data_of_a_secret_is_where_it_belongs(case: Case) -> None:
    obj = thing("Secret", "r1", data={"jitToken": SECRETS[2]})
    case.write(CONTROLLER, "secrets", "r1", None, obj)
    assert case.breaches() == []


# -- what else the judge hears -----------------------------------------------------------------


def test_what_github_sees_by_itself_is_a_breach(case: Case) -> None:
    case.github.violation(1.0, "job started twice", "job 1")
    assert case.breaches() == ["GitHub saw: job started twice"]


def test_what_is_broken_is_told(case: Case) -> None:
    assert list(disturbances(case.world)) == []
    case.controller.component.dead = True
    case.world.nodes.clear()
    assert list(disturbances(case.world)) == ["no controller at work", "no node agent"]


def test_a_listener_object_without_its_set_is_a_leak(case: Case) -> None:
    spec = {"autoscalingRunnerSetNamespace": "demo", "autoscalingRunnerSetName": "set-7"}
    listener = thing("AutoscalingListener", "l", spec=spec)
    case.write(CONTROLLER, LISTENERS, "l", None, listener)
    assert "listener l has no runner set any more" in _leaks(case)


@pytest.mark.parametrize(("begins", "follows"), MARKS)
def test_each_mark_of_a_secret_is_found_wherever_it_stands(
    case: Case, begins: str, follows: str
) -> None:
    case.judge.logged("listener", {"event": f"it was{begins}{'a' * 12 if follows else ''}."})
    assert case.breaches() == ["no secret is told"]
