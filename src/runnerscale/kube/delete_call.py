"""What a DELETE carries, and what its answer says. Pure."""

from typing import Any

import msgspec

from runnerscale.kube.errors import BadAnswer
from runnerscale.kube.watch import UNREADABLE


class _KindOnly(msgspec.Struct):
    kind: str | None = None


_kind_only = msgspec.json.Decoder(_KindOnly)


def kind_of(body: bytes) -> str:
    """The kind of the answer: `Status` where the object is gone at once.

    Raises:
        BadAnswer: no object.
    """
    try:
        return _kind_only.decode(body).kind or ""
    except UNREADABLE as error:
        raise BadAnswer(f"the answer to a delete is not an object: {error}") from error


def delete_options(
    uid: str | None,
    resource_version: str | None,
    grace_period_s: int | None,
    propagation: str | None,
) -> dict[str, Any]:
    """The body, empty where nothing is asked for. `grace_period_s` 0: at once."""
    options: dict[str, Any] = {}
    if uid is not None or resource_version is not None:
        wanted = {"uid": uid, "resourceVersion": resource_version}
        options["preconditions"] = {name: v for name, v in wanted.items() if v is not None}
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if options:
        options |= {"apiVersion": "v1", "kind": "DeleteOptions"}
    return options
