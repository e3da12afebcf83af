"""A scale set of ARC's at work, and ours beside it or in the place of a part of it.

What ARC's controllers do is played (`arc_installation.py`), everything else is real. Schemas and
rights are ARC's, as in `test_image_exchange.py`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kubernetes.arc_installation import ArcInstallation, install_arc
from tests.kubernetes.test_image_exchange import cleared, installed, refused, rest, shared_world
from tests.kubernetes.world import Controller, World, is_ready, until

pytestmark = pytest.mark.timeout(300)
Json = dict[str, Any]
__all__ = ["shared_world"]  # a fixture

LISTENER_TROUBLE = "runnerscale.dev/listener-trouble"


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """As there; the right that a Role of before lacks is asked for, and its lack is borne."""
    since = shared_world.cluster.audit_mark()
    try:
        yield shared_world
        wrong = [s for s in refused(shared_world, since) if "may not get ephemeralrunners" not in s]
        assert wrong == []
    finally:
        cleared(shared_world)


def uid_of(item: Json | None) -> str:
    assert item is not None
    return str(item["metadata"]["uid"])


def own_keys(item: Json) -> list[str]:
    """Annotations that ARC does not know."""
    found = item["metadata"].get("annotations") or {}
    return [key for key in found if key.startswith("runnerscale.dev/")]


def has_job(found: ArcInstallation, name: str) -> bool:
    runner = found.runner(name) or {}
    return bool((runner.get("status") or {}).get("jobId"))


# --- our listener under a controller of ARC's -----------------------------------------------------


@pytest.mark.parametrize("may_get", [True, False], ids=["role-of-now", "role-of-before"])
def test_our_listener_serves_a_controller_of_arcs(world: World, may_get: bool) -> None:
    """It asks for runners, marks the one with the job, and says nothing that ARC does not know."""
    found = install_arc(world, may_get=may_get)
    ids = world.github.queue(found.arc.name, 1, seconds=3.0)
    until("a runner is asked for", lambda: found.wanted() == 1)
    name = found.make_runner("aaaaa")
    until("the job is on it", lambda: has_job(found, name))
    runner = found.runner(name)
    assert runner is not None
    # Without the right to read, no promotion is safe: the job is what decides.
    assert runner["status"]["phase"] == ("Running" if may_get else "Pending")
    assert runner["status"]["jobDisplayName"]
    found.scale_set.wait_jobs(ids)
    until("no runner is asked for any more", lambda: found.wanted() == 0)
    item = found.runner_set()
    assert own_keys(item) == []
    assert "settledRunners" not in item["spec"]
    assert is_ready(found.listener_pod())
    give_back(found)


def give_back(found: ArcInstallation) -> None:
    """Nobody of ARC's is there to take its objects away: a controller of ours does."""
    controller = installed(found.world)
    found.scale_set.uninstall_cleanly()
    controller.uninstall()


# --- taking over ----------------------------------------------------------------------------------


@pytest.mark.behaviour("C1 T31")
def test_a_live_installation_is_taken_over_and_nobody_notices(world: World) -> None:
    """A busy runner, an idle one, one of before, and the listener: all live on."""
    found = install_arc(world, minimum=2)
    ids = world.github.queue(found.arc.name, 1, seconds=25.0)
    until("three runners are asked for", lambda: found.wanted() == 3)
    busy = found.make_runner("busyx")
    until("the job is on it", lambda: has_job(found, busy))
    idle = found.make_runner("idlex")
    legacy = found.make_runner("oldie", legacy=True)
    found.wait_online(idle, legacy)
    before = found.runner_set()
    pods = {name: uid_of(found.runner_pod(name)) for name in (busy, idle, legacy)}
    listener = uid_of(found.listener_pod())
    calls = world.github.calls()

    controller = installed(world)
    rest(world, 8.0)

    assert {name: uid_of(found.runner_pod(name)) for name in pods} == pods
    assert uid_of(found.listener_pod()) == listener
    assert is_ready(found.listener_pod())
    after = found.runner_set()
    for part in ("labels", "annotations"):
        assert after["metadata"][part] == before["metadata"][part]
    assert after["spec"]["ephemeralRunnerSpec"] == before["spec"]["ephemeralRunnerSpec"]
    now = world.github.calls()
    for quiet in ("open-session", "delete-session", "remove-runner", "jit-config"):
        assert now.get(quiet, 0) == calls.get(quiet, 0), quiet

    found.scale_set.wait_jobs(ids)
    assert_serves(found, controller)


def assert_serves(found: ArcInstallation, controller: Controller) -> None:
    """The minimum is kept, more jobs run, and all of it can be taken away."""
    found.scale_set.wait_idle(found.arc.minimum, within_s=90)
    found.scale_set.run_jobs(3)
    found.scale_set.wait_idle(found.arc.minimum, within_s=90)
    found.scale_set.uninstall_cleanly()
    assert "Traceback" not in controller.log()


def test_a_listener_that_died_with_arcs_controller_is_started_again(world: World) -> None:
    """The pod's end was nobody's to see; the successor is of our making."""
    found = install_arc(world, minimum=1)
    until("a runner is asked for", lambda: found.wanted() == 1)
    idle = found.make_runner("idlex")
    found.wait_online(idle)
    pod = found.listener_pod()
    world.node.kill(pod, "listener")
    until("it has ended", lambda: not is_ready(found.listener_pod()))
    kept = uid_of(found.runner_pod(idle))
    controller = installed(world)

    def is_another() -> bool:
        now = found.listener_pod()
        return uid_of(now) not in ("", uid_of(pod)) and is_ready(now)

    until("another listener is ready", is_another, within_s=60)
    assert uid_of(found.runner_pod(idle)) == kept
    assert_serves(found, controller)


def test_a_set_that_arc_was_deleting_comes_to_its_end(world: World) -> None:
    """Uninstalled under ARC, which then went: finalizers and all are taken over."""
    found = install_arc(world)
    found.make_runner("idlex")
    found.scale_set.uninstall()
    rest(world, 2.0)
    assert world.get(found.scale_set.path) is not None
    installed(world)
    until("it is gone", lambda: world.get(found.scale_set.path) is None, within_s=120)
    until("nothing is left", lambda: not found.scale_set.left_overs())
    assert world.github.scale_sets(found.arc.name) == []


# --- looking before leaping -----------------------------------------------------------------------


def check_migration(world: World, user: str) -> tuple[int, Json]:
    """`runnerscale migrate check` as this user."""
    words = ["migrate", "check", "--output", "json"]
    words += ["--kubeconfig", str(world.cluster.kubeconfig(user))]
    argv = [sys.executable, "-m", "runnerscale.cli.main", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_check_tells_what_the_exchange_will_do_and_writes_nothing(world: World) -> None:
    """As administrator it sees everything, as a user without rights it says that it is blind."""
    found = install_arc(world, minimum=1, may_get=False)
    until("a runner is asked for", lambda: found.wanted() == 1)
    found.make_runner("oldie", legacy=True)
    mark = world.cluster.audit_mark()
    code, report = check_migration(world, "admin")
    assert code == 0, report
    topics = {each["topic"] for each in report["findings"]}
    assert topics >= {"no-controller", "adopted", "legacy-running", "listener-role", "crd"}
    assert report["unseen"] == []
    asked = [e for e in world.cluster.audit(since=mark) if "migrate" in e.user_agent]
    assert asked
    assert {e.verb for e in asked} <= {"get", "list"}
    code, report = check_migration(world, "bob")
    assert code == 2
    assert any("ephemeralrunners" in text for text in report["unseen"])
    give_back(found)
