"""What each of GitHub's answers must contain, and the typed value made of it.

How JSON is read is `decode.py`. What we cannot do without is asked for here, so that a
missing member is one clear error and no crash further on (weaknesses W14, W15, W46).

Pure. Contract: github-service-and-listener 2.2-2.8, 2.11-2.13, 4.4.
"""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.decode import DecodeError, Fields, parse, parse_object
from runnerscale.scaleset.model import (
    JitConfig,
    RunnerGroup,
    RunnerReference,
    RunnerScaleSet,
    Statistics,
)

T = TypeVar("T")

NIL_UUID = "00000000-0000-0000-0000-000000000000"


class SeveralFound(DecodeError):
    """A lookup by name that found more than one."""


@dataclass(frozen=True, slots=True)
class Session:
    """A message session as GitHub handed it out. `statistics` None: it sent none."""

    id: str
    queue_url: SecretText
    queue_token: SecretText
    statistics: Statistics | None


EXPIRY_S_END = 1e12  # some 30,000 years: nothing that ends later is a moment


def decode_statistics(fields: Fields | None) -> Statistics | None:
    """The numbers of a scale set, if they were sent."""
    if fields is None:
        return None
    return Statistics(
        available_jobs=fields.integer("totalAvailableJobs"),
        acquired_jobs=fields.integer("totalAcquiredJobs"),
        assigned_jobs=fields.integer("totalAssignedJobs"),
        running_jobs=fields.integer("totalRunningJobs"),
        registered_runners=fields.integer("totalRegisteredRunners"),
        busy_runners=fields.integer("totalBusyRunners"),
        idle_runners=fields.integer("totalIdleRunners"),
    )


def decode_token(body: bytes) -> tuple[SecretText, float]:
    """A registration or installation token and when it ends (0: it does not say)."""
    fields = parse_object(body)
    token = fields.text("token")
    if not token:
        raise DecodeError("token is missing")
    try:
        ends_s = fields.time_s("expires_at")
    except DecodeError:
        ends_s = 0.0  # worth less reuse, not worth a failure
    return SecretText(token), ends_s


def decode_connection(body: bytes) -> tuple[str, SecretText]:
    """The tenant's URL and the admin token."""
    fields = parse_object(body)
    url, token = fields.text("url"), fields.text("token")
    if not url:
        raise DecodeError("actions service admin connection missing url")
    if not token:
        raise DecodeError("actions service admin connection missing token")
    _require_http(url, "actions service admin connection url")
    return url, SecretText(token)


def jwt_expiry_s(token: SecretText) -> float:
    """The `exp` of a JWT, in seconds since the epoch. Its signature is not our business."""
    parts = token.reveal().split(".")
    if len(parts) != 3:
        raise DecodeError("the admin token is not a JWT")
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except (ValueError, binascii.Error, RecursionError):
        raise DecodeError("the admin token is not a JWT") from None
    expiry = claims.get("exp") if isinstance(claims, dict) else None
    if (
        isinstance(expiry, bool)
        or not isinstance(expiry, int | float)
        or not abs(expiry) < EXPIRY_S_END  # also false for NaN
    ):
        raise DecodeError("the admin token has no numeric exp")
    return float(expiry)


def decode_scale_set(body: bytes) -> RunnerScaleSet | None:
    """A scale set; None for a literal `null`."""
    value = parse(body)
    return None if value is None else _scale_set(parse_object(body))


def decode_runner(body: bytes) -> RunnerReference:
    """A runner."""
    return _runner(parse_object(body))


def decode_found_scale_set(body: bytes, name: str) -> RunnerScaleSet | None:
    """The one scale set that a lookup by name found, or none."""
    return _single(body, _scale_set, f'multiple runner scale sets found with name "{name}"')


def decode_found_runner(body: bytes, name: str) -> RunnerReference | None:
    """The one runner that a lookup by name found, or none."""
    return _single(body, _runner, f'multiple runners found with name "{name}"')


def decode_found_group(body: bytes, name: str) -> RunnerGroup | None:
    """The one runner group that a lookup by name found, or none."""
    return _single(body, _group, f'multiple runner group found with name "{name}"')


def decode_jit_config(body: bytes) -> JitConfig:
    """A registration and its start-up configuration, both present."""
    fields = parse_object(body)
    runner, encoded = fields.object("runner"), fields.text("encodedJITConfig")
    if runner is None or not encoded:
        raise DecodeError("the answer lacks the runner or its encodedJITConfig")
    return JitConfig(_runner(runner), SecretText(encoded))


def decode_session(body: bytes) -> Session:
    """A message session that can be used."""
    fields = parse_object(body)
    session_id = fields.text("sessionId")
    if not session_id or session_id == NIL_UUID:
        raise DecodeError("initial session is nil: sessionId is missing")
    url, token = fields.text("messageQueueUrl"), fields.text("messageQueueAccessToken")
    if not token:
        raise DecodeError("the session has no messageQueueAccessToken")
    _require_http(url, "the session's messageQueueUrl")
    statistics = decode_statistics(fields.object("statistics"))
    return Session(session_id, SecretText(url), SecretText(token), statistics)


def decode_session_id(body: bytes) -> str:
    """Only the id, for giving back a session that is otherwise unusable; "" if none."""
    try:
        session_id = parse_object(body).text("sessionId")
    except DecodeError:
        return ""
    return "" if session_id == NIL_UUID else session_id


def decode_acquired(body: bytes) -> list[int]:
    """The request ids that are ours now."""
    fields = parse_object(body)
    return [_request_id(element) for element in fields.array("value") or []]


def decode_acquirable(body: bytes) -> list[int]:
    """The request ids of the jobs that are offered; no body: none are.

    An element that cannot be read is passed over: it is offered again by a message.
    """
    value = parse(body) if body.strip() else []
    found = value if isinstance(value, list) else parse_object(body).array("value") or []
    ids = []
    for element in found:
        members = {k.lower(): v for k, v in element.items()} if isinstance(element, dict) else {}
        number = members.get("runnerrequestid")
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            ids.append(number)
    return ids


def _single(body: bytes, one: Callable[[Fields], T], several: str) -> T | None:
    fields = parse_object(body)
    found = fields.objects("value")
    count = fields.integer("count") if fields.has("count") else len(found)
    if count > 1:
        raise SeveralFound(several)
    if count < 1:
        return None
    if len(found) != 1:
        raise DecodeError(f"count is 1 but value has {len(found)} elements")
    return one(found[0])


def _scale_set(fields: Fields) -> RunnerScaleSet:
    setting = fields.object("RunnerSetting")
    scale_set_id = fields.integer("id")
    if scale_set_id <= 0:
        raise DecodeError("the scale set has no id")
    return RunnerScaleSet(
        id=scale_set_id,
        name=fields.text("name"),
        runner_group_id=fields.integer("runnerGroupId"),
        runner_group_name=fields.text("runnerGroupName"),
        labels=tuple(label.text("name") for label in fields.objects("labels")),
        disable_update=setting.boolean("disableUpdate") if setting else False,
        statistics=decode_statistics(fields.object("statistics")),
    )


def _runner(fields: Fields) -> RunnerReference:
    runner_id = fields.integer("id")
    if runner_id <= 0:
        raise DecodeError("the runner has no id")
    return RunnerReference(
        id=runner_id,
        name=fields.text("name"),
        scale_set_id=fields.integer("runnerScaleSetId"),
        status=_status(fields),
    )


def _status(fields: Fields) -> str:
    # A hint of newer services: whatever its type, it must not make the runner unreadable.
    try:
        return fields.text("status").lower()
    except DecodeError:
        return ""


def _group(fields: Fields) -> RunnerGroup:
    return RunnerGroup(
        id=fields.integer("id"),
        name=fields.text("name"),
        is_default=fields.boolean("isDefaultGroup"),
    )


def _request_id(element: Any) -> int:
    if isinstance(element, bool) or not isinstance(element, int):
        raise DecodeError("value is not a list of integers")
    return element


def _require_http(url: str, called: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise DecodeError(f"{called} is missing or no absolute http(s) URL")
