"""Several values files as one, as `helm -f one.yaml -f two.yaml` takes them.

Maps are merged key by key; anything else of the later file replaces, null too. The chart's
defaults come below: there a null of the user takes the default away.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from runnerscale.chart_values.values_file import ReadValues


def merged(files: Sequence[ReadValues]) -> ReadValues:
    """All files as one; every value keeps its own place."""
    result = ReadValues({})
    for file in files:
        overlay(result.values, file.values)
        result.places |= file.places
        result.findings += file.findings
    return result


def overlay(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Write the later file's values into those of the earlier ones."""
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            overlay(below[key], value)
        else:
            below[key] = value


def with_defaults(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What the templates see: the defaults under the user's values."""
    result = {
        key: value for key, value in values.items() if value is not None or key not in defaults
    }
    for key, default in defaults.items():
        if key not in values:
            result[key] = default
        elif isinstance(values[key], dict) and isinstance(default, dict):
            result[key] = with_defaults(values[key], default)
    return result
