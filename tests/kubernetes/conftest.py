"""One real control plane for the whole session; each test makes namespaces of its own in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.world import World, open_world


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """etcd, kube-apiserver and kube-controller-manager; see `make kube`."""
    with Cluster() as started:
        yield started


@pytest.fixture(scope="session")
def shared_world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The cluster with a node, the pretended GitHub and whatever scenarios install."""
    world = open_world(cluster, tmp_path_factory.mktemp("world"))
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """The world for one scenario, which nobody of ours was refused anything in."""
    since = shared_world.cluster.audit_mark()
    before = len(shared_world.github.violations())
    try:
        yield shared_world
        assert shared_world.forbidden(since) == []
        assert shared_world.github.violations()[before:] == []
    finally:
        shared_world.leave()


# These bring controllers of their own: the one that all others share is taken away for them.
LAST = ("test_own_controllers.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The shared controller is installed once."""
    items.sort(key=lambda item: item.path.name in LAST)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """What a person would look at is shown with whatever goes wrong."""
    outcome: Any = yield
    report = outcome.get_result()
    found = getattr(item, "funcargs", {}).get("shared_world")
    if report.failed and report.when == "call" and found is not None:
        try:
            told = found.describe()
        except Exception as error:  # noqa: BLE001 - the failure of the test is what counts
            told = f"cannot be told: {error}"
        report.sections.append(("the world at that moment", told))
