"""What the set says where all its runners wait for the same."""

from dataclasses import replace

import msgspec
import pytest

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner_set.snapshot import Snapshot, Unlisted, Waits
from runnerscale.controllers.ephemeral_runner_set.waiting import shared
from tests.plan.ephemeral_runner_set.values import SEEN
from tests.plan.ephemeral_runner_set.world import World

PULL = Waits("ImageUnavailable", "image x of container runner: ErrImagePull: denied", 3)
ALL = replace(SEEN, replicas=3, unlisted=Unlisted(alive=3), waits=(PULL,))


def told(seen: Snapshot) -> str:
    return "; ".join(trouble.message for trouble in shared(seen))


def test_the_one_cause_of_all_is_the_sets_own_with_what_to_do() -> None:
    assert [each.reason for each in shared(ALL)] == [Reason.IMAGE_UNAVAILABLE]
    said = "no runner is online: image x of container runner: ErrImagePull: denied. See whether"
    assert told(ALL).startswith(said)


@pytest.mark.parametrize(
    "seen",
    [
        replace(ALL, waits=()),
        replace(ALL, serving=1),
        replace(ALL, unlisted=Unlisted(alive=4)),  # one has only just been made
        replace(ALL, made=1),
        replace(ALL, deleted_s=1.0),
        replace(ALL, waits=(replace(PULL, runners=2), Waits("QuotaExceeded", "no room", 1))),
        replace(ALL, waits=(replace(PULL, reason="JitConfigExpired"),)),  # passes by itself
        replace(ALL, waits=(replace(PULL, reason="OfAnotherRelease"),)),
    ],
)
def test_nothing_is_said_where_one_serves_or_they_wait_for_this_and_that(seen: Snapshot) -> None:
    assert shared(seen) == ()


def stored(seen: Snapshot) -> Snapshot:
    (now,) = shared(seen)
    status = msgspec.structs.replace(seen.item.status, reason=str(now.reason), message=now.message)
    return replace(seen, item=msgspec.structs.replace(seen.item, status=status))


def test_once_said_it_stays_in_the_same_words_until_one_serves() -> None:
    said = stored(ALL)
    other = replace(PULL, message="image x of container runner: ImagePullBackOff", runners=1)
    for later in (
        replace(said, waits=(other,)),
        replace(said, unlisted=Unlisted(alive=9)),
        replace(said, waits=(Waits("QuotaExceeded", "no room", 2), other)),
    ):
        assert told(later) == told(ALL)
    assert shared(replace(said, serving=1)) == ()
    assert shared(replace(said, waits=())) == ()
    assert "no room" in told(replace(said, waits=(Waits("QuotaExceeded", "no room", 3),)))


def set_writes(this: World) -> int:
    return sum(1 for _, plural, _ in this.api.writes if plural == EPHEMERAL_RUNNER_SETS.plural)


async def test_many_runners_that_flap_make_two_writes_of_the_set() -> None:
    this = World()
    this.make(replicas=20, patch_id=0)
    await this.settle()
    this.register()
    await this.later(5)
    writes = set_writes(this)
    for round_ in range(5):
        for name in this.names:
            this.change(name, reason="ImageUnavailable", message=f"{name}: no such host {round_}")
        await this.later(3)
        this.change(this.names[round_], reason="", message="")  # for a moment
        await this.later(3)
    assert this.status["reason"] == "ImageUnavailable"
    assert this.status["message"].startswith("no runner is online: set-runner-")
    assert set_writes(this) == writes + 1
    assert "Reconciled" not in {c["type"] for c in this.status["conditions"]}
    this.change(this.names[0], reason="", message="", ready=True)
    await this.later(3)
    assert this.status["reason"] == ""
    assert set_writes(this) == writes + 2
