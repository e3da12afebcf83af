"""What a secret opens, found without comparing the secret itself.

Entries stand under a digest: how long a look-up takes says nothing about how much of a guessed
token was right. `same_secret` is for the places where two are compared after all.
"""

import hashlib
import hmac
from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


def _digest(secret: str) -> bytes:
    # A header may hold any bytes; what is no text opens nothing, and that is all.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()


def same_secret(given: str, known: str) -> bool:
    """Whether two secrets are the same, in a time that does not depend on where they differ."""
    return hmac.compare_digest(_digest(given), _digest(known))


class BySecret(Generic[V]):
    """Values by secret; forgets its oldest entries."""

    def __init__(self, kept_max: int) -> None:
        """`kept_max`: how many entries are kept."""
        self._kept_max = kept_max
        self._values: OrderedDict[bytes, V] = OrderedDict()

    def __len__(self) -> int:
        """How many."""
        return len(self._values)

    def get(self, secret: str) -> V | None:
        """What it opens, if anything."""
        return self._values.get(_digest(secret))

    def put(self, secret: str, value: V) -> None:
        """From now on it opens this."""
        self._values[_digest(secret)] = value
        while len(self._values) > self._kept_max:
            self._values.popitem(last=False)

    def forget(self, secret: str) -> None:
        """From now on it opens nothing."""
        self._values.pop(_digest(secret), None)

    def values(self) -> list[V]:
        """All that can be opened, oldest first."""
        return list(self._values.values())

    def keep(self, values: list[V]) -> None:
        """Forget every entry whose value is not one of these."""
        kept = {id(value) for value in values}
        self._values = OrderedDict((k, v) for k, v in self._values.items() if id(v) in kept)
