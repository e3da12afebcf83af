"""What a body may hold, whoever wrote it: plain JSON values of a bounded size and depth.

Everything behind this file walks over objects by recursion and encodes them as JSON. So what
YAML allows and JSON does not (a value inside of itself, aliases that multiply, sets, keys that
are no text) and what only an attacker nests that deeply ends here as a 400. A kube-apiserver
takes 10,000 levels; nobody needs them.
"""

import base64
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runnerscale.apiserver.failures import BODY_BYTES_MAX, ApiFailure, bad_request
from runnerscale.kube.depth import DEPTH_MAX, TOO_DEEP, is_too_deep

VALUES_MAX = 500_000  # of one YAML document; 3 MB of JSON hold fewer that mean anything
DIGITS_MAX = 18
# What reading a value of the wrong type raises.
_WRONG_SHAPE = (
    AttributeError,
    TypeError,
    KeyError,
    IndexError,
    ValueError,
    OverflowError,
)


def check_depth(body: bytes) -> None:
    """Refuse JSON that nobody can walk over.

    Raises:
        ApiFailure: 400.
    """
    if is_too_deep(body):
        raise bad_request(f"the object cannot be handled: {TOO_DEEP}")


def plain_value(value: Any) -> Any:
    """A value read from YAML as JSON has it: aliases written out, keys as text.

    Raises:
        ApiFailure: 400, it has no end, is too deep or too large, or JSON has no such value.
    """
    return _plain(value, 0, [VALUES_MAX, BODY_BYTES_MAX])


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0 or left[1] < 0:
        raise bad_request("error converting YAML to JSON: with its aliases written out it is huge")
    if depth > DEPTH_MAX:
        raise bad_request(f"error converting YAML to JSON: {TOO_DEEP}")
    if isinstance(value, dict):
        return {_key(k): _plain(v, depth + 1, left) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1, left) for item in value]
    if isinstance(value, bytes):  # !!binary
        value = base64.b64encode(value).decode()
    if isinstance(value, str):
        left[1] -= len(value)
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise bad_request(f"error converting YAML to JSON: {value} is no number of JSON")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise bad_request(f"error converting YAML to JSON: JSON has no {type(value).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise bad_request(f"error converting YAML to JSON: a key is a {type(key).__name__}, not a text")


def whole_number(text: str) -> int | None:
    """A number from a query: no sign, plain digits, not longer than 64 bits need."""
    if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX:
        return int(text)
    return None


@contextmanager
def well_shaped(what: str) -> Iterator[None]:
    """Around reading a body that no schema was held against: a wrong type is the sender's.

    Raises:
        ApiFailure: 400 instead of the error that a misplaced value causes.
    """
    try:
        yield
    except ApiFailure:
        raise
    except RecursionError:
        raise bad_request(f"the {what} cannot be handled: {TOO_DEEP}") from None
    except _WRONG_SHAPE as error:
        raise bad_request(
            f"the {what} cannot be handled: a value has another type than it must have"
            f" ({str(error)[:200]})"
        ) from None
