"""Ordering faults over HTTP, for a demo whose API server is a process of its own.

Off unless the wiring switches it on, and then only for who may `post` to the path by RBAC
(`system:masters`). What a fault does is `faults.py`.
"""

from typing import Any, Protocol

import msgspec

from runnerscale.apiserver.endpoints import Answer
from runnerscale.apiserver.failures import ApiFailure, bad_request, method_not_allowed
from runnerscale.apiserver.faults import FaultRule, Faults
from runnerscale.apiserver.paths import Request
from runnerscale.apiserver.record import encode_json

CONTROL_PATH = "/faults"


class Faulty(Protocol):
    """What can be broken beside single requests."""

    def cut_watches(self, resource: str = "") -> int:
        """End open watches."""
        ...

    def compact(self, resource: str = "") -> None:
        """Forget the history."""
        ...


class FaultOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of POST /faults: a rule, or one of the two acts."""

    cut_watches: bool = False
    compact: bool = False
    verbs: list[str] = []
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    times: int | None = None
    skip: int = 0
    chance: float = 1.0
    delay_seconds: float = 0.0
    code: int = 0  # of the answer; 0: no answer of its own
    reason: str = ""
    message: str = "a fault was ordered"
    retry_after_seconds: int | None = None
    drop_before: bool = False
    drop_after: bool = False


class FaultControl:
    """POST adds a rule or acts, DELETE removes all rules, GET counts them."""

    def __init__(self, faults: Faults, server: Faulty) -> None:
        """Acts on this server."""
        self._faults = faults
        self._server = server

    def answer(self, request: Request, body: bytes) -> Answer:
        """Carry out an order.

        Raises:
            ApiFailure: 400, 405.
        """
        done: dict[str, Any] = {}
        if request.method == "DELETE":
            self._faults.clear()
        elif request.method == "POST":
            try:
                order = msgspec.json.decode(body, type=FaultOrder)
            except msgspec.DecodeError as error:
                raise bad_request(f"the fault cannot be read: {error}") from None
            done = self._carry_out(order)
        elif request.method != "GET":
            raise method_not_allowed()
        return Answer(encode_json({"rules": len(self._faults.rules), **done}))

    def _carry_out(self, order: FaultOrder) -> dict[str, Any]:
        if order.cut_watches:
            return {"cut": self._server.cut_watches(order.resource)}
        if order.compact:
            self._server.compact(order.resource)
            return {}
        failure = None
        if order.code:
            failure = ApiFailure(
                order.code, order.reason, order.message, retry_after_s=order.retry_after_seconds
            )
        self._faults.add(
            FaultRule(
                verbs=frozenset(order.verbs),
                resource=order.resource,
                namespace=order.namespace,
                name=order.name,
                user=order.user,
                times=order.times,
                skip=order.skip,
                chance=order.chance,
                delay_s=order.delay_seconds,
                failure=failure,
                drop_before=order.drop_before,
                drop_after=order.drop_after,
            )
        )
        return {}
