"""What the rules about a runner set see, and what they may ask for.

Values only; how answers come back into them is `learning.py`. What GitHub said lives in
`github`, empty at the beginning of every pass, beside `known`, the memory of earlier passes (a
hint: a restart forgets it and asks again).
Contract: resources-and-controllers 4.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import wraps
from typing import Any, TypeVar

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AutoscalingListener
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS, AutoscalingRunnerSet
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.autoscaling_runner_set.wish import Wish, same_address
from runnerscale.core.clock import parse_time
from runnerscale.credentials.place import GitHubPlace
from runnerscale.kube.objects import ObjectMeta, ObjectReference, is_deleting
from runnerscale.kube.resource import Resource
from runnerscale.scaleset.model import RunnerGroup, RunnerScaleSet

# A scale set of all that there are: every place at GitHub counts its own from 1.
Spot = tuple[str, int]  # config URL, id
ID_DIGITS_MAX = 19  # of an int64; Python refuses to read numbers of thousands of digits


@dataclass(frozen=True, slots=True)
class Settings:
    """How this controller process was started; the same for all runner sets."""

    namespace: str  # where listeners live
    image: str  # of listeners: the controller's own
    build_version: str  # compared with the chart's version label
    image_pull_secrets: tuple[str, ...] = ()
    excluded_prefixes: tuple[str, ...] = ()
    identity: str = ""  # of this process, new with each start; empty: it leaves no name


class Look(Enum):
    """Where something at GitHub is no value: nobody asked yet, or there is none."""

    UNASKED = "unasked"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Runners:
    """What has to be known of the runners; counts are in the EphemeralRunnerSet's status."""

    # Asked for only while the set goes or moves, or has left something at an old place:
    # (config URL, scale-set id) of every runner that is not mere evidence
    places: frozenset[tuple[str, int]] = frozenset()
    # the same of those that have no job, stored or by GitHub's word, and are not being deleted
    idle_places: frozenset[tuple[str, int]] = frozenset()
    busy_places: frozenset[tuple[str, int]] = frozenset()  # of those that have a job
    outdated: frozenset[str] = frozenset()  # fingerprints of runner pods that GitHub refused
    doubted: frozenset[int] = frozenset()  # scale-set ids that GitHub did not know


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is remembered of our name on a runner set (`competing.py`). Times are wall time."""

    there: bool = False  # ours was the last that we saw
    put_s: float = 0.0  # when ours was seen there first, the last time
    losses: tuple[float, ...] = ()  # when ours was found replaced by another's
    other: str = ""  # whose


@dataclass(frozen=True, slots=True)
class LeftJobs:
    """What GitHub said last of the jobs of a scale set that was left behind."""

    asked_s: float = float("-inf")  # wall time
    waiting: int = 0  # given to the scale set, and to no runner


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier passes learned from GitHub."""

    scale_set: RunnerScaleSet | None = None
    place: GitHubPlace | None = None  # with these credentials
    checked_s: float = 0.0  # wall time
    checked_generation: int = 0  # of the object, at that time
    trouble: Trouble | None = None  # what went wrong with the last call
    failed_generation: int = 0  # of the object, at that time
    failures: int = 0  # in a row
    retry_s: float = 0.0  # wall time; no call before, unless the object changes
    # Annotations that a scale set made by us belongs to, until they are stored: whoever edits the
    # object at that moment makes the write fail, and may have moved the wish elsewhere.
    unrecorded: Mapping[str, str] = field(default_factory=dict)
    gone_id: int = 0  # a scale set that GitHub denied ...
    gone_s: float = 0.0  # ... and when, wall time
    left_retry_s: float = 0.0  # the same for what was left behind ...
    left_troubles: Mapping[Spot, Trouble] = field(default_factory=dict)  # ... by where
    left_jobs: Mapping[Spot, LeftJobs] = field(default_factory=dict)
    status_told: str = ""  # fingerprint of the status written last
    counted_s: float = 0.0  # when the status was written last, wall time
    stamp: Stamp = field(default_factory=Stamp)  # our name on it


@dataclass(frozen=True, slots=True)
class GitHub:
    """What GitHub said in this pass."""

    group: RunnerGroup | None = None
    by_name: RunnerScaleSet | Look = Look.UNASKED
    by_id: RunnerScaleSet | Look = Look.UNASKED
    group_before: RunnerGroup | Look = Look.UNASKED  # in which one that was denied is written down
    before_asked: bool = False  # whether one that was denied is where it was before an edit
    settings_told: bool = False  # labels and self-update went out with a create or update
    renamed: bool = False  # name or group went out: once in a pass, whatever the answer shows
    trouble: Trouble | None = None  # the first that went wrong; nothing more is asked then
    deleted: frozenset[Spot] = frozenset()
    left_troubles: Mapping[Spot, Trouble] = field(default_factory=dict)  # of what is left behind


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One runner set, its children, and what this pass has learned."""

    now_s: float
    settings: Settings
    runner_set: AutoscalingRunnerSet
    wish: Wish
    sets: tuple[EphemeralRunnerSet, ...] = ()  # owned by it, those going included
    listeners: tuple[AutoscalingListener, ...] = ()  # that name it, those going included
    runners: Runners = Runners()
    rivals: tuple[str, ...] = ()  # objects with an older claim to the same scale set
    neighbours: frozenset[tuple[str, int]] = frozenset()  # (URL, id) that others hold
    known: Known = Known()
    github: GitHub = GitHub()
    refused: tuple[Trouble, ...] = ()  # by the API server, in this pass
    told: tuple[Trouble, ...] = ()  # what this pass has let go, and nobody remembers after it
    unprotected: frozenset[str] = frozenset()  # annotation keys done in this pass
    # Asked for only while the set moves or has left something: that nothing is there is no illusion
    # of a cache that shows the past (`kube/freshness.py`).
    is_view_proven: bool = True
    # What `once` has worked out from the rest; a changed snapshot begins anew.
    worked_out: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def meta(self) -> ObjectMeta:
        """The object's metadata."""
        return self.runner_set.metadata

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return self.meta.namespace or ""

    @property
    def name(self) -> str:
        """The object's name, also of its EphemeralRunnerSet."""
        return self.meta.name or ""

    @property
    def key(self) -> str:
        """The work-queue key."""
        return f"{self.namespace}/{self.name}"

    @property
    def about(self) -> str:
        """As troubles name it."""
        return f"AutoscalingRunnerSet {self.key}"

    @property
    def reference(self) -> ObjectReference:
        """For Events and owner references."""
        kind = AUTOSCALING_RUNNER_SETS
        return ObjectReference(
            kind.api_version, kind.kind, self.namespace, self.name, self.meta.uid or ""
        )

    def annotation(self, key: str) -> str:
        """What is about to be an annotation of the object, or is one; "" where there is neither."""
        stored = (self.meta.annotations or {}).get(key, "")
        return self.known.unrecorded.get(key, "") or stored  # the old id of one that is gone

    @property
    def scale_set_id(self) -> int:
        """GitHub's id as recorded, whatever place it was issued for; 0: none that makes sense."""
        return recorded_id(self.annotation(keys.SCALE_SET_ID))

    @property
    def issued_for(self) -> str:
        """The config URL at which the recorded id is good."""
        recorded = self.annotation(keys.ISSUED_FOR)
        if recorded:
            return recorded
        # Written by ARC, which records no URL: the EphemeralRunnerSet still has the one in use.
        found = self.current_set
        in_use = found.spec.ephemeral_runner_spec.github_config_url if found else ""
        return in_use or self.runner_set.spec.github_config_url

    @property
    def is_moving(self) -> bool:
        """The wish names another place than the recorded id belongs to."""
        url = self.runner_set.spec.github_config_url
        return self.scale_set_id > 0 and not same_address(self.issued_for, url)

    @property
    def is_leaving(self) -> bool:
        """The new place answers, so the old one is being left."""
        return self.is_moving and recorded_s(self.annotation(keys.MOVING_SINCE)) is not None

    @property
    def registered_id(self) -> int:
        """The id, if it is good at the wished place as far as we know; else 0."""
        gone = self.github.by_id is Look.ABSENT
        return 0 if self.is_moving or gone else self.scale_set_id

    def is_neighbours(self, url: str, scale_set_id: int) -> bool:
        """Another object of the cluster has this scale set: it is not ours to delete."""
        return _names(self.neighbours, url, scale_set_id)

    def is_busy(self, url: str, scale_set_id: int) -> bool:
        """A runner of this scale set has a job."""
        return _names(self.runners.busy_places, url, scale_set_id)

    @property
    def credentials_work(self) -> bool:
        """A call with exactly the wished credentials, proxies and CA has succeeded lately."""
        return self.wish.place is not None and self.known.place == self.wish.place

    @property
    def may_ask_github(self) -> bool:
        """Nothing went wrong in this pass, and the pause after the last failure is over."""
        same_object = self.known.failed_generation == (self.meta.generation or 0)
        paused = same_object and self.now_s < self.known.retry_s
        return self.github.trouble is None and not paused

    @property
    def current_set(self) -> EphemeralRunnerSet | None:
        """The one EphemeralRunnerSet: of the object's own name."""
        return next((item for item in self.sets if item.metadata.name == self.name), None)

    @property
    def live_set(self) -> EphemeralRunnerSet | None:
        """The same, unless it is going."""
        found = self.current_set
        return None if found is None or is_deleting(found) else found


def recorded_id(text: str) -> int:
    """A scale set's id as an annotation has it; 0 where a hand has made nonsense of it."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= ID_DIGITS_MAX else 0
    return number if number < 2**63 else 0


def recorded_s(text: str) -> float | None:
    """A time as an annotation has it; None where there is none, or none that can be read."""
    try:
        return parse_time(text) if text else None
    except (ValueError, OverflowError):
        return None


def _names(places: frozenset[tuple[str, int]], url: str, scale_set_id: int) -> bool:
    return any(number == scale_set_id and same_address(found, url) for found, number in places)


# --- what a plan may ask for -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatchSelf:
    """Change finalizers, annotations, labels or the empty name; carries the version read.

    `told`: what is to be said once, because this write forgets it.
    """

    body: Mapping[str, Any]
    told: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status; nobody else writes it."""

    body: Mapping[str, Any]
    told: str


@dataclass(frozen=True, slots=True)
class FindGroup:
    """Look up a runner group by name. `is_before`: not the wished one, and it need not be there."""

    place: GitHubPlace
    name: str
    is_before: bool = False


@dataclass(frozen=True, slots=True)
class FindScaleSet:
    """Look up a scale set by name. `only_id`: another one of that name is none."""

    place: GitHubPlace
    name: str
    group_id: int
    only_id: int = 0


@dataclass(frozen=True, slots=True)
class GetScaleSet:
    """Look up a scale set by id."""

    place: GitHubPlace
    id: int


@dataclass(frozen=True, slots=True)
class CreateScaleSet:
    """Register; a lost answer is resolved by lookup in `scaleset/`."""

    place: GitHubPlace
    name: str
    group_id: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateScaleSet:
    """Change exactly what is given."""

    place: GitHubPlace
    id: int
    name: str | None = None
    group_id: int | None = None
    labels: tuple[str, ...] | None = None
    disable_update: bool | None = None


@dataclass(frozen=True, slots=True)
class DeleteScaleSet:
    """Only because its object is deleted, or has moved away (docs/adr)."""

    place: GitHubPlace
    id: int
    left_behind: bool = False


@dataclass(frozen=True, slots=True)
class CountLeftJobs:
    """Ask how many jobs a scale set has that was left behind."""

    place: GitHubPlace
    id: int


@dataclass(frozen=True, slots=True)
class CreateSet:
    """Create the EphemeralRunnerSet."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PatchSet:
    """Change the EphemeralRunnerSet; never its replicas and patch id, which are the listener's."""

    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteSet:
    """Delete an EphemeralRunnerSet; it drains by itself."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreateListener:
    """Create the AutoscalingListener."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PatchListener:
    """Change the AutoscalingListener in place."""

    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteListener:
    """Delete an AutoscalingListener; it gives its session back."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Unprotect:
    """Take the chart's finalizer from the object that an annotation names."""

    key: str
    resource: Resource[Any]
    name: str


Action = (
    PatchSelf
    | WriteStatus
    | FindGroup
    | FindScaleSet
    | GetScaleSet
    | CreateScaleSet
    | UpdateScaleSet
    | DeleteScaleSet
    | CountLeftJobs
    | CreateSet
    | PatchSet
    | DeleteSet
    | CreateListener
    | PatchListener
    | DeleteListener
    | Unprotect
)
Call = FindGroup | FindScaleSet | GetScaleSet | CreateScaleSet | UpdateScaleSet
Answer = (
    AutoscalingRunnerSet
    | EphemeralRunnerSet
    | AutoscalingListener
    | RunnerGroup
    | RunnerScaleSet
    | Look
    | Trouble
    | None
)


T = TypeVar("T")


def once(rule: Callable[[Snapshot], T]) -> Callable[[Snapshot], T]:
    """For a rule that several stages of one plan ask: it is worked out once for each snapshot."""

    @wraps(rule)
    def asked(seen: Snapshot) -> T:
        if rule not in seen.worked_out:
            seen.worked_out[rule] = rule(seen)
        known: T = seen.worked_out[rule]
        return known

    return asked
