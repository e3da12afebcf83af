"""Some gauges of a registry, without asking it for all of its numbers each time."""

from collections.abc import Iterable
from typing import Any


def families(registry: Any, names: Iterable[str]) -> list[Any]:
    """The metric families of these names that there are.

    Looked up by name, as `CollectorRegistry.restricted_registry` does, but in the order of the
    names; a collector that does not say what it collects is asked in full, or for its own gauges
    alone where it has such, and these are all that is wanted.
    """
    wanted = list(dict.fromkeys(names))
    known = registry._names_to_collectors
    collectors = dict.fromkeys(known[name] for name in wanted if name in known)
    silent = [each for each, told in registry._collector_to_names.items() if not told]
    own = all(name.startswith("runnerscale_") for name in wanted)
    asked = [_asked(each, own=own) for each in (*collectors, *silent)]
    return [f for families in asked for f in families if f.name in wanted]


def _asked(collector: Any, *, own: bool) -> Iterable[Any]:
    only = getattr(collector, "collect_own", None) if own else None
    found: Iterable[Any] = collector.collect() if only is None else only()
    return found
