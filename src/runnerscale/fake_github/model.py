"""What the pretended GitHub remembers: values without rules.

The rules are in the file named after the thing: `scale_sets.py`, `sessions.py`, `runners.py`,
`jobs.py`, `assignment.py`, `runs.py`. All of it hangs on one `State` (`state.py`).
All times are seconds since the epoch, 0 means never.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from runnerscale.fake_github.message_queue import MessageQueue


class JobState(StrEnum):
    """Where a job is; only forward, except that an untaken job returns to QUEUED."""

    QUEUED = "queued"  # matches a scale set or waits for one that does
    AVAILABLE = "available"  # acquire mode: offered to a scale set
    ASSIGNED = "assigned"  # belongs to a scale set, waits for a runner
    HANDED = "handed"  # given to a runner that has not confirmed yet
    RUNNING = "running"  # the runner confirmed: started, for the only time
    COMPLETED = "completed"


class Result(StrEnum):
    """How a job ended, in the words of the queue's messages."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"  # never queued: a dependency or condition said no


@dataclass(frozen=True, slots=True)
class Step:
    """One step as the runner gets it; every expression is already resolved.

    `run_when`: whether it runs, given how the job stands so far; made from `if:` on our
    side, so that the runner needs no expression language.
    """

    name: str
    run: str
    shell: str = ""  # "", bash, sh, python
    env: tuple[tuple[str, str], ...] = ()
    working_directory: str = ""
    timeout_s: float = 0.0  # 0: no bound of its own
    run_when: tuple[bool, bool, bool] = (True, False, False)  # success, failure, cancelled


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What is asked for when a job is queued."""

    display_name: str
    labels: tuple[str, ...]
    steps: tuple[Step, ...]
    group: str = ""  # runner group name, empty: any
    env: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 21_600.0  # GitHub's own default, six hours
    owner: str = ""
    repository: str = ""
    workflow_ref: str = ""
    event_name: str = "workflow_dispatch"
    run_id: int = 0
    job_key: str = ""  # the id of the job in its workflow file


@dataclass(slots=True)
class Job:
    """A job from queued to completed."""

    id: str
    number: int  # in order of queueing; also the request id in acquire mode
    request: JobRequest
    queued_s: float
    state: JobState = JobState.QUEUED
    scale_set_id: int = 0
    assigned_s: float = 0.0
    handed_s: float = 0.0  # the messages call it runnerAssignTime
    started_s: float = 0.0
    finished_s: float = 0.0
    offered_s: float = 0.0
    runner_id: int = 0
    runner_name: str = ""
    result: Result | None = None
    requeues: int = 0
    starts: int = 0
    cancel_asked: bool = False
    disowned: bool = False  # ended without its runner: lost, or canceled over its head
    current_step: str = ""
    steps: list[dict[str, object]] = field(default_factory=list)
    log: bytearray = field(default_factory=bytearray)
    log_bytes: int = 0  # ever received; more than len(log) when the beginning was dropped


@dataclass(slots=True)
class Runner:
    """A registration, made by a JIT config; `session_id` is set once its process connected."""

    id: int
    name: str
    tenant_id: str
    scale_set_id: int
    secret: str
    registered_s: float
    session_id: str = ""
    nonce: str = ""  # which process connected: a repeat of the same call, or a second start?
    connected_s: float = 0.0
    last_seen_s: float = 0.0
    polls_held: int = 0
    job_id: str = ""
    jobs_taken: int = 0
    forgotten: bool = False  # the registration is gone
    ghost: bool = False  # gone, but its process is left believing otherwise
    closed: bool = False  # its process said good-bye
    used: bool = False  # refused or served: its JIT config is spent


@dataclass(slots=True)
class Session:
    """The one message session of a scale set."""

    id: str
    scale_set_id: int
    owner: str
    token: str
    token_expires_s: float
    opened_s: float
    last_seen_s: float
    polls_held: int = 0
    held_until_s: float = 0.0  # a fault's foreign session stays until then
    ended: str = ""  # why, empty while it lives


@dataclass(slots=True)
class ScaleSet:
    """A scale set with its queue and its truth in numbers."""

    id: int
    tenant_id: str
    name: str
    group_id: int
    labels: list[tuple[str, str]]  # (type, name)
    disable_update: bool
    created_s: float
    queue: MessageQueue
    session: Session | None = None
    capacity: int | None = 0  # of the last poll; None: the poll named none
    available: dict[str, None] = field(default_factory=dict)  # job ids in order
    waiting: dict[str, None] = field(default_factory=dict)  # assigned, no runner yet
    running: set[str] = field(default_factory=set)  # handed or running
    runners: set[int] = field(default_factory=set)
    idle_polling: dict[int, None] = field(default_factory=dict)  # runner ids, longest first
    deleted: bool = False

    @property
    def label_names(self) -> frozenset[str]:
        """What `runs-on` may ask for, in lower case."""
        return frozenset(name.casefold() for _, name in self.labels)


@dataclass(frozen=True, slots=True)
class RunnerGroup:
    """A runner group of a tenant."""

    id: int
    name: str
    is_default: bool


@dataclass(slots=True)
class Tenant:
    """An enterprise, organization or repository: what a config URL names."""

    id: str
    path: str  # as in the config URL, lower case: org, org/repo, enterprises/slug
    groups: dict[int, RunnerGroup]

    def covers(self, owner: str, repository: str) -> bool:
        """Whether jobs of that repository may use this tenant's runners."""
        if self.path.startswith("enterprises/"):
            return True
        repo = f"{owner}/{repository}".casefold()
        return self.path in (owner.casefold(), repo)


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never happen, seen from GitHub's side."""

    kind: str
    detail: str
    at_s: float
