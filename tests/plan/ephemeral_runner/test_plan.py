"""The order of the stages, and what holds for every runner whatever happens to it."""

import itertools
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner import plan as order
from runnerscale.controllers.ephemeral_runner.actions import (
    Action,
    Answer,
    AskRunner,
    CheckPod,
    CheckSecret,
    ConfirmView,
    CreatePod,
    CreateSecret,
    DeleteLeftovers,
    DeletePod,
    DeleteRunner,
    DeleteSecret,
    Done,
    FindRunner,
    Found,
    GenerateJit,
    GitHubFailed,
    Known,
    NoAnswer,
    PatchStatus,
    Refused,
    Registered,
    RemoveRunner,
    Said,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.learning import learn, noticed
from runnerscale.controllers.ephemeral_runner.plan import LIFE, live, plan
from runnerscale.controllers.ephemeral_runner.pod_view import Exit, PodView, Waiting
from runnerscale.controllers.ephemeral_runner.snapshot import (
    Hand,
    Omen,
    PodPast,
    Removal,
    Runner,
    Snapshot,
)
from runnerscale.kube.reconcile import ROUNDS_MAX
from tests.plan.ephemeral_runner.values import (
    BUSY,
    FAILED,
    IDLE,
    JIT,
    MADE,
    NEW,
    NOW_S,
    PENDING,
    PLACED,
    REF,
    RUNNING,
    WAITING,
    exited,
    no_answer,
    reasons,
    removed,
    seen,
    talking,
    told,
)

# --- what there can be ------------------------------------------------------------------------

RUNNERS = st.sampled_from(
    [
        NEW,
        PENDING,
        IDLE,
        BUSY,
        FAILED,
        replace(NEW, phase="Unknown", runner_id=7),
        replace(NEW, has_job=True),
        replace(IDLE, phase="Running"),
        replace(IDLE, reason="PodLost", message="gone"),
        replace(BUSY, job_over=True),
        replace(FAILED, phase="Outdated", uses_hooks=True),
        replace(FAILED, phase="Succeeded"),
        replace(NEW, finalizers=()),
        replace(PENDING, failures=("pod-0",)),
    ]
)
NO_SECRET = f'secret "{REF.name}" not found'
DELETED = st.sampled_from([None, NOW_S - 30, NOW_S - 10_000])
PODS = st.sampled_from(
    [
        None,
        WAITING,
        replace(WAITING, unplaced="no room"),
        PLACED,
        replace(PLACED, waiting=(Waiting("runner", "i", "ImagePullBackOff", "slow"),)),
        replace(PLACED, waiting=(Waiting("runner", "i", "InvalidImageName", "bad"),)),
        replace(PLACED, waiting=(Waiting("runner", "i", "CreateContainerConfigError", NO_SECRET),)),
        replace(PLACED, failed=Exit("init", 1)),
        RUNNING,
        replace(RUNNING, ready=False, failed=Exit("dind", 1)),
        replace(RUNNING, going_s=NOW_S + 30, disruption="EvictionByEvictionAPI"),
        replace(RUNNING, going_s=NOW_S - 3600),
        exited(0),
        exited(1),
        exited(7),
        replace(exited(0), all_ended=False, phase="Running"),
        replace(PLACED, phase="Failed", reason="OutOfcpu"),
        replace(RUNNING, phase="Failed", reason="Evicted"),
        replace(RUNNING, phase="Succeeded"),
    ]
)
HANDS = st.sampled_from(
    [
        Hand(),
        MADE,
        Hand(jit=JIT, issued_s=NOW_S, pod=PodPast.NEVER),
        Hand(jit=JIT, issued_s=NOW_S, pod=PodPast.NEVER, secret=True),
        Hand(issued_s=NOW_S - 700, pod=PodPast.NEVER, secret=True),
        Hand(issued_s=NOW_S, pod=PodPast.RETURNED, secret=True, pod_not_before_s=NOW_S + 5),
        no_answer(),
        no_answer(reason=Reason.CREDENTIALS_MISSING),
        replace(MADE, secret_lost=True),
        removed(Removal.BUSY),
        removed(Removal.FORGOTTEN),
        removed(Removal.ABSENT),
        talking(Hand(), suspect=True, lost_call_s=NOW_S),
        talking(Hand(), stray_id=5),
        talking(Hand(), foreign=True),
        talking(MADE, missing_s=NOW_S - 100, asked_s=NOW_S - 10),
        talking(MADE, offline_s=NOW_S - 100, asked_s=NOW_S - 10, known=True),
        replace(MADE, omen=Omen(Reason.NODE_LOST, "gone"), end_s=NOW_S - 10),
    ]
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    runner = replace(draw(RUNNERS), deleted_s=draw(DELETED))
    now = seen(runner, draw(PODS), draw(HANDS), after_s=draw(st.sampled_from([0, 30, 300, 1000])))
    if draw(st.booleans()):
        now = replace(now, watching_since_s=NOW_S + 1)
    return replace(now, hand=noticed(now))


# --- what may come back ------------------------------------------------------------------------


def good(action: Action, version: int, *, busy: bool = False, knows: bool = True) -> Answer:
    """A world in which everything works."""
    match action:
        case GenerateJit():
            return Registered(JIT)
        case FindRunner():
            return Said.ABSENT
        case AskRunner():
            return Known(7, 3, "online") if knows or busy else Said.ABSENT
        case RemoveRunner():
            return Said.JOB_RUNNING if busy else Said.FORGOTTEN if knows else Said.ABSENT
        case CreateSecret() | CheckSecret() | DeleteLeftovers() | ConfirmView():
            return Done()
        case CreatePod():
            return Done(str(version), uid=f"pod-{version}")
        case CheckPod():
            return Said.ABSENT
        case DeletePod(grace_s=grace_s):
            return Said.GONE if grace_s == 0 else Done(str(version))
        case DeleteSecret():
            return Said.GONE
        case PatchStatus() | SetFinalizers() | DeleteRunner():
            return Done(str(version))


BAD: dict[type, list[Answer]] = {
    GenerateJit: [Said.NAME_TAKEN],
    FindRunner: [Known(5, 3), Known(5, 99)],
    CreateSecret: [Said.EXISTS, Refused(403, "exceeded quota"), NoAnswer("x")],
    CreatePod: [
        Said.EXISTS,
        Refused(403, "exceeded quota"),
        Refused(422, "invalid"),
        Refused(403, "admission webhook says no"),
        NoAnswer("x"),
    ],
    ConfirmView: [Said.CONFLICT, Said.ABSENT, NoAnswer("x")],
    CheckSecret: [Said.ABSENT, NoAnswer("x"), Refused(403, "cannot get resource")],
    CheckPod: [NoAnswer("x"), Found(RUNNING), Found(exited(0))],
    DeletePod: [NoAnswer("x"), Done("9")],
    DeleteSecret: [NoAnswer("x"), Refused(403, "cannot delete resource"), Said.EXISTS],
    DeleteLeftovers: [NoAnswer("x")],
    PatchStatus: [Said.CONFLICT, NoAnswer("x"), Said.ABSENT],
    SetFinalizers: [Said.CONFLICT, NoAnswer("x"), Said.ABSENT],
    DeleteRunner: [Said.CONFLICT, NoAnswer("x"), Said.GONE],
}


def forget_the_pass(now: Snapshot) -> Snapshot:
    """What the next pass starts from: the object again, and what is remembered."""
    return replace(now, failed=(), kube_troubles=(), stale=False)


# --- what always holds -------------------------------------------------------------------------


def check(now: Snapshot, actions: tuple[Action, ...]) -> None:
    """Safety of one batch, judged without the stages."""
    runner, pod = now.runner, now.pod
    alive = pod is not None and not (pod.exit or pod.phase in ("Succeeded", "Failed") or pod.gone)
    talk = now.hand.talk
    forgotten = talk.removal in (Removal.FORGOTTEN, Removal.ABSENT)
    forgotten = forgotten or talk.looked_up_s is not None  # nobody has its name
    for action in actions:
        assert action.of == runner.ref
        match action:
            case PatchStatus():
                assert action.resource_version == runner.resource_version
                assert action.phase != "Running"
                assert runner.phase not in ("Succeeded", "Failed", "Outdated")
                if action.phase == "Pending":
                    assert runner.phase in ("", "Unknown")
                    assert action.runner_id or runner.runner_id
                assert not (action.ready is not None and action.phase == "Running")
            case SetFinalizers():
                assert action.resource_version == runner.resource_version
                assert set(runner.finalizers) - set(action.finalizers) <= {
                    "ephemeralrunner.actions.github.com/finalizer",
                    "ephemeralrunner.actions.github.com/runner-registration-finalizer",
                }
            case DeletePod():
                assert pod is not None
                assert action.uid == pod.uid
                stuck = pod.going_s is not None and now.now_s > pod.going_s
                if alive and runner.has_job:
                    retired = runner.phase in ("Failed", "Outdated", "Succeeded")
                    assert forgotten or retired or pod.started_s is None, "killed under a job"
                if action.grace_s == 0:
                    assert pod.all_ended or stuck or pod.phase in ("Succeeded", "Failed")
            case RemoveRunner():
                assert action.runner_id != 0
            case CreatePod():
                assert pod is None
                assert now.hand.secret
                assert now.hand.pod in (PodPast.NEVER, PodPast.RETURNED), "may have started before"
            case GenerateJit():
                assert pod is None
                assert runner.runner_id == 0
            case _:
                pass


@settings(max_examples=200, deadline=None)
@given(snapshots(), st.booleans(), st.booleans())
def test_in_a_world_that_works_every_pass_ends_and_every_runner_comes_to_rest(
    now: Snapshot, busy: bool, knows: bool
) -> None:
    version = 100
    for _ in range(60):
        for _ in range(ROUNDS_MAX):
            step = plan(now)
            check(now, step.actions)
            if not step.actions:
                break
            answers = []
            for action in step.actions:
                version += 1
                answer = good(action, version, busy=busy, knows=knows)
                answers.append((action, order_time(now, answer)))
            now = learn(now, answers)
        else:
            step = plan(now)
            assert step.actions == (), "a pass must end within its rounds"
        assert not step.failed
        if now.gone:
            return
        # The world goes on: what is going is gone, and the job of a lost runner is let go.
        if now.pod is not None and now.pod.going_s is not None:
            now = replace(now, pod=None)
        wait_s = min(step.again_s or 60, 600)
        now = forget_the_pass(replace(now, now_s=now.now_s + wait_s))
        now = replace(now, hand=noticed(now))
    resting = {type(action) for action in plan(now).actions}
    # At rest only GitHub is asked again, now and then.
    assert resting <= {AskRunner, RemoveRunner, FindRunner}


def order_time(now: Snapshot, answer: Answer) -> "object":
    from runnerscale.controllers.ephemeral_runner.actions import Answered

    return Answered(now.now_s, answer)


@settings(max_examples=200, deadline=None)
@given(snapshots(), st.data())
def test_whatever_is_answered_nothing_unsafe_is_ever_planned(
    now: Snapshot, data: st.DataObject
) -> None:
    from runnerscale.controllers.ephemeral_runner.actions import Answered

    why = no_answer().talk.trouble
    assert why is not None
    lost = GitHubFailed(why, maybe_done=True)
    for version in range(12):
        step = plan(now)
        check(now, step.actions)
        if now.gone:
            assert step.actions == ()
            return
        answers = []
        for action in step.actions:
            choice = [good(action, 100 + version), *BAD.get(type(action), [lost])]
            if not isinstance(action, PatchStatus | SetFinalizers | DeleteRunner):
                choice.append(good(action, 100 + version, busy=True, knows=False))
            answers.append((action, Answered(now.now_s, data.draw(st.sampled_from(choice)))))
        now = learn(now, answers)
        if not step.actions:
            now = forget_the_pass(replace(now, now_s=now.now_s + data.draw(WAITS)))
            now = replace(now, hand=noticed(now))


WAITS = st.sampled_from([1.0, 31.0, 400.0, 2000.0])


@settings(max_examples=200, deadline=None)
@given(snapshots())
def test_the_order_of_the_stages_changes_nothing_but_the_order(now: Snapshot) -> None:
    expected = live(now)
    for stages in itertools.islice(itertools.permutations(LIFE), 0, 5040, 251):
        with mock.patch.object(order, "LIFE", stages):
            step = live(now)
        assert sorted(map(repr, step.actions)) == sorted(map(repr, expected.actions))
        assert step.again_s == expected.again_s
        assert set(reasons(step.troubles)) == set(reasons(expected.troubles))


@settings(max_examples=200, deadline=None)
@given(snapshots())
def test_at_most_one_stage_decides_the_end(now: Snapshot) -> None:
    assert sum(stage(now).ending is not None for stage in LIFE) <= 1


@settings(max_examples=200, deadline=None)
@given(snapshots(), st.booleans())
def test_the_order_of_answers_in_a_batch_does_not_matter(now: Snapshot, busy: bool) -> None:
    from runnerscale.controllers.ephemeral_runner.actions import Answered

    actions = plan(now).actions
    answers = [(a, Answered(now.now_s, good(a, 101, busy=busy))) for a in actions]
    one = learn(now, answers)
    for others in itertools.islice(itertools.permutations(answers), 24):
        assert learn(now, others) == one


# --- a few things by hand ----------------------------------------------------------------------


def test_a_clean_life_costs_what_the_budget_says() -> None:
    """Design section 6: Secret, pod, one or two statuses, pod, object, finalizers; one call."""
    now, calls, writes = seen(NEW, None, Hand()), [], []

    def until_quiet(now: Snapshot) -> Snapshot:
        while actions := plan(now).actions:
            for action in actions:
                kind = type(action).__name__
                (calls if isinstance(action, GenerateJit | RemoveRunner) else writes).append(kind)
                now = told(now, action, good(action, 100 + len(writes)))
            now = replace(now, now_s=NOW_S)
        return now

    now = until_quiet(now)
    assert now.pod is not None
    now = until_quiet(replace(now, pod=replace(RUNNING, uid=now.pod.uid)))
    # The listener: a job started.
    now = replace(now, runner=replace(now.runner, phase="Running", has_job=True))
    now = until_quiet(now)
    assert now.pod is not None
    now = until_quiet(replace(now, pod=replace(exited(0), uid=now.pod.uid)))
    assert now.gone
    assert calls == ["GenerateJit"]
    assert writes == [
        "CreateSecret",
        "PatchStatus",
        "CreatePod",
        "PatchStatus",
        "DeleteRunner",
        "DeletePod",
        "SetFinalizers",
    ]


def test_an_action_without_an_answer_is_not_repeated_in_the_same_pass() -> None:
    now = told(seen(FAILED, None), DeleteSecret(REF), NoAnswer("reset"))
    step = plan(now)
    assert DeleteSecret(REF) not in step.actions
    assert RemoveRunner(REF, 7) in step.actions  # the others go on
    assert step.failed


def test_a_conflict_ends_the_pass_without_a_failure() -> None:
    stale = replace(seen(IDLE, RUNNING), stale=True)
    step = plan(stale)
    assert (step.actions, step.failed, step.stale) == ((), False, True)


def test_rights_that_are_missing_are_told() -> None:
    now = told(seen(FAILED, None), DeleteSecret(REF), Refused(403, "cannot delete resource"))
    assert "RightsMissing" in reasons(plan(now).troubles)


@pytest.mark.behaviour("C1 T161")
def test_registration_not_the_container_makes_a_runner_pending() -> None:
    # Overrules "until the container is reported the phase stays empty".
    unreported = replace(WAITING, phase="Running", placed_s=NOW_S)
    now = seen(replace(NEW, runner_id=7), unreported)
    (write,) = plan(now).actions
    assert isinstance(write, PatchStatus)
    assert write.phase == "Pending"


def test_a_foreign_pod_or_none_makes_no_difference_to_the_type() -> None:
    pods: list[PodView | None] = [None, WAITING]
    runners: list[Runner] = [NEW, IDLE]
    for pod, runner in itertools.product(pods, runners):
        assert plan(seen(runner, pod)) is not None
