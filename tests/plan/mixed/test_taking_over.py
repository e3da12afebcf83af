"""A live installation of ARC's, and our controller in the place of its own: nothing is disturbed.

Every object is as ARC's controller wrote it (`tests/arc`). What a real API server does with ARC's
schemas and rights is `tests/kubernetes/test_image_exchange.py`.
"""

import copy
from dataclasses import replace
from typing import Any

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.fingerprint import is_ours
from runnerscale.kube.builtin import PODS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from runnerscale.kube.reconcile import PassEnd
from runnerscale.scaleset.model import RunnerScaleSet
from tests.arc.objects import GIVEN_BACK, Arc
from tests.plan.autoscaling_listener.world import World as ListenerWorld
from tests.plan.autoscaling_runner_set.world import URL
from tests.plan.autoscaling_runner_set.world import World as RunnerSetWorld
from tests.plan.ephemeral_runner_set.world import NS, SET
from tests.plan.ephemeral_runner_set.world import World as SetWorld

LINUX = Arc(name="linux", secret="github", minimum=1, maximum=10)
NAME = "linux"


# --- the runner set -------------------------------------------------------------------------------


def taken_over(arc: Arc = LINUX, **status: Any) -> RunnerSetWorld:
    """Registered, with set and listener, and a controller of ours that has just begun."""
    world = RunnerSetWorld(create=False)
    labels = (arc.name,)
    world.github.at[URL][7] = RunnerScaleSet(7, arc.name, 1, "Default", labels, True)
    made = world.api.put(AUTOSCALING_RUNNER_SETS, arc.namespace, arc.runner_set())
    uid = made["metadata"]["uid"]
    body = arc.ephemeral_runner_set(uid, replicas=3, patch_id=4)
    world.api.put(EPHEMERAL_RUNNER_SETS, arc.namespace, body | {"status": status})
    world.api.put(AUTOSCALING_LISTENERS, arc.home, arc.autoscaling_listener())
    return world


def without_versions(body: Any) -> Any:
    kept = copy.deepcopy(body)
    for key in ("resourceVersion", "generation"):
        kept["metadata"].pop(key, None)
    return kept


@pytest.mark.behaviour("C1 T31")
async def test_the_ephemeral_runner_set_stays_as_arc_wrote_it() -> None:
    world = taken_over()
    before = without_versions(world.ers)
    await world.settle()
    await world.later(600)
    assert without_versions(world.ers) == before
    assert world.status["phase"] == "Running"


@pytest.mark.behaviour("C1 T31")
async def test_the_listener_is_changed_in_place_and_only_in_what_differs() -> None:
    world = taken_over()
    uid = world.al["metadata"]["uid"]
    spec = dict(world.al["spec"])
    await world.settle()
    assert world.al["metadata"]["uid"] == uid
    assert world.al["spec"] == spec | {"image": world.settings.image}
    assert world.api.names(AUTOSCALING_LISTENERS) == [LINUX.listener]


@pytest.mark.behaviour("C1 T31", "C1 T38")
async def test_github_is_asked_and_told_nothing_new() -> None:
    world = taken_over()
    await world.settle()
    assert world.github.writes() == []
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert world.annotations[keys.ISSUED_FOR] == URL


async def test_a_wish_that_changes_afterwards_is_ours() -> None:
    world = taken_over()
    await world.settle()
    world.edit(template=world.image("runner:2"))
    await world.settle()
    spec = world.ers["spec"]["ephemeralRunnerSpec"]["spec"]
    assert spec["containers"] == [{"name": "runner", "image": "runner:2"}]
    assert is_ours(world.ers["metadata"]["annotations"][keys.INTEGRITY_HASH])
    assert (world.ers["spec"]["replicas"], world.ers["spec"]["patchID"]) == (3, 4)


async def test_what_somebody_else_changed_on_arcs_set_is_put_right() -> None:
    world = taken_over()
    other = {"spec": {"ephemeralRunnerSpec": {"githubConfigSecret": "other"}}}
    world.api.change(EPHEMERAL_RUNNER_SETS, LINUX.namespace, NAME, other)
    await world.settle()
    assert world.ers["spec"]["ephemeralRunnerSpec"]["githubConfigSecret"] == "github"


async def test_labels_that_arc_put_there_follow_the_runner_set_from_then_on() -> None:
    world = taken_over()
    await world.settle()
    world.edit_meta(labels={"team": "b"})
    await world.settle()
    assert world.ers["metadata"]["labels"]["team"] == "b"
    world.edit_meta(labels={"team": None})
    await world.settle()
    assert "team" not in world.ers["metadata"]["labels"]


async def test_a_set_of_an_older_releases_name_drains_and_the_listener_serves_the_new_one() -> None:
    # Before ARC named its sets after the runner set they had generated names (W42).
    world = taken_over()
    old = LINUX.ephemeral_runner_set(world.ars["metadata"]["uid"], replicas=2, name="linux-x7k2p")
    world.api.drop(EPHEMERAL_RUNNER_SETS, LINUX.namespace, NAME)
    world.api.put(EPHEMERAL_RUNNER_SETS, LINUX.namespace, old)
    world.api.change(
        AUTOSCALING_LISTENERS,
        LINUX.home,
        LINUX.listener,
        {"spec": {"ephemeralRunnerSetName": "linux-x7k2p"}},
    )
    await world.settle()
    assert world.al["spec"]["ephemeralRunnerSetName"] == NAME
    gone = world.api.body(EPHEMERAL_RUNNER_SETS, LINUX.namespace, "linux-x7k2p")
    assert gone["metadata"]["deletionTimestamp"]  # its own controller lets idle runners go


async def test_an_older_listener_of_another_name_goes_before_there_is_a_second_one() -> None:
    world = taken_over()
    old = LINUX.autoscaling_listener()
    world.api.drop(AUTOSCALING_LISTENERS, LINUX.home, LINUX.listener)
    old["metadata"]["name"] = "linux-6d5dd7cb-listener"
    old["metadata"]["finalizers"] = []
    world.api.put(AUTOSCALING_LISTENERS, LINUX.home, old)
    await world.settle()
    # The name is of no account: it serves this runner set at this place, so it stays.
    assert world.api.names(AUTOSCALING_LISTENERS) == ["linux-6d5dd7cb-listener"]


async def test_a_runner_set_that_arc_called_outdated_is_tried_again() -> None:
    # ARC deletes listener and scales to nothing; who set the phase may be long gone.
    world = taken_over(phase="Outdated", currentReplicas=0)
    world.api.change(
        AUTOSCALING_RUNNER_SETS, LINUX.namespace, NAME, {"status": {"phase": "Outdated"}}
    )
    world.api.drop(AUTOSCALING_LISTENERS, LINUX.home, LINUX.listener)
    await world.settle()
    assert world.api.names(AUTOSCALING_LISTENERS) == [LINUX.listener]


async def test_a_runner_that_arc_found_outdated_is_evidence_for_us_too() -> None:
    world = taken_over()
    await world.settle()
    owner = world.ers["metadata"]["uid"]
    runner = LINUX.ephemeral_runner("linux-runner-abcde", owner)
    status = {"phase": "Outdated", "reason": "Outdated", "message": "Runner is deprecated"}
    world.api.put(EPHEMERAL_RUNNERS, LINUX.namespace, runner | {"status": status})
    await world.settle()
    assert world.status["reason"] == "Outdated"
    assert world.ers["metadata"]["annotations"][keys.HOLD] == "0"


# --- the runners ----------------------------------------------------------------------------------

RUNNERS = Arc(name=SET, namespace=NS)


def runners_of_arc(*, replicas: int, patch_id: int = 0) -> SetWorld:
    """A set of ARC's in our hands, without runners yet."""
    world = SetWorld()
    body = RUNNERS.ephemeral_runner_set("uid-of-the-runner-set", replicas=replicas)
    body["spec"]["patchID"] = patch_id
    world.api.put(EPHEMERAL_RUNNER_SETS, NS, body)
    return world


def add(world: SetWorld, name: str, *, age_s: float = 600.0, **status: Any) -> str:
    """A runner that ARC made."""
    body = RUNNERS.ephemeral_runner(name, world.set["metadata"]["uid"])
    from runnerscale.core.clock import format_time

    body["metadata"]["creationTimestamp"] = format_time(world.clock.now_s() - age_s)
    world.api.put(EPHEMERAL_RUNNERS, NS, body | {"status": status})
    return name


async def begun(world: SetWorld) -> PassEnd:
    """A process of ours that sees all of it at once."""
    world.restart()
    return await world.settle()


@pytest.mark.behaviour("C1 T31")
@pytest.mark.parametrize("patch_id", [0, 9])
async def test_no_runner_is_asked_about_or_replaced_because_arc_made_it(patch_id: int) -> None:
    world = runners_of_arc(replicas=3, patch_id=patch_id)
    names = [
        add(world, "set-runner-idle1", phase="Pending", runnerId=1, runnerName="set-runner-idle1"),
        add(world, "set-runner-idle2", phase="Running", runnerId=2, ready=True),  # legacy
        add(world, "set-runner-busyx", phase="Running", runnerId=3, jobId="j", ready=True),
    ]
    await begun(world)
    await world.later(600)
    assert world.names == names
    assert world.github.asked == []
    assert world.api.names(EPHEMERAL_RUNNERS) == sorted(names)


async def test_a_runner_whose_template_differs_is_exchanged_though_arc_made_it() -> None:
    world = runners_of_arc(replicas=1, patch_id=0)
    add(world, "set-runner-old", phase="Pending", runnerId=1, runnerName="set-runner-old")
    newer = copy.deepcopy(GIVEN_BACK["spec"]["containers"])
    newer[0]["image"] = "runner:2"
    world.change_set({"spec": {"ephemeralRunnerSpec": {"spec": {"containers": newer}}}})
    await begun(world)
    assert world.github.asked == [1]


@pytest.mark.behaviour("C1 T58")
async def test_a_busy_runner_that_an_older_listener_left_pending_is_never_let_go() -> None:
    world = runners_of_arc(replicas=0, patch_id=0)
    add(world, "set-runner-busyx", phase="Pending", runnerId=3, jobId="j")
    add(world, "set-runner-busyy", phase="Pending", runnerId=4, workflowRunId=5)
    await begun(world)
    assert world.names == ["set-runner-busyx", "set-runner-busyy"]
    assert world.github.asked == []


async def test_a_legacy_running_without_a_job_is_idle_and_goes_after_the_pending_ones() -> None:
    world = runners_of_arc(replicas=1, patch_id=0)
    add(world, "set-runner-legacy", age_s=900, phase="Running", runnerId=1, ready=True)
    add(world, "set-runner-later", age_s=300, phase="Pending", runnerId=2, ready=True)
    await begun(world)
    assert world.github.asked == [2]
    world.says(0, 0)
    await world.settle()
    assert world.github.asked == [2, 1]


async def test_a_legacy_running_that_github_protects_stays() -> None:
    from runnerscale.scaleset.errors import JobStillRunning

    world = runners_of_arc(replicas=0, patch_id=0)
    add(world, "set-runner-legacy", phase="Running", runnerId=1, ready=True)
    world.github.answers[1] = JobStillRunning("job is still running")
    await begun(world)
    assert world.names == ["set-runner-legacy"]


async def test_runners_that_arc_kept_as_failed_for_good_make_room_at_last() -> None:
    # ARC counts them as capacity for ever (W32); for us they are evidence, and old evidence.
    world = runners_of_arc(replicas=1, patch_id=1)
    add(world, "set-runner-dead1", age_s=90000, phase="Failed", reason="InvalidPod", message="m")
    add(world, "set-runner-dead2", age_s=90000, phase="Succeeded")
    await begun(world)
    world.sweep()
    await world.later(700)
    live = [name for name in world.names if name not in ("set-runner-dead1", "set-runner-dead2")]
    assert len(live) == 1


# --- the listener ---------------------------------------------------------------------------------


def listener_of_arc(*, image: str, may_get: bool = True) -> ListenerWorld:
    """The listener's object and everything that belongs to it, its pod running."""
    world = ListenerWorld()
    arc = replace(LINUX, listener_image=image)
    home, runners = arc.home, arc.namespace
    made = world.api.put(AUTOSCALING_LISTENERS, home, arc.autoscaling_listener())
    uid = made["metadata"]["uid"]
    world.api.put(SERVICE_ACCOUNTS, home, arc.service_account(uid))
    world.api.put(ROLES, runners, arc.role(may_get=may_get))
    world.api.put(ROLE_BINDINGS, runners, arc.role_binding())
    world.api.put(SECRETS, home, arc.config_secret(uid, github_token="ghp_first"))
    world.api.put(PODS, home, arc.listener_pod(uid))
    world.run_pod()
    return world


OURS = "ghcr.io/runnerscale/runnerscale:0.14.2"


@pytest.mark.behaviour("C1 T31", "C1 T108")
@pytest.mark.parametrize("may_get", [True, False])
async def test_a_running_listener_of_the_same_image_is_not_restarted(may_get: bool) -> None:
    world = listener_of_arc(image=OURS, may_get=may_get)
    world.start(metrics_addr="")
    uid = world.pod["metadata"]["uid"]
    await world.settle()
    world.clock.advance(600)
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in world.pod["metadata"]
    verbs = {tuple(rule["resources"]): rule["verbs"] for rule in world.role["rules"]}
    assert "get" in verbs[("ephemeralrunners",)]


@pytest.mark.behaviour("C1 T31", "C1 T107")
async def test_a_listener_of_another_image_is_exchanged_once_and_in_peace() -> None:
    world = listener_of_arc(image="ghcr.io/actions/gha-runner-scale-set-controller:0.14.2")
    world.edit(image=OURS)  # as the runner set's controller does first
    world.start(metrics_addr="")
    await world.settle()
    # With its own grace period: it gives its session back.
    assert world.pod["metadata"]["deletionTimestamp"]
    world.pod_gone()
    await world.settle()
    assert world.pod["spec"]["containers"][0]["image"] == OURS
    uid = world.pod["metadata"]["uid"]
    world.run_pod()
    world.clock.advance(3600)
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid


async def test_the_listeners_file_is_not_written_again_when_it_says_the_same() -> None:
    world = listener_of_arc(image=OURS)
    world.start(metrics_addr="")
    before = world.config["data"]
    await world.settle()
    assert world.config["data"] == before
