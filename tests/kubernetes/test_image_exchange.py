"""Our image in an installation of ARC's: its charts' objects, rights and schemas, untouched.

A cluster of its own, because schemas are the whole cluster's: the CRDs are closed as ARC's are
(`tests/arc/crds.py`), the charts have every addition off, which leaves ARC's objects and rights
(contract C3 1.6, 2.8). What may be refused there is an Event, and nothing else.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.arc.crds import write_crds
from tests.kubernetes.audit import AuditEvent
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.world import (
    GHA,
    RBAC,
    Controller,
    ScaleSet,
    World,
    is_ours,
    name_of,
    open_world,
    said,
    until,
)

pytestmark = pytest.mark.timeout(300)
Json = dict[str, Any]

ARCS_OWN = {"additions": None}
QUIET_S = 20.0
# Level passes, the listener's one patch for each empty poll (10 s here), leases: nothing else.
QUIET_WRITES_MAX = 12


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster with ARC's schemas, a node, the pretended GitHub."""
    folder = tmp_path_factory.mktemp("arc")
    with Cluster() as cluster:
        cluster.apply_crds(write_crds(folder / "crds"))
        world = open_world(cluster, folder)
        try:
            yield world
        finally:
            world.close()


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """Whatever the test does, Events apart nobody is refused anything."""
    since = shared_world.cluster.audit_mark()
    try:
        yield shared_world
        assert refused(shared_world, since) == []
    finally:
        cleared(shared_world)


def cleared(shared_world: World) -> None:
    """The next test begins without controllers."""
    for controller in list(shared_world.controllers.values()):
        controller.uninstall()
    shared_world.leave()


def refused(world: World, since: int) -> list[str]:
    """Refusals that ARC's own rights do not explain."""
    return [said(each) for each in asked(world, since) if each.forbidden and not is_event(each)]


def asked(world: World, since: int) -> list[AuditEvent]:
    """What controller, listeners and node were doing."""
    going = "because it is being terminated"
    return [e for e in world.cluster.audit(since=since) if is_ours(e) and going not in e.reason]


def is_event(event: AuditEvent) -> bool:
    """ARC's controller writes none, so its charts grant none."""
    return event.resource == "events" and event.verb in ("create", "patch")


def installed(world: World, **values: Any) -> Controller:
    """ARC's controller chart, with our image."""
    return world.install_controller(**ARCS_OWN, **values)


def scale_set(world: World, **values: Any) -> ScaleSet:
    """ARC's scale-set chart; its listener is there."""
    found = world.install_set(world.namespace(), **ARCS_OWN, **values)
    found.wait_listener()
    return found


def stored(world: World, plural: str, namespace: str) -> list[Json]:
    """The objects of a kind."""
    return world.items(f"{GHA}/namespaces/{namespace}/{plural}")


def unknown_fields(item: Json) -> set[str]:
    """What no object of ARC's has."""
    status = set(item.get("status") or {})
    return (status & {"conditions", "lastTermination", "restarts", "finishedEphemeralRunners"}) | (
        set(item["spec"]) & {"settledRunners"}
    )


def test_the_rights_are_those_of_arcs_charts(world: World) -> None:
    """The premise of all that follows: fewer rights than our own charts grant."""
    controller = installed(world)
    account = controller.account
    for verb, resource, may in (
        ("create", "events", "no"),
        ("list", "secrets", "no"),
        ("get", "ephemeralrunners.actions.github.com", "yes"),
        ("patch", "pods", "no"),
    ):
        words = ("auth", "can-i", verb, resource, f"--as={account}", "-A")
        answer = world.cluster.kubectl(*words, check=False).stdout.strip()
        assert (verb, resource, answer) == (verb, resource, may)


@pytest.mark.behaviour("C1 T106")
def test_jobs_run_from_queue_to_gone(world: World) -> None:
    """Warm runners, a burst, rest, and an uninstall that leaves nothing."""
    since = world.cluster.audit_mark()
    controller = installed(world)
    found = scale_set(world, minRunners=1, maxRunners=5)
    found.wait_idle(1)
    found.run_jobs(6, seconds=0.5)
    found.wait_idle(1)
    objects = [
        *stored(world, "autoscalingrunnersets", found.namespace),
        *stored(world, "ephemeralrunnersets", found.namespace),
        *stored(world, "ephemeralrunners", found.namespace),
        *stored(world, "autoscalinglisteners", controller.namespace),
    ]
    assert len(objects) == 4
    assert [unknown_fields(item) for item in objects] == [set()] * 4
    assert found.runner_set()["status"]["phase"] == "Running"
    (runner,) = found.runners()
    assert runner["status"]["phase"] == "Pending"
    listener = found.wait_listener()
    assert listener["status"]["containerStatuses"][0]["restartCount"] == 0
    assert len(controller.pods()) == 1
    found.uninstall_cleanly()
    log = controller.log()
    assert "events may not be written" in log
    assert "Traceback" not in log
    assert refused(world, since) == []


def test_what_schemas_prune_is_not_written_again_and_again(world: World) -> None:
    """At rest nothing is written but what the listener says with each empty poll."""
    installed(world)
    found = scale_set(world, minRunners=2)
    found.wait_idle(2)
    until("both are ready", lambda: all(is_up(r) for r in found.runners()))
    rest(world, 6.0)
    mark = world.cluster.audit_mark()
    rest(world, QUIET_S)
    writes = [said(e) for e in asked(world, mark) if e.writes and by_ours(e)]
    assert len(writes) <= QUIET_WRITES_MAX, writes
    found.uninstall_cleanly()


def phase_of(runner: Json) -> str:
    return str((runner.get("status") or {}).get("phase", ""))


def is_up(runner: Json) -> bool:
    return bool((runner.get("status") or {}).get("ready"))


def by_ours(event: AuditEvent) -> bool:
    return event.user.startswith("system:serviceaccount:")


def rest(world: World, seconds: float) -> None:
    """Time passes."""
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        world.node.keep_logs()
        time.sleep(0.5)


def test_a_failing_template_is_told_where_arcs_schema_has_room(world: World) -> None:
    """Conditions and Events have no place here: the runner's reason and message do."""
    installed(world)
    template = {
        "spec": {
            "containers": [
                {
                    "name": "runner",
                    "image": "ghcr.io/actions/actions-runner:latest",
                    "command": ["/bin/sh", "-c", "exit 3"],
                }
            ]
        }
    }
    found = scale_set(world, minRunners=1, template=template)

    def failed() -> list[Json]:
        return [r for r in found.runners() if phase_of(r) == "Failed"]

    (runner, *_) = until("a runner is kept as evidence", failed, within_s=60)
    assert runner["status"]["reason"] == "RunnerFailed"
    assert "3" in runner["status"]["message"]
    assert world.events(found.namespace) == []
    found.uninstall_cleanly()


def test_two_replicas_elect_a_leader_with_arcs_leases(world: World) -> None:
    """Leases without patch; and then Events are allowed in the controller's own namespace."""
    controller = installed(world, replicaCount=2)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{controller.namespace}/leases"
    (found,) = until("somebody leads", lambda: world.items(lease))
    assert found["spec"]["holderIdentity"]
    assert name_of(found) == controller.deployment()["metadata"]["name"]
    one = scale_set(world)
    one.run_jobs(1)
    one.uninstall_cleanly()


def test_a_single_namespace_installation(world: World) -> None:
    """Two Roles in two namespaces instead of the ClusterRole."""
    watched = world.namespace()
    installed(world, flags={"watchSingleNamespace": watched})
    found = world.install_set(watched, **ARCS_OWN, minRunners=1)
    found.wait_listener()
    found.run_jobs(2)
    found.wait_idle(1)
    found.uninstall_cleanly()


def test_a_listener_role_of_before_is_put_right_and_costs_nothing(world: World) -> None:
    """Before the listener owned `Running` it might not read runners (C3 2.9)."""
    installed(world)
    found = scale_set(world)
    (role,) = world.items(
        f"{RBAC}/namespaces/{found.namespace}/roles", "auto-scaling-listener-name"
    )
    path = f"{RBAC}/namespaces/{found.namespace}/roles/{name_of(role)}"
    before = [rule for rule in role["rules"] if rule["resources"] == ["ephemeralrunnersets"]]
    both = {
        "apiGroups": ["actions.github.com"],
        "resources": ["ephemeralrunners", "ephemeralrunners/status"],
        "verbs": ["patch"],
    }
    uid = found.wait_listener()["metadata"]["uid"]
    world.patch(path, {"rules": [*before, both]})

    def may_get() -> bool:
        rules = (world.get(path) or {}).get("rules", [])
        return any("get" in rule["verbs"] for rule in rules)

    until("the controller gives the right back", may_get, within_s=90)
    found.run_jobs(1)
    assert found.wait_listener()["metadata"]["uid"] == uid
    found.uninstall_cleanly()
