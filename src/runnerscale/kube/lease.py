"""One leader among several processes, by a Lease that only one can hold.

Safe because of two clocks that are never compared. Others take the lease over when it has not
changed for `duration_s` on *their* clock, counted from when they saw it. The holder counts from
the moment it *sent* its last renewal that went through, which is earlier: when
`renew_deadline_s` (shorter) has passed, it stops its work, and has the rest of `duration_s` to
wait for the end of it. Work that does not end in that time would make two leaders: then
`abandon` is called, which must end the process.

A lease that somebody deleted is not made anew by a standby before its holder, whoever that was,
must have noticed: it works on until its next renewal fails.

Writes are PUTs with a resourceVersion (the rights of the charts have no `patch` on leases).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import structlog

from runnerscale.core.clock import Clock, format_micro_time
from runnerscale.core.randomness import Random
from runnerscale.kube.builtin import LEASES, Lease
from runnerscale.kube.client import KubeClient
from runnerscale.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from runnerscale.kube.metrics import KubeMetrics

log = structlog.get_logger(__name__)

DURATION_S = 15.0
RENEW_DEADLINE_S = 10.0
RETRY_S = 2.0
JITTER = 0.2  # of RETRY_S: standbys that wake together must not stay together
MARGIN_S = 0.5  # clocks of two machines do not run equally fast, and waking up takes time
RELEASE_TIMEOUT_S = 3.0
TRANSITIONS_MAX = 2**31 - 1
EARLY_S = 0.001  # less than this is nothing: it would only be a rounding of the clock


class LeaderLease:
    """Competes for one Lease and runs the work while holding it."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        random: Random,
        abandon: Callable[[], None],
        metrics: KubeMetrics | None = None,
        duration_s: float = DURATION_S,
        renew_deadline_s: float = RENEW_DEADLINE_S,
        retry_s: float = RETRY_S,
    ) -> None:
        """`identity` must be new for each start of a process. `abandon` ends the process."""
        if not retry_s * (1 + JITTER) < renew_deadline_s < duration_s - MARGIN_S:
            raise ValueError("a lease needs retry < renew deadline < duration")
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._random = random
        self._abandon = abandon
        self._duration_s = duration_s
        self._renew_deadline_s = renew_deadline_s
        self._retry_s = retry_s
        self._gauge = None if metrics is None else metrics.leader.labels(name)
        self._document: dict[str, Any] | None = None  # the lease as last read, whole
        self._seen_version = ""
        self._seen_s = 0.0  # when that version was first seen, monotonic
        self._holder_seen = ""  # of that version
        self._gone_s: float | None = None  # when we first found it deleted, monotonic
        self._renewed_s = 0.0  # when the last renewal that went through was sent, monotonic
        self._leading = False

    @property
    def is_leader(self) -> bool:
        """The work may run now."""
        return self._leading

    def may_work(self) -> bool:
        """Whether what is done now is ours to do; False: we lead, and the lease has run out."""
        return not self._leading or self._left_s() > 0

    @property
    def holder(self) -> str:
        """Who holds it as far as we know; "" for nobody."""
        return _holder(self._document)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Compete, run `work` while holding the lease, compete again when it was lost.

        Returns when `work` returned by itself. Cancelled: the work is cancelled, waited for,
        and then the lease is given back, so that the next one need not wait.
        """
        while True:
            await self._acquire()
            if await self._hold(work):
                return
            log.warning("lease lost, competing again", lease=self._name)

    async def _acquire(self) -> None:
        log.info("waiting for the lease", lease=self._name, identity=self._identity)
        told = ""
        while True:
            try:
                async with asyncio.timeout(self._renew_deadline_s):
                    if await self._take():
                        break
                told = ""
            except (KubeError, TimeoutError) as error:
                if str(error) != told:
                    log.warning("lease cannot be reached", lease=self._name, error=str(error))
                told = str(error)
            await self._clock.sleep(self._retry_s * (1 + JITTER * self._random.random()))
        log.info("leading", lease=self._name, identity=self._identity)

    async def _hold(self, work: Callable[[], Awaitable[None]]) -> bool:
        """True: the work ended by itself. False: the lease was lost and the work has ended."""
        self._set_leading(True)
        task = asyncio.create_task(_as_coroutine(work))
        try:
            await self._renew_while(task)
            ended = task.done()
        finally:
            try:
                await self._end(task)  # on cancellation too: nobody may follow before that
            finally:
                self._set_leading(False)
            await self._release()
        if ended:
            task.result()  # what it raised is the caller's
        return ended

    async def _renew_while(self, task: "asyncio.Task[None]") -> None:
        """Return when the task has ended, or the lease is lost."""
        while True:
            await asyncio.wait([task], timeout=min(self._retry_s, self._left_s()))
            if task.done():
                return
            left_s = self._left_s()
            if left_s <= 0:
                log.error("lease not renewed in time, stopping the work", lease=self._name)
                return
            try:
                # Not all that is left: a call that hangs must leave time for another.
                async with asyncio.timeout(min(left_s, self._renew_deadline_s / 3)):
                    if not await self._renew():
                        log.error("lease lost to another", lease=self._name, by=self.holder)
                        return
            except (KubeError, TimeoutError) as error:
                log.warning("lease not renewed yet", lease=self._name, error=str(error))

    def _left_s(self) -> float:
        left_s = self._renewed_s + self._renew_deadline_s - self._clock.monotonic_s()
        return left_s if left_s > EARLY_S else 0.0

    async def _end(self, task: "asyncio.Task[None]") -> None:
        """Cancel the work and wait for it, but not longer than the lease is ours for sure."""
        if task.done():
            return
        task.cancel()
        until_s = self._renewed_s + self._duration_s - MARGIN_S
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= EARLY_S:
                log.critical("work did not end before the lease did", lease=self._name)
                self._abandon()
                raise RuntimeError("the process had to end, and did not")
            try:
                await asyncio.wait([task], timeout=left_s)
            except asyncio.CancelledError as error:
                cancelled = error  # heard; but the work's end comes first
        if cancelled is not None:
            raise cancelled

    # --- the lease itself ---------------------------------------------------------------------

    async def _take(self) -> bool:
        """Get the lease if it is free; False: another one holds it."""
        if not await self._read():
            return not self._may_still_work() and await self._create()
        return self._is_free() and await self._write()

    def _may_still_work(self) -> bool:
        """Whoever held the lease that is gone has perhaps not heard of it.

        That is not always the holder whom we saw: another may have taken it just before.
        """
        now_s = self._clock.monotonic_s()
        if self._gone_s is None:
            self._gone_s = now_s
        if not self._seen_version:
            return False  # for all that we know there never was one
        if self._holder_seen == self._identity and now_s - self._renewed_s < self._duration_s:
            return False  # it was ours until now
        return now_s - self._gone_s < self._duration_s

    async def _renew(self) -> bool:
        """Keep the lease; False: it is another one's, or gone."""
        if await self._write():
            return True
        # Somebody wrote in between: another holder, or our own renewal whose answer was lost.
        return await self._read() and self.holder == self._identity and await self._write()

    async def _read(self) -> bool:
        try:
            document = await self._client.get_raw(LEASES.path(self._namespace, self._name))
        except NotFound:
            self._document = None
            return False
        self._document = document
        self._gone_s = None
        version = _version(document)
        if version != self._seen_version:
            self._seen_version = version
            self._seen_s = self._clock.monotonic_s()
            self._holder_seen = self.holder
        return True

    async def _create(self) -> bool:
        document = self._claim({"metadata": {"name": self._name, "namespace": self._namespace}})
        sent_s = self._clock.monotonic_s()
        try:
            written = await self._client.create(LEASES, self._namespace, document)
        except AlreadyExists:
            return False
        self._wrote(document, written, sent_s)
        return True

    async def _write(self) -> bool:
        """One guarded write on what was read last."""
        if self._document is None:
            return False
        document = self._claim(self._document)
        sent_s = self._clock.monotonic_s()
        try:
            written = await self._client.replace(LEASES, self._namespace, self._name, document)
        except (Conflict, NotFound):
            return False
        self._wrote(document, written, sent_s)
        return True

    def _wrote(self, document: dict[str, Any], written: Lease, sent_s: float) -> None:
        version = written.metadata.resource_version or ""
        metadata = {**document["metadata"], "resourceVersion": version}
        self._document = {**document, "metadata": metadata}
        self._gone_s = None
        self._renewed_s = sent_s
        self._seen_version = version
        self._seen_s = self._clock.monotonic_s()
        self._holder_seen = self._identity

    def _is_free(self) -> bool:
        if self.holder in ("", self._identity):  # ours: of a life whose work has ended
            return True
        spec = (self._document or {}).get("spec") or {}
        theirs_s = float(spec.get("leaseDurationSeconds") or 0)
        patience_s = max(theirs_s, self._duration_s)
        return self._clock.monotonic_s() - self._seen_s >= patience_s

    def _claim(self, document: dict[str, Any]) -> dict[str, Any]:
        spec = dict(document.get("spec") or {})
        now = format_micro_time(self._clock.now_s())
        if spec.get("holderIdentity") != self._identity:
            changes = 1 if spec.get("holderIdentity") is not None else 0
            # More than fits its field would be refused, and nobody could lead any more.
            spec["leaseTransitions"] = min(
                max(0, spec.get("leaseTransitions") or 0) + changes, TRANSITIONS_MAX
            )
            spec["acquireTime"] = now
        spec["holderIdentity"] = self._identity
        spec["leaseDurationSeconds"] = int(self._duration_s)
        spec["renewTime"] = now
        return {**document, "spec": spec}

    async def _release(self) -> None:
        """Give it back at once: best effort, and guarded, so never somebody else's."""
        document = self._document
        if document is None or self.holder != self._identity:
            return
        spec = {**document["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        self._document = None
        with suppress(KubeError):
            await self._client.replace(
                LEASES,
                self._namespace,
                self._name,
                {**document, "spec": spec},
                timeout_s=RELEASE_TIMEOUT_S,
            )
            log.info("lease given back", lease=self._name)

    def _set_leading(self, leading: bool) -> None:
        self._leading = leading
        if self._gauge is not None:
            self._gauge.set(1 if leading else 0)


async def _as_coroutine(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _holder(document: dict[str, Any] | None) -> str:
    spec = (document or {}).get("spec") or {}
    holder = spec.get("holderIdentity")
    return holder if isinstance(holder, str) else ""


def _version(document: dict[str, Any]) -> str:
    version = (document.get("metadata") or {}).get("resourceVersion")
    return version if isinstance(version, str) else ""
