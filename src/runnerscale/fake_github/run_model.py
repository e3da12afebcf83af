"""A run of a workflow and its jobs: values without rules (`runs.py` has them)."""

from dataclasses import dataclass, field

from runnerscale.fake_github.expressions import Allowance
from runnerscale.fake_github.matrix import Combination
from runnerscale.fake_github.workflow import JobTemplate, Workflow


@dataclass(slots=True)
class Instance:
    """One job of a run: one combination of a job template."""

    name: str
    combination: Combination
    place: int
    job_id: str = ""  # once it is queued
    result: str = ""  # once it has ended: succeeded, failed, canceled, skipped
    note: str = ""  # why it ended without having been queued


@dataclass(slots=True)
class RunNode:
    """All instances of one job template."""

    template: JobTemplate
    instances: list[Instance]
    decided: bool = False  # needs and condition have been looked at
    result: str = ""  # success, failure, cancelled, skipped, in the words of `needs.x.result`


@dataclass(slots=True)
class Run:
    """A workflow that was started."""

    id: int
    number: int
    workflow: Workflow
    repository: str
    ref: str
    event: str
    created_s: float
    labels: tuple[str, ...] = ()  # used instead of every `runs-on`, if not empty
    nodes: dict[str, RunNode] = field(default_factory=dict)
    cancelled: bool = False
    finished_s: float = 0.0
    conclusion: str = ""  # success, failure, cancelled
    allowance: Allowance = field(default_factory=Allowance)  # of text, for all its jobs
