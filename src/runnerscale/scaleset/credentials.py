"""What proves to GitHub who we are: a personal access token, or a GitHub App's key.

Values are trimmed and checked here, once, before anything is sent: a token with a stray
newline would otherwise fail far away. Where they are kept is not our business
(`runnerscale.credentials`); what they are exchanged for is `tokens.py`.

Contract: github-service-and-listener 2.3, resources-and-controllers 5.1.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.errors import InvalidCredentials

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

JWT_BACKDATED_S = 60  # our clock may be ahead of GitHub's
JWT_LIFE_S = 540  # GitHub refuses more than 10 minutes

_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True, slots=True)
class PersonalAccessToken:
    """A classic or fine-grained token. Build with `personal_access_token`."""

    token: SecretText

    @property
    def fingerprint(self) -> str:
        """Equal for equal credentials, and says nothing about them."""
        return _fingerprint("token", self.token.reveal())


@dataclass(frozen=True, slots=True)
class AppCredentials:
    """A GitHub App's installation. Build with `app_credentials`."""

    client_id: str  # the numeric app id or the client id
    installation_id: int
    private_key: SecretText

    @property
    def fingerprint(self) -> str:
        """Equal for equal credentials, and says nothing about them."""
        parts = (self.client_id, str(self.installation_id), self.private_key.reveal())
        return _fingerprint("app", *parts)

    def jwt(self, *, now_s: float) -> str:
        """A signed token that says "I am the app", good for nine minutes from a minute ago.

        Raises:
            InvalidCredentials: the key cannot be read.
        """
        import jwt  # heavy, and only Apps need it

        issued_s = int(now_s) - JWT_BACKDATED_S
        claims = {"iat": issued_s, "exp": issued_s + JWT_LIFE_S, "iss": self.client_id}
        key: Any = _rsa_key(self.private_key)
        return jwt.encode(claims, key, algorithm="RS256")


Credentials = PersonalAccessToken | AppCredentials


def personal_access_token(text: str) -> PersonalAccessToken:
    """A checked token, without the blanks around it.

    Raises:
        InvalidCredentials: empty, or with blanks or control characters inside.
    """
    token = text.strip()
    if not token:
        raise InvalidCredentials("the GitHub token is empty. Put a token into it")
    if _UNPRINTABLE.search(token):
        raise InvalidCredentials(
            "the GitHub token contains a blank, a line break or another character that no "
            "token has. Store the token alone, on one line"
        )
    return PersonalAccessToken(SecretText(token))


def app_credentials(client_id: str, installation_id: int, private_key: str) -> AppCredentials:
    """Checked App credentials; a key whose line breaks were written as `\\n` is mended.

    Raises:
        InvalidCredentials: something is missing, or the key is no RSA key in PEM form.
    """
    client_id, key = client_id.strip(), private_key.strip()
    if not client_id:
        raise InvalidCredentials("the GitHub App's client id is missing. Set the app id")
    if _UNPRINTABLE.search(client_id):
        raise InvalidCredentials(
            "the GitHub App's client id contains a blank or a line break. Store the id alone"
        )
    if installation_id <= 0:
        raise InvalidCredentials(
            f"the GitHub App's installation id is {installation_id}. Set it to the number at "
            "the end of the installation's address"
        )
    if not key:
        raise InvalidCredentials("the GitHub App's private key is missing. Set it (PEM)")
    if "\n" not in key:
        key = key.replace("\\n", "\n").strip()
    checked = SecretText(key + "\n")
    _rsa_key(checked)
    return AppCredentials(client_id, installation_id, checked)


def _rsa_key(pem: SecretText) -> "RSAPrivateKey":
    """The key of a PKCS#1 or PKCS#8 PEM; the error never quotes it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # TypeError: the key is encrypted. The library's own texts may quote the input.
        raise InvalidCredentials(
            f"failed to parse RSA private key from PEM ({type(error).__name__}). Store the "
            "App's key file as GitHub gave it, whole and without a password"
        ) from None
    if not isinstance(key, RSAPrivateKey):
        raise InvalidCredentials(
            "failed to parse RSA private key from PEM: it is a key of another kind. Store the "
            "App's key file as GitHub gave it"
        )
    return key


def _fingerprint(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()
