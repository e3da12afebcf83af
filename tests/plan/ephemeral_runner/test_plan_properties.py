"""What holds for every runner whatever its object, its pod and its memory say.

`test_plan.py` asks it of runners that we would make; here are objects as they may come from
elsewhere: every part there or not, times that nobody can read, statuses of containers in any
order, a pod of a stranger, of a namesake, or none.
"""

from math import isfinite
from typing import Any

import msgspec
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZERS
from runnerscale.api.phase import is_terminal
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    Action,
    Answered,
    AskRunner,
    CreatePod,
    DeletePod,
    DeleteRunner,
    FindRunner,
    GenerateJit,
    PatchStatus,
    RemoveRunner,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.learning import learn, noticed
from runnerscale.controllers.ephemeral_runner.observe import observed
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Removal, Snapshot, Talk
from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import Pod
from runnerscale.kube.reconcile import ROUNDS_MAX, Plan
from tests.plan.ephemeral_runner.test_plan import HANDS, forget_the_pass, good
from tests.plan.ephemeral_runner.test_plan import check as check_safety
from tests.plan.ephemeral_runner.values import NOW_S
from tests.properties import examples

UID = "uid-a"
AGES = st.sampled_from([0.0, 20.0, 40.0, 200.0, 1000.0, 100_000.0])
TIMES = AGES.map(lambda age_s: format_time(NOW_S - age_s)) | st.sampled_from(
    [format_time(NOW_S + 30), "", "yesterday", "0001-01-01T00:00:00+14:00", "9" * 40]
)


def some(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=parts)


# --- the object -----------------------------------------------------------------------------------

BOTH = list(EPHEMERAL_RUNNER_FINALIZERS)
STATUSES = some(
    phase=st.sampled_from(
        [*["", "Pending", "Running", "Unknown", "Odd"] * 2, "Failed", "Outdated", "Succeeded"]
    ),
    ready=st.booleans(),
    reason=st.sampled_from(["", "PodLost", "Odd"]),
    message=st.just("m"),
    runnerId=st.sampled_from([0, 7]),
    runnerName=st.just("runner-a"),
    failures=st.sampled_from([{}, {"pod-1": "x"}, {f"pod-{n}": True for n in range(9)}]),
    jobId=st.sampled_from(["", "j"]),
    jobRequestId=st.sampled_from([0, 5]),
    workflowRunId=st.sampled_from([0, 5]),
    conditions=st.sampled_from([[], [{"type": "Healthy"}]]),
)
HOOKS = {"name": "ACTIONS_RUNNER_CONTAINER_HOOKS", "value": "x"}
TEMPLATES = st.sampled_from(
    [
        {"containers": [{"name": "runner", "image": "i"}]},
        {"containers": [{"name": "runner", "env": [HOOKS, None, 3]}]},
        {"containers": []},
        {},
    ]
)


@st.composite
def runners(draw: st.DrawFn) -> EphemeralRunner:
    meta: dict[str, Any] = {
        "name": "runner-a",
        "namespace": "ns",
        "uid": UID,
        "resourceVersion": "11",
        "creationTimestamp": draw(TIMES),
        "finalizers": draw(st.sampled_from([*[BOTH] * 6, BOTH[:1], BOTH[1:], ["a/b", *BOTH], []])),
        "ownerReferences": [{"kind": "EphemeralRunnerSet", "name": "set", "controller": True}],
    }
    if draw(st.sampled_from([*[False] * 4, True])):
        meta["deletionTimestamp"] = draw(TIMES.filter(bool))
    spec = {"runnerScaleSetId": draw(st.sampled_from([0, 3])), "spec": draw(TEMPLATES)}
    body = {"metadata": meta, "spec": spec, "status": draw(STATUSES)}
    note(repr(body))
    return msgspec.convert(body_of(body), EphemeralRunner)


def body_of(body: Any) -> Any:
    """With templates raw, as they are decoded."""
    spec = {**body["spec"], "spec": msgspec.Raw(msgspec.json.encode(body["spec"]["spec"]))}
    return {**body, "spec": spec}


# --- its pod --------------------------------------------------------------------------------------

STATES = some(
    running=some(startedAt=TIMES),
    waiting=some(
        reason=st.sampled_from(
            [
                *["ImagePullBackOff", "InvalidImageName", "ContainerCreating", ""],
                "CreateContainerConfigError",
            ]
        ),
        message=st.sampled_from(["", "not found", "slow", 'secret "runner-a" not found']),
    ),
    terminated=st.fixed_dictionaries(
        {"exitCode": st.sampled_from([0, 1, 7, 137])},
        optional={
            "reason": st.sampled_from(["OOMKilled", "Error", "Completed"]),
            "message": st.sampled_from(["runner version is deprecated", ""]),
            "startedAt": TIMES,
            "finishedAt": TIMES,
        },
    ),
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["runner", "dind", "init"])},
        optional={
            "state": STATES,
            "lastState": STATES,
            "restartCount": st.sampled_from([0, 1]),
            "started": st.booleans(),
        },
    ),
    max_size=3,
    unique_by=lambda status: str(status["name"]),
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["PodScheduled", "Ready", "DisruptionTarget"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
        },
        optional={
            "reason": st.sampled_from(["PreemptionByScheduler", "DeletionByTaintManager", ""]),
            "message": st.just("m"),
            "lastTransitionTime": TIMES,
        },
    ),
    max_size=3,
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any] | None:
    if draw(st.sampled_from([False, False, True])):
        return None
    owner = draw(st.sampled_from([UID, UID, UID, UID, "uid-before", None]))
    meta: dict[str, Any] = {"name": "runner-a", "namespace": "ns", "uid": "pod-1"}
    meta["creationTimestamp"] = draw(TIMES)
    if owner is not None:
        meta["ownerReferences"] = [{"kind": "EphemeralRunner", "uid": owner, "controller": True}]
    if draw(st.sampled_from([False, False, True])):
        meta["deletionTimestamp"] = draw(TIMES.filter(bool))
    spec = {"containers": [{"name": name} for name in draw(NAMES)]}
    if draw(st.booleans()):
        spec["nodeName"] = "node"  # type: ignore[assignment]
    inits = [{"name": "init"}, {"name": "dind", "restartPolicy": "Always"}]
    body: dict[str, Any] = {"metadata": meta, "spec": {**spec, "initContainers": inits}}
    status = some(
        phase=st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        reason=st.sampled_from(["Evicted", "OutOfcpu", "NodeLost", "UnexpectedAdmissionError"]),
        message=st.just("m"),
        podIP=st.just("1.2.3.4"),
        conditions=CONDITIONS,
        containerStatuses=CONTAINERS,
        initContainerStatuses=CONTAINERS,
    )
    if draw(st.sampled_from([True, True, False])):
        body["status"] = draw(status)
    note(repr(body))
    return body


NAMES = st.sampled_from([["runner"], ["runner", "dind"], []])

# --- what is remembered ---------------------------------------------------------------------------

SECONDS = st.none() | AGES.map(lambda age_s: NOW_S - age_s)
TALKS = st.builds(
    Talk,
    removal=st.sampled_from(Removal),
    removal_s=AGES.map(lambda age_s: NOW_S - age_s),
    suspect=st.booleans(),
    stray_id=st.sampled_from([0, 5]),
    stray_busy=st.sampled_from([0, 2]),
    foreign=st.booleans(),
    name_tries=st.sampled_from([0, 3, 9]),
    looked_up_s=SECONDS,
    lost_call_s=SECONDS,
    asked_s=SECONDS,
    known=st.booleans(),
    online=st.booleans(),
    offline_s=SECONDS,
    missing_s=SECONDS,
    tries=st.sampled_from([0, 9]),
    not_before_s=st.sampled_from([0.0, NOW_S + 9]),
    trouble=st.sampled_from(
        [
            None,
            trouble(Reason.GITHUB_UNAVAILABLE, about="a", happened="away"),
            trouble(Reason.CREDENTIALS_MISSING, about="a", happened="no Secret"),
        ]
    ),
)


@st.composite
def hands(draw: st.DrawFn) -> Hand:
    hand = draw(HANDS)
    return replace(hand, talk=draw(TALKS)) if draw(st.booleans()) else hand


OWNER = EphemeralRunnerSet()
OWNER.spec.settled_runners = ["runner-a"]


@st.composite
def snapshots(draw: st.DrawFn) -> tuple[Snapshot, dict[str, Any] | None, EphemeralRunner]:
    item, pod = draw(runners()), draw(pods())
    now = observed(
        item,
        None if pod is None else msgspec.convert(pod, Pod),
        draw(st.sampled_from([None, OWNER])),
        hand=draw(hands()),
        now_s=NOW_S,
        alive=draw(st.sampled_from([1, 5000])),
        watching_since_s=draw(st.sampled_from([0.0, NOW_S])),
    )
    return replace(now, hand=noticed(now)), pod, item


# --- what always holds ----------------------------------------------------------------------------


def check(seen: Snapshot, made: Plan[Action, Any]) -> None:
    """Safety of one batch, judged without the stages."""
    assert made.again_s is None or (isfinite(made.again_s) and made.again_s > 0), made
    check_safety(seen, made.actions)
    runner, pod, talk = seen.runner, seen.pod, seen.hand.talk
    for action in made.actions:
        assert action.of == runner.ref, "another object"
        match action:
            case PatchStatus():
                assert action.resource_version == runner.resource_version
                assert action.phase != "Running", "the listener's word"
                assert not is_terminal(runner.phase), "a terminal phase stays"
                assert action.phase != "Pending" or runner.phase in ("", "Unknown")
            case SetFinalizers():
                assert action.resource_version == runner.resource_version
                ours = {*EPHEMERAL_RUNNER_FINALIZERS}
                assert {*runner.finalizers} - {*action.finalizers} <= ours
                assert {*action.finalizers} - {*runner.finalizers} <= ours
            case DeleteRunner():
                pod_ended = pod is None or pod.ended
                forgotten = talk.removal in (Removal.FORGOTTEN, Removal.ABSENT)
                assert pod_ended or forgotten or not runner.has_job, "under a job"
                assert action.resource_version or pod_ended, "a job that comes meanwhile"
            case DeletePod():
                assert pod is not None and action.uid == pod.uid
            case RemoveRunner() | AskRunner():
                assert action.runner_id != 0
            case CreatePod():
                assert pod is None and runner.runner_id
            case GenerateJit():
                assert pod is None and runner.runner_id == 0
            case _:
                pass


@examples(70)
@given(snapshots(), st.data())
def test_a_plan_is_always_made_and_the_order_of_containers_does_not_matter(
    drawn: tuple[Snapshot, dict[str, Any] | None, EphemeralRunner], data: st.DataObject
) -> None:
    seen, pod, item = drawn
    made = plan(seen)
    check(seen, made)
    assert plan(seen) == made
    if pod is None or "status" not in pod:
        return
    status = dict(pod["status"])
    for key in ("containerStatuses", "initContainerStatuses"):
        if status.get(key):
            status[key] = data.draw(st.permutations(status[key]))
    shuffled = msgspec.convert({**pod, "status": status}, Pod)
    again = observed(
        item,
        shuffled,
        None,
        hand=seen.hand,
        now_s=seen.now_s,
        alive=seen.alive,
        watching_since_s=seen.watching_since_s,
    )
    again = replace(again, runner=seen.runner)
    other = plan(again)
    assert [type(action) for action in other.actions] == [type(a) for a in made.actions]
    assert other.again_s == made.again_s


@examples(70)
@given(snapshots(), st.booleans(), st.booleans())
def test_applied_in_a_world_that_works_it_comes_to_rest(
    drawn: tuple[Snapshot, Any, Any], busy: bool, knows: bool
) -> None:
    now, _, _ = drawn
    version = 100
    for _ in range(60):
        for _ in range(ROUNDS_MAX):
            step = plan(now)
            check(now, step)
            if not step.actions:
                break
            answers = []
            for action in step.actions:
                version += 1
                answer = good(action, version, busy=busy, knows=knows)
                answers.append((action, Answered(now.now_s, answer)))
            now = learn(now, answers)
        assert not plan(now).actions, "a pass must end within its rounds"
        if now.gone:
            return
        if now.pod is not None and now.pod.going_s is not None:
            now = replace(now, pod=None)  # the node works
        wait_s = min(step.again_s or 60, 600)
        now = forget_the_pass(replace(now, now_s=now.now_s + wait_s))
        now = replace(now, hand=noticed(now))
    resting = {type(action) for action in plan(now).actions}
    assert resting <= {AskRunner, RemoveRunner, FindRunner}, "GitHub is asked now and then"
