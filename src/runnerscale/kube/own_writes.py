"""Read your own writes: no pass on a key before the caches show what the last one wrote.

A reconciler notes what it wrote or deleted for a key. While the informers have not caught up
with that, the controller leaves the key aside, and it is added again the moment they have:
event-driven, no polling. If they do not within BOUND_S, or have gone past it without showing it,
a relist is asked for, and with the list the question is settled either way (an object of ours
that is not in it is gone, one that we deleted and that is still there was not deleted). A list
older than the write itself cannot tell: one is asked for again, a few times, because a server
restored from a backup stays behind for good. A restart forgets all this, and may: it begins with
a fresh list, which `freshness.py` proves.

One per controller: keys are the controller's.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from runnerscale.core.clock import Clock
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import KubeObject, is_deleting
from runnerscale.kube.store import Change
from runnerscale.kube.versions import number_of

log = structlog.get_logger(__name__)

EARLY_S = 0.001  # alarms ring by rounded clocks
OLD_LISTS_MAX = 3  # as often as an informer doubts a list, so often do we
BOUND_S = 10.0  # a watch delivers within milliseconds; a busy API server within a second or two


@dataclass(eq=False, slots=True)
class _Pending:
    key: str
    object_key: str
    version: str  # "" for a deletion
    uid: str  # "" for a write
    until_gone: bool  # going is not enough
    since_s: float
    lists_begun: int  # lists begun before this cannot tell
    settled: bool = False
    old_lists: int = 0  # that began after it, and were older than it all the same


@dataclass(slots=True)
class _Parked:
    """A key that waits, and the alarm for the case that nothing is heard."""

    call: Callable[[], None]
    alarm: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Followed:
    """What is pending with one informer."""

    informer: Informer[Any]
    by_number: list[tuple[int, int, _Pending]] = field(default_factory=list)
    others: dict[str, list[_Pending]] = field(default_factory=dict)  # by object key
    lists_done: int = 0


class OwnWrites:
    """The pending writes of one controller's keys."""

    def __init__(self, *, clock: Clock, bound_s: float = BOUND_S) -> None:
        """`bound_s`: how long to trust the watch before a relist is asked for."""
        self._clock = clock
        self._bound_s = bound_s
        self._followed: dict[int, _Followed] = {}
        self._pending: dict[str, list[tuple[_Followed, _Pending]]] = {}
        self._parked: dict[str, _Parked] = {}
        self._tickets = 0

    def __len__(self) -> int:
        """How many keys have something pending."""
        return len(self._pending)

    # --- what reconcilers say ---------------------------------------------------------------

    def answered(
        self, key: str, informer: Informer[Any], object_key: str, item: KubeObject
    ) -> None:
        """A create or patch for `key` was answered with this object.

        The patch that takes the last finalizer from an object that is going removes it: the
        answer then bears the version of before, which the cache has long shown.
        """
        if is_deleting(item) and not item.metadata.finalizers:
            self.deleted(key, informer, object_key, item.metadata.uid, until_gone=True)
        else:
            self.wrote(key, informer, object_key, item.metadata.resource_version)

    def wrote(
        self, key: str, informer: Informer[Any], object_key: str, resource_version: str | None
    ) -> None:
        """A create or patch for `key` was answered with this version of the object."""
        if not resource_version:
            return
        caught_up = informer.is_caught_up(resource_version)
        if caught_up and informer.shows(object_key, resource_version):
            return
        followed = self._follow(informer)
        pending = self._note(key, followed, object_key, version=resource_version, uid="")
        number = number_of(resource_version)
        if caught_up:
            self._lost(followed, pending)
        elif number is None:
            followed.others.setdefault(object_key, []).append(pending)
        else:
            self._tickets += 1
            heapq.heappush(followed.by_number, (number, self._tickets, pending))

    def deleted(
        self,
        key: str,
        informer: Informer[Any],
        object_key: str,
        uid: str | None,
        *,
        until_gone: bool = False,
    ) -> None:
        """A delete for `key` was answered; settled when the cache shows it going or gone."""
        if not uid or not _still_there(informer, object_key, uid, until_gone=until_gone):
            return
        followed = self._follow(informer)
        pending = self._note(key, followed, object_key, version="", uid=uid, until_gone=until_gone)
        followed.others.setdefault(object_key, []).append(pending)

    # --- what the controller asks -----------------------------------------------------------

    def is_settled(self, key: str) -> bool:
        """Whether a pass on this key may start."""
        return key not in self._pending

    def when_settled(self, key: str, call: Callable[[], None]) -> None:
        """Call once nothing is pending for `key` any more; a later call replaces an earlier."""
        if key not in self._pending:
            call()
            return
        parked = self._parked.get(key)
        if parked is None:
            self._parked[key] = _Parked(call)
            self._set_alarm(key)
        else:
            parked.call = call

    # --- inside -----------------------------------------------------------------------------

    def _follow(self, informer: Informer[Any]) -> _Followed:
        followed = self._followed.get(id(informer))
        if followed is None:
            followed = _Followed(informer, lists_done=informer.lists_done)
            self._followed[id(informer)] = followed
            kept = followed  # the closures below outlive this call
            informer.on_progress(lambda: self._progressed(kept))
            informer.on_change(lambda change: self._changed(kept, change))
        return followed

    def _note(
        self,
        key: str,
        followed: _Followed,
        object_key: str,
        *,
        version: str,
        uid: str,
        until_gone: bool = False,
    ) -> _Pending:
        now_s = self._clock.monotonic_s()
        lists_begun = followed.informer.lists_begun
        pending = _Pending(key, object_key, version, uid, until_gone, now_s, lists_begun)
        self._pending.setdefault(key, []).append((followed, pending))
        return pending

    def _progressed(self, followed: _Followed) -> None:
        informer = followed.informer
        heap = followed.by_number
        while heap and informer.is_caught_up(str(heap[0][0])):
            pending = heapq.heappop(heap)[2]
            if informer.shows(pending.object_key, pending.version):
                self._settle(pending)
            else:
                self._lost(followed, pending)
        if informer.lists_done != followed.lists_done:
            followed.lists_done = informer.lists_done
            self._listed(followed)

    def _lost(self, followed: _Followed, pending: _Pending) -> None:
        """The stream went past our write and left it out: only a list can tell."""
        log.warning(
            "the watch left our own write out, listing again",
            key=pending.key,
            object=pending.object_key,
            resource=followed.informer.resource.plural,
        )
        followed.others.setdefault(pending.object_key, []).append(pending)
        followed.informer.relist()

    def _set_alarm(self, key: str) -> None:
        oldest_s = min(item.since_s for _, item in self._pending[key])
        wait_s = max(0.0, oldest_s + self._bound_s - self._clock.monotonic_s())
        loop = asyncio.get_running_loop()
        self._parked[key].alarm = loop.call_later(wait_s, self._overdue, key)

    def _overdue(self, key: str) -> None:
        now_s = self._clock.monotonic_s()
        for followed, item in self._pending[key]:
            if now_s - item.since_s >= self._bound_s - EARLY_S:
                log.warning(
                    "our own write does not show, listing again",
                    key=key,
                    object=item.object_key,
                    resource=followed.informer.resource.plural,
                    waited_s=round(now_s - item.since_s, 3),
                )
                item.since_s = now_s
                followed.informer.relist()
        self._set_alarm(key)

    def _listed(self, followed: _Followed) -> None:
        """A whole list that began after the write has the last word, if it is not older."""
        informer = followed.informer
        for pending in [item for _, _, item in followed.by_number]:
            if pending.lists_begun < informer.lists_done:
                pending.old_lists += 1  # else it would be settled by its number already
                if pending.old_lists >= OLD_LISTS_MAX:
                    self._settle(pending)
        followed.by_number = [entry for entry in followed.by_number if not entry[2].settled]
        heapq.heapify(followed.by_number)
        for waiting in [*followed.others.values()]:
            for pending in [*waiting]:
                if pending.lists_begun < informer.lists_done:
                    self._settle_other(followed, pending)

    def _changed(self, followed: _Followed, change: Change[Any]) -> None:
        for pending in [*followed.others.get(change.key, ())]:
            if pending.uid:
                settled = not _still_there(
                    followed.informer, change.key, pending.uid, until_gone=pending.until_gone
                )
            else:
                new = change.new
                settled = new is None or new.metadata.resource_version == pending.version
            if settled:
                self._settle_other(followed, pending)

    def _settle_other(self, followed: _Followed, pending: _Pending) -> None:
        waiting = followed.others[pending.object_key]
        waiting.remove(pending)
        if not waiting:
            del followed.others[pending.object_key]
        self._settle(pending)

    def _settle(self, pending: _Pending) -> None:
        pending.settled = True
        left = [entry for entry in self._pending.get(pending.key, []) if not entry[1].settled]
        if left:
            self._pending[pending.key] = left
            return
        self._pending.pop(pending.key, None)
        parked = self._parked.pop(pending.key, None)
        if parked is not None:
            if parked.alarm is not None:
                parked.alarm.cancel()
            parked.call()


def _still_there(informer: Informer[Any], object_key: str, uid: str, *, until_gone: bool) -> bool:
    known = informer.store.get(object_key)
    if known is None or known.metadata.uid != uid:
        return False
    return until_gone or not is_deleting(known)
