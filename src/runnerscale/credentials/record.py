"""The four keys that say who we are at GitHub, from a Secret or from a vault item.

One set of rules for both forms, in the contract's words; which of the two a place uses is
`source.py`. Blanks around a value are taken off and told (`notes`): a token stored with its
line break is the commonest mistake, and fails far away.

Pure. Contract: resources-and-controllers 5.1, github-service-and-listener 6.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.credentials import (
    Credentials,
    app_credentials,
    personal_access_token,
)

TOKEN = "github_token"  # noqa: S105 - the name of a key
APP_ID = "github_app_id"
INSTALLATION_ID = "github_app_installation_id"
PRIVATE_KEY = "github_app_private_key"

MISSING = "missing app config"
BOTH = "both PAT and GitHub App credentials provided. should only provide one"
NEITHER = "no credentials provided: either a PAT or GitHub App credentials should be provided"


class InvalidRecord(ValueError):
    """Keys that are missing, contradict each other, or hold nonsense; never quotes a secret."""


class NoRecord(InvalidRecord):
    """There is nothing, or not enough, to be anybody at GitHub."""


@dataclass(frozen=True, slots=True)
class Record:
    """Either a token, or all three parts of an App. `notes`: what was mended on the way."""

    token: SecretText | None = None
    app_id: str = ""
    app_installation_id: int = 0
    app_private_key: SecretText | None = None
    notes: tuple[str, ...] = ()


def record_of_secret(data: Mapping[str, str]) -> Record:
    """The record in a Secret's `data` (base64 values).

    Raises:
        NoRecord, InvalidRecord: with the contract's words.
    """
    values = {key: decoded(data, key) for key in (TOKEN, APP_ID, INSTALLATION_ID, PRIVATE_KEY)}
    digits = values[INSTALLATION_ID].strip()
    return checked(given(values, _installation_id(digits)))


def record_of_vault(item: SecretText) -> Record:
    """The record in a vault item: one JSON object with the same keys, the id as a number.

    Raises:
        NoRecord, InvalidRecord: with the contract's words.
    """
    members = json_object(item)
    installation_id = members.get(INSTALLATION_ID) or 0
    if isinstance(installation_id, bool) or not isinstance(installation_id, int):
        raise InvalidRecord(f"{INSTALLATION_ID} in the vault item is not a number")
    values = {key: _text_member(members, key) for key in (TOKEN, APP_ID, PRIVATE_KEY)}
    return checked(given(values, installation_id))


def given(values: Mapping[str, str], installation_id: int) -> Record:
    """What stands there, blanks taken off, whether or not anybody can be somebody with it."""
    trimmed = {key: values.get(key, "").strip() for key in (TOKEN, APP_ID, PRIVATE_KEY)}
    token, key = trimmed[TOKEN], trimmed[PRIVATE_KEY]
    notes = tuple(
        f"blanks around {name} were taken off"
        for name in (TOKEN, APP_ID)
        if trimmed[name] != values.get(name, "")
    )
    return Record(
        token=SecretText(token) if token else None,
        app_id=trimmed[APP_ID],
        app_installation_id=installation_id,
        app_private_key=SecretText(key + "\n") if key else None,
        notes=notes,
    )


def checked(record: Record) -> Record:
    """The record with only the kind that is complete; a token beats parts of an App.

    Raises:
        NoRecord, InvalidRecord: with the contract's words.
    """
    app = record.app_id and record.app_installation_id > 0 and record.app_private_key
    if record.token and app:
        raise InvalidRecord(BOTH)
    if record.token:
        return Record(token=record.token, notes=record.notes)
    if not app:
        raise NoRecord(NEITHER)
    return replace(record, token=None)


def credentials_of(record: Record) -> Credentials:
    """What the client takes.

    Raises:
        InvalidCredentials: a token or key that cannot be one.
    """
    if record.token is not None:
        return personal_access_token(record.token.reveal())
    key = record.app_private_key.reveal() if record.app_private_key else ""
    return app_credentials(record.app_id, record.app_installation_id, key)


def decoded(data: Mapping[str, str], key: str) -> str:
    """The text under a key of a Secret's `data`; "" where there is none.

    Raises:
        InvalidRecord: it is no base64, or no text.
    """
    try:
        return base64.b64decode(data.get(key) or "", validate=True).decode()
    except (binascii.Error, ValueError):
        raise InvalidRecord(f"{key} is not text in base64") from None


def json_object(item: SecretText) -> dict[str, Any]:
    """The JSON object in a vault item.

    Raises:
        InvalidRecord: there is none.
    """
    try:
        members = json.loads(item.reveal())
    except (ValueError, RecursionError):
        raise InvalidRecord("the vault item is not JSON") from None
    if not isinstance(members, dict):
        raise InvalidRecord("the vault item is not a JSON object")
    return members


def _installation_id(digits: str) -> int:
    if not digits:
        return 0
    # Go's grammar: ASCII digits with an optional sign, nothing else that Python would take.
    if not digits.isascii() or not digits.lstrip("+-").isdecimal():
        raise InvalidRecord(f"{INSTALLATION_ID} is not an integer")
    try:
        return int(digits)
    except ValueError:
        raise InvalidRecord(f"{INSTALLATION_ID} is not an integer") from None


def _text_member(members: Mapping[str, Any], key: str) -> str:
    value = members.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRecord(f"{key} in the vault item is not a string")
    return value
