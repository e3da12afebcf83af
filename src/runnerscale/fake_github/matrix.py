"""`strategy.matrix`: from lists of values to the combinations that are run.

GitHub's rules: all combinations in order of the keys; `exclude` drops those that match;
each `include` is added to every combination it does not contradict, and becomes one of its
own where there is none. Pure.
"""

from collections.abc import Mapping

INSTANCES_MAX = 256  # GitHub's bound

Combination = dict[str, object]


def expand(matrix: object) -> list[Combination]:
    """The combinations of a matrix.

    Raises:
        ValueError: the rest of a sentence that begins with "the matrix".
    """
    if not isinstance(matrix, Mapping):
        raise ValueError("must be a map")
    axes = {key: value for key, value in matrix.items() if key not in ("include", "exclude")}
    found: list[Combination] = [{}] if axes else []
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"needs a list of values for {key!r}")
        if len(found) * len(values) > INSTANCES_MAX * 16:
            raise ValueError("has far too many combinations")
        found = [{**each, key: value} for each in found for value in values]
    excluded = _maps(matrix.get("exclude"), "exclude")
    for pattern in excluded:
        unknown = [key for key in pattern if key not in axes]
        if unknown:
            raise ValueError(f"excludes by {unknown[0]!r}, which it has no values for")
    kept = [each for each in found if not any(_matches(each, e) for e in excluded)]
    return _include(kept, _maps(matrix.get("include"), "include"))


def display(combination: Combination) -> str:
    """The values, as GitHub shows them behind a job's name: `(a, 1)`."""
    values = [_text(value) for value in combination.values()]
    return f"({', '.join(values)})"


def _include(combinations: list[Combination], includes: list[Combination]) -> list[Combination]:
    original = [dict(each) for each in combinations]
    extended = [dict(each) for each in combinations]
    alone: list[Combination] = []
    for include in includes:
        added = False
        for place, each in enumerate(original):
            if all(each.get(key, value) == value for key, value in include.items()):
                extended[place].update(include)
                added = True
        if not added:
            alone.append(dict(include))
    return extended + alone


def _matches(combination: Combination, pattern: Combination) -> bool:
    return all(combination.get(key) == value for key, value in pattern.items())


def _maps(value: object, name: str) -> list[Combination]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"needs a list of maps for {name!r}")
    if len(value) > INSTANCES_MAX:
        raise ValueError(f"has more than {INSTANCES_MAX} entries in {name!r}")
    return [dict(each) for each in value]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(_text(each) for each in value.values())
    return "" if value is None else str(value)
