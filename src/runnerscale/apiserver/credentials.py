"""Tokens, keys and kubeconfigs in the data folder: made once, kept over restarts.

Real secrets come from the operating system, never from the seeded random.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.certificates import UnusableFile, write_secret_file
from runnerscale.core.private_folder import make_private
from runnerscale.core.secret import SecretText

Json = dict[str, Any]

KEY_LENGTH_MIN = 32


@dataclass(frozen=True, slots=True)
class IdentityRequest:
    """A user that shall exist; the token is made here."""

    name: str
    groups: tuple[str, ...] = ()


def ensure_identities(path: Path, wanted: Sequence[IdentityRequest]) -> list[Identity]:
    """The identities with their tokens, which stay the same over restarts.

    Raises:
        OSError: the file cannot be read or written.
        UnusableFile: it was damaged.
    """
    tokens: dict[str, str] = {}
    if path.exists():
        try:
            tokens = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        except (ValueError, RecursionError):  # msgspec's errors and those of UTF-8
            raise UnusableFile(f"{path} does not hold the tokens of the identities") from None
    missing = [request.name for request in wanted if request.name not in tokens]
    if missing:
        tokens |= {name: secrets.token_urlsafe(32) for name in missing}
        make_private(path.parent)
        write_secret_file(path, msgspec.json.encode(tokens))
    return [Identity(r.name, SecretText(tokens[r.name]), r.groups) for r in wanted]


def ensure_signing_key(path: Path) -> SecretText:
    """The key that service account tokens are signed with.

    Raises:
        OSError: the file cannot be read or written.
        UnusableFile: it was damaged.
    """
    if not path.exists():
        make_private(path.parent)
        write_secret_file(path, secrets.token_hex(32).encode())
    try:
        key = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        key = ""
    if len(key) < KEY_LENGTH_MIN:  # with an empty key anybody could sign
        raise UnusableFile(f"{path} holds no signing key")
    return SecretText(key)


def kubeconfig_of(identity: Identity, *, server: str, ca_pem: str, namespace: str) -> Json:
    """A kubeconfig with one context."""
    cluster: Json = {"server": server}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "runnerscale", "cluster": cluster}],
        "users": [{"name": identity.name, "user": {"token": identity.token.reveal()}}],
        "contexts": [
            {
                "name": "runnerscale",
                "context": {
                    "cluster": "runnerscale",
                    "user": identity.name,
                    "namespace": namespace,
                },
            }
        ],
        "current-context": "runnerscale",
    }


def write_kubeconfig(path: Path, config: Json) -> None:
    """Write it where only its owner can read it; whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    make_private(path.parent)
    write_secret_file(path, yaml.safe_dump(config, sort_keys=False).encode())
