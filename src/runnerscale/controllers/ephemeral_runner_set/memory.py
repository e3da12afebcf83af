"""What this process remembers of its sets between passes; bounded, and only hints.

Kept apart from the reconciler because three parts write it: the pass, the handlers that see
runners come and go between two passes, and the answers that GitHub gives in its own time.
"""

from collections import deque
from dataclasses import dataclass, field, fields

from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner_set.doubted import Doubt
from runnerscale.controllers.ephemeral_runner_set.failure_policy import STORM_WITHIN_S
from runnerscale.controllers.ephemeral_runner_set.finished import Held, Words
from runnerscale.controllers.ephemeral_runner_set.scale_down import JOB_WORD_HOLDS_S
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Proxy,
    Removal,
    Template,
    Written,
)
from runnerscale.core.clock import shifted

LET_GO_MAX = 10_000  # the same of those that end
UNDECIDED_KEPT_S = 60.0  # by then the cache shows what was created, or nothing was
DISTURBED_MAX = 500
WORDS_HOLD_S = {Removal.HAS_JOB: JOB_WORD_HOLDS_S, Removal.NO_ANSWER: 120.0}


@dataclass(frozen=True, slots=True)
class Word:
    """GitHub's word on a runner, and when it came."""

    removal: Removal
    at_s: float
    trouble: Trouble | None = None


@dataclass(slots=True)
class Remembered:
    """Of one set, of this uid."""

    uid: str
    words: Words | None = None
    held: Held = field(default_factory=Held)
    removals: dict[str, Word] = field(default_factory=dict)  # by the runner's uid
    let_go: dict[str, None] = field(default_factory=dict)  # uids of runners we deleted ourselves
    ending: dict[str, None] = field(default_factory=dict)  # uids their own controller deletes
    fingerprint: str = ""
    template: Template = field(default_factory=Template)
    proxy: Proxy = field(default_factory=Proxy)
    unwritable: dict[str, Trouble] = field(default_factory=dict)  # by the runner's uid
    undecided: dict[str, float] = field(default_factory=dict)  # names, and since when
    disturbed_s: deque[float] = field(default_factory=lambda: deque(maxlen=DISTURBED_MAX))
    confirmed: bool = False  # once our view of it was found to be of the present
    status_due_s: float = 0.0
    written: Written | None = None
    doubt: Doubt = field(default_factory=Doubt)
    idle_long: int = 0  # as counted last, and when
    idle_counted_s: float = float("-inf")

    def use_fingerprint(self, fingerprint: str) -> None:
        """Another runner spec: what was learned of the old one says nothing."""
        if fingerprint != self.fingerprint:
            self.fingerprint = fingerprint
            self.template = Template()
            self.proxy = Proxy(secret=self.proxy.secret)

    def drop_old_words(self, *, now_s: float) -> None:
        """GitHub's word holds for a while; then it would have to be asked again anyway."""
        if not self.removals:
            return
        self.removals = {
            uid: word
            for uid, word in self.removals.items()
            if now_s - word.at_s < WORDS_HOLD_S.get(word.removal, float("inf"))
        }

    def lately_disturbed(self, *, now_s: float) -> tuple[float, ...]:
        """When runners were lost from outside within the time that matters."""
        while self.disturbed_s and now_s - self.disturbed_s[0] >= STORM_WITHIN_S:
            self.disturbed_s.popleft()
        return tuple(self.disturbed_s)

    @property
    def forgotten(self) -> frozenset[str]:
        """The uids of runners that GitHub forgot at our word."""
        words = self.removals.items()
        return frozenset(uid for uid, word in words if word.removal is Removal.FORGOTTEN)

    def note_let_go(self, uid: str) -> None:
        """We delete this runner ourselves: its end is no news."""
        _note(self.let_go, uid)

    def note_ending(self, uid: str) -> None:
        """Its own controller deletes this runner: nobody else does."""
        _note(self.ending, uid)

    def forget_runner(self, uid: str) -> None:
        """The runner is gone."""
        self.unwritable.pop(uid, None)
        self.removals.pop(uid, None)
        self.let_go.pop(uid, None)
        self.ending.pop(uid, None)


def _note(uids: dict[str, None], uid: str) -> None:
    uids[uid] = None
    if len(uids) > LET_GO_MAX:
        del uids[next(iter(uids))]


class Memory:
    """By the set's key."""

    def __init__(self) -> None:
        """Nothing is remembered."""
        self._sets: dict[str, Remembered] = {}

    def of(self, key: str, uid: str) -> Remembered:
        """Of this very set; a namesake that was made later begins anew."""
        found = self._sets.get(key)
        if found is None or found.uid != uid:
            found = self._sets[key] = Remembered(uid)
        return found

    def known(self, key: str) -> Remembered | None:
        """If anything is remembered."""
        return self._sets.get(key)

    def clock_jumped(self, by_s: float) -> None:
        """The wall clock was set: what was so long ago still is."""
        for remembered in self._sets.values():
            for each in fields(remembered):  # in place: answers on their way know the object
                setattr(remembered, each.name, shifted(getattr(remembered, each.name), by_s))

    def forget(self, key: str) -> None:
        """The set is gone."""
        self._sets.pop(key, None)
