"""What the control API takes: every number with its range, every text with its length.

Pure; a refusal is one sentence that names the member. What is done with the values is in
`control_api.py`, what a fault rule may say beyond this in `faults.py`.
"""

import math
import re
from collections.abc import Sequence

from runnerscale.fake_github.model import JobState
from runnerscale.fake_github.refusals import rest

JOBS_MAX = 10_000  # in one call
SECONDS_MAX = 86_400.0  # of a job's sleep
TIMEOUT_MAX_S = 35 * 86_400.0  # GitHub's bound of a run
TEXT_CHARS_MAX = 200
PATH_CHARS_MAX = 4_096
LABELS_MAX = 100
SHOWN_CHARS_MAX = 80
# No line break, NUL or other control character: these go into variables, logs and tables.
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def number(name: str, value: float, low: float, high: float) -> None:
    """A number in its range, both ends included.

    Raises:
        Refused: 400.
    """
    if not low <= value <= high:  # also for what is no number
        raise rest(400, f"{name} must be between {_plain(low)} and {_plain(high)}")


def text(name: str, value: str, *, chars_max: int = TEXT_CHARS_MAX) -> None:
    """A text of one line; empty is left to the caller.

    Raises:
        Refused: 400.
    """
    if len(value) > chars_max:
        raise rest(400, f"{name} must have at most {chars_max} characters")
    if _UNSHOWABLE.search(value):
        raise rest(400, f"{name} must be one line, without control characters")


def labels(name: str, values: Sequence[str]) -> None:
    """As in `runs-on`.

    Raises:
        Refused: 400.
    """
    if not all(values):
        raise rest(400, f"{name} must not hold an empty label")
    if len(values) > LABELS_MAX:
        raise rest(400, f"{name} must hold at most {LABELS_MAX} labels")
    for value in values:
        text(f"each of {name}", value)


def repository(value: str) -> None:
    """`owner/name`.

    Raises:
        Refused: 400.
    """
    text("repository", value)
    owner, _, name = value.partition("/")
    if not owner or not name or "/" in name:
        raise rest(400, "repository must be owner/name")


def state(value: str) -> None:
    """The state of a job, where one is asked for.

    Raises:
        Refused: 400.
    """
    known = [each.value for each in JobState]
    if value and value not in known:
        raise rest(400, f"there is no state {shown(value)!r}; there are: {', '.join(known)}")


def seconds(value: float | None) -> None:
    """How long a fault lasts, where that is said.

    Raises:
        Refused: 400.
    """
    if value is not None:
        number("seconds", value, 0, TIMEOUT_MAX_S)


def shown(value: str) -> str:
    """What somebody sent, short enough to be said back."""
    return value if len(value) <= SHOWN_CHARS_MAX else f"{value[:SHOWN_CHARS_MAX]}..."


def _plain(value: float) -> str:
    return f"{math.floor(value)}" if float(value).is_integer() else f"{value:g}"
