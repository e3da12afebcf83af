"""Several of something: controllers that elect a leader, scale sets under one controller."""

from typing import Any

import pytest

from tests.kubernetes.github import OWNER
from tests.kubernetes.world import Controller, World, name_of, until

pytestmark = pytest.mark.timeout(300)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
TAKE_OVER_S = 40.0  # a lease lasts 15 s; the successor then has work to do


def leader(world: World, controller: Controller) -> dict[str, Any]:
    """The spec of the Lease; empty before the first election."""
    name = name_of(controller.deployment())
    found = world.get(LEASES.format(controller.namespace, name)) or {}
    return dict(found.get("spec") or {})


def test_the_successor_of_a_killed_leader_loses_no_job_and_runs_none_twice(world: World) -> None:
    """Two replicas; SIGKILL for the one that leads while jobs run."""
    controller = world.cluster_wide_controller()
    # On one machine both pods have the same loopback: one port for probes is one too few.
    controller.upgrade(replicaCount=2, additions={"probes": False})
    try:
        scale_set = world.install_set(world.namespace(), maxRunners=4)
        scale_set.wait_listener()
        jobs = world.github.queue(scale_set.name, 12, seconds=4)
        until(
            "jobs run",
            lambda: sum(job["state"] == "running" for job in world.github.jobs(jobs)) >= 3,
            within_s=60,
        )
        first = leader(world, controller)["holderIdentity"]
        (pod,) = [p for p in controller.pods() if first.startswith(name_of(p))]
        world.node.kill(pod, "manager")
        until(
            "another one leads",
            lambda: leader(world, controller)["holderIdentity"] not in ("", first),
            within_s=TAKE_OVER_S,
        )
        scale_set.wait_jobs(jobs, within_s=120)
        scale_set.wait_idle()
        scale_set.uninstall_cleanly()
    finally:
        controller.upgrade()


def test_a_rolling_update_of_the_controller_hands_the_lease_over_at_once(world: World) -> None:
    """A leader that is asked to go gives the lease back: nobody waits for it to run out."""
    controller = world.cluster_wide_controller()
    controller.upgrade(replicaCount=2, additions={"probes": False})
    try:
        until("one leads", lambda: leader(world, controller).get("holderIdentity"))
        scale_set = world.install_set(world.namespace())
        scale_set.wait_listener()
        first = leader(world, controller)["holderIdentity"]
        (pod,) = [p for p in controller.pods() if first.startswith(name_of(p))]
        world.delete(f"/api/v1/namespaces/{controller.namespace}/pods/{name_of(pod)}")
        until(
            "the other one leads",
            lambda: leader(world, controller)["holderIdentity"] not in ("", first),
            within_s=12,  # less than the lease lasts
        )
        scale_set.run_jobs(2)
        scale_set.wait_idle()
        scale_set.uninstall_cleanly()
    finally:
        controller.upgrade()


def test_two_scale_sets_under_one_controller_and_one_name_in_two_namespaces(world: World) -> None:
    """Neither knows of the other; one name twice is two listeners and two registrations."""
    world.cluster_wide_controller()
    here, there = world.namespace(), world.namespace()
    name = world.fresh("twin")
    other_url = f"{world.github.url}/other-{OWNER}"
    one = world.install_set(here, name)
    two = world.install_set(there, name, githubConfigUrl=other_url)
    three = world.install_set(here)
    for each in (one, two, three):
        each.wait_listener()
    assert len({name_of(each.listeners()[0]) for each in (one, two, three)}) == 3
    assert len(world.github.scale_sets(name)) == 2
    jobs = {each: world.github.queue(each.name, 2) for each in (one, three)}
    jobs[two] = world.github.queue(two.name, 2, owner=f"other-{OWNER}")
    for each, ids in jobs.items():
        each.wait_jobs(ids)
    one.wait_idle()
    left = [each["id"] for each in world.github.scale_sets(name) if each["tenant"] != OWNER]
    one.uninstall()
    until("the first twin is gone", lambda: world.get(one.path) is None, within_s=120)
    until("nothing is left of it", lambda: not one.left_overs())
    assert [each["id"] for each in world.github.scale_sets(name)] == left
    two.wait_jobs(world.github.queue(two.name, 1, owner=f"other-{OWNER}"))  # it never noticed
    two.wait_idle()
    two.uninstall_cleanly()
    three.uninstall_cleanly()
