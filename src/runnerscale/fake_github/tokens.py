"""The tokens GitHub gives out itself: installation, registration, admin; and their checks.

A token is a random text we remember with its expiry. The admin token must be a JWT that a
client can read `exp` from (contract C2 2.5); ours is signed, but we look it up like the
others. Queue tokens are in `sessions.py`, JIT secrets in `runners.py`, app JWTs, which we
only check, in `app_jwt.py`.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass

from runnerscale.core.randomness import Random
from runnerscale.fake_github.by_secret import BySecret
from runnerscale.fake_github.ids import new_token

KEPT_MAX = 50_000  # then the oldest go


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token is good for, and until when."""

    kind: str  # installation, registration, admin
    subject: str  # installation id, tenant path, tenant id
    expires_s: float


class TokenBook:
    """Tokens given out, by their text."""

    def __init__(self, random: Random) -> None:
        """`random`: where tokens come from."""
        self._random = random
        self._key = random.getrandbits(256).to_bytes(32, "big")
        self._grants: BySecret[Grant] = BySecret(KEPT_MAX)

    def issue(self, kind: str, subject: str, *, prefix: str, expires_s: float) -> str:
        """A new opaque token."""
        return self._keep(new_token(self._random, prefix), Grant(kind, subject, expires_s))

    def issue_jwt(self, kind: str, subject: str, *, now_s: float, expires_s: float) -> str:
        """A new token that is a JWT with `iat` and `exp` in whole seconds."""
        claims = {
            "iss": "fake-github",
            "sub": subject,
            "jti": new_token(self._random, bits=64),
            "nbf": int(now_s),
            "iat": int(now_s),
            "exp": int(expires_s),
        }
        signed = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}"
        signature = hmac.new(self._key, signed.encode(), hashlib.sha256).digest()
        token = f"{signed}.{_encode(signature)}"
        return self._keep(token, Grant(kind, subject, float(int(expires_s))))

    def subject(self, kind: str, token: str, *, now_s: float) -> str | None:
        """What a live token of that kind is good for; None: unknown or expired."""
        grant = self._grants.get(token)
        if grant is None or grant.kind != kind or grant.expires_s <= now_s:
            return None
        return grant.subject

    def revoke(self, kind: str) -> int:
        """Make all tokens of that kind unknown; how many there were."""
        before = len(self._grants)
        self._grants.keep([grant for grant in self._grants.values() if grant.kind != kind])
        return before - len(self._grants)

    def _keep(self, token: str, grant: Grant) -> str:
        self._grants.put(token, grant)
        return token


def _part(value: dict[str, object]) -> str:
    return _encode(json.dumps(value, separators=(",", ":")).encode())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
