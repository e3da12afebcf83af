"""The whole life of runners, under the real runtime, on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.credentials.place import PlaceTrouble
from runnerscale.kube.errors import Forbidden, Invalid, Unreachable
from runnerscale.scaleset.errors import Unavailable
from tests.unit.controllers.ephemeral_runner.world import NS, SCALE_SET, Job, Registration, World

Run = Callable[[Coroutine[Any, Any, None]], None]


# --- the clean life ---------------------------------------------------------------------


@pytest.mark.behaviour("C1 T140", "C1 T152", "C1 T143")
def test_a_job_is_run_and_nothing_is_left_within_the_budget(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World() as world:
            await asyncio.sleep(10)  # nobody else can have begun with what is made from now on
            world.jobs.append(Job())
            await world.until(lambda: world.status("runner-1").get("runnerId"))
            await world.until(lambda: world.status("runner-1").get("phase") == "Running")
            secret = world.api.raw("secrets", "runner-1")
            assert secret is not None
            assert set(secret["data"]) == {"jitToken", "runnerName", "runnerId", "scaleSetId"}
            await world.until(lambda: world.jobs[0].done and not world.left())
            # Design section 6: Secret, pod, 1-2 statuses, pod, object, finalizers; one call.
            assert sorted(world.writes()) == [
                "create pods",
                "create secrets",
                "delete ephemeralrunners",
                "delete pods",
                "patch ephemeralrunners",
                "patch ephemeralrunners/status",
                "patch ephemeralrunners/status",
            ]
            assert world.github.calls == ["generate"]
            assert world.github.work_folders == ["/w"]
            assert world.api.reads == 0
            assert world.api.phases == [("runner-1", "Pending"), ("runner-1", "Running")]
            (deleted,) = [c for c in world.api.sent if str(c) == "delete pods"]
            assert deleted.body == {"grace": 0}  # nothing of it runs any more
            assert world.events.seen == []
            assert len(world.reconciler._memory) == 0

    run_virtual(scene())


def test_many_jobs_run_side_by_side_each_on_its_own_runner(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job() for _ in range(40)]) as world:
            await world.until(lambda: all(job.done for job in world.jobs) and not world.left())
            assert len({job.runner for job in world.jobs}) == 40
            assert set(world.starts.values()) == {1}
            assert world.github.calls == ["generate"] * 40

    run_virtual(scene())


# --- crashes ----------------------------------------------------------------------------


def life_in_calls(run_virtual: Run) -> int:
    counted: list[int] = []

    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            await world.until(lambda: world.jobs[0].done and not world.left())
            counted.append(len(world.faults.calls))

    run_virtual(scene())
    return counted[0]


@pytest.mark.behaviour("C1 T172")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_between_any_two_calls_changes_nothing_in_the_end(
    run_virtual: Run, when: str
) -> None:
    async def scene(at: int) -> None:
        async with World(jobs=[Job()]) as world:
            world.faults.crash_at = (at, when)
            await world.until(lambda: world.restarts == 1)
            done: Callable[[], bool] = lambda: world.jobs[0].done and not world.left()  # noqa: E731
            await world.until(done, within_s=120)
            assert not world.jobs[0].killed
            assert set(world.starts.values()) == {1}, "a container started twice"

    total = life_in_calls(run_virtual)
    assert total == 8
    for at in range(total):
        run_virtual(scene(at))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_anywhere_in_the_life_of_an_idle_runner_leaks_nothing(
    run_virtual: Run, when: str
) -> None:
    async def scene(at: int) -> None:
        async with World(idle_wanted=1) as world:
            world.faults.crash_at = (at, when)
            # Its pod is deleted by somebody, again and again, until the crash has happened.
            for _ in range(12):
                await world.until(world.starts.__len__)
                for name in world.api.names("pods"):
                    world.api.remove("pods", name, grace_s=0)
                await asyncio.sleep(3)
            assert world.restarts == 1
            world.idle_wanted = 0
            for name in world.api.names("ephemeralrunners"):
                world.api.remove("ephemeralrunners", name)
            await world.until(lambda: not world.left(), within_s=120)
            assert set(world.starts.values()) == {1}

    for at in range(14):
        run_virtual(scene(at))


# --- lost answers -----------------------------------------------------------------------


def once(name: str, error: Exception, count: int = 1) -> Callable[[str, Any], Exception | None]:
    """Fail the first calls of that name."""
    left = [count]

    def fault(called: str, _: Any) -> Exception | None:
        if called == name and left[0]:
            left[0] -= 1
            return error
        return None

    return fault


@pytest.mark.parametrize(
    "name",
    [
        "create secrets",
        "create pods",
        "patch ephemeralrunners/status",
        "delete ephemeralrunners",
        "delete pods",
        "patch ephemeralrunners",
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_that_the_api_server_loses_is_made_good(
    run_virtual: Run, name: str, when: str
) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            setattr(world.faults, when, once(name, Unreachable("reset by peer")))
            await world.until(lambda: world.jobs[0].done and not world.left())
            assert world.starts == {"runner-1": 1}
            assert world.github.made == 1

    run_virtual(scene())


@pytest.mark.behaviour("C1 T170", "C1 T172")
def test_a_registration_whose_answer_was_lost_is_removed_and_made_again(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            world.faults.after = once("github generate", Unavailable("lost"))
            await world.until(lambda: world.jobs[0].done and not world.left())
            assert world.github.calls == ["generate", "find", "remove", "generate"]

    run_virtual(scene())


@pytest.mark.behaviour("C1 T170")
def test_a_name_in_another_scale_set_costs_a_new_name_and_no_stranger(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            world.github.runners[900] = Registration(900, "runner-1", SCALE_SET + 1)
            await world.until(lambda: world.jobs[0].done)
            await world.until(lambda: not world.api.names("ephemeralrunners"))
            assert world.jobs[0].runner == "runner-2"
            assert list(world.github.runners) == [900]
            assert [reason for _, reason, _ in world.events.seen] == ["RunnerNameTaken"]

    run_virtual(scene())


@pytest.mark.behaviour("C1 T171")
def test_a_secret_that_is_in_the_way_is_rebuilt(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(set_works=False) as world:
            world.add_runner("runner-1")
            item = world.api.raw("ephemeralrunners", "runner-1")
            assert item is not None
            owner = {"kind": "EphemeralRunner", "name": "runner-1", "controller": True}
            owners = [owner | {"uid": item["metadata"]["uid"]}]
            meta = {"name": "runner-1", "ownerReferences": owners}
            bad = {"metadata": meta, "data": {"runnerId": "bm90IGEgbnVtYmVy"}}
            world.api.put_new("secrets", bad)
            await world.until(lambda: world.status("runner-1").get("ready"))
            secret = world.api.raw("secrets", "runner-1")
            assert secret is not None
            assert secret["data"]["runnerId"] == "MQ=="  # "1"
            assert secret["metadata"]["ownerReferences"][0]["kind"] == "EphemeralRunner"

    run_virtual(scene())


def test_a_pod_that_is_there_already_and_ours_is_success(run_virtual: Run) -> None:
    # Issue log 23: the answer of the create was lost, and the retry meets our own pod.
    async def scene() -> None:
        async with World(jobs=[Job()], node_works=False) as world:
            world.faults.after = once("create pods", Unreachable("lost"))
            await world.until(lambda: world.api.names("pods"))
            world.node_works = True
            await world.until(lambda: world.jobs[0].done and not world.left())
            assert world.events.seen == []

    run_virtual(scene())


@pytest.mark.behaviour("C1 T159")
def test_a_strangers_pod_is_not_taken_for_ours(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()], node_works=False) as world:
            world.api.put_new("pods", {"metadata": {"name": "runner-1"}})
            await world.until(lambda: world.status("runner-1").get("reason") == "RunnerNameTaken")
            tries = world.faults.calls.count("create pods")
            await asyncio.sleep(10)
            assert 1 <= world.faults.calls.count("create pods") - tries <= 3  # every five seconds
            assert "failures" not in world.status("runner-1")
            world.api.remove("pods", "runner-1", grace_s=0)
            world.node_works = True
            await world.until(lambda: world.jobs[0].done and not world.left())

    run_virtual(scene())


# --- GitHub and means -------------------------------------------------------------------


def test_github_down_for_an_hour_leaks_nothing_and_all_goes_on_afterwards(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with World(jobs=[Job(seconds=60)]) as world:
            await world.until(lambda: world.status("runner-1").get("phase") == "Running")
            world.jobs += [Job(), Job()]
            world.github.down = Unavailable("away")
            await world.until(lambda: world.jobs[0].done)
            await world.until(lambda: "runner-1" not in world.api.names("pods"))
            # A person deletes one of those that wait.
            await asyncio.sleep(60)
            world.api.remove("ephemeralrunners", world.api.names("ephemeralrunners")[0])
            await asyncio.sleep(3600)
            assert world.status(world.api.names("ephemeralrunners")[-1])["reason"] == (
                "GitHubUnavailable"
            )
            assert len(world.github.calls) < 400
            world.github.down = None
            await world.until(lambda: all(job.done for job in world.jobs) and not world.left())
            assert set(world.starts.values()) == {1}

    run_virtual(scene())


def test_a_wait_that_began_while_the_clock_was_ahead_is_no_longer_once_it_is_set_right(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with World() as world:
            world.clock._epoch_s += 4000
            world.github.down = Unavailable("away")
            world.jobs.append(Job())
            await asyncio.sleep(120)  # by now it is asked once a minute
            world.clock._epoch_s -= 4000
            await asyncio.sleep(1)
            world.github.down = None
            await world.until(lambda: world.jobs[0].done, within_s=90)

    run_virtual(scene())


def test_an_empty_place_holds_runners_with_a_reason_and_lets_them_go(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            missing = PlaceTrouble("CredentialsMissing", "Secret s does not exist", "Create it")

            async def nothing(place: Any) -> Any:
                assert (place.namespace, place.secret_name) == (NS, "s")
                raise missing

            world.github.client_for = nothing  # type: ignore[method-assign]
            await world.until(
                lambda: world.status("runner-1").get("reason") == "CredentialsMissing"
            )
            world.set_works = False
            world.api.remove("ephemeralrunners", "runner-1")
            await world.until(lambda: not world.left(), within_s=120)
            assert "Create it" in world.events.seen[0][2]

    run_virtual(scene())


# --- endings ----------------------------------------------------------------------------


@pytest.mark.behaviour("C1 T144")
def test_an_idle_runner_whose_pod_is_deleted_is_replaced_never_repeated(run_virtual: Run) -> None:
    # Overrules "it is recreated": one name, one config, at most one container.
    async def scene() -> None:
        async with World(idle_wanted=1) as world:
            await world.until(lambda: world.status("runner-1").get("ready"))
            world.api.remove("pods", "runner-1", grace_s=0)
            await world.until(lambda: "runner-2" in world.api.names("pods"), within_s=5)
            await world.until(lambda: "runner-1" not in world.api.names("ephemeralrunners"))
            assert [r.name for r in world.github.runners.values()] == ["runner-2"]
            assert world.events.seen[0][:2] == ("runner-1", "PodLost")

    run_virtual(scene())


def test_a_runner_whose_jit_config_is_deleted_before_its_start_is_replaced(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with World(idle_wanted=1, start_after_s=20) as world:
            await world.until(lambda: "runner-1" in world.api.names("pods"))
            world.api.remove("secrets", "runner-1")
            waits = {
                "reason": "CreateContainerConfigError",
                "message": 'secret "runner-1" not found',
            }
            world.pod_is("runner-1", {"waiting": waits}, "Pending")
            await world.until(lambda: world.status("runner-2").get("ready"), within_s=60)
            await world.until(lambda: "runner-1" not in world.api.names("ephemeralrunners"))
            assert [r.name for r in world.github.runners.values()] == ["runner-2"]
            assert "runner-1" not in world.starts
            told = [event[:2] for event in world.events.seen]
            assert ("runner-1", "JitConfigExpired") in told

    run_virtual(scene())


@pytest.mark.behaviour("C1 T174", "C1 T146", "C1 T147")
@pytest.mark.parametrize("how", ["lost", "exit"])
def test_a_runner_that_lost_its_job_is_kept_as_evidence_and_nothing_else_of_it(
    run_virtual: Run, how: str
) -> None:
    # Overrules "the ER is gone": with a job it stays, Failed, with its reason.
    async def scene() -> None:
        async with World(jobs=[Job(seconds=600)]) as world:
            await world.until(lambda: world.status("runner-1").get("phase") == "Running")
            world.set_works = False
            if how == "lost":
                world.api.remove("pods", "runner-1", grace_s=0)
            else:
                world.exit_container("runner-1", 1)
            await world.until(lambda: world.status("runner-1").get("phase") == "Failed")
            expected = {"lost": "PodLost", "exit": "RunnerFailed"}[how]
            assert world.status("runner-1")["reason"] == expected
            await world.until(lambda: not world.api.names("pods"))
            await world.until(lambda: not world.api.names("secrets"))
            # GitHub lets go of the job after a while; then the registration goes, too.
            await asyncio.sleep(300)
            world._stop_container("runner-1")
            await world.until(lambda: not world.github.runners)
            item = world.api.raw("ephemeralrunners", "runner-1")
            assert item is not None
            assert item["metadata"]["finalizers"] == [
                "ephemeralrunner.actions.github.com/finalizer"
            ]
            calls = len(world.github.calls)
            world.api.remove("ephemeralrunners", "runner-1")  # the set, some minutes later
            await world.until(lambda: not world.left())
            assert len(world.github.calls) == calls  # and asks nobody again
            assert world.starts == {"runner-1": 1}

    run_virtual(scene())


def test_the_reason_is_on_condition_event_metric_and_status(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(idle_wanted=1) as world:
            await world.until(lambda: world.status("runner-1").get("ready"))
            world.set_works = False
            world.exit_container("runner-1", 137, reason="OOMKilled")
            await world.until(lambda: world.status("runner-1").get("phase") == "Failed")
            status = world.status("runner-1")
            assert status["reason"] == "OOMKilled"
            (healthy,) = [c for c in status["conditions"] if c["type"] == "Healthy"]
            assert (healthy["status"], healthy["reason"]) == ("False", "OOMKilled")
            await asyncio.sleep(5)
            assert [reason for _, reason, _ in world.events.seen] == ["OOMKilled"]  # told once
            assert world.metrics._holders == {("EphemeralRunner", NS, "runner-1", "OOMKilled"): 1}
            world.api.remove("ephemeralrunners", "runner-1")
            await world.until(lambda: not world.left())
            await asyncio.sleep(1)
            assert world.metrics._holders == {}

    run_virtual(scene())


@pytest.mark.behaviour("C1 T168")
def test_a_person_who_deletes_a_busy_runner_waits_for_its_job(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job(seconds=100)]) as world:
            await world.until(lambda: world.status("runner-1").get("phase") == "Running")
            world.set_works = False
            world.api.remove("ephemeralrunners", "runner-1")
            await asyncio.sleep(90)
            assert not world.jobs[0].killed
            removals = world.github.calls.count("remove")
            assert 3 <= removals <= 5  # about every half minute
            item = world.api.raw("ephemeralrunners", "runner-1")
            assert item is not None
            assert len(item["metadata"]["finalizers"]) == 2
            await world.until(lambda: not world.left(), within_s=30)
            assert world.jobs[0].done

    run_virtual(scene())


@pytest.mark.behaviour("C1 T169")
def test_what_the_container_hooks_left_goes_with_the_runner(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(set_works=False) as world:
            hook = {"name": "ACTIONS_RUNNER_CONTAINER_HOOKS", "value": "/hook.js"}
            for name, container in (("hooked", "runner"), ("plain", "other")):
                world.add_runner(name)
                spec = {"containers": [{"name": "runner"}, {"name": "other"}]}
                next(c for c in spec["containers"] if c["name"] == container)["env"] = [hook]  # type: ignore[assignment]
                world.api.merge("ephemeralrunners", name, {"spec": {"spec": spec}})
                for plural in ("pods", "secrets"):
                    labels = {"runner-pod": name}
                    world.api.put_new(
                        plural, {"metadata": {"name": f"{name}-job", "labels": labels}}
                    )
            await world.until(lambda: world.status("hooked").get("ready"))
            await world.until(lambda: world.status("plain").get("ready"))
            for name in ("hooked", "plain"):
                world.api.remove("ephemeralrunners", name)
            await world.until(lambda: not world.api.names("ephemeralrunners"))
            assert world.left() == {"pods": ["plain-job"], "secrets": ["plain-job"]}

    run_virtual(scene())


@pytest.mark.behaviour("C1 T158")
def test_when_the_quota_frees_the_pod_comes_within_half_a_minute(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            full = Forbidden(403, "Forbidden", "exceeded quota: q, requested: pods=1")
            world.faults.before = once("create pods", full, count=5)
            await world.until(lambda: world.status("runner-1").get("reason") == "QuotaExceeded")
            assert world.status("runner-1")["phase"] == "Pending"
            await world.until(lambda: world.jobs[0].done and not world.left(), within_s=180)
            assert world.github.made == 1

    run_virtual(scene())


def test_a_quota_that_stays_full_renews_the_runner_every_ten_minutes(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            full = Forbidden(403, "Forbidden", "exceeded quota: q")
            world.faults.before = lambda name, _: full if name == "create pods" else None
            await asyncio.sleep(3700)
            assert world.names == 7  # one every ten minutes, and never two at once
            assert len(world.github.runners) == 1
            world.faults.before = lambda _name, _call: None
            await world.until(lambda: world.jobs[0].done and not world.left())

    run_virtual(scene())


@pytest.mark.behaviour("C1 T157")
def test_an_invalid_pod_is_kept_with_the_servers_words(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            invalid = Invalid(422, "Invalid", "spec.containers[0].image: Required value")
            world.faults.before = once("create pods", invalid)
            await world.until(lambda: world.status("runner-1").get("phase") == "Failed")
            assert world.status("runner-1")["message"] == (
                "Failed to create the pod: spec.containers[0].image: Required value"
            )
            await world.until(lambda: world.jobs[0].done)
            await world.until(lambda: not world.github.runners)
            assert world.api.names("secrets") == []

    run_virtual(scene())


@pytest.mark.behaviour("C1 T145", "C1 T154", "C1 T148")
def test_a_container_that_ended_is_never_started_again(run_virtual: Run) -> None:
    # Overrules the five restarts with growing delay; what is made again is another runner.
    async def scene() -> None:
        async with World(idle_wanted=1) as world:
            for number in (1, 2, 3):
                name = f"runner-{number}"
                await world.until(lambda n=name: world.status(n).get("ready"))  # type: ignore[misc]
                world.exit_container(name, 1)
                await world.until(lambda n=name: world.status(n).get("phase") == "Failed")  # type: ignore[misc]
                assert "failures" not in world.status(name)
            await asyncio.sleep(100)
            assert set(world.starts.values()) == {1}

    run_virtual(scene())


@pytest.mark.behaviour("C1 T148")
def test_a_pod_that_its_node_refuses_is_made_again_more_slowly(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()], node_works=False) as world:
            refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"}
            uids = []
            for _ in range(3):
                await world.until(lambda: world.api.names("pods"))
                pod = world.api.raw("pods", "runner-1")
                assert pod is not None
                uids.append(pod["metadata"]["uid"])
                world.api.merge("pods", "runner-1", {"status": refused}, "status")
                await world.until(lambda: not world.api.names("pods"))
            assert list(world.status("runner-1")["failures"]) == uids
            assert world.status("runner-1")["reason"] == "PodRefusedByNode"
            assert world.clock.monotonic_s() > 5 + 10
            world.node_works = True
            await world.until(lambda: world.jobs[0].done and not world.left())
            assert world.github.made == 1
            assert world.starts == {"runner-1": 1}

    run_virtual(scene())


# --- the race of the mission ------------------------------------------------------------


@pytest.mark.behaviour("C1 T163", "C2 T163")
def test_a_running_stored_before_our_pending_survives_it(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(set_works=False) as world:
            world.add_runner("runner-1")

            def race(name: str, call: Any) -> Exception | None:
                # The listener's write arrives while the controller's first one is on its way.
                first = name == "patch ephemeralrunners/status" and "phase" in call.body["status"]
                if first and not world.status("runner-1").get("jobId"):
                    world.job_started("runner-1")
                return None

            world.faults.before = race
            await world.until(lambda: world.status("runner-1").get("runnerId"))
            assert world.status("runner-1")["phase"] == "Running"
            assert world.api.phases == [("runner-1", "Running")]

    run_virtual(scene())


@pytest.mark.behaviour("C1 T162", "C1 T163")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("legacy", ["", "Unknown"])
def test_whenever_the_listener_writes_running_it_stays_running(
    run_virtual: Run, at: int, when: str, legacy: str
) -> None:
    # Around every call of the controller, from the registration to the write of `ready`.
    async def scene() -> None:
        async with World(set_works=False) as world:
            world.add_runner("runner-1", **({"phase": legacy} if legacy else {}))
            calls = 0

            def race(_name: str, _call: Any) -> Exception | None:
                nonlocal calls
                if calls == at and not world.status("runner-1").get("jobId"):
                    world.job_started("runner-1")
                calls += 1
                return None

            setattr(world.faults, when, race)
            await world.until(lambda: world.status("runner-1").get("jobId"))
            await asyncio.sleep(300)
            assert world.status("runner-1")["phase"] == "Running"
            assert world.status("runner-1")["runnerId"]
            phases = [phase for _, phase in world.api.phases]
            assert phases[-1] == "Running"
            assert "Pending" not in phases[phases.index("Running") :]
            assert world.starts == {"runner-1": 1}

    run_virtual(scene())


def test_a_job_that_lands_while_the_end_is_being_stored_saves_the_runner(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with World(set_works=False) as world:
            world.add_runner("runner-1")
            await world.until(lambda: world.status("runner-1").get("ready"))
            (registration,) = world.github.runners.values()
            registration.busy = True  # GitHub gave it a job; the listener has not spoken yet
            pod = world.api.raw("pods", "runner-1")
            assert pod is not None
            # A sidecar dies: an idle runner would be ended for that.
            world.api.merge(
                "pods",
                "runner-1",
                {
                    "status": {
                        "containerStatuses": [
                            *pod["status"]["containerStatuses"],
                            {"name": "dind", "state": {"terminated": {"exitCode": 1}}},
                        ]
                    }
                },
                "status",
            )
            await asyncio.sleep(20)
            assert world.api.raw("pods", "runner-1") is not None
            world.job_started("runner-1")
            await asyncio.sleep(1000)
            assert world.status("runner-1")["phase"] == "Running"
            assert world.api.raw("pods", "runner-1") is not None

    run_virtual(scene())


# --- a busy runner survives -------------------------------------------------------------


def test_a_busy_runner_survives_restarts_an_outage_and_a_job_of_an_hour(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job(seconds=3600)]) as world:
            await world.until(lambda: world.status("runner-1").get("phase") == "Running")
            for _ in range(5):
                await asyncio.sleep(300)
                await world.stop()
                world.github.down = Unavailable("away")
                await asyncio.sleep(60)
                world.start()
            world.github.down = None
            await world.until(lambda: world.jobs[0].done and not world.left(), within_s=3600)
            assert world.starts == {"runner-1": 1}

    run_virtual(scene())


def test_a_job_that_ended_while_the_controller_was_away_is_finished_in_order(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            await world.until(lambda: world.status("runner-1").get("phase") == "Running")
            await world.stop()
            await world.until(lambda: world.jobs[0].done)
            world.api.remove("pods", "runner-1", grace_s=0)
            world.start()
            await world.until(lambda: not world.left())
            assert world.events.seen == []

    run_virtual(scene())


def test_a_short_job_that_nobody_stored_is_a_finished_job(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(jobs=[Job(seconds=0.5)], listener_works=False) as world:
            await world.until(lambda: world.jobs[0].done and not world.left())
            assert world.events.seen == []

    run_virtual(scene())


# --- hostile objects --------------------------------------------------------------------


def test_an_object_that_cannot_be_read_is_told_about_and_stops_nobody(run_virtual: Run) -> None:
    from runnerscale.kube.watch import Poisoned

    async def scene() -> None:
        async with World(jobs=[Job()]) as world:
            await world.until(lambda: world.api.names("ephemeralrunners"))
            runners = world.informers[0]
            runners._poison(Poisoned("MODIFIED", f"{NS}/bad", "uid-bad", "1", "status.phase: int"))
            await world.until(lambda: world.jobs[0].done and not world.left())
            assert world.events.seen == [
                ("bad", "ObjectUnreadable", world.events.seen[0][2]),
            ]
            assert "status.phase: int" in world.events.seen[0][2]

    run_virtual(scene())


def test_a_runner_that_can_no_longer_be_read_is_left_alone_until_it_can(run_virtual: Run) -> None:
    from runnerscale.kube.watch import Poisoned

    async def scene() -> None:
        async with World(idle_wanted=1) as world:
            await world.until(lambda: world.status("runner-1").get("ready"))
            runners = world.informers[0]
            runners._poison(Poisoned("MODIFIED", f"{NS}/runner-1", "uid-1", "999", "odd"))
            before = len(world.faults.calls)
            world.set_works = False
            world.exit_container("runner-1", 1)
            await asyncio.sleep(200)
            assert len(world.faults.calls) == before
            assert ("EphemeralRunner", NS, "runner-1", "ObjectUnreadable") in (
                world.metrics._holders
            )
            # Somebody corrected it.
            world.api.merge(
                "ephemeralrunners", "runner-1", {"metadata": {"labels": {"fixed": "yes"}}}
            )
            await world.until(lambda: world.status("runner-1").get("phase") == "Failed")
            await asyncio.sleep(1)
            assert list(world.metrics._holders) == [
                ("EphemeralRunner", NS, "runner-1", "RunnerFailed")
            ]

    run_virtual(scene())


def test_a_job_said_to_be_over_by_the_listener_wakes_its_runner(run_virtual: Run) -> None:
    async def scene() -> None:
        async with World(set_works=False) as world:
            world.api.put_new(
                "ephemeralrunnersets", {"metadata": {"name": "set"}, "spec": {"patchID": 0}}
            )
            owner = world.api.raw("ephemeralrunnersets", "set")
            assert owner is not None
            owner["metadata"]["uid"] = "set-uid"
            world.api.merge("ephemeralrunnersets", "set", {"metadata": {"labels": {"a": "b"}}})
            world.add_runner("runner-1")
            await world.until(lambda: world.status("runner-1").get("ready"))
            world.job_started("runner-1")
            world.github.runners.clear()  # GitHub forgot it: the job is complete
            spec = {"spec": {"settledRunners": ["runner-1"]}}
            world.api.merge("ephemeralrunnersets", "set", spec)
            await asyncio.sleep(110)
            assert world.api.names("pods") == ["runner-1"]
            await world.until(lambda: not world.api.names("pods"), within_s=60)
            assert world.status("runner-1")["reason"] == "StuckAfterJob"

    run_virtual(scene())
