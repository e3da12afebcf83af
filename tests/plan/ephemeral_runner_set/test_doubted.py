"""Jobs that GitHub counts and never hands out keep no runners (issue log 38)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.controllers.ephemeral_runner_set.doubted import (
    BELIEVED_S,
    IDLE_LONG_S,
    PROBES,
    Doubt,
    judged,
    said,
)
from tests.plan.ephemeral_runner_set.world import World
from tests.properties import examples

NOW = 100_000.0


@pytest.mark.parametrize(
    ("waiting", "low", "idle_long", "jobs"),
    [
        (15, 5, 20, 14),  # as in the issue log: 34 assigned, 19 running; one runner stays for them
        (15, 5, 5, 0),  # only those that minRunners asks for have been idle for long
        (30, 0, 0, 0),  # a steady flow: jobs wait for runners that are starting
        (3, 0, 10, 2),
        (1, 0, 1, 0),  # one runner would stay anyway
        (0, 5, 9, 0),  # nothing waits; surplus is the listener's business
    ],
)
def test_so_many_jobs_are_doubted(waiting: int, low: int, idle_long: int, jobs: int) -> None:
    found = judged(Doubt(), waiting=waiting, low=low, idle_long=idle_long, now_s=NOW)
    assert found.jobs == jobs
    assert bool(said(found, about="x", waiting=waiting)) == (jobs > 0)


def test_a_doubt_stays_when_its_runners_are_gone_and_ends_with_the_count() -> None:
    doubt = judged(Doubt(14), waiting=15, low=5, idle_long=6, now_s=NOW)
    assert doubt.jobs == 14
    assert judged(doubt, waiting=22, low=5, idle_long=6, now_s=NOW).jobs == 14  # 7 real ones more
    assert judged(doubt, waiting=0, low=5, idle_long=6, now_s=NOW) == Doubt()


def test_the_first_that_was_real_makes_all_believed_for_a_while() -> None:
    # Else those that GitHub could not hand out for an hour would start one after the other.
    doubt = judged(Doubt(14), waiting=14, low=0, idle_long=20, now_s=NOW)
    assert doubt == Doubt(0, NOW + BELIEVED_S)
    soon = judged(doubt, waiting=13, low=0, idle_long=20, now_s=NOW + 60)
    assert soon == doubt
    late = judged(doubt, waiting=13, low=0, idle_long=20, now_s=NOW + BELIEVED_S)
    assert late.jobs == 12


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 60),  # jobs that are said to wait
            st.integers(0, 40),  # runners that have been idle for long
            st.floats(0, 4000),  # seconds since the last look
        ),
        max_size=12,
    ),
    low=st.integers(0, 8),
)
@examples(100)
def test_whatever_comes_one_runner_stays_for_jobs_that_are_doubted(
    steps: list[tuple[int, int, float]], low: int
) -> None:
    doubt, now_s = Doubt(), NOW
    for waiting, idle_long, passed_s in steps:
        now_s += passed_s
        before = doubt
        doubt = judged(before, waiting=waiting, low=low, idle_long=idle_long, now_s=now_s)
        # wanted = replicas - doubted = low + busy + waiting - doubted
        assert 0 <= doubt.jobs <= max(0, waiting - PROBES)
        if doubt.jobs > before.jobs:  # nobody is doubted without idle runners to show for it
            assert idle_long - low > doubt.jobs
            assert now_s >= before.believed_until_s


async def scaled(jobs: int, low: int) -> World:
    world = World()
    world.low = low
    world.make(replicas=jobs + low, patch_id=0)
    await world.settle()
    world.register()
    world.come_online()
    await world.settle()
    return world


async def minutes(world: World, number: float) -> None:
    """Passes as the level pass makes them; whoever is let go, goes."""
    for _ in range(int(number)):
        await world.later(60)
        world.sweep()
        await world.settle()


async def test_runners_for_jobs_that_never_come_are_let_go_but_one() -> None:
    world = await scaled(jobs=6, low=2)
    await minutes(world, 29)
    assert len(world.names) == 8
    await minutes(world, 3)
    assert len(world.names) == 3  # two that are wished idle, one in case that a job is real
    assert world.status["reason"] == "DemandDoubted"
    assert "5 of them are not believed in" in world.status["message"]
    assert [r for _, r, _ in world.events.told] == ["DemandDoubted"]
    await minutes(world, 60)
    assert len(world.names) == 3

    world.says(10, 5)  # two real jobs more
    await world.settle()
    assert len(world.names) == 5
    world.says(2, 0)  # GitHub has mended its count
    await minutes(world, 3)
    assert (len(world.names), world.status["reason"]) == (2, "")


async def test_a_job_that_was_real_after_all_brings_all_runners_back() -> None:
    world = await scaled(jobs=6, low=0)
    await minutes(world, IDLE_LONG_S / 60 + 2)
    (left,) = world.names
    world.take_job(left)
    await world.settle()
    assert len(world.names) == 6
    assert world.status["reason"] == ""


async def test_where_runners_are_busy_or_young_no_job_is_doubted() -> None:
    world = await scaled(jobs=6, low=0)
    for name in list(world.names)[:5]:
        world.take_job(name)
    await minutes(world, 100)
    assert len(world.names) == 6  # one waits, one is idle: that one would stay anyway
    world = World()
    world.low = 0
    world.make(replicas=6, patch_id=0)
    await world.settle()
    world.register()  # and none comes online: their own deadlines see to that
    await minutes(world, 100)
    assert len(world.names) == 6
    assert not world.events.told


async def test_without_a_runner_set_above_nothing_is_doubted() -> None:
    world = await scaled(jobs=6, low=0)
    world.low = None
    await minutes(world, 60)
    assert len(world.names) == 6


async def test_a_deleted_set_drains_as_ever() -> None:
    world: Any = await scaled(jobs=3, low=0)
    await minutes(world, 40)
    world.delete_set()
    await minutes(world, 3)
    assert world.set_is_gone
