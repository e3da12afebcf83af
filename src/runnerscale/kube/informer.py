"""A cache that follows the API server: list once, watch from there, never lose a change.

What follows what: a stream that ends is resumed from the last version seen; a 410 (in the
stream or as an answer) makes a new list, whose difference to the cache is told as changes, so
that deletions in the gap are heard of; every restart waits, longer each time, with jitter. An
object that does not fit its type is kept out and reported, and the stream goes on. What a
stream left out is found by `consistency.py`. Decoding is `watch.py`, the cache itself
`store.py`, waiting for our own writes `own_writes.py`.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Generic, TypeVar

import structlog

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.deadline import end_now
from runnerscale.core.randomness import Random
from runnerscale.kube import consistency
from runnerscale.kube.client import SILENCE_MARGIN_S, WATCH_TIMEOUT_S, Client, Listed
from runnerscale.kube.errors import BadAnswer, Gone, KubeError
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.objects import KubeObject, key_of
from runnerscale.kube.resource import Resource
from runnerscale.kube.store import Change, Indexer, Store
from runnerscale.kube.versions import is_newer, number_of
from runnerscale.kube.watch import (
    Added,
    Deleted,
    ErrorEvent,
    Modified,
    Poisoned,
    WatchEvent,
)

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=KubeObject)
A = TypeVar("A")

RESTART = Backoff(first_s=0.25, cap_s=20.0)
HEALTHY_AFTER_S = 10.0  # a stream that lived so long ends the row of failures
LIST_TIMEOUT_S = 120.0  # some thousand pods with big specs take tens of seconds
UNREADABLE_MAX = 3  # streams in a row that ended with something that is no event
FAILING_S = 60.0  # longer than any wait between two attempts, and than an attempt takes
GONE_MAX = 1024  # removed objects that are remembered: answers come seconds later at most
FIRST_LIST_PIECE = 250  # objects: some milliseconds
STALE_LISTS_MAX = 3  # a list older than what we know is asked for again so often, then believed


class Informer(Generic[T]):
    """Follows one resource (in one namespace or all, filtered by selectors)."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, Indexer[T]] | None = None,
        clock: Clock,
        random: Random,
        metrics: KubeMetrics | None = None,
    ) -> None:
        """Nothing happens before `run`. Handlers and indexes are set up before that."""
        self.resource = resource
        self.store: Store[T] = Store(indexers)
        self.poisoned: dict[str, Poisoned] = {}  # by key; its last good state stays in the store
        self.trouble = ""  # why the cache does not move, in the server's words; "" while it does
        self._troubled_since_s = 0.0
        self._failed_s = 0.0
        self.lists_begun = 0
        self.lists_done = 0  # the number of the last list that came through
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._clock = clock
        self._random = random
        self._metrics = None if metrics is None else metrics.for_informer(resource.plural)
        self._handlers: list[Callable[[Change[T]], None]] = []
        self._poison_handlers: list[Callable[[Poisoned], None]] = []
        self._poison_end_handlers: list[Callable[[str], None]] = []
        self._progress_handlers: list[Callable[[], None]] = []
        self._synced = asyncio.Event()
        self._version = ""  # resume from here; "": list first
        self._gone: dict[str, str] = {}  # what was removed lately, and at which version
        self._number = -1  # the highest version seen, where versions are numbers
        self._must_list = True
        self._stale_lists = 0
        self._unreadable = 0
        self._watching: asyncio.Timeout | None = None
        self._where = {"resource": resource.plural, "namespace": namespace or "*"}
        self._metadata = consistency.metadata_of(resource)
        self._rhythm = consistency.Rhythm(self.store, clock=clock, random=random)

    # --- what others ask ---------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """The first list is in the store."""
        return self._synced.is_set()

    @property
    def troubled_s(self) -> float:
        """How long it has been failing. A stream that is open again may stay silent for long:
        without a failure for a while it is taken to be well, though nothing came yet.
        """
        now_s = self._clock.monotonic_s()
        failing = self.trouble and now_s - self._failed_s < FAILING_S
        return now_s - self._troubled_since_s if failing else 0.0

    async def wait_synced(self) -> None:
        """Return when the first list is in the store."""
        await self._synced.wait()

    def on_change(self, handler: Callable[[Change[T]], None]) -> None:
        """Call for each change, after it is in the store. Must not block."""
        self._handlers.append(handler)

    def on_poison(self, handler: Callable[[Poisoned], None]) -> None:
        """Call for each object that does not fit its type. Must not block."""
        self._poison_handlers.append(handler)

    def on_poison_end(self, handler: Callable[[str], None]) -> None:
        """Call with the key of each such object that can be read again, or is gone."""
        self._poison_end_handlers.append(handler)

    def on_progress(self, handler: Callable[[], None]) -> None:
        """Call whenever the cache has moved to a later version. Must not block."""
        self._progress_handlers.append(handler)

    def is_caught_up(self, resource_version: str) -> bool:
        """Whether the cache shows everything up to this version of this resource."""
        wanted = number_of(resource_version)
        if wanted is None or self._number < 0:
            return resource_version == self._version
        return self.synced and self._number >= wanted

    def shows(self, key: str, version: str) -> bool:
        """Whether the object is there as of that version, or was and is gone since."""
        known = self.store.get(key)
        if known is not None and not is_newer(version, known.metadata.resource_version):
            return True
        gone = self._gone.get(key)
        return key in self.poisoned or (gone is not None and not is_newer(version, gone))

    def relist(self) -> None:
        """List again as soon as possible: somebody has reason to doubt the stream."""
        self._must_list = True
        if self._watching is not None:
            end_now(self._watching)

    # --- the loop -----------------------------------------------------------------------

    async def run(self) -> None:
        """Follow until cancelled."""
        comparing = asyncio.get_running_loop().create_task(self._compare_often())
        try:
            await self._keep_following()
        finally:
            comparing.cancel()
            await asyncio.wait([comparing])

    async def _keep_following(self) -> None:
        failures = 0
        while True:
            begin_s = self._clock.monotonic_s()
            try:
                if self._must_list:
                    await self._list()
                if not self._must_list:  # nobody asked for another one meanwhile
                    await self._watch()
                self.trouble = ""
            except Gone as error:
                self._must_list = True
                log.info("watch too old, listing again", error=str(error), **self._where)
            except KubeError as error:
                self._doubt(error)
                self._tell(error)
            except Exception as error:  # reason: one kind must not stop the others
                log.exception("cache stumbled, listing again", **self._where)
                self._mark_troubled(str(error))
                self._must_list = True
            if self._clock.monotonic_s() - begin_s >= HEALTHY_AFTER_S:
                failures = 0
            await self._clock.sleep(RESTART.delay_s(failures, self._random))
            failures += 1

    async def _compare_often(self) -> None:
        while True:
            await self._rhythm.wait()
            if self.synced and not self.trouble:
                try:
                    await self._compare()
                except KubeError as error:  # the watch tells what is wrong with the server
                    log.debug("cache not compared", error=str(error), **self._where)
                except Exception:  # reason: as in the loop above; the next time is soon
                    log.exception("comparison stumbled", **self._where)

    async def agrees_since(self, version: str) -> bool:
        """Whether the cache shows what a list shows that is no older than this version.

        Where objects come and go all the time, no list and no cache are of the same instant:
        what the cache heard the end of since is left out, and what it lacks has a moment to come.
        """
        gone: set[str] = set()

        def heard(change: Change[T]) -> None:
            if change.new is None and change.old is not None:
                gone.add(change.old.metadata.uid or "")

        self._handlers.append(heard)
        try:
            listed = await self._list_metadata()
            if not self.synced or is_newer(version, listed.resource_version):
                return False
            for wait_s in (*consistency.COMING_S, 0.0):
                if not consistency.oddities(self.store, self.poisoned, listed, gone=gone):
                    return True
                await self._clock.sleep(wait_s)
            return False
        finally:
            self._handlers.remove(heard)

    async def _list_metadata(self) -> Listed[KubeObject]:
        return await self._client.list(
            self._metadata,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_s=LIST_TIMEOUT_S,
        )

    async def _compare(self) -> None:
        """List anew if the stream left something out."""
        done = self.lists_done
        odd = consistency.oddities(self.store, self.poisoned, await self._list_metadata())
        if not odd:
            return
        await self._clock.sleep(consistency.ON_ITS_WAY_S)
        lost = consistency.still(self.store, odd)
        if lost and self.lists_done == done:  # a list since then had all of them
            log.warning("the watch left something out, listing again", lost=lost[:5], **self._where)
            self.relist()

    def _doubt(self, error: KubeError) -> None:
        """What cannot be read comes again at the same version: after a few times, go around it."""
        self._unreadable = self._unreadable + 1 if isinstance(error, BadAnswer) else 0
        if self._unreadable >= UNREADABLE_MAX:
            self._unreadable = 0
            self._must_list = True

    def _tell(self, error: KubeError) -> None:
        text = str(error)
        if text != self.trouble:  # a server that is down for an hour is one line, not a thousand
            log.warning("cache does not follow", error=text, **self._where)
        self._mark_troubled(text)

    def _mark_troubled(self, text: str) -> None:
        now_s = self._clock.monotonic_s()
        if not self.trouble or now_s - self._failed_s >= FAILING_S:
            self._troubled_since_s = now_s
        self._failed_s = now_s
        self.trouble = text

    async def _list(self) -> None:
        if self._metrics is not None:
            self._metrics.lists.inc()
        self.lists_begun += 1
        self._must_list = False  # before the question: a wish from now on is for another list
        try:
            listed = await self._client.list(
                self.resource,
                self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                timeout_s=LIST_TIMEOUT_S,
            )
            self._refuse_stale(listed)
        except BaseException:  # reason: raised again below
            self._must_list = True
            raise
        number = number_of(listed.resource_version)
        self._number = -1 if number is None else number
        self._version = listed.resource_version
        await self._take_list(listed)
        self.lists_done = self.lists_begun
        self.trouble = ""
        self._synced.set()
        self._tell_progress()

    def _refuse_stale(self, listed: Listed[T]) -> None:
        number = number_of(listed.resource_version)
        if number is not None and number < self._number and self._stale_lists < STALE_LISTS_MAX:
            # Another API server that lags behind. One restored from a backup stays behind for
            # good: it is believed in the end.
            self._stale_lists += 1
            raise BadAnswer(
                f"the list is at version {number}, the cache was at {self._number} already"
            )
        self._stale_lists = 0

    async def _take_list(self, listed: Listed[T]) -> None:
        """The difference to the store becomes changes; deletions first, names may be reused.

        The first list is taken in pieces: nobody acts on it before it is whole (`wait_synced`), and
        thousands of objects at once would keep the lease and all else waiting. Later ones are
        taken at once: they differ in little, and a pass must not see half of them.
        """
        now = {key_of(item): item for item in listed.items}
        poisoned = {found.key: found for found in listed.poisoned}
        for key in [*self.store]:
            if key not in now and key not in poisoned:
                self._note_gone(key, listed.resource_version)
                self._remove(key)
        for key in [key for key in self.poisoned if key not in poisoned]:
            self._heal(key)
        for number, (key, item) in enumerate(now.items(), 1):
            if number % FIRST_LIST_PIECE == 0 and not self.synced:
                await self._clock.sleep(0)
            old = self.store.get(key)
            meta = item.metadata
            if old is not None and old.metadata.uid != meta.uid:
                self._remove(key)  # another object of that name: the first one's end is heard of
                old = None
            if old is None or old.metadata.resource_version != meta.resource_version:
                self._put(key, item)
        for found in listed.poisoned:
            self._poison(found)

    async def _watch(self) -> None:
        if self._metrics is not None:
            self._metrics.watches.inc()
        # Spread: watches that began together do not all end together.
        timeout_s = WATCH_TIMEOUT_S * (1 + 0.5 * self._random.random())
        # A server ends the stream itself in time. One that does not is not there any more.
        self._watching = asyncio.timeout(timeout_s + SILENCE_MARGIN_S)
        try:
            async with self._watching:
                await self._follow(timeout_s)
        except TimeoutError:
            if not self._must_list:
                log.info("watch went silent, opening it again", **self._where)
        finally:
            self._watching = None

    async def _follow(self, timeout_s: float) -> None:
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self._version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_s=timeout_s,
        )
        async with aclosing(events):
            async for event in events:
                self._take(event)
                if self._must_list:
                    return

    # --- one event ----------------------------------------------------------------------

    def _take(self, event: WatchEvent[T]) -> None:
        if isinstance(event, Added | Modified | Deleted):
            version = event.object.metadata.resource_version or ""
        elif isinstance(event, ErrorEvent):
            raise event.error
        else:
            version = event.resource_version
        number = number_of(version)
        if number is not None and number < self._number:
            self.trouble = ""
            return  # versions only grow within a stream: sent twice, or out of order
        match event:
            case Added(object=item) | Modified(object=item):
                self._upsert(key_of(item), item)
            case Deleted(object=item):
                self._note_gone(key_of(item), version)
                self._delete(key_of(item), item.metadata.uid)
            case Poisoned():
                self._take_poisoned(event)
        self.trouble = ""
        if version:
            self._version = version
            if number is not None:
                self._number = number
            self._tell_progress()

    def _upsert(self, key: str, item: T) -> None:
        meta = item.metadata
        if not key:
            self._poison(Poisoned("", "", meta.uid or "", meta.resource_version or "", "no name"))
            return
        old = self.store.get(key)
        if old is not None and old.metadata.uid != meta.uid:
            self._remove(key)
        elif old is not None and not is_newer(meta.resource_version, old.metadata.resource_version):
            return
        self._put(key, item)

    def _note_gone(self, key: str, version: str) -> None:
        self._gone.pop(key, None)
        self._gone[key] = version
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _delete(self, key: str, uid: str | None) -> None:
        known = self.store.get(key)
        if known is not None and uid and known.metadata.uid != uid:
            return  # the end of an earlier object of that name
        self._heal(key)
        self._remove(key)

    def _take_poisoned(self, found: Poisoned) -> None:
        if found.type == "DELETED":
            self._delete(found.key, found.uid)
        else:
            self._poison(found)

    def _put(self, key: str, item: T) -> None:
        try:
            change = self.store.put(key, item)
        except Exception as error:  # noqa: BLE001 - an index over hostile content stops nobody
            meta = item.metadata
            self._poison(
                Poisoned("", key, meta.uid or "", meta.resource_version or "", f"index: {error}")
            )
            return
        self._heal(key)
        self._tell_change(change)

    def _remove(self, key: str) -> None:
        if self.store.get(key) is not None:
            self._tell_change(self.store.remove(key))

    def _poison(self, found: Poisoned) -> None:
        before = self.poisoned.get(found.key)
        known = self.store.get(found.key)
        if known is not None and found.uid and known.metadata.uid != found.uid:
            self._remove(found.key)  # it is another object; what we know of that name has ended
        if found.key:
            self.poisoned[found.key] = found
        if before is not None and before.resource_version == found.resource_version:
            return  # reported already
        if self._metrics is not None:
            self._metrics.poisoned.inc()
        log.warning(
            "object does not fit its type, kept out",
            key=found.key,
            uid=found.uid,
            version=found.resource_version,
            why=found.reason,
            **self._where,
        )
        for handler in self._poison_handlers:
            self._call(handler, found)

    def _heal(self, key: str) -> None:
        if self.poisoned.pop(key, None) is not None:
            for handler in self._poison_end_handlers:
                self._call(handler, key)

    # --- telling others -----------------------------------------------------------------

    def _tell_change(self, change: Change[T]) -> None:
        for handler in self._handlers:
            self._call(handler, change)

    def _tell_progress(self) -> None:
        for handler in self._progress_handlers:
            try:
                handler()
            except Exception:  # reason: as below
                log.exception("a progress handler failed", **self._where)

    def _call(self, handler: Callable[[A], None], argument: A) -> None:
        try:
            handler(argument)
        except Exception:  # reason: one listener's mistake must not stop the cache
            log.exception("a change handler failed", **self._where)
