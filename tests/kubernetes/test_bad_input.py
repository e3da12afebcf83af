"""What goes wrong on a real cluster: each time the object says what, and heals with its cause."""

import http.client
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.processes import Child, free_ports
from tests.kubernetes.world import GHA, RBAC, ScaleSet, World, condition, name_of, until

pytestmark = pytest.mark.timeout(300)
Json = dict[str, Any]
TOLD_WITHIN_S = 60.0


def told(path: str, kind: str, status: str, world: World) -> Json:
    """The condition, once it is so."""

    def found() -> Json | None:
        seen = condition(world.get(path) or {}, kind)
        return seen if seen.get("status") == status else None

    return until(f"{kind} of {path} is {status}", found, within_s=TOLD_WITHIN_S) or {}


def event_of(world: World, namespace: str, name: str, reason: str) -> Json:
    """An Event about the object, with that reason."""

    def found() -> list[Json]:
        return [
            event
            for event in world.events(namespace)
            if (event["involvedObject"]["name"], event["reason"]) == (name, reason)
        ]

    return until(f"an Event {reason} about {name}", found, within_s=TOLD_WITHIN_S)[0]


# -- the API server --------------------------------------------------------------------------------


@contextmanager
def api_is_down(world: World) -> Iterator[Callable[[], None]]:
    """Nobody answers, until the end or the call of what is given; what is stored stays.

    For a moment after its start the server knows no rights yet, and refuses everybody.
    """
    down = True

    def back() -> None:
        nonlocal down
        if down:
            world.cluster.start_api()
            # Kubernetes' own controllers would come back as well, in their own time.
            world.cluster.stop_controllers()
            world.cluster.start_controllers()
            down = False

    with world.losing_rights():
        world.cluster.kill_api()
        try:
            yield back
        finally:
            back()


def test_jobs_go_on_while_the_api_server_restarts(world: World) -> None:
    """Killed under three jobs, and back: each ends once, and what waits is then done."""
    world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace(), maxRunners=3)
    scale_set.wait_listener()
    jobs = world.github.queue(scale_set.name, 6, seconds=3)

    def some_run() -> bool:
        states = [job["state"] for job in world.github.jobs(jobs)]
        return states.count("running") + states.count("completed") >= 3

    until("jobs run", some_run, within_s=60)
    with api_is_down(world):
        # Those that run do not need it.
        until("some end", lambda: any(j["state"] == "completed" for j in world.github.jobs(jobs)))
    scale_set.wait_jobs(jobs, within_s=120)
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()


def test_a_controller_waits_for_an_api_server_that_is_down_at_its_start(world: World) -> None:
    """It is not ready, says why, and begins when somebody answers."""
    controller = world.cluster_wide_controller()
    _, _, namespace, account = controller.account.split(":")
    kubeconfig = world.cluster.kubeconfig_for_service_account(namespace, account)
    (port,) = free_ports(1)
    log = world.folder / "waiting-controller.log"
    nowhere = world.namespace("nowhere")  # it has no set to care for
    with api_is_down(world) as back:
        child = by_hand(kubeconfig, nowhere, port, log)
        try:
            code, why = until("it answers its probe", lambda: asked(port))
            assert code == 503
            assert world.cluster.url.removeprefix("https://") in why
            assert "object at" not in why
            until("its log says so", lambda: "cannot begin yet" in log.read_text())
            assert child.running()
            back()
            until("it is ready", lambda: readiness(port)[:1] == (200,), within_s=60)
        finally:
            child.stop()


def by_hand(kubeconfig: Path, watched: str, port: int, log: Path) -> Child:
    """A controller outside the cluster, with the account of the one inside."""
    argv = [sys.executable, "-m", "runnerscale.cli.main", "controller"]
    argv += [f"--kubeconfig={kubeconfig}", f"--watch-single-namespace={watched}"]
    argv += [f"--health-probe-bind-address=127.0.0.1:{port}", "--metrics-addr=0"]
    env = {
        **os.environ,
        "CONTROLLER_MANAGER_POD_NAMESPACE": watched,
        "CONTROLLER_MANAGER_CONTAINER_IMAGE": "ghcr.io/runnerscale/runnerscale:0.14.2",
    }
    return Child("waiting-controller", argv, log=log, env=env)


def asked(port: int) -> tuple[int, str] | None:
    """Its readiness, once it has asked the API server."""
    found = readiness(port)
    return found if found and "has not been asked yet" not in found[1] else None


def readiness(port: int) -> tuple[int, str]:
    """Code and text of /readyz; nobody listens: falsy."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return ()  # type: ignore[return-value]
    finally:
        connection.close()


# -- rights ----------------------------------------------------------------------------------------


@contextmanager
def without(scale_set: ScaleSet, resource: str, verb: str) -> Iterator[None]:
    """The manager Role of the set lacks a verb on a resource."""
    name = f"{scale_set.name}-gha-rs-manager"
    path = f"{RBAC}/namespaces/{scale_set.namespace}/roles/{name}"
    role = scale_set.world.get(path)
    assert role is not None
    less = [
        {
            **rule,
            "verbs": [v for v in rule["verbs"] if v != verb or resource not in rule["resources"]],
        }
        for rule in role["rules"]
    ]
    scale_set.world.patch(path, {"rules": less})
    try:
        yield
    finally:
        scale_set.world.patch(path, {"rules": role["rules"]})


def test_a_missing_right_is_named_with_what_it_was_wanted_for(world: World) -> None:
    """On the runner, on the listener: which verb on which resource; healed by giving it back."""
    controller = world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace())
    scale_set.wait_listener()
    scale_set.run_jobs()  # its template was found well, with the right that is taken now
    scale_set.wait_idle()
    with world.losing_rights():
        with without(scale_set, "pods", "create"):
            jobs = world.github.queue(scale_set.name)
            runner = until("its runner is there", scale_set.runners)[0]
            event = event_of(world, scale_set.namespace, name_of(runner), "RightsMissing")
            assert 'cannot create resource "pods"' in event["message"]
            path = f"{GHA}/namespaces/{scale_set.namespace}/ephemeralrunners/{name_of(runner)}"
            status = (world.get(path) or {})["status"]
            assert 'cannot create resource "pods"' in str(status.get("conditions"))
        scale_set.wait_jobs(jobs)
        with without(scale_set, "roles", "create"):
            (listener,) = scale_set.listeners()
            roles = f"{RBAC}/namespaces/{scale_set.namespace}/roles/{name_of(listener)}"
            world.delete(roles)
            home = controller.namespace
            event = event_of(world, home, name_of(listener), "RightsMissing")
            assert 'cannot create resource "roles"' in event["message"]
        # It is tried again within a minute; an edit makes it sooner.
        path = f"{GHA}/namespaces/{home}/autoscalinglisteners/{name_of(listener)}"
        world.patch(path, {"metadata": {"annotations": {"example.com/mended": "yes"}}})
        until("the Role is back", lambda: world.get(roles), within_s=TOLD_WITHIN_S)
        # The listener as well may do its work again.
        scale_set.run_jobs()
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()


# -- values ----------------------------------------------------------------------------------------


def test_a_secret_that_is_not_there_is_named_and_its_coming_heals(world: World) -> None:
    """githubConfigSecret names a Secret that nobody has made."""
    world.cluster_wide_controller()
    namespace = world.namespace()
    scale_set = world.install_set(namespace, githubConfigSecret="not-made-yet")
    found = told(scale_set.path, "Registered", "False", world)
    assert found["reason"] == "CredentialsMissing"
    assert "not-made-yet" in found["message"]
    event_of(world, namespace, scale_set.name, "CredentialsMissing")
    world.secret(namespace, "not-made-yet", github_token="ghp_of-the-scenario")
    scale_set.wait_listener()
    scale_set.uninstall_cleanly()


def test_a_template_that_the_server_refuses_is_told_in_its_words(world: World) -> None:
    """No runner is made of it; a corrected one is used without anything else being done."""
    world.cluster_wide_controller()
    image = "ghcr.io/actions/actions-runner:latest"
    runner = {"name": "runner", "image": image, "command": ["/home/runner/run.sh"]}
    spec: Json = {"containers": [runner], "priorityClassName": "no-such-class"}
    scale_set = world.install_set(world.namespace(), minRunners=1, template={"spec": spec})
    found = told(scale_set.path, "TemplateAccepted", "False", world)
    assert found["reason"] == "TemplateRefused"
    assert "no-such-class" in found["message"]
    assert scale_set.runners() == []
    right = {"minRunners": 1, "template": {"spec": {"containers": [runner]}}}
    scale_set.helm("upgrade", right)
    scale_set.wait_idle(1)
    told(scale_set.path, "TemplateAccepted", "True", world)
    scale_set.uninstall_cleanly()


def test_values_that_contradict_each_other_never_reach_the_controller(world: World) -> None:
    """The API server refuses an edit that the chart would have refused."""
    world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace(), minRunners=0, maxRunners=2)
    for wrong in ({"minRunners": 3}, {"maxRunners": -1}, {"minRunners": "two"}):
        code, answer = world.cluster.api(
            "PATCH", scale_set.path, {"spec": wrong}, content_type="application/merge-patch+json"
        )
        assert code == 422, answer
        assert next(iter(wrong)) in answer["message"]
    scale_set.wait_listener()
    scale_set.uninstall_cleanly()
