"""Kubernetes quantities ("500m", "1Gi", "2e3") as exact numbers. Pure."""

import re
from decimal import Decimal

_SHAPE = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?"
)
_FACTORS = {
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}

CHARS_MAX = 64
EXPONENT_CHARS_MAX = 4  # e-99 to e+99: more than there is of anything


def parse_quantity(text: str | int | float) -> Decimal:
    """The exact value.

    Raises:
        ValueError: not a quantity.
    """
    given = str(text).strip()
    match = _SHAPE.fullmatch(given) if len(given) <= CHARS_MAX else None
    if match is None:
        raise ValueError(f"{given[:CHARS_MAX]!r} is not a quantity such as 500m or 1Gi")
    number, suffix = Decimal(match.group(1)), match.group(2)
    if not suffix:
        return number
    if suffix in _FACTORS:
        return number * _FACTORS[suffix]
    if len(suffix) > EXPONENT_CHARS_MAX:
        raise ValueError(f"{given!r} is a quantity beyond all bounds")
    return number.scaleb(int(suffix[1:]))
