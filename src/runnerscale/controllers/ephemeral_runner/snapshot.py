"""All that a pass knows of one runner: its object, its pod, and what this process remembers.

Values only; what they mean for the runner is asked here (`where`, `busy`), what follows from
it is in the stages. How a snapshot comes about: `observe.py`; how answers get into it:
`learning.py`; how it is kept between passes: `memory.py`.

What is remembered (`Hand`) is a hint. After a restart it is empty, and then the rule holds
that needs no memory: a registered runner whose pod is not there may have had a container, so
it is never given another one.
"""

from dataclasses import dataclass
from enum import Enum

import msgspec

from runnerscale.api.phase import is_terminal
from runnerscale.api.reasons import Reason, Trouble
from runnerscale.controllers.ephemeral_runner.actions import Action
from runnerscale.controllers.ephemeral_runner.deadlines import BUSY_WORD_HOLDS_S
from runnerscale.controllers.ephemeral_runner.identity import Jit, Ref
from runnerscale.controllers.ephemeral_runner.pod_view import PodView
from runnerscale.kube.objects import Condition


class Runner(msgspec.Struct, frozen=True):
    """What the EphemeralRunner object says."""

    ref: Ref
    resource_version: str
    created_s: float
    finalizers: tuple[str, ...] = ()
    deleted_s: float | None = None  # somebody asked for its deletion
    phase: str = ""
    has_job: bool = False
    runner_id: int = 0  # GitHub's id; 0 until it is stored
    runner_name: str = ""
    ready: bool = False
    reason: str = ""
    message: str = ""
    failures: tuple[str, ...] = ()  # uids of pods that a node refused
    conditions: tuple[Condition, ...] = ()
    generation: int | None = None
    scale_set_id: int = 0
    uses_hooks: bool = False  # container hooks make pods and Secrets of their own
    job_over: bool = False  # the listener heard that its job is complete


class Removal(Enum):
    """What GitHub said when asked to forget the runner; the last word."""

    NOT_ASKED = "not asked"
    FORGOTTEN = "forgotten"  # it was known, and is not any more
    ABSENT = "absent"  # never heard of it
    BUSY = "busy"  # a job runs on it: final


class PodPast(Enum):
    """What this process knows of earlier pods of this runner."""

    UNKNOWN = "unknown"  # there may have been one before this process began
    NEVER = "never"  # registered by this process, and no pod was made
    MADE = "made"  # there is or was one
    RETURNED = "returned"  # a node refused it before any container started, and it was deleted


class Talk(msgspec.Struct, frozen=True):
    """Where the conversation with GitHub about this runner stands."""

    removal: Removal = Removal.NOT_ASKED
    removal_s: float = 0.0
    suspect: bool = False  # a registration under our name may exist that we do not know
    stray_id: int = 0  # it does, with this id, in our scale set: to be removed first
    stray_busy: int = 0  # how often GitHub would not remove it, as it had a job
    foreign: bool = False  # the name belongs to somebody else
    name_tries: int = 0  # how often the name was taken though nobody was found
    looked_up_s: float | None = None  # when a look-up by name last found nobody
    lost_call_s: float | None = None  # when a registering call was last lost
    asked_s: float | None = None  # when it last said whether it knows the runner
    known: bool = False  # and it did
    online: bool = False  # it saw the runner online at least once
    offline_s: float | None = None  # since when it is said to be offline
    missing_s: float | None = None  # since when it does not know the runner
    tries: int = 0  # calls without a usable answer, in a row
    not_before_s: float = 0.0
    trouble: Trouble | None = None  # the last of them


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's last no to a Secret or pod of this runner."""

    trouble: Trouble
    not_before_s: float
    final: bool = False  # asking again would be useless


@dataclass(frozen=True, slots=True)
class Omen:
    """Why the pod is going, as its last sight said."""

    reason: Reason
    words: str


class Hand(msgspec.Struct, frozen=True):
    """What this process remembers of a runner."""

    confirmed: bool = False  # its registration is this process's own business by now
    jit: Jit | None = None  # until Secret and pod exist; GitHub gives it out only once
    issued_s: float | None = None  # when it did
    adopted_id: int = 0  # found by name, for a runner whose status lost the id
    template_hash: str = ""  # label of its pod
    secret: bool = False  # the Secret with this JIT config is stored
    stale_secret: bool = False  # one of that name with other content is in the way
    secret_seen_s: float | None = None  # when a node missed it, and the API server had it
    secret_lost: bool = False  # a node missed it, and the API server has no JIT config either
    pod: PodPast = PodPast.UNKNOWN
    pod_not_before_s: float = 0.0
    refusal: Refusal | None = None
    omen: Omen | None = None
    missed: bool = False  # the API server itself says that the pod is gone
    end_s: float | None = None  # when we first knew that the container ended or the pod is lost
    over_s: float | None = None  # since when the job is said to be over
    retired_s: float | None = None  # first seen in a terminal phase
    secret_gone: bool = False
    leftovers_gone: bool = False
    forced: bool = False  # the pod was deleted without grace
    let_go: bool = False  # our finalizers were the last and are dropped: it is gone
    talk: Talk = msgspec.field(default_factory=Talk)


class Where(Enum):
    """Which stage of its life the pod is in; each stage acts in one of them."""

    NOT_MADE = "not made"
    REFUSED = "refused"  # by a node, before anything ran
    UNPLACED = "unplaced"
    STARTING = "starting"
    RUNNING = "running"
    GOING = "going"  # ended, or being deleted by somebody
    LOST = "lost"  # there was one, or may have been


class Snapshot(msgspec.Struct, frozen=True):
    """One runner at one moment."""

    now_s: float
    runner: Runner
    pod: PodView | None = None
    hand: Hand = msgspec.field(default_factory=Hand)
    alive: int = 1  # runners of this controller, for the pace of questions
    watching_since_s: float = 0.0  # when this process began to act (as the leader)
    stale: bool = False  # a conflict: somebody wrote in between, observe again
    gone: bool = False  # the object is gone
    failed: tuple[Action, ...] = ()  # actions of this pass without a usable answer
    kube_troubles: tuple[Trouble, ...] = ()  # what the API server refused in this pass
    unanswered: str = ""  # what came instead of its last answer in this pass
    last_words: tuple[Trouble, ...] = ()  # to be told though the object is gone

    @property
    def about(self) -> str:
        """How a `Trouble` names the runner."""
        return f"EphemeralRunner {self.runner.ref.key}"

    @property
    def deleting(self) -> bool:
        """Somebody asked for its deletion."""
        return self.runner.deleted_s is not None

    @property
    def retired(self) -> bool:
        """In a phase that nobody leaves."""
        return is_terminal(self.runner.phase)

    @property
    def registered_id(self) -> int:
        """GitHub's id of the runner, wherever we know it from; 0: none that we know of."""
        jit = self.hand.jit
        return self.runner.runner_id or (jit.runner_id if jit else 0) or self.hand.adopted_id

    @property
    def pod_there(self) -> bool:
        """There is a pod, running or not."""
        return self.pod is not None and not self.pod.gone

    @property
    def pod_alive(self) -> bool:
        """There is a pod in which the runner runs, or still may."""
        return self.pod is not None and not self.pod.ended

    @property
    def had_job(self) -> bool:
        """A job is stored, or GitHub spoke of one."""
        return self.runner.has_job or self.hand.talk.removal is Removal.BUSY

    @property
    def busy(self) -> bool:
        """A job is stored, or GitHub spoke of one just now: the listener may be behind."""
        if self.runner.has_job:
            return True
        talk = self.hand.talk
        return talk.removal is Removal.BUSY and self.now_s - talk.removal_s < BUSY_WORD_HOLDS_S


def where(seen: Snapshot) -> Where:
    """Which stage of its life the runner's pod is in."""
    pod = seen.pod
    if pod is None or pod.gone:
        # The id is stored before the pod is made: without it, no pod of ours ever was. A job
        # is no proof: GitHub may give one to a runner whose pod is still to come.
        unmade = seen.hand.pod in (PodPast.NEVER, PodPast.RETURNED)
        unmade = unmade or (seen.hand.pod is PodPast.UNKNOWN and seen.runner.runner_id == 0)
        return Where.NOT_MADE if unmade else Where.LOST
    if pod.refused_by_node:
        return Where.REFUSED
    if pod.ended or pod.going_s is not None:
        return Where.GOING
    if pod.started_s is not None:
        return Where.RUNNING
    return Where.UNPLACED if pod.placed_s is None else Where.STARTING
