"""Whether a cache shows what the API server has: finds what a watch left out.

A stream that ends is noticed, a line that is missing in one that goes on is not: nothing follows
for an object that never changes again, and a runner that went unseen would keep its place for
ever. So each cache is compared now and then with a list of names, uids and versions alone; what
differs and is not just on its way makes the cache list anew. Kubernetes compares the caches
of its own API servers in the same way.

Pure, but for the waiting. Who asks, and what a new list means, is `informer.py`.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.client import Listed
from runnerscale.kube.objects import KubeObject, key_of
from runnerscale.kube.resource import METADATA_ONLY, Resource
from runnerscale.kube.store import Store
from runnerscale.kube.versions import is_newer

T = TypeVar("T", bound=KubeObject)

# As often as a level pass: what events missed is found within its period, and one wait.
EVERY_S = 60.0
# What is on its way is there within milliseconds, or within seconds from a busy server.
ON_ITS_WAY_S = 5.0
# What a list shows that is later than the cache: looked for again after these waits.
COMING_S = (0.05, 0.1, 0.2, 0.4)
# A big cache is looked at more seldom, so that a minute never costs more than so many objects.
OBJECTS_A_MINUTE = 1000


@dataclass(frozen=True, slots=True)
class Odd:
    """An object that the cache shows otherwise than the list, and as what it shows it."""

    key: str
    uid: str  # "": not at all
    version: str


def metadata_of(resource: Resource[Any]) -> Resource[KubeObject]:
    """The same collection, of which only the metadata is sent."""
    return Resource(
        resource.group,
        resource.version,
        resource.plural,
        resource.kind,
        KubeObject,
        resource.namespaced,
        accept=METADATA_ONLY,
    )


def oddities(
    store: Store[T],
    poisoned: Iterable[str],
    listed: Listed[KubeObject],
    *,
    gone: Container[str] = (),
) -> tuple[Odd, ...]:
    """What differs. Whatever is newer in the cache than in the list is no difference.

    `gone`: uids that the cache has heard the end of. What a list still shows of them is older:
    nothing comes back under the same uid.
    """
    unreadable = {*poisoned, *(found.key for found in listed.poisoned)}
    there = {key_of(item): item.metadata for item in listed.items}
    odd = []
    for key, meta in there.items():
        shown = _shown(store, key)
        if key in unreadable or (not shown.uid and meta.uid in gone):
            continue
        if shown.uid != (meta.uid or "") or is_newer(meta.resource_version, shown.version):
            odd.append(shown)
    for key in store:
        shown = _shown(store, key)
        if key in there or key in unreadable or is_newer(shown.version, listed.resource_version):
            continue
        odd.append(shown)
    return tuple(odd)


def still(store: Store[T], odd: Iterable[Odd]) -> list[str]:
    """Keys of those that the cache has heard nothing of since."""
    return [each.key for each in odd if _shown(store, each.key) == each]


def _shown(store: Store[T], key: str) -> Odd:
    item = store.get(key)
    if item is None:
        return Odd(key, "", "")
    return Odd(key, item.metadata.uid or "", item.metadata.resource_version or "")


class Rhythm(Generic[T]):
    """When the next comparison is due."""

    def __init__(self, store: Store[T], *, clock: Clock, random: Random) -> None:
        self._store = store
        self._clock = clock
        self._random = random

    async def wait(self) -> None:
        """Until then; spread, because caches that began together need not ask together."""
        every_s = max(EVERY_S, EVERY_S * len(self._store) / OBJECTS_A_MINUTE)
        await self._clock.sleep(every_s * (1 - 0.25 * self._random.random()))
