"""All that a pass knows of one set: its object, its runners, and what this process remembers.

Values only. How a snapshot comes about: `observe.py`; how answers get into it: `learning.py`;
what is remembered between passes: `memory.py`; what follows from it: the stages, in the order
of `plan.py`.

What is remembered is a hint. A restart forgets it, and then at worst some runners too many are
made, never above the wanted number, and GitHub is asked a few things twice.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.phase import RunnerPhase
from runnerscale.api.reasons import Trouble
from runnerscale.kube.builtin import Secret
from runnerscale.kube.objects import ObjectReference


class Removal(Enum):
    """What GitHub said when asked to forget a runner; the last word."""

    NOT_ASKED = "not asked"
    ASKED = "asked"  # the answer is on its way, and nobody waits for it
    FORGOTTEN = "forgotten"  # or never heard of it: it can get no job any more
    HAS_JOB = "has a job"  # final: it stays
    NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class Runner:
    """A live runner: not being deleted, not in a terminal phase."""

    name: str
    uid: str
    resource_version: str = ""
    created_s: float = 0.0
    phase: str = RunnerPhase.PENDING.value
    runner_id: int = 0  # GitHub's id; 0 until registered
    has_job: bool = False  # any of the three job fields; the phase may lag, this may not be ignored
    current: bool = True  # made from the set's runner spec of now
    troubled: bool = False  # its status says that something is wrong
    proven: bool = False  # its pod was ready, or it got a job: what it is made from works
    online_s: float | None = None  # since when it can take jobs, where that was seen
    removal: Removal = Removal.NOT_ASKED
    removal_s: float = 0.0
    removal_trouble: Trouble | None = None

    @property
    def idle(self) -> bool:
        """Registered and without a job, as far as its object says."""
        return self.runner_id != 0 and not self.has_job


@dataclass(frozen=True, slots=True)
class Retired:
    """A runner in a terminal phase that nobody deletes yet: evidence."""

    name: str
    uid: str
    phase: str
    reason: str = ""
    message: str = ""
    since_s: float = 0.0
    created_s: float = 0.0
    had_job: bool = False
    current: bool = True
    forgotten: bool = False  # GitHub forgot it at our word, idle: that it then failed says nothing


@dataclass(frozen=True, slots=True)
class Counts:
    """What the status columns say."""

    pending: int = 0
    running: int = 0
    failed: int = 0
    finished: int = 0
    deleting: int = 0

    @property
    def current(self) -> int:
        """As ARC counts them; finished and deleting ones are not in it."""
        return self.pending + self.running + self.failed


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Live runners that this pass knows as numbers only: nothing is to be decided about one.

    `works_s`, `newest_s`: when the newest was made of those that are made from the spec of now
    and work, or are there at all. These two and `busy` are known only beside evidence.
    """

    alive: int = 0
    busy: int = 0
    works_s: float = float("-inf")
    newest_s: float = float("-inf")


class Check(Enum):
    """What is known of the template."""

    UNKNOWN = "unknown"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Template:
    """The last dry run of the pod that the set's runners get. `failures`: refusals in a row."""

    check: Check = Check.UNKNOWN
    trouble: Trouble | None = None
    again_s: float = 0.0  # not to be tried again before
    failures: int = 0


class Look(Enum):
    """What is known of an object that is in no cache."""

    UNKNOWN = "unknown"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Proxy:
    """The set's proxy Secret. `data`: what it should hold, None until that was read."""

    secret: Secret | Look = Look.UNKNOWN
    data: dict[str, bytes] | None = field(default=None, repr=False)
    again_s: float = 0.0  # both are looked at again from then on
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One set at one moment."""

    now_s: float
    item: EphemeralRunnerSet = field(repr=False)
    reference: ObjectReference
    fingerprint: str = ""  # of the runner spec that new runners are made from
    replicas: int = 0  # the listener's word, less the jobs that are doubted
    exact: bool = False  # patch id 0: shrink as well as grow
    hold: int | None = None  # at most so many, whatever `replicas` says
    deleted_s: float | None = None
    runners: tuple[Runner, ...] = ()  # one by one, or ...
    unlisted: Unlisted = Unlisted()  # ... as numbers
    retired: tuple[Retired, ...] = ()
    counts: Counts = Counts()
    held: int = 0  # runners that finished and are not to be replaced yet
    held_again_s: float | None = None  # when the first of them may be, whatever happens
    disturbed_s: tuple[float, ...] = ()  # when runners were lately lost by nobody's fault
    template: Template = Template()
    proxy: Proxy = Proxy()
    had_proxy: bool = False  # a runner refers to the Secret
    undecided: tuple[str, ...] = ()  # names of runners that may have been created: no answer
    confirmed: bool = True  # this process has found its view of the set to be of the present
    doubts: tuple[Trouble, ...] = ()  # jobs that nobody is given
    unwritable: Trouble | None = None  # runners that cannot say themselves what is wrong
    status_due_s: float = 0.0  # the status is not written again before
    written: "Written | None" = None  # the status as it was written last
    # of this pass
    made: int = 0
    gone: bool = False
    stale: bool = False  # a conflict: somebody wrote in between, observe again
    failed: bool = False
    failed_actions: tuple["Action", ...] = ()  # not to be tried again in this pass
    failures: tuple[Trouble, ...] = ()
    last_words: tuple[Trouble, ...] = ()

    @property
    def key(self) -> str:
        """As work queue and caches know it."""
        return self.reference.key

    @property
    def about(self) -> str:
        """How a `Trouble` names the set."""
        return f"EphemeralRunnerSet {self.reference.key}"

    @property
    def deleting(self) -> bool:
        """Somebody asked for its deletion."""
        return self.deleted_s is not None

    @property
    def has_children(self) -> bool:
        """Any runner object, in whatever state."""
        return bool(self.runners or self.unlisted.alive or self.retired or self.counts.deleting)


# --- actions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatchSet:
    """Metadata of the set; carries the version it was planned on."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConfirmView:
    """Ask the API server itself whether the set is as the cache shows it."""


@dataclass(frozen=True, slots=True)
class CreateRunner:
    """One runner; `name` empty: draw one. The same name again, where an answer was lost."""

    name: str = ""
    number: int = 0  # tells the creations of one batch apart


@dataclass(frozen=True, slots=True)
class AskGitHub:
    """Have GitHub forget an idle runner. The answer comes in a later pass."""

    name: str
    uid: str
    runner_id: int


@dataclass(frozen=True, slots=True)
class DeleteRunner:
    """Delete a runner object: this very one, and as it was seen."""

    name: str
    uid: str
    resource_version: str = ""  # set where a job that came meanwhile must stop the deletion
    why: str = ""
    told: Trouble | None = None  # to be told when it is done: afterwards nothing shows it


@dataclass(frozen=True, slots=True)
class CheckTemplate:
    """Dry run of the pod that a runner of this set gets."""


@dataclass(frozen=True, slots=True)
class ResolveProxy:
    """Read the proxies' credentials."""


@dataclass(frozen=True, slots=True)
class ReadProxySecret:
    """Read the set's proxy Secret."""


@dataclass(frozen=True, slots=True)
class WriteProxySecret:
    """Create it, or patch it."""

    body: dict[str, Any] = field(repr=False)
    create: bool


@dataclass(frozen=True, slots=True)
class DeleteProxySecret:
    """Nobody needs it any more."""

    uid: str


@dataclass(frozen=True, slots=True)
class StatusView:
    """A status as far as it is worth a write: what is new at once, and what only counts."""

    news: tuple[Any, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """What was written last, and what the API server made of it: ARC's schema drops conditions."""

    wished: StatusView
    stored: StatusView


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Merge patch of the status; `wished`: what it is to say then."""

    body: dict[str, Any]
    wished: StatusView


Action = (
    PatchSet
    | ConfirmView
    | CreateRunner
    | AskGitHub
    | DeleteRunner
    | CheckTemplate
    | ResolveProxy
    | ReadProxySecret
    | WriteProxySecret
    | DeleteProxySecret
    | WriteStatus
)

# --- answers ----------------------------------------------------------------------------------


class Said(Enum):
    """Answers that carry nothing else."""

    DONE = "done"
    GONE = "gone"  # there is no such object
    CONFLICT = "conflict"  # somebody wrote in between
    UNDECIDED = "undecided"  # no answer: it may have happened
    PASSED_OVER = "passed over"  # asked of a template: nobody could say


@dataclass(frozen=True, slots=True)
class Refused:
    """The other side will not, in its own words."""

    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Undecided:
    """No answer to a creation: the runner of this name may exist."""

    name: str
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Data:
    """What the proxy Secret should hold."""

    values: dict[str, bytes] = field(repr=False)


Answer = Said | Refused | Undecided | Data | Secret | Look | EphemeralRunnerSet
