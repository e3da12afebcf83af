"""The end of a set."""

from dataclasses import replace

import pytest

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.drain import (
    GITHUB_GIVEN_UP_AFTER_S,
    MEANS_GIVEN_UP_AFTER_S,
    stage,
)
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    AskGitHub,
    Counts,
    DeleteRunner,
    PatchSet,
    Removal,
    Snapshot,
)
from runnerscale.credentials.place import PlaceTrouble
from runnerscale.scaleset.errors import JobStillRunning, Unavailable
from tests.plan.ephemeral_runner_set.values import FAILED, IDLE, NOW, SEEN, item
from tests.plan.ephemeral_runner_set.world import World

GOING = replace(SEEN, deleted_s=NOW, replicas=5)
BUSY = replace(IDLE, name="busy", uid="u2", has_job=True)


def deleted(seen: Snapshot) -> list[tuple[str, str]]:
    found = [a for a in stage(seen).actions if isinstance(a, DeleteRunner)]
    return [(a.name, a.resource_version) for a in found]


@pytest.mark.behaviour("C1 T58")
def test_retired_ones_go_at_once_idle_ones_are_asked_about_busy_ones_stay() -> None:
    found = stage(replace(GOING, runners=(BUSY, IDLE), retired=(FAILED,)))
    assert [type(a) for a in found.actions] == [DeleteRunner, AskGitHub]
    assert found.actions[1] == AskGitHub("idle", uid="u1", runner_id=7)
    assert [t.reason for t in found.troubles] == [Reason.DELETION_WAITS]
    assert found.again_s is not None


def test_who_is_not_registered_goes_if_nothing_was_stored_meanwhile() -> None:
    new = replace(IDLE, runner_id=0)
    assert deleted(replace(GOING, runners=(new,))) == [("idle", "5")]
    assert deleted(replace(GOING, runners=(replace(new, has_job=True),))) == []


def test_what_github_forgot_goes_and_what_has_a_job_there_stays() -> None:
    forgotten = replace(IDLE, removal=Removal.FORGOTTEN)
    assert deleted(replace(GOING, runners=(forgotten,))) == [("idle", "5")]
    told = replace(IDLE, removal=Removal.HAS_JOB, removal_s=NOW)
    assert stage(replace(GOING, runners=(told,))).actions == ()


def test_without_an_answer_it_goes_after_a_bound_that_depends_on_the_reason() -> None:
    def after(seconds: float, reason: Reason) -> list[tuple[str, str]]:
        why = trouble(reason, about="x", happened="no")
        told = replace(
            IDLE, removal=Removal.NO_ANSWER, removal_s=NOW + seconds, removal_trouble=why
        )
        return deleted(replace(GOING, now_s=NOW + seconds, runners=(told,)))

    gone = [("idle", "5")]
    assert after(MEANS_GIVEN_UP_AFTER_S - 1, Reason.CREDENTIALS_MISSING) == []
    assert after(MEANS_GIVEN_UP_AFTER_S, Reason.CREDENTIALS_MISSING) == gone
    assert after(MEANS_GIVEN_UP_AFTER_S, Reason.GITHUB_UNAVAILABLE) == []
    assert after(GITHUB_GIVEN_UP_AFTER_S, Reason.GITHUB_UNAVAILABLE) == gone


def test_while_runners_are_going_the_set_waits_and_says_so() -> None:
    found = stage(replace(GOING, counts=Counts(deleting=2)))
    assert found.actions == ()
    assert "2 runners are being deleted" in found.troubles[0].happened


def test_with_no_runner_left_the_finalizer_is_dropped_and_others_stay() -> None:
    held = item(metadata={"finalizers": ["other", *(SEEN.item.metadata.finalizers or ())]})
    (action,) = stage(replace(GOING, item=held)).actions
    assert isinstance(action, PatchSet)
    assert action.body["metadata"] == {"finalizers": ["other"], "resourceVersion": "9"}
    free = item(metadata={"finalizers": ["other"]})
    assert stage(replace(GOING, item=free)).actions == ()


class TestDrainWithoutMeans:
    async def test_a_set_ends_though_its_credentials_are_gone(self) -> None:
        this = World()
        this.make(replicas=2)
        await this.settle()
        this.register()
        names = this.names
        this.github.trouble = PlaceTrouble(
            "CredentialsMissing", "secret runners/github is gone", "Create it"
        )
        this.delete_set()
        await this.settle()
        assert sorted(this.names) == sorted(names)  # GitHub might still be asked
        assert this.status["reason"] == "CredentialsMissing"
        await this.later(31)
        assert this.names == []  # their own controller holds the pods, and reports the ids
        told = [
            message for _, reason, message in this.events.told if reason == "CredentialsMissing"
        ]
        assert any("though GitHub could not be asked first" in text for text in told)
        this.sweep()
        await this.later(5)
        assert this.set_is_gone

    async def test_a_busy_runner_is_not_given_up_with_the_credentials(self) -> None:
        this = World()
        this.make(replicas=1)
        await this.settle()
        this.register()
        this.take_job(this.names[0])
        this.github.trouble = PlaceTrouble("CredentialsMissing", "gone", "Create it")
        this.delete_set()
        await this.later(7200)
        assert len(this.names) == 1

    async def test_a_github_that_is_away_is_waited_for_longer(self) -> None:
        this = World()
        this.make(replicas=1)
        await this.settle()
        this.register()
        (name,) = this.names
        this.github.answers[this.id_of(name)] = Unavailable("down")
        this.delete_set()
        await this.later(300)
        assert this.names == [name]
        await this.later(301)
        assert this.names == []

    async def test_job_still_running_is_asked_again_later(self) -> None:
        this = World()
        this.make(replicas=1)
        await this.settle()
        this.register()
        (name,) = this.names
        this.github.answers[this.id_of(name)] = JobStillRunning("busy")
        this.delete_set()
        await this.settle()
        assert this.names == [name] and len(this.github.asked) == 1
        this.github.answers.clear()
        await this.later(61)
        assert this.names == [] and len(this.github.asked) == 2

    async def test_of_a_set_that_an_old_cache_still_shows_nobody_is_asked_about_twice(self) -> None:
        this = World()
        this.make(replicas=2)
        await this.settle()
        this.register()
        this.delete_set()
        this.api.objects.clear()  # all of it went; the caches lag behind
        await this.settle()
        await this.passes(3)
        assert len(this.github.asked) == 2


def test_what_a_deletion_waits_for_is_counted_in_words_that_fit() -> None:
    (one,) = stage(replace(GOING, runners=(BUSY,), counts=Counts(deleting=1))).troubles
    said = "1 runner still has a job and 1 runner is being deleted"
    assert one.message == f"{said}. Wait: runners with a job finish it first."
    other = replace(BUSY, name="other", uid="u3")
    (more,) = stage(replace(GOING, runners=(BUSY, other), counts=Counts(deleting=3))).troubles
    assert more.happened == "2 runners still have a job and 3 runners are being deleted"
