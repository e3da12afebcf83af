"""How labels and annotations of generated objects come about.

What an administrator writes is the base, what the controller computes wins; inputs are never
changed and None is as good as empty. Keys that a prefix excludes are dropped where C1 2.9 says
so. `patched` compares only keys we own, so that foreign ones are left in peace (W4, W6, W7).
Pure. Contract: resources-and-controllers 2.6, 2.9.
"""

from collections.abc import Iterable, Mapping, Sequence

from runnerscale.api import labels as keys
from runnerscale.api.names import label_value

Pairs = Mapping[str, str] | None


def merge_labels(base: Pairs, over: Pairs, *, excluded: Sequence[str] = ()) -> dict[str, str]:
    """`base`, then `over` on top, without keys that begin with an excluded prefix."""
    merged = {**(base or {}), **(over or {})}
    return {key: merged[key] for key in merged if not key.startswith(tuple(excluded))}


def merge_annotations(base: Pairs, over: Pairs) -> dict[str, str]:
    """`base`, then `over` on top."""
    return {**(base or {}), **(over or {})}


def url_labels(*, enterprise: str, organization: str, repository: str) -> dict[str, str]:
    """Labels that say which place at GitHub is served; only those that apply."""
    parts = {
        keys.ENTERPRISE: enterprise,
        keys.ORGANIZATION: organization,
        keys.REPOSITORY: repository,
    }
    return {key: label_value(part) for key, part in parts.items() if part}


def patched(
    actual: Pairs, wished: Mapping[str, str], *, owned: Iterable[str] = ()
) -> dict[str, str | None]:
    """The merge patch that makes `actual` have what is wished; empty if it has.

    `owned`: keys that we put there before; those no longer wished are removed.
    """
    now = actual or {}
    changed: dict[str, str | None] = {
        key: value for key, value in wished.items() if now.get(key) != value
    }
    gone = (key for key in owned if key in now and key not in wished)
    return changed | dict.fromkeys(gone)
