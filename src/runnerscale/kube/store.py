"""The cache of one resource, with indexes. Only the informer writes it.

Readers get the cached objects themselves, not copies: they are not to be changed. A relist
changes the store object by object, so a reader between two awaits always sees whole objects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from runnerscale.kube.objects import KubeObject

T = TypeVar("T", bound=KubeObject)

Indexer = Callable[[T], Iterable[str]]
Items = list  # inside the class, `list` is the method


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One object before and after: `old` None is new, `new` None is gone."""

    key: str
    old: T | None
    new: T | None


class Store(Generic[T]):
    """Objects by key, and by the values of named indexes."""

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        """`indexers`: from an object to the values it is found under, per index name."""
        self._indexers = dict(indexers or {})
        self._objects: dict[str, T] = {}
        # dicts as ordered sets: what a reader gets has the order of arrival, always the same
        self._indexes: dict[str, dict[str, dict[str, None]]] = {n: {} for n in self._indexers}
        self._values: dict[str, dict[str, tuple[str, ...]]] = {n: {} for n in self._indexers}

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self._objects)

    def __iter__(self) -> Iterator[str]:
        """The keys. Copy it before anything may change the store."""
        return iter(self._objects)

    def get(self, key: str) -> T | None:
        """The object, if it is known."""
        return self._objects.get(key)

    def list(self) -> Items[T]:
        """All objects."""
        return [*self._objects.values()]

    def keys(self) -> Items[str]:
        """All keys."""
        return [*self._objects]

    def by_index(self, index_name: str, value: str) -> Items[T]:
        """The objects that the index puts under this value.

        Raises:
            KeyError: there is no such index.
        """
        found = self._indexes[index_name].get(value)
        return [self._objects[key] for key in found] if found else []

    def put(self, key: str, item: T) -> Change[T]:
        """Add or exchange. An indexer that raises leaves the store as it was."""
        values = {name: tuple(index(item)) for name, index in self._indexers.items()}
        old = self._objects.get(key)
        self._objects[key] = item
        for name, now in values.items():
            before = self._values[name].get(key, ())
            if now != before:
                self._reindex(name, key, before, now)
        return Change(key, old, item)

    def remove(self, key: str) -> Change[T]:
        """Take out; nothing happens if it is not known."""
        old = self._objects.pop(key, None)
        for name in self._indexers:
            self._reindex(name, key, self._values[name].get(key, ()), ())
        return Change(key, old, None)

    def _reindex(self, name: str, key: str, before: tuple[str, ...], now: tuple[str, ...]) -> None:
        index = self._indexes[name]
        for value in before:
            if value not in now and (keys := index.get(value)) is not None:
                keys.pop(key, None)
                if not keys:
                    del index[value]
        for value in now:
            index.setdefault(value, {})[key] = None
        if now:
            self._values[name][key] = now
        else:
            self._values[name].pop(key, None)
