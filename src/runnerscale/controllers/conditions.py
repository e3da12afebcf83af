"""How `status.conditions` is kept: one entry a type, transition time only when it flips.

Which types exist: `api/conditions.py`; which reasons: `api/reasons.py`. Pure.
"""

from collections.abc import Sequence
from typing import Any

from runnerscale.core.clock import format_time
from runnerscale.kube.objects import Condition

MESSAGE_MAX = 1024  # characters; the API allows 32,768, people read the first lines


def with_condition(
    existing: Sequence[Condition] | None,
    *,
    type: str,  # noqa: A002 - the API's own word
    status: bool,
    reason: str,
    message: str,
    now_s: float,
    generation: int | None,
) -> list[Condition]:
    """The conditions with this verdict in it, at its old place or at the end.

    The transition time stays unless the status flips; equal content if nothing changes.
    """
    word = "True" if status else "False"
    before = find(existing, type)
    kept_time = before.last_transition_time if before and before.status == word else None
    verdict = Condition(
        type=type,
        status=word,
        reason=reason,
        message=shortened(message),
        last_transition_time=kept_time or format_time(now_s),
        observed_generation=generation,
    )
    if before is None:
        return [*(existing or ()), verdict]
    return [verdict if item.type == type else item for item in existing or ()]


def without_condition(existing: Sequence[Condition] | None, type: str) -> list[Condition]:  # noqa: A002
    """The conditions without that type."""
    return [item for item in existing or () if item.type != type]


def find(existing: Sequence[Condition] | None, type: str) -> Condition | None:  # noqa: A002
    """The condition of that type."""
    return next((item for item in existing or () if item.type == type), None)


def is_true(existing: Sequence[Condition] | None, type: str) -> bool:  # noqa: A002
    """Whether that condition is there and True."""
    item = find(existing, type)
    return item is not None and item.status == "True"


def shortened(message: str) -> str:
    """A message short enough for a condition or an Event."""
    return message if len(message) <= MESSAGE_MAX else message[: MESSAGE_MAX - 1] + "…"


def as_body(conditions: Sequence[Condition] | None) -> list[dict[str, Any]]:
    """For a patch of the status: a merge patch replaces the whole list."""
    bodies = []
    for item in conditions or ():
        body: dict[str, Any] = {
            "type": item.type,
            "status": item.status,
            "reason": item.reason,
            "message": item.message,
            "lastTransitionTime": item.last_transition_time,
        }
        if item.observed_generation is not None:
            body["observedGeneration"] = item.observed_generation
        bodies.append(body)
    return bodies
