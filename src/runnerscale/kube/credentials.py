"""Who we are towards the API server: where a token comes from and when it is read again.

A source of tokens is asked before every call and may answer from memory; a 401 makes the
client `reject` what it got, and ask once more. Exec plugins have a file of their own
(`exec_plugin.py`), where a kubeconfig says what to use is `kubeconfig.py`.
"""

import base64
from pathlib import Path
from typing import Protocol

from runnerscale.core.clock import Clock
from runnerscale.core.secret import SecretText
from runnerscale.core.small_file import read_small_text
from runnerscale.kube.errors import ConfigError

TOKEN_AGE_MAX_S = 60.0  # projected tokens are exchanged well before they end


class Credentials(Protocol):
    """The value of the Authorization header, kept fresh."""

    async def authorization(self) -> SecretText | None:
        """The header's value; None: send none (client certificates, or nobody).

        Raises:
            ConfigError: the source has none.
        """
        ...

    def reject(self, used: SecretText | None) -> None:
        """The server answered 401 to `used`: do not give it again without asking the source."""
        ...


def bearer(token: str, source: str) -> SecretText:
    """The header's value.

    Raises:
        ConfigError: no header can hold it; `source` says where it is from.
    """
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(
            f"the token {source} has a line break, a blank or another character that no token has"
        )
    return SecretText(f"Bearer {token}")


class Anonymous:
    """No token: a client certificate, or a server that asks for none."""

    async def authorization(self) -> SecretText | None:
        """None."""
        return None

    def reject(self, used: SecretText | None) -> None:
        """There is nothing to renew."""


class StaticToken:
    """A token written in the kubeconfig."""

    def __init__(self, token: SecretText) -> None:
        """Use `token` for ever.

        Raises:
            ConfigError: no header can hold it.
        """
        self._header = bearer(token.reveal().strip(), "in the kubeconfig")

    async def authorization(self) -> SecretText | None:
        """The header."""
        return self._header

    def reject(self, used: SecretText | None) -> None:
        """There is no other."""


class BasicLogin:
    """User name and password."""

    def __init__(self, user: str, password: SecretText) -> None:
        """Use these for ever."""
        pair = base64.b64encode(f"{user}:{password.reveal()}".encode()).decode()
        self._header = SecretText(f"Basic {pair}")

    async def authorization(self) -> SecretText | None:
        """The header."""
        return self._header

    def reject(self, used: SecretText | None) -> None:
        """There is no other."""


class TokenFile:
    """A file that somebody else keeps fresh: read again by age, and after a 401."""

    def __init__(self, path: Path, *, clock: Clock, age_max_s: float = TOKEN_AGE_MAX_S) -> None:
        """Nothing is read before the first call."""
        self._path = path
        self._clock = clock
        self._age_max_s = age_max_s
        self._header: SecretText | None = None
        self._read_s = 0.0

    async def authorization(self) -> SecretText | None:
        """The header, at most `age_max_s` old; the last good one if the file cannot be read.

        Raises:
            ConfigError: the file could never be read, or is empty.
        """
        now_s = self._clock.monotonic_s()
        if self._header is not None and now_s - self._read_s < self._age_max_s:
            return self._header
        try:
            # A few hundred bytes from memory (a projected volume): not worth a thread.
            token = read_small_text(self._path).strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._header is not None:
                return self._header
            raise ConfigError(f"cannot read the token file {self._path}: {error}") from error
        if not token:
            if self._header is not None:
                return self._header
            raise ConfigError(f"the token file {self._path} is empty")
        self._header = bearer(token, f"in {self._path}")
        self._read_s = now_s
        return self._header

    def reject(self, used: SecretText | None) -> None:
        """Read the file at the next call."""
        if used == self._header:
            self._read_s = float("-inf")
