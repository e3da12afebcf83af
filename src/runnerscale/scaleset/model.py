"""What travels between us and the scale-set service, as typed values.

Decoding (case-insensitive names, nulls, BOM) is in `decode.py` and `messages.py`; these
types carry no rules. Source: contract github-service-and-listener 2.6-2.13, 4.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from runnerscale.core.secret import SecretText


@dataclass(frozen=True, slots=True)
class RunnerGroup:
    """A runner group."""

    id: int
    name: str
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """The truth about a scale set at one moment; `assigned_jobs` is the only scaling input."""

    available_jobs: int = 0
    acquired_jobs: int = 0
    assigned_jobs: int = 0
    running_jobs: int = 0
    registered_runners: int = 0
    busy_runners: int = 0
    idle_runners: int = 0


@dataclass(frozen=True, slots=True)
class RunnerScaleSet:
    """A scale set as GitHub stores it."""

    id: int
    name: str
    runner_group_id: int = 0
    runner_group_name: str = ""
    labels: tuple[str, ...] = ()
    disable_update: bool = False
    statistics: Statistics | None = None


@dataclass(frozen=True, slots=True)
class RunnerReference:
    """A registered runner."""

    id: int
    name: str
    scale_set_id: int = 0
    status: str = ""  # "online" or "offline" where the service says so


@dataclass(frozen=True, slots=True)
class JitConfig:
    """A registration and the start-up configuration only that runner may use."""

    runner: RunnerReference
    encoded: SecretText


class JobEventKind(StrEnum):
    """The inner message types."""

    AVAILABLE = "JobAvailable"
    ASSIGNED = "JobAssigned"
    STARTED = "JobStarted"
    COMPLETED = "JobCompleted"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One element of an envelope. Times: seconds since the epoch; 0 means never."""

    kind: JobEventKind
    index: int  # place in the envelope: order per runner, and identity with the message id
    request_id: int = 0
    owner_name: str = ""
    repository_name: str = ""
    job_id: str = ""
    job_workflow_ref: str = ""
    job_display_name: str = ""
    workflow_run_id: int = 0
    event_name: str = ""
    request_labels: tuple[str, ...] = ()
    queue_time_s: float = 0.0
    scale_set_assign_time_s: float = 0.0
    runner_assign_time_s: float = 0.0
    finish_time_s: float = 0.0
    runner_id: int = 0
    runner_name: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A decoded envelope. `quarantined`: texts about elements or bodies that could not be read;
    such a message is still to be acknowledged."""

    id: int
    statistics: Statistics | None
    events: tuple[JobEvent, ...] = ()
    quarantined: tuple[str, ...] = field(default=())
