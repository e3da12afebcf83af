"""What is drawn, what can strike, and that it is undone: the faults themselves."""

import asyncio
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from runnerscale.core.clock import ManualClock
from runnerscale.core.randomness import seeded
from tests.simulation import drive
from tests.simulation.clocks import SkewedClock
from tests.simulation.faults import FAULTS, KINDS
from tests.simulation.invariants.names import RUNNERS, is_going, meta
from tests.simulation.leadership import AWAKENING_S, CONTROLLER_USER, LEASE, LEASES, Leadership
from tests.simulation.loop import SimulationLoop
from tests.simulation.runner import FINDS_OUT_AFTER_S
from tests.simulation.scenario import (
    HOUR_KINDS,
    LASTING_S,
    LEASE_MARKS,
    RATES,
    PlannedFault,
    PlannedSet,
    Scenario,
    draw,
)
from tests.simulation.settlement import is_lasting
from tests.simulation.users import cancel_what_deletions_wait_for, queue_job
from tests.simulation.world import World
from tests.simulation.writes import Write

SEEDS = 2_000  # of the ten thousand of a soak
FIRED_SHARE = 0.9  # of what is drawn


def test_each_kind_is_drawn_often_enough_and_with_each_other() -> None:
    """Over 10,000 seeds: each kind at least 500 times, each pair at least once."""
    drawn: Counter[str] = Counter()
    pairs: Counter[tuple[str, ...]] = Counter()
    for seed in range(SEEDS):
        kinds = [fault.kind for fault in draw(seed, KINDS).faults]
        drawn.update(kinds)
        pairs.update(combinations(sorted(set(kinds)), 2))
    assert set(drawn) == set(KINDS)
    assert min(drawn.values()) * 10_000 / SEEDS * FIRED_SHARE > 300  # by chance; 500 in all
    assert sum(drawn.values()) / len(KINDS) * 10_000 / SEEDS * FIRED_SHARE >= 500
    assert len(pairs) > 0.97 * len(KINDS) * (len(KINDS) - 1) / 2


def test_kinds_that_need_a_lease_are_drawn_only_where_there_is_one() -> None:
    scenarios = [draw(seed, KINDS) for seed in range(300)]
    for scenario in scenarios:
        leading = any(f.kind.startswith(LEASE_MARKS) for f in scenario.faults)
        assert leading == scenario.lease == (scenario.controllers == 2)
    assert 50 < sum(s.lease for s in scenarios) < 110
    assert any(f.kind in HOUR_KINDS for s in scenarios for f in s.faults)


def test_rates_name_kinds_that_exist() -> None:
    assert set(RATES) <= set(KINDS) == set(FAULTS)


def test_a_skewed_clock_is_wrong_in_wall_time_only() -> None:
    true = ManualClock()
    clock = SkewedClock(true)
    clock.skew(offset_s=-30.0, drift=0.1)
    true.advance(10.0)
    assert clock.now_s() == pytest.approx(true.now_s() - 30.0 + 1.0)
    assert clock.monotonic_s() == true.monotonic_s()
    clock.set_right()
    assert clock.now_s() == true.now_s()


def _write(resource: str, name: str, holder: str = "") -> Write:
    spec = {"spec": {"holderIdentity": holder}}
    return Write(CONTROLLER_USER, resource, "ns", name, "u", None, spec)


def test_whoever_writes_without_the_lease_is_seen() -> None:
    judge = Leadership()
    judge.hear(_write(LEASES, LEASE, "controller-1_ab"), agent="controller-1", now_s=0.0)
    assert judge.hear(_write("pods", "x"), agent="controller-1", now_s=1.0) == ""
    assert "controller-2" in judge.hear(_write("pods", "x"), agent="controller-2", now_s=1.0)
    assert judge.hear(_write("events", "x"), agent="controller-2", now_s=1.0) == ""
    judge.awake_s["controller-2"] = 5.0  # it was stopped and goes on: what was under way is sent
    assert judge.hear(_write("pods", "x"), agent="controller-2", now_s=5.0) == ""
    late_s = 5.0 + AWAKENING_S + 0.1
    assert judge.hear(_write("pods", "x"), agent="controller-2", now_s=late_s) != ""


def test_the_holder_of_a_deleted_lease_works_until_it_can_have_heard() -> None:
    # Seed 4546: its renewals had no answer, and a new process made the lease anew at once.
    judge = Leadership()
    judge.hear(_write(LEASES, LEASE, "controller-1_ab"), agent="controller-1", now_s=0.0)
    gone = Write("a-person", LEASES, "ns", LEASE, "u", {}, None)
    judge.hear(gone, agent="", now_s=1.0)
    judge.hear(_write(LEASES, LEASE, "controller-2_cd"), agent="controller-2", now_s=2.0)

    def wrong(at_s: float, *striking: str) -> bool:
        write = _write("pods", "x")
        return bool(judge.hear(write, agent="controller-1", now_s=at_s, striking=striking))

    assert not wrong(3.9) and wrong(4.1) and wrong(4.1, "github-down")
    assert not wrong(10.9, "lease-renewals-slow") and wrong(11.1, "lease-renewals-slow")


@pytest.mark.parametrize("kind", ["runner-evicted", "clock-wrong", "github-rate-limited"])
def test_a_fault_strikes_says_so_and_is_undone(kind: str, tmp_path: Path) -> None:
    async def story() -> None:
        world = World(1, tmp_path)
        await world.start()
        drive._prepare(world, Scenario(1, (PlannedSet("set-0", 1, 3),), ()))
        await world.clock.sleep(20)
        assert await FAULTS[kind](world, PlannedFault(0.0, kind, 5.0, 0.3))
        assert not world.hub.faults.rules
        assert all(c.now_s() == world.clock.now_s() for c in world.clocks.values())

    SimulationLoop(seeded(1)).run(story())


def test_who_deletes_a_runner_with_a_job_without_end_ends_the_job(tmp_path: Path) -> None:
    """Else the runner stays until that ends (C1 4.4 R1), and nothing comes to rest (seed 383)."""

    async def story() -> None:
        world = World(1, tmp_path)
        await world.start()
        drive._prepare(world, Scenario(1, (PlannedSet("set-0", 0, 1),), ()))
        queue_job(world, "set-0", LASTING_S)
        await world.clock.sleep(20)
        kind = "github-job-still-running"
        assert await FAULTS[kind](world, PlannedFault(0.0, kind, 5.0, 0.3))
        jobs = world.github.state.jobs.values()
        assert any(is_lasting(job) for job in jobs)
        assert not any(is_lasting(job) and not job.cancel_asked for job in jobs)

    SimulationLoop(seeded(1)).run(story())


def test_a_job_without_end_that_a_deleted_runner_is_given_later_is_ended_too(
    tmp_path: Path,
) -> None:
    """GitHub said that it had one, and is asked again in half a minute: one came (seed 646)."""

    async def story() -> None:
        world = World(1, tmp_path)
        await world.start()
        drive._prepare(world, Scenario(1, (PlannedSet("set-0", 1, 5),), ()))
        await world.clock.sleep(20)
        kind = "github-job-still-running"
        assert await FAULTS[kind](world, PlannedFault(0.0, kind, 5.0, 0.3))
        for _ in range(5):  # so that it gets one of them
            queue_job(world, "set-0", LASTING_S)
        await world.clock.sleep(5)
        going = {meta(r)["name"] for r in world.objects(RUNNERS) if is_going(r)}
        jobs = world.github.state.jobs.values()
        assert going.intersection(job.runner_name for job in jobs)

        decided_by = world.judge.seen.deleted_by
        by_us = dict.fromkeys(decided_by, CONTROLLER_USER)
        world.judge.seen.deleted_by = by_us
        cancel_what_deletions_wait_for(world)
        assert not any(job.cancel_asked for job in jobs), "what we delete is no person's to end"
        world.judge.seen.deleted_by = decided_by

        outcome = drive.Outcome(1, world.trace)
        await drive._come_to_rest(world, outcome, world.clock.monotonic_s())
        assert not outcome.missing
        assert not going.intersection(meta(r)["name"] for r in world.objects(RUNNERS))

    SimulationLoop(seeded(1)).run(story())


@pytest.mark.parametrize(
    ("refusal", "act"),
    [
        ("webhook-denies-runner-writes", "runner-held"),  # seed 31071
        ("webhook-denies-secrets", "secret-changed"),  # seed 1741
        ("quota-of-secrets", "secret-changed"),
    ],
)
def test_what_refuses_our_writes_does_not_end_what_people_do(
    refusal: str, act: str, tmp_path: Path
) -> None:
    async def story() -> None:
        world = World(1, tmp_path)
        await world.start()
        drive._prepare(world, Scenario(1, (PlannedSet("set-0", 1, 3),), ()))
        await world.clock.sleep(20)
        async with asyncio.TaskGroup() as group:
            group.create_task(FAULTS[refusal](world, PlannedFault(0.0, refusal, 60.0, 0.3)))
            struck = group.create_task(FAULTS[act](world, PlannedFault(0.0, act, 5.0, 0.3)))
        assert struck.result() is not refusal.startswith("quota")

    SimulationLoop(seeded(1)).run(story())


def test_a_runner_ends_whose_job_is_over_and_nobody_can_be_told(tmp_path: Path) -> None:
    """Else it keeps its place until the controller asks, an hour later (seeds 31050, 31446)."""

    async def story() -> None:
        world = World(1, tmp_path)
        await world.start()
        drive._prepare(world, Scenario(1, (PlannedSet("set-0", 0, 1),), ()))
        queue_job(world, "set-0", LASTING_S)
        await world.clock.sleep(20)
        for kind in ("github-scale-set-deleted", "github-job-completed-early"):
            assert len(world.machine.running("runner")) == 1
            assert await FAULTS[kind](world, PlannedFault(0.0, kind, 5.0, 0.3))
        await world.clock.sleep(FINDS_OUT_AFTER_S + 20)
        assert not world.machine.running("runner")

    SimulationLoop(seeded(1)).run(story())
