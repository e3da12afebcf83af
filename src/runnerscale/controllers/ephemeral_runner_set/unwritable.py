"""Runners that nobody can write on: their set says it in their place.

What is wrong with a runner stands on the runner. Where a webhook or a policy refuses whatever is
written there, or cannot be asked, its jobs wait and no object says why; the set can be written, and
is what people look at next. Heard of from `controllers/condition_writer.py`, whose word comes after
all others, when something lasts; over with the first write that is seen, with what was wrong, or
with the runner.

One sentence for all runners of a set, about the one that was refused first, in the words of then:
hundreds of them, or words with a number in them, make no stream of Events. In memory, and only a
hint: after a restart it is heard of again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner_set.memory import Memory, Remembered
from runnerscale.controllers.troubles import kube_trouble
from runnerscale.core.plain_text import one_line
from runnerscale.kube.errors import KubeError
from runnerscale.kube.objects import ObjectReference, controller_of
from runnerscale.kube.store import Change

KEPT_MAX = 1000  # of one set; more are refused for the same reason, and heard of again
SAID_CHARS_MAX = 300
KIND = EPHEMERAL_RUNNER_SETS.kind


class Runners(Protocol):
    """What we need of the runners' cache."""

    def get(self, key: str) -> EphemeralRunner | None:
        """By namespace/name."""
        ...


class Unwritable:
    """The `Speaker` of all runners; what it hears is remembered of their sets."""

    def __init__(self, runners: Runners, memory: Memory, *, wake: Callable[[str], None]) -> None:
        """`wake` is called with the key of a set that has something else to say now."""
        self._runners = runners
        self._memory = memory
        self._wake = wake

    def refused(self, about: ObjectReference, error: KubeError) -> None:
        """See `Speaker`."""
        found = self._set_of(about)
        if found is None:
            return
        key, uid, remembered = found
        if uid in remembered.unwritable or len(remembered.unwritable) >= KEPT_MAX:
            return
        doing = f"write the status of the runner {about.name}"
        why = kube_trouble(error, about=f"{KIND} {key}", doing=doing)
        remembered.unwritable[uid] = replace(why, happened=one_line(why.happened, SAID_CHARS_MAX))
        if len(remembered.unwritable) <= 2:  # later ones change no word
            self._wake(key)

    def accepted(self, about: ObjectReference) -> None:
        """See `Speaker`."""
        found = self._set_of(about)
        if found is not None:
            key, uid, remembered = found
            self._over(key, uid, remembered)

    def changed(self, key: str, change: Change[EphemeralRunner], remembered: Remembered) -> None:
        """A runner of the set of this key: if its status was written, it can be.

        Or another of its name is there now, and the old one is gone.
        """
        old, new = change.old, change.new
        if not remembered.unwritable or old is None or new is None:
            return
        if old.status != new.status:
            self._over(key, old.metadata.uid or "", remembered)

    def _over(self, key: str, uid: str, remembered: Remembered) -> None:
        if remembered.unwritable.pop(uid, None) is not None:
            self._wake(key)

    def _set_of(self, about: ObjectReference) -> tuple[str, str, Remembered] | None:
        """The key of its set, its own uid, and what is remembered of the set."""
        runner = self._runners.get(about.key)
        owner = controller_of(runner) if runner is not None else None
        if runner is None or owner is None or owner.kind != KIND:
            return None
        uid = runner.metadata.uid or ""
        if about.uid and uid != about.uid:
            return None  # a namesake
        key = f"{about.namespace}/{owner.name}"
        return key, uid, self._memory.of(key, owner.uid)


def said(unwritable: Mapping[str, Trouble]) -> Trouble | None:
    """What the set says of its runners, by their uid; None: they speak for themselves."""
    first = next(iter(unwritable.values()), None)
    if first is None or len(unwritable) == 1:
        return first
    return replace(first, happened=f"{first.happened} (the same with other runners)")
