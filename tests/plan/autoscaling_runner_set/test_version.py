"""Whether chart and controller are of one version; told, and nothing else.

ARC deletes what does not match (T10-T18); design section 4: a version label never deletes
anything. What stays of the numbered behaviours is which pairs are said to fit.
"""

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_runner_set.version import fits
from tests.plan.autoscaling_runner_set.world import World


@pytest.mark.behaviour("C1 T10", "C1 T14", "C1 T15")
@pytest.mark.parametrize(
    ("build", "label", "fit"),
    [
        ("dev", "anything", True),
        ("canary-1234", "0.1.0", True),
        ("abc", "abc", True),
        ("0.11.0", "0.11.1", True),
        ("0.11.0", "0.11", True),
        ("1", "1.0.3", True),
        ("0.11.0", "0.11.0-rc1", True),
        ("0.11.0", "dev", False),
        ("NA", "0.11.0", False),
        ("1.0.0", "0.0.0", False),
        ("0.11.0", "0.10.0", False),
        ("0.11.0", "v0.11.0", False),
        ("0.11.0", "00.11.0", False),
    ],
)
def test_which_versions_fit(build: str, label: str, fit: bool) -> None:
    assert fits(build, label) is fit


@pytest.mark.parametrize("label", ["0.1.0", "1.14.2", "dev", "v0.14.2"])
async def test_another_version_is_told_and_served_all_the_same(label: str) -> None:
    world = World()
    world.edit_meta(labels={keys.VERSION: label})
    await world.settle()
    assert world.status["phase"] == "Running"
    assert world.condition("VersionSkew") == ("True", "VersionSkew")
    assert world.condition("Ready") == ("True", "Ready")
    assert world.status["reason"] == "VersionSkew"
    assert world.events.reasons() == ["VersionSkew"]
    assert "deletionTimestamp" not in world.ars["metadata"]


async def test_a_patch_of_difference_is_not_worth_a_word() -> None:
    world = World()
    world.edit_meta(labels={keys.VERSION: "0.14.9"})
    await world.settle()
    assert world.condition("VersionSkew") == ("False", "SameVersion")
    assert world.events.said == []


async def test_without_a_label_nothing_is_concluded() -> None:
    world = World()
    world.edit_meta(labels={keys.VERSION: None})
    await world.settle()
    assert world.condition("VersionSkew")[0] == "False"
    assert world.status["phase"] == "Running"


async def test_an_object_older_than_the_controller_survives_its_start() -> None:
    world = World()
    world.edit_meta(labels={keys.VERSION: "0.1.0"})
    world.start(build_version="0.2.0")
    for _ in range(5):
        world.clock.advance(60)
        await world.settle()
    assert world.ars is not None
    assert world.github.writes() == [("create", "linux", 1, ("linux",), True)]
