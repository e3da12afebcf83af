"""What the listener says of its troubles: the annotation that it leaves on its EphemeralRunnerSet.

The listener may write no status and no Event; the annotation is the one place where it can tell
what keeps it from working. Form and bounds only, because two programs meet here: when it is
written is `listener/told.py`, what is made of it `controllers/autoscaling_runner_set/heard.py`.

Pure.
"""

import json
from dataclasses import dataclass

from runnerscale.api.reasons import Reason
from runnerscale.core.clock import format_time, parse_time

# In the environment of a listener whose pod a controller of ours made. Without it the listener
# works for ARC's, which must not meet an annotation that it does not know: it compares those of
# the set exactly, and would never again bring a changed spec to the listener (W6).
CONTROLLER_VARIABLE = "RUNNERSCALE_CONTROLLER"
MESSAGE_MAX = 500  # characters
TEXT_MAX = 4096  # longer than anything we write: somebody else's
SCALE_SET_ID_MAX = 2**63


@dataclass(frozen=True, slots=True)
class ListenerWord:
    """One trouble of the listener, the one that matters most just now."""

    reason: Reason
    message: str = ""  # never a secret
    since_s: float = 0.0  # wall time
    scale_set_id: int = 0  # which it served; 0: not said


def encoded(word: ListenerWord) -> str:
    """The annotation's value."""
    members = {
        "reason": word.reason.value,
        "message": one_line(word.message),
        "since": format_time(word.since_s),
        "scaleSetId": word.scale_set_id,
    }
    return json.dumps(members, ensure_ascii=False)


def decoded(text: str | None) -> ListenerWord | None:
    """What an annotation says; None where it says nothing that we know."""
    if not text or len(text) > TEXT_MAX:
        return None
    try:
        members = json.loads(text)
        reason = Reason(members["reason"])  # type: ignore[call-arg]
        since_s = parse_time(members["since"])
        message, scale_set_id = members.get("message", ""), members.get("scaleSetId", 0)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    known = isinstance(message, str) and type(scale_set_id) is int
    if not known or not 0 <= scale_set_id < SCALE_SET_ID_MAX:
        return None
    return ListenerWord(reason, one_line(message), since_s, scale_set_id)


def one_line(message: str) -> str:
    """Printable, in one line, and not too long."""
    text = "".join(char if char.isprintable() else " " for char in message[: 2 * MESSAGE_MAX])
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1] + "…"
