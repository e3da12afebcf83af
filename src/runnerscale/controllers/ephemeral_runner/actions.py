"""What a pass may do, what it may be answered, and what a stage says.

Every action names the runner it is for; those that follow from something read carry the
`resourceVersion` or uid it was read with. An answer is a value, whatever went wrong: what
follows from it is a rule, and rules are in the stages. Carried out in `apply.py`.
"""

from dataclasses import dataclass
from enum import Enum

import msgspec

from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner.identity import Jit, Ref
from runnerscale.controllers.ephemeral_runner.pod_view import PodView
from runnerscale.kube.objects import Condition

# --- actions: GitHub ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GenerateJit:
    """Register the runner. Not idempotent: GitHub keeps the name when the answer is lost."""

    of: Ref


@dataclass(frozen=True, slots=True)
class FindRunner:
    """Ask GitHub who has the runner's name."""

    of: Ref


@dataclass(frozen=True, slots=True)
class AskRunner:
    """Ask GitHub whether it knows the runner, and whether it is online."""

    of: Ref
    runner_id: int


@dataclass(frozen=True, slots=True)
class RemoveRunner:
    """Have GitHub forget the runner: afterwards no job can reach it any more."""

    of: Ref
    runner_id: int


# --- actions: Kubernetes --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateSecret:
    """Store the JIT config where the pod finds it."""

    of: Ref
    jit: Jit


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    """The runner's own; a stranger's Secret of that name stays."""

    of: Ref


@dataclass(frozen=True, slots=True)
class CheckSecret:
    """Ask the API server itself whether the JIT config that the node misses is there."""

    of: Ref


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make the runner's pod."""

    of: Ref
    template_hash: str


@dataclass(frozen=True, slots=True)
class ConfirmView:
    """Ask the API server itself whether the runner is as the cache shows it."""

    of: Ref
    resource_version: str


@dataclass(frozen=True, slots=True)
class CheckPod:
    """Ask the API server itself whether the pod that the cache misses is there."""

    of: Ref


@dataclass(frozen=True, slots=True)
class DeletePod:
    """`grace_s` 0: nothing of it runs any more; None: the pod's own.

    `resource_version`: where it may have started since, with a job.
    """

    of: Ref
    uid: str
    grace_s: int | None
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class DeleteLeftovers:
    """Pods and Secrets that the container hooks made for this runner."""

    of: Ref


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Fields that are None stay as they are; empty text removes one."""

    of: Ref
    resource_version: str
    phase: str | None = None
    runner_id: int | None = None
    runner_name: str | None = None
    ready: bool | None = None
    reason: str | None = None
    message: str | None = None
    failed_pod: str | None = None  # uid, to be noted among `failures` with the time of now
    conditions: tuple[Condition, ...] | None = None


@dataclass(frozen=True, slots=True)
class SetFinalizers:
    """The whole list, so it must be the list of that version."""

    of: Ref
    resource_version: str
    finalizers: tuple[str, ...]
    last_words: tuple[Trouble, ...] = ()  # to be told when the object is gone with them


@dataclass(frozen=True, slots=True)
class DeleteRunner:
    """Ask for the deletion of the runner object. `resource_version` "": whatever it says."""

    of: Ref
    resource_version: str = ""


GitHubAction = GenerateJit | FindRunner | AskRunner | RemoveRunner
KubeAction = (
    ConfirmView
    | CreateSecret
    | DeleteSecret
    | CheckSecret
    | CreatePod
    | CheckPod
    | DeletePod
    | DeleteLeftovers
    | PatchStatus
    | SetFinalizers
    | DeleteRunner
)
Action = GitHubAction | KubeAction

# --- answers --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registered:
    """GitHub made the registration."""

    jit: Jit


class Said(Enum):
    """Answers that carry nothing else."""

    NAME_TAKEN = "name taken"  # GitHub has a runner of that name
    FORGOTTEN = "forgotten"  # GitHub removed the registration
    ABSENT = "absent"  # GitHub does not know the runner; there is no such object
    JOB_RUNNING = "job running"  # GitHub will not let go of a runner with a job
    CONFLICT = "conflict"  # somebody wrote in between
    EXISTS = "exists"  # something else has the name
    GONE = "gone"  # deleted, and not there any more


@dataclass(frozen=True, slots=True)
class Known:
    """GitHub knows the runner."""

    runner_id: int
    scale_set_id: int
    status: str = ""  # "online", "offline", or nothing


@dataclass(frozen=True, slots=True)
class GitHubFailed:
    """No usable answer from GitHub, or a no that no rule of ours expects."""

    trouble: Trouble  # without anything that differs from try to try
    maybe_done: bool = False  # it may have had its effect all the same
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The API server did it, or it was done already. The version the object has now."""

    resource_version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The pod is there, though the cache does not show it."""

    pod: PodView


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server will not, in its own words."""

    code: int
    words: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No usable answer from the API server; it may have happened."""

    words: str


Answer = Registered | Said | Known | GitHubFailed | Done | Found | Refused | NoAnswer


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer and when it came."""

    at_s: float
    answer: Answer


# --- what a stage says ------------------------------------------------------------------------


class How(Enum):
    """How a runner's life ends."""

    FINISHED = "finished"  # had a job, ended well: deleted without a word
    DISTURBED = "disturbed"  # nobody's fault, and no job: deleted, and replaced at once
    FAILED = "failed"  # kept as evidence
    OUTDATED = "outdated"  # kept as evidence; its image is too old


@dataclass(frozen=True, slots=True)
class Ending:
    """A stage decided that this runner's life is over."""

    how: How
    trouble: Trouble | None = None  # None only if it finished
    # The pod cannot have started, nor will it: GitHub need not be asked before it is ended.
    harmless: bool = False


class Step(msgspec.Struct, frozen=True):
    """What one stage wants: nothing, most of the time."""

    actions: tuple[Action, ...] = ()
    again_s: float | None = None
    troubles: tuple[Trouble, ...] = ()
    ending: Ending | None = None
    failed_pod: str = ""  # uid of a pod to be noted in the status before anything else


NOTHING = Step()
