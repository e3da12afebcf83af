"""What a set does in the end: the contract's statements 7.6, played in a tiny world."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.ephemeral_runner_set.finished import HELD_MAX_S
from runnerscale.kube.errors import ServerFault
from runnerscale.scaleset.errors import JobStillRunning, Unavailable
from tests.plan.ephemeral_runner_set.world import IMAGE_2, KEY, NS, SET, World


@pytest.mark.behaviour("C1 T110")
async def test_a_new_set_gets_finalizer_hash_and_no_runner() -> None:
    this = World()
    this.make(replicas=0)
    await this.settle()
    meta = this.set["metadata"]
    assert meta["finalizers"] == [keys.EPHEMERAL_RUNNER_SET_FINALIZER]
    assert meta["annotations"][keys.INTEGRITY_HASH]
    await this.later(20)
    assert this.names == [] and this.status["currentReplicas"] == 0
    assert this.api.dry_runs == []  # nobody is to be made: nothing to try out


@pytest.mark.behaviour("C1 T111")
async def test_as_many_as_wanted_are_made_and_counted() -> None:
    this = World()
    this.make(replicas=5, patch_id=0)
    await this.settle()
    assert len(this.names) == 5
    assert this.counters == (5, 5, 0, 0)
    assert this.status["phase"] == "Running"
    assert len(this.api.dry_runs) == 1


@pytest.mark.behaviour("C1 T112")
async def test_a_numbered_patch_makes_what_is_missing_with_its_id() -> None:
    this = World()
    this.make(replicas=1, patch_id=0)
    await this.settle()
    this.says(2, 1)
    await this.settle()
    ids = [this.body(name)["metadata"]["annotations"][keys.PATCH_ID] for name in this.names]
    assert ids == ["0", "1"]


@pytest.mark.behaviour("C1 T113")
async def test_changed_annotations_reach_new_runners_only() -> None:
    this = World()
    this.make(replicas=1, meta={"annotations": {"team": "a"}})
    await this.settle()
    this.change_set({"metadata": {"annotations": {"team": "b", "added": "yes"}}})
    this.says(2, 1)
    await this.settle()
    first, second = (this.body(name)["metadata"]["annotations"] for name in this.names)
    assert first["team"] == "a" and "added" not in first
    assert (second["team"], second["added"]) == ("b", "yes")


@pytest.mark.behaviour("C1 T114")
async def test_a_succeeded_runner_of_an_older_controller_goes_and_the_running_one_stays() -> None:
    this = World()
    this.make(replicas=2, patch_id=1)
    await this.settle()
    old, busy = this.names
    this.register()
    this.take_job(busy)
    this.change(old, phase="Succeeded")
    this.says(1, 2)
    await this.settle()
    assert this.names == [busy]


async def test_a_succeeded_runner_goes_at_once_whatever_the_patch_id() -> None:
    # Upstream keeps it until the next patch (T115); design section 5: deleted at once.
    this = World()
    this.make(replicas=1, patch_id=1)
    await this.settle()
    (name,) = this.names
    this.runner("old", runnerId=1, phase="Succeeded")
    await this.settle()
    assert this.names == [name]


@pytest.mark.behaviour("C1 T116", "C1 T119")
async def test_a_succeeded_runner_is_no_capacity() -> None:
    this = World()
    this.make(replicas=3, patch_id=2)
    this.runner("done", runnerId=1, phase="Succeeded")
    this.runner("busy", runnerId=2, phase="Running", jobId="j")
    await this.settle()
    assert len(this.names) == 3 and "done" not in this.names and "busy" in this.names


@pytest.mark.behaviour("C1 T117")
async def test_with_nothing_wanted_the_pending_one_stays_until_it_succeeds() -> None:
    this = World()
    this.make(replicas=0, patch_id=2)
    this.runner("done", runnerId=1, phase="Succeeded")
    this.runner("idle", runnerId=2, phase="Pending")
    await this.settle()
    assert this.names == ["idle"]
    this.change("idle", phase="Succeeded")
    await this.settle()
    assert this.names == []


@pytest.mark.behaviour("C1 T118")
async def test_who_is_not_registered_is_not_asked_about_until_it_is() -> None:
    this = World()
    this.make(replicas=0, patch_id=0)
    this.runner("pending", phase="Pending")
    this.runner("running", phase="Running")
    await this.settle()
    assert sorted(this.names) == ["pending", "running"] and this.github.asked == []
    this.register()
    ids = {this.id_of("pending"), this.id_of("running")}
    await this.settle()
    assert set(this.github.asked) == ids
    assert sorted(this.going) == ["pending", "running"]


async def test_who_never_registers_does_not_stay_for_ever() -> None:
    this = World()
    this.make(replicas=0, patch_id=0)
    this.runner("stuck", age_s=121)
    await this.settle()
    assert this.going == ["stuck"] and this.github.asked == []


@pytest.mark.behaviour("C1 T120")
async def test_a_numbered_patch_never_shrinks_the_set() -> None:
    this = World()
    this.make(replicas=3, patch_id=0)
    await this.settle()
    this.register()
    this.says(1, 4)
    await this.settle()
    assert len(this.names) == 3 and this.github.asked == []


@pytest.mark.behaviour("C1 T121")
async def test_pending_ones_go_first_then_the_oldest() -> None:
    this = World()
    this.make(replicas=1, patch_id=0)
    this.runner("r1", age_s=300, runnerId=1, phase="Running")
    this.runner("p1", age_s=200, runnerId=2, phase="Pending")
    this.runner("p2", age_s=100, runnerId=3, phase="Pending")
    await this.settle()
    assert this.github.asked == [2, 3] and this.names == ["r1"]
    this.says(0, 0)
    await this.settle()
    assert this.github.asked == [2, 3, 1] and this.names == []


@pytest.mark.behaviour("C1 T122")
async def test_a_candidate_with_a_job_is_passed_over() -> None:
    this = World()
    this.make(replicas=1, patch_id=0)
    this.runner("busy", age_s=300, runnerId=1, phase="Pending", jobId="job")
    this.runner("idle", age_s=100, runnerId=2, phase="Pending")
    await this.settle()
    assert this.github.asked == [2] and this.names == ["busy"]


@pytest.mark.behaviour("C1 T123")
async def test_github_s_word_that_a_job_runs_is_final_and_the_next_is_tried() -> None:
    this = World()
    this.make(replicas=1, patch_id=0)
    this.runner("just-given-a-job", age_s=300, runnerId=1, phase="Pending")
    this.runner("idle", age_s=100, runnerId=2, phase="Pending")
    this.github.answers[1] = JobStillRunning("a job still runs on it")
    await this.settle()
    assert this.github.asked == [1, 2] and this.names == ["just-given-a-job"]
    await this.later(300)
    assert this.names == ["just-given-a-job"]


@pytest.mark.behaviour("C1 T124")
async def test_a_question_without_an_answer_stops_nobody_and_is_asked_again() -> None:
    this = World()
    this.make(replicas=0, patch_id=0)
    this.runner("a", age_s=300, runnerId=1, phase="Pending")
    this.runner("b", age_s=100, runnerId=2, phase="Pending")
    this.github.answers[1] = Unavailable("500")
    end = await this.settle()
    assert this.names == ["a"] and this.going == ["b"]
    assert end.again_s is not None
    assert this.status["reason"] == "GitHubUnavailable"
    del this.github.answers[1]
    await this.later(end.again_s)
    assert this.names == [] and this.status["reason"] == ""


async def test_a_surplus_runner_that_fails_because_github_forgot_it_is_no_evidence() -> None:
    # Seen on a busy machine: its registration went, it ended with an error, and its own
    # controller called it failed before we had deleted it. The set then stopped to make runners.
    this = World()
    this.make(replicas=0, patch_id=0)
    this.runner("idle", age_s=100, runnerId=1, phase="Pending")
    this.github.on_remove = lambda _: this.fail("idle")
    await this.settle()
    assert this.names == []
    assert this.condition("CreationAllowed")["status"] == "True"


async def test_a_runner_with_a_job_that_github_forgot_stays_evidence() -> None:
    this = World()
    this.make(replicas=0, patch_id=0)
    this.runner("busy", age_s=100, runnerId=1, phase="Pending")

    def ends_under_its_job(_: int) -> None:
        this.take_job("busy")
        this.fail("busy", "PodLost")

    this.github.on_remove = ends_under_its_job
    await this.settle()
    assert this.names == ["busy"]


async def test_failed_ones_are_counted_but_are_no_capacity() -> None:
    # Upstream counts them as capacity (T125); design section 5, W32.
    this = World()
    this.make(replicas=2, patch_id=1)
    await this.settle()
    first, second = this.names
    this.register()
    this.take_job(second)
    this.fail(first)
    await this.settle()
    assert this.counters == (2, 0, 1, 1)
    await this.later(6)  # after its pause
    assert len(this.names) == 3
    assert this.counters == (3, 1, 1, 1)
    this.says(1, 0)
    await this.settle()
    assert first in this.names  # scale-down never picks it
    assert this.github.asked == []  # nor one that is not registered yet


@pytest.mark.behaviour("C1 T126")
async def test_a_failed_one_that_a_person_deletes_leaves_the_counters() -> None:
    this = World()
    this.make(replicas=0, patch_id=1)
    this.runner("bad", runnerId=1, phase="Failed", reason="RunnerFailed")
    await this.settle()
    assert this.counters == (1, 0, 0, 1)
    this.finish("bad")
    await this.later(1)
    assert this.counters == (0, 0, 0, 0)


@pytest.mark.behaviour("C1 T127")
async def test_one_of_each_and_then_nothing_wanted() -> None:
    this = World()
    this.make(replicas=2, patch_id=1)
    this.runner("pending", runnerId=1, phase="Pending")
    this.runner("running", runnerId=2, phase="Running")  # of an older controller: no job
    this.runner("failed", runnerId=3)
    this.fail("failed")
    await this.settle()
    assert this.counters == (3, 1, 1, 1) and this.status["phase"] == "Running"
    this.says(0, 0)
    await this.settle()
    this.sweep()
    await this.later(1)
    assert this.names == ["failed"] and this.counters == (1, 0, 0, 1)
    await this.later(600)  # evidence for ten minutes
    assert this.names == []


@pytest.mark.behaviour("C1 T128")
async def test_one_that_is_being_deleted_is_in_its_own_column_only() -> None:
    this = World()
    this.make(replicas=0, patch_id=1)
    this.runner("going", runnerId=1, phase="Pending")
    this.ask_deletion("going")
    await this.settle()
    assert this.counters == (0, 0, 0, 0)
    assert this.status["deletingEphemeralRunners"] == 1


@pytest.mark.behaviour("C1 T129")
async def test_every_live_phase_but_running_counts_as_pending() -> None:
    this = World()
    this.make(replicas=3, patch_id=1)
    for name, phase in (("a", ""), ("b", "Pending"), ("c", "Unknown")):
        this.runner(name, runnerId=1, phase=phase)
    await this.settle()
    assert this.counters == (3, 3, 0, 0)


async def test_a_runner_with_a_job_counts_as_running_though_its_phase_lags() -> None:
    this = World()
    this.make(replicas=1, patch_id=1)
    this.runner("a", runnerId=1, phase="Pending", jobId="job")
    await this.settle()
    assert this.counters == (1, 0, 1, 0)


@pytest.mark.behaviour("C1 T130")
async def test_a_refused_version_lets_idle_ones_go_and_busy_ones_finish() -> None:
    this = World()
    this.make(replicas=3, patch_id=1)
    this.runner("idle", runnerId=1, phase="Pending", age_s=500)
    this.runner("busy", runnerId=2, phase="Running", jobId="job", age_s=500)
    this.runner("refused", runnerId=3)
    this.fail("refused", reason="Outdated", phase="Outdated")
    await this.settle()
    assert this.status["phase"] == "Outdated"
    assert this.names == ["busy", "refused"]
    assert this.condition("CreationAllowed")["reason"] == "Outdated"
    assert ("Warning", "Outdated") in [(t, r) for t, r, _ in this.events.told]


async def test_a_refused_version_is_a_verdict_on_one_spec() -> None:  # W5
    this = World()
    this.make(replicas=1, patch_id=1)
    this.runner("refused", runnerId=3)
    this.fail("refused", reason="Outdated", phase="Outdated")
    await this.settle()
    assert this.names == ["refused"] and this.status["phase"] == "Outdated"
    this.change_set(IMAGE_2)
    await this.settle()
    assert len(this.names) == 2 and this.status["phase"] == "Running"
    # A busy runner of the old image that ends so later says nothing about the new one (#4638).
    this.runner("late", runnerId=4, phase="Running", jobId="job")
    this.api.change(
        EPHEMERAL_RUNNERS,
        NS,
        "late",
        {"spec": {"spec": {"containers": [{"name": "runner", "image": "img:1"}]}}},
    )
    this.fail("late", reason="Outdated", phase="Outdated")
    await this.settle()
    assert this.status["phase"] == "Running"


async def test_a_slow_probe_finds_out_that_a_refused_version_is_taken_again() -> None:
    # The image was pushed anew under the same tag: no spec changes, so only trying tells.
    this = World()
    this.make(replicas=2, patch_id=1)
    this.runner("refused", runnerId=3)
    this.fail("refused", reason="Outdated", phase="Outdated")
    await this.settle()
    await this.later(50)
    assert this.names == ["refused"]
    await this.later(11)
    (probe,) = [n for n in this.names if n != "refused"]
    assert this.status["phase"] == "Outdated"
    this.register(probe)
    await this.later(30)
    assert len(this.names) == 2  # one, and no second before it has shown what it can
    this.take_job(probe)
    await this.settle()
    assert this.status["phase"] == "Running" and len(this.names) == 3


@pytest.mark.behaviour("C1 T132")
async def test_a_deleted_set_lets_its_idle_runners_go_and_is_gone() -> None:
    this = World()
    this.make(replicas=5)
    await this.settle()
    this.register()
    ids = sorted(this.id_of(name) for name in this.names)
    this.delete_set()
    await this.settle()
    assert sorted(this.github.asked) == ids and len(this.going) == 5
    assert not this.set_is_gone
    this.sweep()
    await this.settle()
    assert this.set_is_gone


@pytest.mark.behaviour("C1 T133")
async def test_a_deleted_set_waits_for_a_busy_runner() -> None:
    this = World()
    this.make(replicas=2)
    await this.settle()
    this.register()
    busy, idle = this.names
    this.take_job(busy)
    this.delete_set()
    await this.settle()
    this.sweep()
    await this.later(3600)
    assert this.names == [busy] and not this.set_is_gone
    assert this.status["reason"] == "DeletionWaits"
    assert idle not in this.names
    this.finish(busy)
    await this.settle()
    assert this.set_is_gone


@pytest.mark.behaviour("C1 T134")
async def test_a_deleted_set_of_retired_runners_needs_no_github() -> None:
    this = World()
    this.make(replicas=0, patch_id=1)
    this.runner("done", runnerId=1, phase="Succeeded")
    this.runner("failed", runnerId=2)
    this.fail("failed")
    await this.one_pass()
    this.delete_set()
    await this.settle()
    this.sweep()
    await this.settle()
    assert this.set_is_gone and this.github.places == []


@pytest.mark.behaviour("C1 T136")
async def test_runners_carry_the_certificate_of_their_set() -> None:
    tls = {"certificateFrom": {"configMapKeyRef": {"name": "ca", "key": "root.crt"}}}
    this = World()
    this.make(replicas=1, runner={"githubServerTLS": tls})
    await this.settle()
    assert this.body(this.names[0])["spec"]["githubServerTLS"] == tls


@pytest.mark.behaviour("C1 T186")
async def test_the_gauges_by_phase() -> None:
    this = World()
    this.make(replicas=3, patch_id=1)
    this.runner("idle", runnerId=1, phase="Pending")
    this.runner("starting")
    this.runner("busy", runnerId=2, phase="Running", jobId="j")
    this.runner("bad", runnerId=3)
    this.fail("bad")
    await this.settle()
    labels = {
        "name": "set",
        "namespace": NS,
        "repository": "repo",
        "organization": "org",
        "enterprise": "",
    }

    def gauge(phase: str) -> float | None:
        return this.registry.get_sample_value(f"gha_controller_{phase}_ephemeral_runners", labels)

    assert [gauge(p) for p in ("pending", "running", "failed")] == [2, 1, 1]
    this.delete_set()
    for name in list(this.names):
        this.finish(name)
    await this.settle()
    assert this.set_is_gone
    await this.one_pass()
    assert gauge("pending") is None  # W40: the series go with the set


@pytest.mark.behaviour("C1 T188")
async def test_without_metrics_an_unreadable_url_does_not_stop_the_set() -> None:
    for served in (True, False):
        this = World(served=served)
        this.make(replicas=1, runner={"githubConfigUrl": "not a url"})
        await this.settle()
        assert len(this.names) == 1


async def test_a_quiet_set_writes_and_asks_nothing() -> None:
    this = World()
    this.make(replicas=3, patch_id=0)
    await this.settle()
    this.register()
    await this.later(2)
    this.api.writes.clear()
    reads = len(this.api.reads)
    for _ in range(10):
        await this.later(60)
    assert this.api.writes == [] and len(this.api.reads) == reads
    assert this.github.asked == [] and len(this.api.dry_runs) == 1


async def test_the_status_is_written_at_most_every_other_second_in_a_burst() -> None:
    this = World()
    this.make(replicas=10, patch_id=0)
    await this.settle()
    this.register()
    this.clock.advance(5)
    this.api.writes.clear()
    for name in this.names:
        this.take_job(name)
        await this.one_pass()
        this.clock.advance(0.1)
    writes = [w for w in this.api.writes if w[1] == "ephemeralrunnersets"]
    assert len(writes) == 1
    await this.settle()
    assert this.counters == (10, 0, 10, 0)


def test_what_wakes_a_set() -> None:
    this = World()
    this.make(replicas=1)
    assert this.queued == [(KEY, 0.0)]  # at once
    this.queued.clear()
    this.change_set({"status": {"phase": "Running"}})
    assert this.queued == []  # our own status
    this.says(2, 1)
    assert this.queued.pop() == (KEY, 0.0)
    this.runner("a", runnerId=1, phase="Pending")
    assert this.queued.pop() == (KEY, 0.05)
    this.change("a", ready=True)
    assert this.queued.pop() == (KEY, 0.5)  # only a counter, at most
    this.take_job("a")
    assert this.queued.pop() == (KEY, 0.5)
    this.ask_deletion("a")
    assert this.queued.pop() == (KEY, 0.05)
    this.vanish("a")
    assert this.queued.pop() == (KEY, 0.5)
    this.queued.clear()
    this.api.put(EPHEMERAL_RUNNERS, NS, {"metadata": {"name": "orphan"}, "spec": {}})
    assert this.queued == []


async def test_a_set_that_vanishes_under_a_pass_is_no_error() -> None:
    this = World()
    this.make(replicas=1)
    this.api.fault = lambda verb, plural, name: (
        this.api.drop(EPHEMERAL_RUNNER_SETS, NS, SET)  # type: ignore[func-returns-value]
        if verb == "patch" and plural == "ephemeralrunnersets"
        else None
    )
    await this.one_pass()
    assert await this.one_pass() is not None


async def test_an_api_server_in_trouble_is_an_ending_with_backoff() -> None:
    this = World()
    this.make(replicas=1)
    await this.one_pass()
    this.api.fault = lambda verb, plural, name: ServerFault(503, "", "down")
    end = await this.one_pass()
    assert end.failed or end.errors
    this.api.fault = lambda *_: None
    await this.settle()
    assert len(this.names) == 1


async def test_a_runner_that_ends_just_after_the_clock_was_set_is_replaced_in_time() -> None:
    # Its end was noted in the new time and then moved along with what was noted in the old one:
    # its place was held for as long as the clock was set ahead (simulation, seed 31424).
    this = World()
    this.make(replicas=2, patch_id=1, settledRunners=["before"])
    await this.settle()
    this.register()
    await this.settle()
    this.clock._start_s += 4000.0
    gone = this.names[0]
    this.finish(gone)
    await this.later(HELD_MAX_S / 2)
    assert len(this.names) == 1  # its place is held, as after a short job
    await this.later(HELD_MAX_S / 2 + 1.0)
    assert len(this.names) == 2 and gone not in this.names
