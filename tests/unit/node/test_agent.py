"""The agent as a whole on virtual time: pods come, run, end, are evicted, lost and found again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from runnerscale.kube.errors import Forbidden, Unreachable
from runnerscale.node.agent import NodeAgent
from runnerscale.node.faults import FaultRefused, decode_fault
from runnerscale.node.processes import ProcessSpec, StartFailed
from tests.unit.node.world import CONFIG, World

Story = Callable[[World, NodeAgent], Coroutine[Any, Any, None]]
RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def play(run_virtual: RunVirtual) -> Callable[[Story], None]:
    """Run a story in a world with one agent."""

    def run(story: Story) -> None:
        async def whole() -> None:
            world = World()
            async with world.node() as agent:
                await story(world, agent)

        run_virtual(whole())

    return run


Play = Callable[[Story], None]


# --- a life -------------------------------------------------------------------------------------


def test_a_pod_is_placed_started_and_told_running(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one", node=None)
        process = await world.running("one")
        assert process.spec.argv == ("/run",)
        status = world.api.status("one")
        assert status["phase"] == "Running"
        assert status["podIP"] == "127.0.0.1"
        conditions = {c["type"]: c["status"] for c in status["conditions"]}
        assert conditions == {
            "PodScheduled": "True",
            "Initialized": "True",
            "ContainersReady": "True",
            "Ready": "True",
        }

    play(story)


def test_an_exit_is_told_with_its_code_and_a_deleted_pod_is_gone(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        (await world.running("one")).end(7)
        await world.until(lambda: world.api.status("one")["phase"] == "Failed")
        assert world.api.state("one")["terminated"]["exitCode"] == 7
        await world.api.delete_pod("one")
        await world.until(lambda: not world.machine.pods)
        assert world.api.pod("one") is None

    play(story)


def test_a_running_pod_is_terminated_then_dropped_with_its_uid(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        process = await world.running("one")
        await world.api.delete_pod("one")
        await world.until(lambda: world.api.pod("one") is None)
        assert process.terminated_s is not None
        verbs = [
            (verb, body.get("grace")) for verb, what, body in world.api.writes if what == "pods"
        ]
        assert verbs[-1] == ("delete", 0)
        last = [body for verb, what, body in world.api.writes if what == "pods/status"][-1]
        assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143

    play(story)


def test_a_stubborn_process_is_killed_after_its_grace(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.machine.heeds_term = False
        world.api.add_pod("one", terminationGracePeriodSeconds=10)
        process = await world.running("one")
        began_s = world.clock.now_s()
        await world.api.delete_pod("one")
        await world.until(lambda: process.exit is not None)
        assert 10 <= world.clock.now_s() - began_s < 10.5
        assert process.exit is not None
        assert process.exit.code == 137

    play(story)


def test_no_grace_kills_at_once_without_asking(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        process = await world.running("one")
        await world.api.delete_pod("one", grace=0)
        await world.until(lambda: not world.machine.pods)
        assert process.terminated_s is None
        assert process.exit is not None
        assert process.exit.code == 137

    play(story)


def test_writes_of_a_short_life_are_few(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        (await world.running("one")).end(0)
        await world.until(lambda: world.api.status("one")["phase"] == "Succeeded")
        await world.clock.sleep(120)
        statuses = [body for _, what, body in world.api.writes if what == "pods/status"]
        assert [body["status"]["phase"] for body in statuses] == ["Running", "Succeeded"]

    play(story)


def test_a_namesake_is_not_spoken_of(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        old = await world.running("one")
        world.api.drop("pods", "jobs", "one")
        world.api.add_pod("one", node="elsewhere")
        await world.until(lambda: old.exit is not None and not world.machine.pods)
        found = world.api.pod("one")
        assert found is not None
        assert found["status"] == {"phase": "Pending"}

    play(story)


# --- starting -----------------------------------------------------------------------------------


def test_the_environment_holds_the_secret_and_not_the_agents_own(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        reference = {"secretKeyRef": {"name": "jit", "key": "jitToken"}}
        container = {
            "name": "runner",
            "image": "demo:1",
            "env": [{"name": "JIT", "valueFrom": reference}],
        }
        world.api.add_pod("one", containers=[container])
        await world.until(
            lambda: (
                world.api.state("one").get("waiting", {}).get("reason")
                == "CreateContainerConfigError"
            )
        )
        assert 'secret "jit" not found' in world.api.state("one")["waiting"]["message"]
        world.api.put("secrets", "jobs", "jit", {"data": {"jitToken": "YWJj"}})
        process = await world.running("one")
        assert process.spec.env["JIT"] == "abc"
        assert process.spec.env["HOSTNAME"] == "one"
        assert "SECRET" not in process.spec.env

    play(story)


def test_an_image_that_cannot_be_pulled_backs_off_as_kubelet_says(play: Play) -> None:
    async def story(world: World, agent: NodeAgent) -> None:
        agent.faults.inject(decode_fault({"fault": "image-pull-error", "seconds": 30}))
        await world.clock.sleep(0.1)
        world.api.add_pod("one")

        def waits(reason: str) -> bool:
            waiting: dict[str, str] = world.api.state("one").get("waiting", {})
            return waiting.get("reason") == reason

        await world.until(lambda: waits("ErrImagePull"))
        await world.until(lambda: waits("ImagePullBackOff"), within_s=3)
        assert world.api.status("one")["phase"] == "Pending"
        # 10 s, then 20 s later: the second try is after the fault's end.
        await world.running("one")

    play(story)


def test_an_invalid_image_name_is_told_and_never_tried_again(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one", containers=[{"name": "runner", "image": "Not A Name"}])
        await world.until(lambda: "waiting" in world.api.state("one"))
        await world.clock.sleep(1000)
        assert world.api.state("one")["waiting"]["reason"] == "InvalidImageName"
        assert len([w for w in world.api.writes if w[1] == "pods/status"]) == 1

    play(story)


def test_init_containers_come_first_and_sidecars_stay(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        inits = [
            {"name": "prepare", "image": "demo:1"},
            {"name": "side", "image": "demo:1", "restartPolicy": "Always"},
        ]
        world.api.add_pod("one", initContainers=inits)
        prepare = await world.running("one", "prepare")
        assert world.machine.of("one", "side") == []
        assert world.api.state("one")["waiting"]["reason"] == "PodInitializing"
        prepare.end(0)
        runner = await world.running("one")
        side = world.machine.of("one", "side")[-1]
        runner.end(0)
        await world.until(lambda: world.api.status("one")["phase"] == "Succeeded")
        assert side.exit is not None

    play(story)


def test_a_crash_loop_waits_and_comes_back(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one", restartPolicy="Always")
        (await world.running("one")).end(1)
        await world.until(lambda: len(world.machine.of("one")) == 2)
        world.machine.of("one")[-1].end(1)
        await world.until(
            lambda: world.api.state("one").get("waiting", {}).get("reason") == "CrashLoopBackOff"
        )
        await world.until(lambda: len(world.machine.of("one")) == 3, within_s=11)
        await world.until(
            lambda: world.api.status("one")["containerStatuses"][0]["restartCount"] == 2
        )

    play(story)


def test_a_refused_start_is_tried_again(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        refused: list[str] = []

        def refuse(spec: ProcessSpec) -> StartFailed | None:
            refused.append(spec.container)
            return StartFailed("CreateContainerError", "no room") if len(refused) < 3 else None

        world.machine.refuse = refuse
        world.api.add_pod("one")
        await world.until(
            lambda: (
                world.api.state("one").get("waiting", {}).get("reason") == "CreateContainerError"
            )
        )
        await world.running("one")
        assert len(world.machine.of("one")) == 1

    play(story)


def test_failed_words_come_from_the_log_where_the_pod_wants_it(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        container = {
            "name": "runner",
            "image": "demo:1",
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        world.api.add_pod("one", containers=[container])
        (await world.running("one")).end(1)
        await world.until(lambda: "terminated" in world.api.state("one"))
        assert world.api.state("one")["terminated"]["message"] == "last words of runner"

    play(story)


def test_a_pod_over_its_deadline_fails_with_the_reason(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one", activeDeadlineSeconds=60)
        process = await world.running("one")
        await world.until(lambda: world.api.status("one")["phase"] == "Failed", within_s=70)
        assert world.api.status("one")["reason"] == "DeadlineExceeded"
        assert process.terminated_s is not None

    play(story)


# --- volumes ------------------------------------------------------------------------------------


def test_a_mounted_secret_follows_its_changes(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.put("secrets", "jobs", "cfg", {"data": {"config.json": "MQ=="}})
        world.api.add_pod(
            "one",
            volumes=[{"name": "cfg", "secret": {"secretName": "cfg"}}],
            containers=[
                {
                    "name": "runner",
                    "image": "demo:1",
                    "volumeMounts": [{"name": "cfg", "mountPath": "/etc/cfg"}],
                }
            ],
        )
        process = await world.running("one")
        volumes = world.machine.pods[process.spec.pod.uid].volumes
        assert volumes["cfg"] == {"config.json": b"1"}
        world.api.put("secrets", "jobs", "cfg", {"data": {"config.json": "Mg=="}})
        await world.until(lambda: volumes["cfg"] == {"config.json": b"2"}, within_s=5)
        world.api.drop("secrets", "jobs", "cfg")  # the old content stays
        await world.clock.sleep(30)
        assert volumes["cfg"] == {"config.json": b"2"}

    play(story)


def test_a_missing_secret_keeps_the_pod_waiting_with_an_event(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one", volumes=[{"name": "cfg", "secret": {"secretName": "cfg"}}])
        await world.until(lambda: "waiting" in world.api.state("one"))
        assert world.api.state("one")["waiting"]["reason"] == "ContainerCreating"

        def events() -> list[str]:
            return [body["reason"] for _, what, body in world.api.writes if what == "events"]

        await world.until(events)
        assert events()[0] == "FailedMount"
        world.api.put("secrets", "jobs", "cfg", {"data": {}})
        await world.running("one")

    play(story)


def test_an_account_made_again_under_its_name_gets_its_own_token(play: Play) -> None:
    # Found with a listener whose runner set was deleted and made again at once: with the token
    # of the account before, each of its calls was answered 401 for the better part of an hour.
    async def story(world: World, _agent: NodeAgent) -> None:
        def token_of(pod: Any) -> Any:
            return (world.machine.pods[pod.spec.pod.uid].volumes["runnerscale-api-access"] or {})[
                "token"
            ]

        world.api.add_pod("one")
        assert token_of(await world.running("one")) == b"token-default-1"
        world.api.drop("serviceaccounts", "jobs", "default")
        world.api.put("serviceaccounts", "jobs", "default", {})
        world.api.add_pod("two")
        world.api.add_pod("three")
        assert token_of(await world.running("two")) == b"token-default-2"
        assert token_of(await world.running("three")) == b"token-default-2"

    play(story)


def test_a_token_is_shared_by_an_account_and_renewed_before_it_expires(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        world.api.add_pod("two")
        process = await world.running("one")
        await world.running("two")
        assert world.api.tokens == 1
        volumes = world.machine.pods[process.spec.pod.uid].volumes
        first = volumes["runnerscale-api-access"]
        assert first is not None
        assert first["token"] == b"token-default-1"
        await world.until(
            lambda: (volumes["runnerscale-api-access"] or {})["token"] != first["token"],
            within_s=3600,
        )
        # At 80 % of an hour.
        assert world.clock.monotonic_s() == pytest.approx(2880, abs=10)

    play(story)


# --- room ---------------------------------------------------------------------------------------


def test_a_full_node_leaves_pods_pending_and_says_why(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node(msgspec.structs.replace(CONFIG, pods_max=2)):
            for name in ("a", "b", "c"):
                world.api.add_pod(name, node=None)
                await world.clock.sleep(1)
            await world.running("b")

            def refusal() -> dict[str, str]:
                conditions = world.api.status("c").get("conditions", [])
                return next((c for c in conditions if c["type"] == "PodScheduled"), {})

            await world.until(refusal)
            assert (refusal()["status"], refusal()["reason"]) == ("False", "Unschedulable")
            assert "Too many pods" in refusal()["message"]
            assert world.api.status("c")["phase"] == "Pending"
            (await world.running("a")).end(0)
            await world.running("c")

    run_virtual(story())


def test_a_burst_never_overfills_the_node(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node(msgspec.structs.replace(CONFIG, pods_max=10)):
            for number in range(50):
                world.api.add_pod(f"p{number}", node=None)
            await world.clock.sleep(10)
            assert len(world.machine.pods) == 10

    run_virtual(story())


def test_a_pod_put_here_past_the_limit_is_refused(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node(msgspec.structs.replace(CONFIG, pods_max=1)):
            world.api.add_pod("one")
            await world.running("one")
            world.api.add_pod("two")
            await world.until(lambda: world.api.status("two")["phase"] == "Failed")
            assert world.api.status("two")["reason"] == "OutOfpods"
            assert world.machine.of("two") == []
            await world.api.delete_pod("two")
            await world.until(lambda: world.api.pod("two") is None)

    run_virtual(story())


# --- restarts of the agent ----------------------------------------------------------------------


def test_a_new_agent_takes_over_what_runs(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node():
            world.api.add_pod("one")
            process = await world.running("one")
        assert process.exit is None
        async with world.node():
            await world.clock.sleep(5)
            assert len(world.machine.of("one")) == 1
            process.end(3)
            await world.until(lambda: world.api.status("one")["phase"] == "Failed")
            assert world.api.state("one")["terminated"]["exitCode"] == 3

    run_virtual(story())


def test_an_exit_while_no_agent_was_there_is_told_by_the_next(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node():
            world.api.add_pod("one")
            process = await world.running("one")
        process.end(0)
        async with world.node():
            await world.until(lambda: world.api.status("one")["phase"] == "Succeeded")

    run_virtual(story())


@pytest.mark.parametrize("killed_after_s", [0.0, 0.1, 0.3, 0.6, 1.2])
def test_a_kill_in_the_middle_of_a_start_never_starts_twice(
    killed_after_s: float, run_virtual: RunVirtual
) -> None:
    async def story() -> None:
        world = World()
        world.machine.start_s = 0.5
        world.api.add_pod("one", node=None)
        async with world.node():
            await world.clock.sleep(killed_after_s)
        async with world.node():
            await world.running("one")
            assert len(world.machine.of("one")) == 1

    run_virtual(story())


def test_pods_deleted_while_no_agent_was_there_are_stopped(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node():
            world.api.add_pod("gone")
            world.api.add_pod("going")
            gone, going = await world.running("gone"), await world.running("going")
        world.api.drop("pods", "jobs", "gone")
        await world.api.delete_pod("going")
        async with world.node():
            await world.until(lambda: not world.machine.pods)
            assert gone.exit is not None
            assert going.terminated_s is not None
            assert world.api.pod("going") is None

    run_virtual(story())


def test_a_container_without_a_record_here_is_lost_and_not_started_again(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        world = World()
        async with world.node():
            world.api.add_pod("one")
            await world.running("one")
        world.machine.pods.clear()  # the data folder is gone
        async with world.node():
            await world.until(lambda: world.api.status("one")["phase"] == "Failed")
            told = world.api.state("one")["terminated"]
            assert (told["exitCode"], told["reason"]) == (137, "ContainerStatusUnknown")
            assert world.machine.of("one") == []

    run_virtual(story())


def test_a_pod_that_is_over_keeps_its_reason_across_a_restart(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node() as agent:
            world.api.add_pod("one")
            await world.running("one")
            agent.faults.inject(decode_fault({"fault": "evict"}))
            await world.until(lambda: world.api.status("one")["phase"] == "Failed")
        async with world.node():
            await world.clock.sleep(30)
            assert world.api.status("one")["reason"] == "Evicted"
            await world.api.delete_pod("one")
            await world.until(lambda: not world.machine.pods)

    run_virtual(story())


def test_a_drained_agent_leaves_nothing_running(play: Play) -> None:
    async def story(world: World, agent: NodeAgent) -> None:
        world.api.add_pod("one", restartPolicy="Always")
        process = await world.running("one")
        await agent.drain(timeout_s=10)
        assert process.exit is not None
        await world.clock.sleep(1)
        assert "terminated" in world.api.state("one")
        assert len(world.machine.of("one")) == 1

    play(story)


def test_what_replaces_a_drained_pod_is_left_alone(play: Play) -> None:
    # A ReplicaSet makes a new pod the moment the old one has ended: the agent would never be done.
    async def story(world: World, agent: NodeAgent) -> None:
        world.machine.heeds_term = False
        world.api.add_pod("one", terminationGracePeriodSeconds=5)
        await world.running("one")
        draining = asyncio.ensure_future(agent.drain(timeout_s=60))
        await world.clock.sleep(1)
        world.api.add_pod("placed here by another")
        world.api.add_pod("placed nowhere", node=None)
        began_s = world.clock.monotonic_s()
        await draining
        assert world.clock.monotonic_s() - began_s < 10
        await world.clock.sleep(20)
        assert world.machine.of("placed here by another") == []
        waiting = world.api.pod("placed nowhere")
        assert waiting is not None
        assert "nodeName" not in waiting["spec"]

    play(story)


# --- trouble ------------------------------------------------------------------------------------


def test_an_api_server_that_is_away_delays_and_loses_nothing(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        process = await world.running("one")
        world.api.fail = lambda verb, _what: Unreachable("down") if verb != "list" else None
        process.end(5)
        await world.clock.sleep(120)
        assert "running" in world.api.state("one")
        world.api.fail = lambda _verb, _what: None
        await world.until(lambda: world.api.state("one").get("terminated"), within_s=30)
        assert world.api.state("one")["terminated"]["exitCode"] == 5

    play(story)


def test_a_mistake_in_one_pod_does_not_stop_the_others(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        hit: list[str] = []

        def refuse(spec: ProcessSpec) -> StartFailed | None:
            if spec.pod.name == "bad" and not hit:
                hit.append("once")
                raise RuntimeError("a bug")
            return None

        world.machine.refuse = refuse
        world.api.add_pod("bad")
        world.api.add_pod("good")
        await world.running("good")
        await world.running("bad")  # taken over anew
        assert hit == ["once"]

    play(story)


# --- probes -------------------------------------------------------------------------------------


def test_readiness_follows_the_probe(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        probe = {"httpGet": {"port": 8080, "path": "/readyz"}, "periodSeconds": 1}
        container = {"name": "runner", "image": "demo:1", "readinessProbe": probe}
        world.network.status = 503
        world.api.add_pod("one", containers=[container])
        await world.running("one")

        def ready() -> bool:
            return bool(world.api.status("one")["containerStatuses"][0]["ready"])

        await world.clock.sleep(10)
        assert not ready()
        world.network.status = 200
        await world.until(ready, within_s=3)
        world.network.status = 0
        await world.until(lambda: not ready(), within_s=6)

    play(story)


def test_a_failed_liveness_probe_restarts_the_container(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        container = {"name": "runner", "image": "demo:1", "livenessProbe": probe}
        world.api.add_pod("one", containers=[container], restartPolicy="Always")
        first = await world.running("one")
        world.network.status = 0
        await world.until(lambda: first.terminated_s is not None, within_s=10)
        world.network.status = 200
        await world.until(lambda: len(world.machine.of("one")) == 2)

    play(story)


def test_a_startup_probe_holds_the_others_back_and_commands_count(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        container = {
            "name": "runner",
            "image": "demo:1",
            "startupProbe": {
                "exec": {"command": ["check"]},
                "periodSeconds": 1,
                "failureThreshold": 99,
            },
            "livenessProbe": {"httpGet": {"port": 1}, "failureThreshold": 1, "periodSeconds": 1},
        }
        world.network.status = 503
        world.machine.beside = lambda _argv: 1
        world.api.add_pod("one", containers=[container])
        process = await world.running("one")
        await world.clock.sleep(30)
        assert process.exit is None
        assert not world.api.status("one")["containerStatuses"][0]["started"]
        world.machine.beside = lambda _argv: 0
        await world.until(lambda: process.exit is not None, within_s=5)

    play(story)


# --- faults -------------------------------------------------------------------------------------


def test_an_eviction_looks_like_kubelets(play: Play) -> None:
    async def story(world: World, agent: NodeAgent) -> None:
        world.api.add_pod("one")
        await world.running("one")
        struck = agent.faults.inject(
            decode_fault({"fault": "evict", "namespace": "jobs", "pod": "one"})
        )
        assert struck == "pod jobs/one"
        await world.until(lambda: world.api.status("one")["phase"] == "Failed")
        status = world.api.status("one")
        assert status["reason"] == "Evicted"
        conditions = {c["type"]: c.get("reason") for c in status["conditions"]}
        assert conditions["DisruptionTarget"] == "TerminationByKubelet"

    play(story)


def test_an_oom_kill_has_its_reason(play: Play) -> None:
    async def story(world: World, agent: NodeAgent) -> None:
        world.api.add_pod("one")
        await world.running("one")
        agent.faults.inject(decode_fault({"fault": "oom-kill"}))
        await world.until(lambda: "terminated" in world.api.state("one"))
        told = world.api.state("one")["terminated"]
        assert (told["exitCode"], told["reason"]) == (137, "OOMKilled")

    play(story)


def test_a_lost_node_is_mute_its_pods_stay_terminating_until_it_is_back(play: Play) -> None:
    async def story(world: World, agent: NodeAgent) -> None:
        world.api.add_pod("one")
        process = await world.running("one")
        agent.faults.inject(
            decode_fault({"fault": "node-lost", "seconds": 60, "delete_pods": True})
        )
        await world.clock.sleep(10)
        ready = [c for c in world.api.get_node()["status"]["conditions"] if c["type"] == "Ready"]
        assert ready[0]["status"] == "Unknown"
        stuck = world.api.pod("one")
        assert stuck is not None
        assert stuck["metadata"]["deletionTimestamp"]
        conditions = {c["type"]: c for c in stuck["status"]["conditions"]}
        assert conditions["Ready"]["status"] == "False"
        assert conditions["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
        world.api.add_pod("late", node=None)
        await world.clock.sleep(40)
        assert process.exit is None
        assert world.api.pod("one") is not None
        await world.until(lambda: world.api.pod("one") is None, within_s=20)
        await world.running("late")
        ready = [c for c in world.api.get_node()["status"]["conditions"] if c["type"] == "Ready"]
        assert ready[0]["status"] == "True"

    play(story)


def test_no_room_for_a_while(play: Play) -> None:
    async def story(world: World, agent: NodeAgent) -> None:
        agent.faults.inject(decode_fault({"fault": "no-room", "seconds": 20}))
        await world.clock.sleep(0.1)
        world.api.add_pod("one", node=None)
        await world.clock.sleep(10)
        assert world.machine.of("one") == []
        await world.running("one")

    play(story)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"fault": "flood"}, "Known faults: evict"),
        ({"fault": "evict", "podd": "x"}, "podd"),
        ({}, "Known faults"),
    ],
)
def test_an_unknown_fault_is_refused_with_the_known_ones(document: Any, said: str) -> None:
    with pytest.raises(FaultRefused, match=said):
        decode_fault(document)


@pytest.mark.parametrize(
    "choice", [{"pod": "absent"}, {"namespace": "other"}, {"labels": {"app": "other"}}]
)
def test_a_fault_that_hits_nobody_says_so(choice: Any, play: Play) -> None:
    async def story(world: World, agent: NodeAgent) -> None:
        world.api.add_pod("one")
        await world.running("one")
        with pytest.raises(FaultRefused, match="no live pod"):
            agent.faults.inject(decode_fault({"fault": "kill", **choice}))
        assert agent.faults.inject(decode_fault({"fault": "kill", "namespace": "jobs"}))

    play(story)


# --- the node -----------------------------------------------------------------------------------


def test_the_node_is_registered_and_its_lease_renewed(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        await world.clock.sleep(1)
        node = world.api.get_node()
        assert node["metadata"]["labels"]["kubernetes.io/os"] == "linux"
        assert node["status"]["capacity"]["pods"] == "110"
        assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.1"}
        await world.clock.sleep(100)
        renewals = [w for w in world.api.writes if w[1] == "leases"]
        statuses = [w for w in world.api.writes if w[1] == "nodes/status"]
        assert 10 <= len(renewals) <= 12
        assert len(statuses) == 1

    play(story)


def test_a_lease_that_is_refused_is_asked_for_again_and_the_status_beats_meanwhile(
    play: Play,
) -> None:
    # For some seconds after its start an API server knows no Roles: one 403 ended it for good.
    async def story(world: World, _agent: NodeAgent) -> None:
        await world.clock.sleep(1)
        refused = Forbidden(403, "Forbidden", "leases is forbidden")
        world.api.fail = lambda verb, what: refused if what.startswith("leases") else None
        world.api.writes.clear()
        await world.clock.sleep(50)
        assert not [w for w in world.api.writes if w[1] == "leases"]
        assert len([w for w in world.api.writes if w[1] == "nodes/status"]) >= 4
        world.api.fail = lambda verb, what: None
        await world.clock.sleep(75)
        world.api.writes.clear()
        await world.clock.sleep(60)
        assert len([w for w in world.api.writes if w[1] == "leases"]) >= 5
        assert not [w for w in world.api.writes if w[1] == "nodes/status"]

    play(story)


def test_two_agents_worth_of_metrics_is_no_clash(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        world = World()
        async with world.node():
            world.api.add_pod("one")
            await world.running("one")
            assert world.registry.get_sample_value("runnerscale_node_pods") == 1
            value = world.registry.get_sample_value(
                "runnerscale_node_container_starts_total", {"result": "started"}
            )
            assert value == 1

    run_virtual(story())


def test_a_pod_that_is_over_and_not_deleted_costs_nothing(play: Play) -> None:
    async def story(world: World, _agent: NodeAgent) -> None:
        world.api.add_pod("one")
        (await world.running("one")).end(0)
        await world.until(lambda: world.api.status("one")["phase"] == "Succeeded")
        writes = len([w for w in world.api.writes if w[1].startswith("pods")])
        await world.clock.sleep(3 * 3600)  # past every token's time: nothing spins
        assert len([w for w in world.api.writes if w[1].startswith("pods")]) == writes
        assert world.api.tokens == 1

    play(story)
