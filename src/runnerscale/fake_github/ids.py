"""Ids and tokens, drawn from the randomness handed in, so that one seed gives one history.

They are as good as that randomness: enough for a stand-in on the loopback interface,
not for anything else.
"""

import uuid

from runnerscale.core.randomness import Random


def new_uuid(random: Random) -> str:
    """A version 4 UUID."""
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def new_token(random: Random, prefix: str = "", bits: int = 160) -> str:
    """An opaque token."""
    return f"{prefix}{random.getrandbits(bits):0{bits // 4}x}"


def new_request_id(random: Random) -> str:
    """Looks like `X-GitHub-Request-Id`."""
    digits = f"{random.getrandbits(96):024X}"
    return f"{digits[:4]}:{digits[4:10]}:{digits[10:16]}:{digits[16:]}"
