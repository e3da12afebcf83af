"""Controllers of one namespace each, with rights in that namespace only; and CRDs of their own.

The controller that all other scenarios share is taken away before these.
"""

from typing import Any

import pytest
import yaml

from tests.kubernetes.world import CONTROLLER_CHART, World, condition, is_ready, until

pytestmark = pytest.mark.timeout(300)


def only(namespace: str) -> dict[str, object]:
    """Values of a controller that watches one namespace (and has a value that means nothing)."""
    return {"watchSingleNamespace": namespace, "updateStrategy": "eventual"}


def test_single_namespace_setup(world: World) -> None:
    """Controller and runners in one namespace; nothing outside of it is asked for."""
    world.no_controllers()
    namespace = world.namespace("arc-runners")
    controller = world.install_controller("arc", namespace, flags=only(namespace))
    scale_set = world.install_set(namespace)
    scale_set.wait_listener()
    scale_set.run_jobs(2)
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()
    controller.uninstall()


def test_two_single_namespace_controllers_side_by_side(world: World) -> None:
    """Each has its own namespace for runners; neither touches, or may touch, the other's."""
    world.no_controllers()
    homes = [world.namespace("systems"), world.namespace("systems")]
    places = [world.namespace(), world.namespace()]
    pairs = list(zip(homes, places, strict=True))
    additions = {"probes": False}  # two pods of one machine share its loopback
    controllers = [
        world.install_controller("arc", home, flags=only(place), additions=additions)
        for home, place in pairs
    ]
    since = world.cluster.audit_mark()
    sets = [world.install_set(place) for place in places]
    for each in sets:
        each.wait_listener()
        each.run_jobs(2)
        each.wait_idle()
    accounts = [controller.account for controller in controllers]
    for account, (home, place) in zip(accounts, pairs, strict=True):
        seen = {e.namespace for e in world.cluster.audit(since=since) if e.user == account}
        assert seen - {""} <= {home, place}
    for each in sets:
        each.uninstall_cleanly()
    for controller in controllers:
        controller.uninstall()


def test_without_crds_the_controller_says_so_and_begins_when_they_are_there(world: World) -> None:
    """Not ready, with the reason in log and probe; no restart is needed."""
    world.no_controllers()
    crds = CONTROLLER_CHART / "crds"
    world.cluster.kubectl("delete", "--ignore-not-found", "-f", str(crds))
    try:
        controller = world.start_controller(skip_crds=True)
        until("its log names what is missing", lambda: "is not installed" in controller.log())
        assert not any(is_ready(pod) for pod in controller.pods())
    finally:
        world.cluster.apply_crds(crds)
    controller.wait_ready()
    (pod,) = controller.pods()
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    scale_set = world.install_set(world.namespace())
    scale_set.wait_listener()
    scale_set.run_jobs()
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()
    world.no_controllers()


def test_crds_older_than_the_controller_are_told_and_worked_with(world: World) -> None:
    """Without conditions in them: jobs run all the same, and the log names what is dropped."""
    world.no_controllers()
    crds = CONTROLLER_CHART / "crds"
    older = world.folder / "older-crds"
    older.mkdir()
    for path in crds.iterdir():
        (older / path.name).write_text(yaml.safe_dump(without_conditions(path.read_text())))
    world.cluster.kubectl("replace", "-f", str(older))
    try:
        controller = world.install_controller()
        until("its log says so", lambda: "is older than this controller" in controller.log())
        assert "status.conditions" in controller.log()
        scale_set = world.install_set(world.namespace())
        scale_set.wait_listener()
        scale_set.run_jobs(2)
        scale_set.wait_idle()
        assert condition(scale_set.runner_set(), "Ready") == {}
        scale_set.uninstall_cleanly()
        world.no_controllers()
    finally:
        world.cluster.kubectl("replace", "-f", str(crds))


def without_conditions(text: str) -> Any:
    """A CRD of ours as it was before it had conditions."""
    crd = yaml.safe_load(text)
    for version in crd["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        del status["conditions"]
    return crd
