"""The life of the listener's pod."""

import base64

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_listener import pod
from runnerscale.controllers.autoscaling_listener.snapshot import Child
from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import PODS, SERVICE_ACCOUNTS
from runnerscale.kube.errors import Forbidden, KubeError, Unreachable
from tests.plan.autoscaling_listener.world import HOME, NAME, World


async def running_world() -> World:
    world = World()
    await world.settle()
    world.run_pod()
    await world.settle()
    return world


async def restarted(world: World, after_s: float = 5.0) -> bool:
    uid = world.pod["metadata"]["uid"]
    world.clock.advance(after_s)
    await world.settle()
    return bool(world.pod and world.pod["metadata"]["uid"] != uid)


@pytest.mark.behaviour("C1 T86")
@pytest.mark.parametrize("exit_code", [0, 1])
async def test_an_ended_listener_gets_a_new_pod_and_keeps_its_config_secret(exit_code: int) -> None:
    world = await running_world()
    secret = world.config["metadata"]["uid"]
    world.end_pod(exit_code)
    assert await restarted(world)
    assert world.config["metadata"]["uid"] == secret


@pytest.mark.behaviour("C1 T87")
async def test_a_pod_deleted_by_hand_is_made_again_as_it_was() -> None:
    world = await running_world()
    spec, uid = world.pod["spec"], world.pod["metadata"]["uid"]
    world.api.drop(PODS, HOME, NAME)
    await world.settle()
    assert world.pod["spec"] == spec
    assert world.pod["metadata"]["uid"] != uid


async def test_a_pod_whose_account_was_made_again_is_replaced() -> None:
    # Its token is the old account's: every call with it is a 401.
    world = await running_world()
    uid, account = world.pod["metadata"]["uid"], world.service_account["metadata"]["uid"]
    assert world.pod["metadata"]["annotations"][keys.LISTENER_ACCOUNT_UID] == account
    world.api.drop(SERVICE_ACCOUNTS, HOME, NAME)
    await world.settle()
    assert world.service_account["metadata"]["uid"] != account
    if world.pod["metadata"]["uid"] == uid:  # it is given its grace period
        assert world.pod["metadata"]["deletionTimestamp"]
        world.pod_gone()
        await world.settle()
    assert world.pod["metadata"]["uid"] != uid
    made = world.pod["metadata"]["annotations"][keys.LISTENER_ACCOUNT_UID]
    assert made == world.service_account["metadata"]["uid"]
    world.run_pod()
    await world.settle()  # and there it stays


@pytest.mark.parametrize(("account_s", "lost"), [(0, False), (10, False), (11, True)])
async def test_a_pod_that_does_not_name_its_account_is_judged_by_age(
    account_s: float, lost: bool
) -> None:
    world = await running_world()
    seen = world.reconciler.observe(f"{HOME}/{NAME}")
    assert seen is not None and seen.pod is not None
    seen.pod.metadata.annotations = {}
    seen.pod.metadata.creation_timestamp = format_time(10)
    account = seen.child(Child.SERVICE_ACCOUNT)
    assert account is not None
    account.metadata.creation_timestamp = format_time(account_s)
    assert pod.has_lost_its_account(seen, seen.pod) is lost


@pytest.mark.behaviour("C1 T88")
async def test_an_evicted_listener_is_made_again_at_once() -> None:
    world = await running_world()
    world.kubelet(phase="Failed", reason="Evicted", containerStatuses=None)
    assert await restarted(world, after_s=0)


@pytest.mark.behaviour("C1 T89")
async def test_a_pod_failed_without_container_statuses_is_made_again() -> None:
    world = await running_world()
    world.kubelet(phase="Failed", reason="NodeShutdown", containerStatuses=None)
    assert await restarted(world, after_s=0)


@pytest.mark.behaviour("C1 T90")
async def test_a_listener_that_crashes_at_once_is_started_ever_more_slowly() -> None:
    world = World()
    await world.settle()
    starts = 1
    end_s = world.clock.now_s() + 600
    while world.clock.now_s() < end_s:
        world.end_pod(1)
        end = await world.settle()
        assert end.again_s is not None
        world.clock.advance(end.again_s)
        await world.settle()
        starts += 1
    assert starts <= 10
    assert world.listener["status"]["reason"] == "ListenerCrashing"
    assert world.listener["status"]["restarts"] == starts - 1


async def test_the_ended_pod_stays_until_its_successor_may_start_so_that_its_log_can_be_read() -> (
    None
):
    world = await running_world()
    world.end_pod(1)
    uid = world.pod["metadata"]["uid"]
    world.clock.advance(1)
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid
    assert "exit code 1" in world.listener["status"]["lastTermination"]
    assert await restarted(world, after_s=1)
    assert "exit code 1" in world.pod["metadata"]["annotations"][keys.LISTENER_LAST_TERMINATION]


async def test_the_count_survives_a_controller_that_dies_between_delete_and_create() -> None:
    world = await running_world()
    world.end_pod(1)
    await world.settle()
    world.api.drop(PODS, HOME, NAME)
    world.start()
    await world.settle()
    assert world.pod["metadata"]["annotations"][keys.LISTENER_RESTARTS] == "1"


async def test_a_pod_that_overstays_its_deletion_is_removed_by_force() -> None:
    # A node that was lost: nobody ends the pod there (W21, issue log 66).
    world = await running_world()
    gone_s = world.clock.now_s() + 60
    stamp = {"metadata": {"deletionTimestamp": format_time(gone_s)}}
    world.api.change(PODS, HOME, NAME, stamp)
    uid = world.pod["metadata"]["uid"]
    end = await world.settle()
    assert end.again_s == 120.0  # the grace period and a minute more
    assert not await restarted(world, after_s=119)
    world.clock.advance(2)
    await world.settle()
    assert world.pod["metadata"]["uid"] != uid


async def test_a_pod_of_a_listener_that_is_gone_makes_room() -> None:
    world = await running_world()
    owner = {**world.pod["metadata"]["ownerReferences"][0], "uid": "another"}
    world.api.change(PODS, HOME, NAME, {"metadata": {"ownerReferences": [owner]}})
    await world.settle()
    assert world.pod["metadata"]["deletionTimestamp"]


async def test_a_pod_that_belongs_to_somebody_else_is_left_alone_and_told() -> None:
    world = World()
    world.api.put(PODS, HOME, {"metadata": {"name": NAME}, "spec": {"containers": []}})
    await world.settle()
    assert world.pod["spec"] == {"containers": []}
    assert world.listener["status"]["reason"] == "CleanupBlocked"


async def test_a_pod_that_does_not_start_is_told_in_the_nodes_words() -> None:
    world = World()
    await world.settle()
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    world.kubelet(phase="Pending", containerStatuses=[{"name": "listener", "state": waiting}])
    await world.settle()
    assert world.listener["status"]["reason"] == ""
    world.clock.advance(121)
    await world.settle()
    assert world.listener["status"]["reason"] == "ListenerNotStarted"
    assert "ImagePullBackOff no such image" in world.listener["status"]["message"]


async def test_a_pod_without_a_node_is_told_in_the_schedulers_words() -> None:
    world = World()
    await world.settle()
    unschedulable = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes available"}
    world.kubelet(phase="Pending", conditions=[unschedulable])
    world.clock.advance(121)
    await world.settle()
    assert "0/3 nodes available" in world.listener["status"]["message"]


async def test_a_refused_pod_is_told_and_tried_again() -> None:
    world = World()

    def fault(verb: str, plural: str, name: str) -> KubeError | None:
        if (verb, plural) == ("create", "pods"):
            return Forbidden(403, "Forbidden", "exceeded quota: pods=1")
        return None

    world.api.fault = fault
    end = await world.settle()
    assert end.failed  # the key comes back, with backoff
    assert world.listener["status"]["reason"] == "QuotaExceeded"
    world.api.fault = lambda verb, plural, name: None
    await world.settle()
    assert world.pod is not None
    assert world.listener["status"]["reason"] == ""


async def test_a_create_whose_answer_was_lost_is_found_again() -> None:
    world = World()
    lost = [True]
    real = world.api.create

    async def create(resource: object, namespace: str, body: dict, **more: object) -> object:
        item = await real(resource, namespace, body, **more)  # type: ignore[arg-type]
        if getattr(resource, "plural", "") == "pods" and lost.pop() if lost else False:
            raise Unreachable("connection reset")
        return item

    world.api.create = create  # type: ignore[method-assign,assignment]
    world.caches.pods.paused = True  # type: ignore[attr-defined]
    end = await world.one_pass()
    assert len(end.errors) == 1
    uid = world.pod["metadata"]["uid"]
    end = await world.one_pass()  # the create is refused as existing, so it is read
    assert end.errors == ()
    assert world.pod["metadata"]["uid"] == uid


async def test_without_its_last_good_file_a_running_pod_is_not_judged() -> None:
    from runnerscale.kube.builtin import SECRETS
    from tests.plan.autoscaling_listener.test_means import MISSING

    world = await running_world()
    world.clients.means = MISSING
    world.api.drop(SECRETS, HOME, f"{NAME}-config")
    uid = world.pod["metadata"]["uid"]
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid


async def test_the_pod_is_made_only_when_its_configuration_is_written() -> None:
    world = World()
    await world.one_pass()
    verbs = [(verb, plural) for verb, plural, _ in world.api.writes]
    assert verbs.index(("create", "secrets")) < verbs.index(("create", "pods"))
    assert base64.b64decode(world.config["data"]["config.json"])


@pytest.mark.behaviour("C2 T191", "C1 T187")
async def test_the_gauge_is_one_while_the_container_runs_and_goes_with_the_listener() -> None:
    labels = {
        "name": NAME,
        "namespace": HOME,
        "repository": "octo-repo",
        "organization": "octo-org",
        "enterprise": "",
    }

    def value() -> float | None:
        return world.registry.get_sample_value("gha_controller_running_listeners", labels)

    world = World()
    await world.settle()
    assert value() == 0
    world.run_pod()
    await world.settle()
    assert value() == 1
    world.end_pod(1)
    await world.settle()
    assert value() == 0
    world.kubelet(phase="Failed", reason="Evicted", containerStatuses=None)
    await world.one_pass()
    assert value() == 0
    from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS

    world.api.drop(AUTOSCALING_LISTENERS, HOME, NAME)
    await world.one_pass()
    assert value() is None


async def test_a_pod_that_is_held_though_it_was_removed_by_force_is_told_and_asked_no_more() -> (
    None
):
    # Each pass sent eight deletions, and never came to say why.
    world = await running_world()
    world.kubelet()
    gone = {"deletionTimestamp": format_time(world.clock.now_s()), "finalizers": ["some/body"]}
    world.api.change(PODS, HOME, NAME, {"metadata": gone})
    world.clock.advance(61)
    world.api.changes()
    end = await world.one_pass()
    deletes = [write for write in world.api.changes() if write[0] == "delete"]
    assert (len(deletes), end.unfinished) == (1, False)
    assert world.listener["status"]["reason"] == "CleanupBlocked"
    assert "some/body" in world.listener["status"]["message"]
    await world.settle()


async def test_a_strangers_pod_that_overstays_is_not_ours_to_force() -> None:
    world = World()
    gone = {"deletionTimestamp": format_time(world.clock.now_s() - 600), "finalizers": ["a/b"]}
    body = {"metadata": {"name": NAME, **gone}, "spec": {"containers": []}}
    world.api.put(PODS, HOME, body)
    await world.settle()
    assert "deletionGracePeriodSeconds" not in world.pod["metadata"]
    assert world.listener["status"]["reason"] == "CleanupBlocked"
