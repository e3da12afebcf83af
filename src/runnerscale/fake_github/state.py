"""All that the pretended GitHub knows, in one value, and how to find things in it.

No rules and no I/O here. Time is an argument of every rule; randomness hangs on the state;
who waits for news is told through `touched`, which the server empties after each command.
"""

from collections import Counter, OrderedDict, deque
from typing import TypeVar

from runnerscale.core.randomness import Random
from runnerscale.fake_github.by_secret import BySecret
from runnerscale.fake_github.event_log import EventLog
from runnerscale.fake_github.ids import new_token, new_uuid
from runnerscale.fake_github.model import (
    Job,
    JobRequest,
    Runner,
    RunnerGroup,
    ScaleSet,
    Session,
    Tenant,
    Violation,
)
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.run_model import Run
from runnerscale.fake_github.timers import Timers
from runnerscale.fake_github.tokens import TokenBook

K = TypeVar("K")
V = TypeVar("V")

REMEMBERED_MAX = 20_000  # spent JIT configs, started names, ended sessions
EVENTS = "events"  # the topic of whoever follows the event log
FAULTS = "faults"  # the topic of requests that a black hole has swallowed

JobKey = tuple[str, str, frozenset[str], str]  # owner, repository, labels, group


def job_key(request: JobRequest) -> JobKey:
    """Jobs with the same key may be served by the same scale sets."""
    labels = frozenset(label.casefold() for label in request.labels)
    return (
        request.owner.casefold(),
        request.repository.casefold(),
        labels,
        request.group.casefold(),
    )


def queue_topic(scale_set_id: int) -> str:
    """What a held poll of that scale set waits for."""
    return f"queue/{scale_set_id}"


def runner_topic(session_id: str) -> str:
    """What a held poll of that runner waits for."""
    return f"runner/{session_id}"


class Bounded(OrderedDict[K, V]):
    """A dictionary that forgets its oldest entries."""

    def __init__(self, kept_max: int) -> None:
        """`kept_max`: how many entries are kept."""
        super().__init__()
        self._kept_max = kept_max

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > self._kept_max:
            self.popitem(last=False)


class State:
    """The memory of the pretended GitHub."""

    def __init__(self, options: Options, random: Random) -> None:
        """Nothing is known yet; tenants appear when they are first addressed."""
        self.options = options
        self.random = random
        self.tokens = TokenBook(random)
        self.timers = Timers()
        self.events = EventLog(options.events_max)

        self.tenants: dict[str, Tenant] = {}  # by path
        self.tenants_by_id: dict[str, Tenant] = {}
        self.scale_sets: dict[int, ScaleSet] = {}
        self.sessions: Bounded[str, Session] = Bounded(REMEMBERED_MAX)
        self.queue_tokens: BySecret[Session] = BySecret(REMEMBERED_MAX)
        self.runners: dict[int, Runner] = {}  # registered now
        self.runner_names: dict[tuple[str, str], int] = {}  # (tenant id, folded name)
        self.runners_by_secret: BySecret[Runner] = BySecret(REMEMBERED_MAX)
        self.runners_by_session: Bounded[str, Runner] = Bounded(REMEMBERED_MAX)
        self.started_names: Bounded[tuple[str, str], float] = Bounded(REMEMBERED_MAX)

        self.jobs: dict[str, Job] = {}
        self.jobs_by_number: dict[int, Job] = {}
        self.ready: dict[JobKey, deque[str]] = {}  # queued and due; may hold ended ones
        self.finished: deque[str] = deque()
        self.ended: deque[str] = deque()  # completed, not yet told to their runs
        self.runs: dict[int, Run] = {}

        self.unsettled: set[int] = set()  # scale sets whose jobs or runners changed
        self.touched: set[str] = set()  # topics with news for whoever waits
        self.violations: deque[Violation] = deque(maxlen=max(1, options.violations_max))
        self.counters: Counter[str] = Counter()
        self.peak_runners = 0
        self.running_now = 0
        self.peak_running = 0
        self._numbers: Counter[str] = Counter()

    def next_number(self, of: str, first: int = 1) -> int:
        """A number never given before for that kind of thing."""
        self._numbers[of] += 1
        return first + self._numbers[of] - 1

    def touch(self, topic: str) -> None:
        """There is news for whoever waits for that topic."""
        self.touched.add(topic)

    def emit(self, now_s: float, kind: str, **fields: object) -> None:
        """Add to the event log."""
        self.events.add(now_s, kind, **fields)
        self.touched.add(EVENTS)

    def violation(self, now_s: float, kind: str, detail: str) -> None:
        """Record what must never happen."""
        self.violations.append(Violation(kind, detail, now_s))
        self.counters[f"violation {kind}"] += 1
        self.emit(now_s, "violation", violation=kind, detail=detail)

    def tenant(self, path: str) -> Tenant:
        """The tenant a config URL's path names; made on first sight, with its groups."""
        path = path.strip("/").casefold()
        known = self.tenants.get(path)
        if known is not None:
            return known
        groups = {1: RunnerGroup(1, "Default", is_default=True)}
        for place, name in enumerate(self.options.runner_groups, start=2):
            groups[place] = RunnerGroup(place, name, is_default=False)
        made = Tenant(id=new_token(self.random, bits=64), path=path, groups=groups)
        self.tenants[path] = self.tenants_by_id[made.id] = made
        return made

    def new_uuid(self) -> str:
        """A UUID from the state's randomness."""
        return new_uuid(self.random)

    def settle_later(self, scale_set_id: int) -> None:
        """That scale set's jobs or runners changed."""
        if scale_set_id in self.scale_sets:
            self.unsettled.add(scale_set_id)
