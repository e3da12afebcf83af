"""Service-account tokens for pods: asked for once per account, renewed well before they expire.

All pods of an account share one token, as they share its rights; a burst of a hundred runners
costs one TokenRequest. An account that was deleted and made again under its name is another one,
and the tokens of the first are worth nothing: its uid is looked at before a token is given out.
Writing a token where a pod sees it is `preparation.py`.
"""

import asyncio
import base64
import binascii
from dataclasses import dataclass, field

import msgspec

from runnerscale.core.clock import Clock
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import SERVICE_ACCOUNTS
from runnerscale.node.node_client import NodeClient

RENEW_AT = 0.8  # of its life, as kubelet does


class _Claims(msgspec.Struct):
    exp: float


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and when to ask for the next one (seconds since the epoch)."""

    text: SecretText
    renew_at_s: float


@dataclass(slots=True)
class _Slot:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: Token | None = None
    account_uid: str = ""  # whose token it is
    looked_at_s: float = float("-inf")  # when the latest look at the account began


class Tokens:
    """A token per account and lifetime."""

    def __init__(self, client: NodeClient, clock: Clock) -> None:
        """Nothing is asked for yet."""
        self._client = client
        self._clock = clock
        self._slots: dict[tuple[str, str, int], _Slot] = {}

    async def get(self, namespace: str, account: str, lifetime_s: int) -> Token:
        """A token that is good for a while.

        Raises:
            KubeError: none could be had.
        """
        slot = self._slots.setdefault((namespace, account, lifetime_s), _Slot())
        asked_s = self._clock.monotonic_s()
        async with slot.lock:  # one call per account at a time; others wait for its answer
            if slot.looked_at_s < asked_s:  # a look that began after we asked is good enough
                began_s = self._clock.monotonic_s()
                found = await self._client.get(SERVICE_ACCOUNTS, namespace, account)
                if found.metadata.uid != slot.account_uid:
                    slot.account_uid, slot.token = found.metadata.uid or "", None
                slot.looked_at_s = began_s
            now_s = self._clock.now_s()
            if slot.token is None or now_s >= slot.token.renew_at_s:
                text = await self._client.create_token(namespace, account, expiration_s=lifetime_s)
                ends_s = expiry_s(text, default_s=now_s + lifetime_s)
                renew_at_s = now_s + RENEW_AT * max(0.0, ends_s - now_s)
                slot.token = Token(SecretText(text), renew_at_s)
            return slot.token


def expiry_s(token: str, *, default_s: float) -> float:
    """When a JWT says that it expires; `default_s` for any other kind of token. Not verified."""
    parts = token.split(".")
    if len(parts) != 3:
        return default_s
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Claims)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return default_s
    return claims.exp
