"""Plain values that the plan tests of this folder change with `replace`."""

from msgspec.structs import replace

from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZERS
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    Action,
    Answer,
    Answered,
    DeleteRunner,
    Ending,
    PatchStatus,
    Step,
)
from runnerscale.controllers.ephemeral_runner.identity import Jit, Ref
from runnerscale.controllers.ephemeral_runner.learning import learn
from runnerscale.controllers.ephemeral_runner.pod_view import Exit, PodView
from runnerscale.controllers.ephemeral_runner.snapshot import (
    Hand,
    PodPast,
    Removal,
    Runner,
    Snapshot,
)
from runnerscale.core.secret import SecretText

NOW_S = 1_800_000_000.0
REF = Ref("ns", "runner-a", "uid-a")
JIT = Jit(runner_id=7, runner_name="runner-a", scale_set_id=3, config=SecretText("very-secret"))

# Just made by the set: nothing has been done for it.
NEW = Runner(
    REF,
    "10",
    created_s=NOW_S,
    finalizers=EPHEMERAL_RUNNER_FINALIZERS,
    scale_set_id=3,
)
PENDING = replace(NEW, resource_version="11", phase="Pending", runner_id=7, runner_name="runner-a")
IDLE = replace(PENDING, ready=True)
BUSY = replace(PENDING, phase="Running", has_job=True)
FAILED = replace(PENDING, phase="Failed", reason="RunnerFailed", message="it failed")

# Stages of its pod.
WAITING = PodView("pod-1", created_s=NOW_S, changed_s=NOW_S)
PLACED = replace(WAITING, placed_s=NOW_S)
RUNNING = replace(
    PLACED, phase="Running", started_s=NOW_S, ready=True, reported=True, has_address=True
)


def exited(code: int, **more: str) -> PodView:
    """Its one container ended."""
    ended = Exit("runner", code, at_s=NOW_S, **more)
    phase = "Succeeded" if code == 0 else "Failed"
    return replace(RUNNING, phase=phase, ready=False, exit=ended, all_ended=True)


MADE = Hand(secret=True, pod=PodPast.MADE, issued_s=NOW_S)


MISSED = replace(MADE, missed=True)  # the API server itself says that the pod is gone


def seen(
    runner: Runner = PENDING,
    pod: PodView | None = None,
    hand: Hand = MADE,
    *,
    after_s: float = 0.0,
) -> Snapshot:
    """A snapshot so many seconds after everything began; this process began long before."""
    return Snapshot(NOW_S + after_s, runner, pod, hand, watching_since_s=NOW_S - 1e6)


def after_restart(before: Snapshot) -> Snapshot:
    """The same seen by a process that began later than the runner."""
    return replace(before, watching_since_s=NOW_S + 1)


def talking(hand: Hand = MADE, **change: object) -> Hand:
    """The hand with the conversation with GitHub changed."""
    return replace(hand, talk=replace(hand.talk, **change))  # type: ignore[arg-type]


def no_answer(hand: Hand = MADE, *, reason: Reason = Reason.GITHUB_UNAVAILABLE) -> Hand:
    """GitHub just gave no answer, and is not to be asked again for a minute."""
    why = trouble(reason, about="EphemeralRunner ns/runner-a", happened="no answer")
    return talking(hand, tries=1, not_before_s=NOW_S + 60, trouble=why)


def removed(removal: Removal, hand: Hand = MADE, *, at_s: float = NOW_S) -> Hand:
    """GitHub was asked to forget the runner."""
    return talking(hand, removal=removal, removal_s=at_s)


def told(before: Snapshot, action: Action, answer: Answer, *, after_s: float = 0.0) -> Snapshot:
    """The snapshot after one answer, which came some seconds later."""
    return learn(before, [(action, Answered(before.now_s + after_s, answer))])


def ending(step: Step) -> Ending:
    """The ending that a stage decided on."""
    assert step.ending is not None, step
    return step.ending


def patch(actions: tuple[Action, ...]) -> PatchStatus:
    """The one status write among the actions."""
    (found,) = [action for action in actions if isinstance(action, PatchStatus)]
    return found


def delete(actions: tuple[Action, ...]) -> DeleteRunner:
    """The one deletion of the object among the actions."""
    (found,) = [action for action in actions if isinstance(action, DeleteRunner)]
    return found


def reasons(troubles: tuple[Trouble, ...]) -> list[str]:
    """The words that a person reads."""
    return [str(item.reason) for item in troubles]
