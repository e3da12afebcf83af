"""Randomness as a value that is handed in, so that one seed means one history."""

import random
import string

# One type for everybody: a generator that can be seeded. Secrets only from `system_random`.
Random = random.Random

# The alphabet of Kubernetes' generated names: no vowels, no look-alikes.
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def system_random() -> Random:
    """The machine's own randomness: what was drawn says nothing about what comes next."""
    return random.SystemRandom()


def seeded(seed: int) -> Random:
    """A generator whose whole sequence follows from `seed`."""
    return random.Random(seed)  # noqa: S311 - jitter and names, not secrets


def name_suffix(source: Random, length: int = 5) -> str:
    """Random characters fit for the end of an object name."""
    return "".join(source.choice(NAME_ALPHABET) for _ in range(length))


def hex_text(source: Random, length: int) -> str:
    """`length` random hexadecimal digits, in lower case."""
    return "".join(source.choice(string.hexdigits[:16]) for _ in range(length))


def uuid_text(source: Random) -> str:
    """A random UUID (version 4) as text."""
    digits = list(hex_text(source, 32))
    digits[12] = "4"
    digits[16] = source.choice("89ab")
    text = "".join(digits)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
