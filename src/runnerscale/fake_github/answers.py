"""A request and its answer as plain values, and how handlers take requests apart.

Handlers know nothing of sockets: they get a `Call`, return an `Answer`, or raise `Refused`.
`server.py` turns one into the other.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from runnerscale.fake_github.addresses import Place
from runnerscale.fake_github.refusals import Refused, bad_argument, rest
from runnerscale.fake_github.wire import encode, error_json, rest_error_json

S = TypeVar("S", bound=msgspec.Struct)

JSON_TYPE = "application/json; charset=utf-8"
SERVICE_TYPE = "application/json; charset=utf-8; api-version=6.0-preview.1"
ID_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class Call:
    """One request. Header names are in lower case."""

    method: str
    scheme: str
    host: str  # with the port, if the client said one
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    place: Place
    params: Mapping[str, str]

    def bearer(self, scheme: str = "Bearer") -> str:
        """The token of the Authorization header, empty without one."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if kind.casefold() == scheme.casefold() else ""

    def number(self, name: str) -> int:
        """A numeric part of the path.

        Raises:
            Refused: 404, as a router would.
        """
        text = self.params[name]
        if not text.isascii() or not text.isdigit() or len(text) > ID_DIGITS_MAX:
            raise rest(404, "Not Found")
        return int(text)

    def query_number(self, name: str, default: float) -> float:
        """A number of the query.

        Raises:
            Refused: 400.
        """
        text = self.query.get(name, "")
        try:
            return float(text) if text else default
        except ValueError:
            raise bad_argument(f"{name} must be a number") from None

    def json(self) -> object:
        """The body as JSON.

        Raises:
            Refused: 400.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise bad_argument("The body is not valid JSON.") from None

    def json_object(self) -> dict[str, object]:
        """The body as a JSON object.

        Raises:
            Refused: 400.
        """
        value = self.json()
        if not isinstance(value, dict):
            raise bad_argument("The body must be a JSON object.")
        return value

    def decode(self, kind: type[S]) -> S:
        """The body as one of our own types; unknown members are refused by name.

        Raises:
            Refused: 400 that names the member.
        """
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except msgspec.DecodeError as problem:
            raise rest(400, f"the body cannot be used: {problem}") from None


@dataclass(slots=True)
class Answer:
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict)


def json_answer(value: object, status: int = 200, content_type: str = JSON_TYPE) -> Answer:
    """A value as JSON."""
    return Answer(status, encode(value), content_type)


def service_answer(value: object) -> Answer:
    """A 200 of the Actions service."""
    return json_answer(value, content_type=SERVICE_TYPE)


def nothing(status: int = 204) -> Answer:
    """No body."""
    return Answer(status, b"", "")


def refusal_answer(refused: Refused, *, in_service: bool) -> Answer:
    """The error body in the style of the part of GitHub that says no."""
    if refused.code:
        value: dict[str, object] = {"code": refused.code, "message": refused.message}
    elif refused.type_name:
        value = error_json(refused.type_name, refused.message)
    else:
        value = rest_error_json(refused.message)
    made = json_answer(value, refused.status, SERVICE_TYPE if in_service else JSON_TYPE)
    made.headers.update(refused.headers)
    return made
