"""The few questions that a snapshot answers itself."""

from dataclasses import replace

from runnerscale.controllers.ephemeral_runner_set.snapshot import Counts
from tests.plan.ephemeral_runner_set.values import FAILED, IDLE, NOW, SEEN


def test_idle_means_registered_and_without_a_job() -> None:
    assert IDLE.idle
    assert not replace(IDLE, runner_id=0).idle
    assert not replace(IDLE, has_job=True).idle


def test_any_runner_object_is_a_child() -> None:
    assert not SEEN.has_children
    assert replace(SEEN, runners=(IDLE,)).has_children
    assert replace(SEEN, retired=(FAILED,)).has_children
    assert replace(SEEN, counts=Counts(deleting=1)).has_children


def test_how_it_is_named() -> None:
    assert (SEEN.key, SEEN.about) == ("runners/set", "EphemeralRunnerSet runners/set")
    assert not SEEN.deleting and replace(SEEN, deleted_s=NOW).deleting
