"""Whether a GitHub App's JWT would be let in: the checks that github.com makes.

RS256 only; the signature is checked where a public key is configured, everything else
always (contract C2 2.3). Pure, apart from the loading of the crypto library on first use.
"""

import base64
import binascii
import json
from typing import Any

from runnerscale.fake_github.options import Options
from runnerscale.fake_github.refusals import Refused, rest

LIFE_MAX_S = 600  # exp may be at most ten minutes ahead
SKEW_S = 60  # iat may be this far ahead of our clock
TOKEN_MAX = 8_192


def check_app_jwt(token: str, options: Options, *, now_s: float) -> str:
    """The issuer of a JWT that is in order.

    Raises:
        Refused: 401 with the reason, in GitHub's REST style.
    """
    header, claims = _decode(token)
    if header.get("alg") != "RS256":
        raise _no("A JSON web token could not be decoded")
    issued_s, expires_s = claims.get("iat"), claims.get("exp")
    if type(issued_s) is not int or type(expires_s) is not int:  # bool is no number here
        raise _no("'Expiration time' claim ('exp') must be a numeric value")
    if expires_s <= now_s:
        raise _no("'Expiration time' claim ('exp') is in the past")
    if expires_s - now_s > LIFE_MAX_S:
        raise _no("'Expiration time' claim ('exp') is too far in the future")
    if issued_s > now_s + SKEW_S:
        raise _no("'Issued at' claim ('iat') is in the future")
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or not issuer:
        raise _no("'Issuer' claim ('iss') must be a text")
    if options.app_issuer and issuer != options.app_issuer:
        raise _no("'Issuer' claim ('iss') names no known app")
    if options.app_public_key_pem and not _signed(token, options.app_public_key_pem):
        raise _no("A JSON web token could not be decoded")
    return issuer


def _decode(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    parts = token.split(".") if len(token) <= TOKEN_MAX else []
    if len(parts) != 3 or not parts[2]:
        raise _no("A JSON web token could not be decoded")
    try:
        values = [json.loads(_bytes(part)) for part in parts[:2]]
    except (ValueError, RecursionError):
        raise _no("A JSON web token could not be decoded") from None
    if not all(isinstance(value, dict) for value in values):
        raise _no("A JSON web token could not be decoded")
    return values[0], values[1]


def _bytes(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except binascii.Error as problem:
        raise ValueError(str(problem)) from None


def _signed(token: str, public_key_pem: str) -> bool:
    import jwt  # heavy, and only needed where a key is configured

    try:
        jwt.decode(
            token,
            public_key_pem,
            algorithms=["RS256"],
            options={"verify_exp": False, "verify_iat": False, "verify_aud": False},
        )
    except jwt.InvalidTokenError:
        return False
    return True


def _no(message: str) -> Refused:
    return rest(401, message)
