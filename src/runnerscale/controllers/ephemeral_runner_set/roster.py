"""Who belongs to a set, kept up to date change by change.

A pass must cost the same for 100 and for 5,000 runners, and most passes only want numbers. So
the numbers are carried along with every change of a runner, and the runners themselves are
looked at one by one only when a stage has something to decide about them (`views`). Rebuilt
from the cache now and then, so that a change that was missed cannot be wrong for long.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from runnerscale.api.ephemeral_runner import EphemeralRunner, EphemeralRunnerSpec, has_job
from runnerscale.api.labels import RUNNER_SPEC_HASH
from runnerscale.api.phase import RunnerPhase
from runnerscale.controllers.ephemeral_runner_set import observe
from runnerscale.controllers.ephemeral_runner_set.finished import is_live
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Counts,
    Retired,
    Runner,
    Unlisted,
    Waits,
)
from runnerscale.kube.objects import is_deleting

REBUILD_EVERY_S = 300.0


@dataclass(slots=True)
class _Entry:
    """One runner: its object, its column, and its view once somebody asked for it."""

    item: EphemeralRunner
    column: str
    current: bool
    view: Runner | Retired | None = None


@dataclass(slots=True)
class Roster:
    """Of one set, of this uid. Entries are by the runner's name."""

    uid: str
    fingerprint: str = ""
    entries: dict[str, _Entry] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # by column
    retired: dict[str, None] = field(default_factory=dict)  # names
    stale: dict[str, None] = field(default_factory=dict)  # live ones made from another spec
    waiting: dict[str, dict[str, None]] = field(default_factory=dict)  # names by what they wait for
    serving: int = 0
    proxied: int = 0
    rebuilt_s: float = 0.0
    # Contents of runners that ARC made are compared; that is dear, so once for each pair of specs.
    foreign: dict[str, tuple[tuple[str, int | None], bool]] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    @property
    def live(self) -> int:
        """How many have a job or can get one."""
        return sum(self.numbers.get(column, 0) for column in LIVE)

    @property
    def counts(self) -> Counts:
        """The status columns."""
        get = self.numbers.get
        return Counts(
            pending=get("pending", 0),
            running=get("running", 0),
            failed=get("failed", 0),
            finished=get("finished", 0),
            deleting=get("deleting", 0),
        )

    def put(self, item: EphemeralRunner, wished: EphemeralRunnerSpec | None) -> None:
        """A runner that is new or changed. `wished`: the set's runner spec, if that is known."""
        name = item.metadata.name or ""
        self.remove(name)
        column = column_of(item)
        current = wished is None or self._is_current(item, wished)
        self.entries[name] = _Entry(item, column, current)
        self.numbers[column] = self.numbers.get(column, 0) + 1
        self.proxied += bool(item.spec.proxy_secret_ref)
        if column in LIVE and not current:
            self.stale[name] = None
        if observe.is_retired(item):
            self.retired[name] = None
        if column in LIVE and _serves(item):
            self.serving += 1
        elif column in LIVE and item.status.reason:
            self.waiting.setdefault(item.status.reason, {})[name] = None

    def remove(self, name: str) -> None:
        """A runner that is gone."""
        entry = self.entries.pop(name, None)
        if entry is None:
            return
        self.numbers[entry.column] -= 1
        self.proxied -= bool(entry.item.spec.proxy_secret_ref)
        self.stale.pop(name, None)
        self.retired.pop(name, None)
        reason = entry.item.status.reason
        if entry.column in LIVE and _serves(entry.item):
            self.serving -= 1
        elif reason in self.waiting:
            self.waiting[reason].pop(name, None)
            if not self.waiting[reason]:
                del self.waiting[reason]

    def rebuild(
        self, items: Iterable[EphemeralRunner], wished: EphemeralRunnerSpec, *, now_s: float
    ) -> None:
        """From the cache, as if all were new."""
        self.entries.clear()
        self.numbers.clear()
        self.retired.clear()
        self.stale.clear()
        self.waiting.clear()
        self.proxied = self.serving = 0
        for item in items:
            self.put(item, wished)
        self.foreign = {
            uid: known for uid, known in self.foreign.items() if known[0][0] == self.fingerprint
        }
        self.rebuilt_s = now_s

    def use_spec(self, fingerprint: str, wished: EphemeralRunnerSpec, *, now_s: float) -> None:
        """Another runner spec: everybody is judged anew."""
        if fingerprint != self.fingerprint:
            self.fingerprint = fingerprint
            self.rebuild([entry.item for entry in self.entries.values()], wished, now_s=now_s)

    # --- views ------------------------------------------------------------------------------

    def runners(self) -> list[Runner]:
        """All live runners, but for what changes with time."""
        found = []
        for entry in self.entries.values():
            if entry.column in LIVE:
                view = entry.view
                if not isinstance(view, Runner):
                    view = observe.runner_view(entry.item, current=entry.current)
                    entry.view = view
                found.append(view)
        return found

    def waits(self) -> tuple[Waits, ...]:
        """What runners say they wait for; each in the words of the one that said so first."""
        return tuple(
            Waits(reason, self.entries[next(iter(names))].item.status.message, len(names))
            for reason, names in self.waiting.items()
        )

    def strays(self, scale_set_id: int, *, said_busy: Container[str] = ()) -> int:
        """How many have a job of another scale set than the one that is served now.

        `said_busy`: uids of those of which GitHub says so; who would have stored it listens to
        another scale set by now.
        """
        found = (self.entries[name].item for name in self.stale)
        return sum(
            1
            for item in found
            if item.spec.runner_scale_set_id != scale_set_id
            and (has_job(item.status) or item.metadata.uid in said_busy)
        )

    def idle_since_before(self, before_s: float) -> int:
        """How many could have taken a job ever since then: online, well, and without one."""
        return sum(
            1
            for runner in self.runners()
            if runner.idle
            and runner.online_s is not None
            and runner.online_s <= before_s
            and not runner.troubled
        )

    def evidence(self) -> tuple[Retired, ...]:
        """All retired runners."""
        found = []
        for name in self.retired:
            entry = self.entries[name]
            view = entry.view
            if not isinstance(view, Retired):
                view = observe.retired_view(entry.item, current=entry.current)
                entry.view = view
            found.append(view)
        return tuple(found)

    def unlisted(self, *, now_s: float, in_detail: bool) -> Unlisted:
        """The live runners as numbers. `in_detail`: what the failure policy wants to know, too."""
        if not in_detail:
            return Unlisted(alive=self.live)
        works_s = newest_s = float("-inf")
        busy = 0
        for runner in self.runners():
            busy += runner.has_job
            if runner.current:
                newest_s = max(newest_s, runner.created_s)
                if observe.seasoned(runner, now_s=now_s):
                    works_s = max(works_s, runner.created_s)
        return Unlisted(alive=self.live, busy=busy, works_s=works_s, newest_s=newest_s)

    def _is_current(self, item: EphemeralRunner, wished: EphemeralRunnerSpec) -> bool:
        if (item.metadata.annotations or {}).get(RUNNER_SPEC_HASH):
            return observe.is_current(item, wished, fingerprint=self.fingerprint)
        uid, judged = item.metadata.uid or "", (self.fingerprint, item.metadata.generation)
        known = self.foreign.get(uid)
        if known is None or known[0] != judged:
            same = observe.is_current(item, wished, fingerprint=self.fingerprint)
            known = self.foreign[uid] = (judged, same)
        return known[1]


LIVE = ("pending", "running")


def column_of(item: EphemeralRunner) -> str:
    """Which number of the status a runner is in. A job counts although the phase may lag."""
    if is_deleting(item):
        return "deleting"
    match item.status.phase:
        case RunnerPhase.FAILED:
            return "failed"
        case RunnerPhase.SUCCEEDED:
            return "finished"
        case RunnerPhase.OUTDATED:
            return "outdated"  # in no column of the status, as ARC has it
        case RunnerPhase.RUNNING:
            return "running"
    assert is_live(item), "every terminal phase has its column"
    return "running" if has_job(item.status) else "pending"


def _serves(item: EphemeralRunner) -> bool:
    status = item.status
    return has_job(status) or (status.ready and not status.reason)
