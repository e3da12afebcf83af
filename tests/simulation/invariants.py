"""What must hold at every step, judged by GitHub and the machine, never by our own objects.

Imports none of the rules it judges. Each check is a sentence; a breach is reported once with
the time. What must hold when everything has come to rest is `settlement.py`.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runnerscale.fake_github.model import Job, JobState
from runnerscale.fake_github.state import State
from tests.simulation.writes import Write

RUNNERS = "ephemeralrunners.actions.github.com"
RUNNER_SETS = "ephemeralrunnersets.actions.github.com"
SCALE_SETS = "autoscalingrunnersets.actions.github.com"
TERMINAL = ("Failed", "Succeeded", "Outdated")
OUR_USERS = "system:serviceaccount:runnerscale-system:"
NODE_USER = "system:serviceaccount:runnerscale-system:runnerscale-node"
LISTENER_MARK = "-listener"
WRITES_A_MINUTE_MAX = 60  # of one object: a runner's whole life takes nine
MAX_REMEMBERED_S = 150.0  # a lowered maximum is known to everybody after so long


@dataclass(frozen=True, slots=True)
class Breach:
    """An invariant that did not hold."""

    rule: str
    detail: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: {self.rule}: {self.detail}"


@dataclass(slots=True)
class Judge:
    """Hears every write and asks GitHub."""

    github: State
    now_s: Callable[[], float]
    is_running: Callable[[str], bool]  # whether a container of the pod of that uid runs
    breaches: list[Breach] = field(default_factory=list)
    _maxima: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    _alive: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _recent: dict[tuple[str, str, str], deque[float]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    _violations: int = 0

    def hear(self, write: Write) -> None:
        """One stored change."""
        for rule in (
            _no_job_dies_by_our_hand,
            _running_is_the_listeners_word_about_a_job,
            _terminal_phases_stay,
            _no_runner_beyond_the_maximum,
            _no_hot_loop,
        ):
            detail = rule(self, write)
            if detail:
                self.breach(rule.__name__.strip("_").replace("_", " "), detail)
        self.ask_github()

    def ask_github(self) -> None:
        """GitHub notices by itself what must never happen to it."""
        for violation in list(self.github.violations)[self._violations :]:
            self.breach(f"GitHub saw: {violation.kind}", violation.detail)
        self._violations = len(self.github.violations)

    def breach(self, rule: str, detail: str) -> None:
        """Report."""
        self.breaches.append(Breach(rule, detail, self.now_s()))

    def job_on(self, runner_name: str) -> Job | None:
        """The job that GitHub believes to be running there."""
        for job in self.github.jobs.values():
            if job.runner_name == runner_name and job.state in (JobState.HANDED, JobState.RUNNING):
                return job
        return None

    def ever_had_job(self, runner_name: str) -> bool:
        """Whether GitHub ever gave that runner a job."""
        return any(job.runner_name == runner_name for job in self.github.jobs.values())


def _no_job_dies_by_our_hand(judge: Judge, write: Write) -> str:
    """The pod under a job, or the runner object, is not deleted by controller or listener."""
    ours = write.by.startswith(OUR_USERS) and write.by != NODE_USER
    if not ours or write.resource not in ("pods", RUNNERS) or not write.begins_deletion:
        return ""
    job = judge.job_on(write.name)
    if job is None or (write.resource == "pods" and not judge.is_running(write.uid)):
        return ""
    if write.resource == RUNNERS and not _pod_runs(judge, write.name):
        return ""  # GitHub does not know yet that it died
    return f"{write.by} decided to {write} under job {job.number} ({job.state})"


def _pod_runs(judge: Judge, runner_name: str) -> bool:
    return judge.is_running(f"name:{runner_name}")


def _running_is_the_listeners_word_about_a_job(judge: Judge, write: Write) -> str:
    if write.resource != RUNNERS or write.after is None:
        return ""
    before, after = _phase(write.before), _phase(write.after)
    if after != "Running" or before == "Running":
        return ""
    if LISTENER_MARK not in write.by:
        return f"{write.by} wrote Running on {write.name}"
    if not judge.ever_had_job(write.name):
        return f"{write.name} became Running, but GitHub never gave it a job"
    return ""


def _terminal_phases_stay(judge: Judge, write: Write) -> str:
    if write.resource != RUNNERS or write.before is None or write.after is None:
        return ""
    before, after = _phase(write.before), _phase(write.after)
    if before in TERMINAL and after != before:
        return f"{write.by} moved {write.name} from {before} to {after or 'no phase'}"
    return ""


def _no_runner_beyond_the_maximum(judge: Judge, write: Write) -> str:
    if write.resource == SCALE_SETS and write.after is not None:
        maxima = judge._maxima.setdefault(write.name, deque())
        maxima.append((judge.now_s(), write.after["spec"].get("maxRunners", 2**31 - 1)))
        while len(maxima) > 1 and maxima[1][0] < judge.now_s() - MAX_REMEMBERED_S:
            maxima.popleft()
        return ""
    if write.resource != RUNNERS:
        return ""
    owner = _owner(write.after or write.before)
    alive = judge._alive[owner]
    counts = write.after is not None and not write.after["metadata"].get("deletionTimestamp")
    if counts and _phase(write.after) not in TERMINAL:
        alive.add(write.uid)
    else:
        alive.discard(write.uid)
        return ""
    known = judge._maxima.get(owner)
    if write.before is None and known and len(alive) > max(maximum for _, maximum in known):
        return f"{len(alive)} runners of {owner}, at most {max(m for _, m in known)} were allowed"
    return ""


def _no_hot_loop(judge: Judge, write: Write) -> str:
    if not write.by.startswith(OUR_USERS) or write.resource == "events":
        return ""
    recent = judge._recent[(write.resource, write.namespace, write.name)]
    now_s = judge.now_s()
    recent.append(now_s)
    while recent and recent[0] < now_s - 60.0:
        recent.popleft()
    if len(recent) == WRITES_A_MINUTE_MAX and not write.resource.startswith(RUNNER_SETS):
        return f"{write.resource} {write.name} was written {len(recent)} times within a minute"
    return ""


def _phase(obj: dict[str, Any] | None) -> str:
    return str(((obj or {}).get("status") or {}).get("phase") or "")


def _owner(obj: dict[str, Any] | None) -> str:
    references = ((obj or {}).get("metadata") or {}).get("ownerReferences") or [{}]
    return str(references[0].get("name", ""))
