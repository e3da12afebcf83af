"""A GitHub that is a Python function: what the client's tests talk to.

Two REST exchanges are answered as the contract has them; everything else is the test's.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock, ManualClock
from runnerscale.core.randomness import seeded
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import Credentials, personal_access_token
from runnerscale.scaleset.limits import HostLimits
from runnerscale.scaleset.retry import RetryPolicy
from runnerscale.scaleset.transport import Request, Response, TransportFault

TENANT = "https://tenant.example/tenant/123/"
QUEUE = "https://queue.example/messages"
# No jitter, so that a test may name the waits.
CALM = RetryPolicy(backoff=Backoff(first_s=1.0, cap_s=30.0, jitter=0.0), spread_s=0.0)
ONE_RETRY = RetryPolicy(retries_max=1, backoff=CALM.backoff, spread_s=0.0)
REASONS = {200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 400: "Bad Request"}
REASONS |= {401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 410: "Gone"}
REASONS |= {429: "Too Many Requests", 500: "Internal Server Error", 501: "Not Implemented"}
REASONS |= {502: "Bad Gateway", 503: "Service Unavailable"}

Answer = Response | TransportFault
Handler = Callable[["Seen"], Answer | Awaitable[Answer]]


@dataclass(frozen=True)
class Seen:
    """A request as a test wants to look at it."""

    request: Request

    @property
    def method(self) -> str:
        return self.request.method

    @property
    def path(self) -> str:
        return urlsplit(self.request.url).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.request.url).query, keep_blank_values=True)

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.request.headers)

    @property
    def token(self) -> str:
        return self.headers["Authorization"].partition(" ")[2]

    @property
    def json(self) -> Any:
        return json.loads(self.request.body or b"null")


def reply(
    status: int = 200, body: Any = None, *, text: str | None = None, **headers: str
) -> Response:
    """A response; `body` as JSON, `text` as text/plain. Header names with `_` for `-`."""
    names = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    raw = b""
    if text is not None:
        raw, names = text.encode(), {"content-type": "text/plain", **names}
    elif isinstance(body, bytes):
        raw = body
    elif body is not None:
        raw, names = json.dumps(body).encode(), {"content-type": "application/json", **names}
    return Response(status, REASONS.get(status, ""), names, raw)


def exception(status: int, name: str, message: str = "said so", **headers: str) -> Response:
    return reply(status, {"typeName": name, "message": message}, **headers)


def admin_jwt(*, exp: Any, mark: str = "admin") -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {} if exp is None else {"exp": exp}
    return f"{part({'alg': 'RS256'})}.{part(claims | {'mark': mark})}.c2lnbmF0dXJl"


@dataclass
class Stub:
    """The network. `actions` answers what is not REST; `registration` may be replaced."""

    clock: Clock
    actions: Handler = lambda seen: reply(404)
    token_life_s: float = 3600.0
    seen: list[Seen] = field(default_factory=list)
    has_proxy: bool = False
    has_root_ca: bool = False
    closed: bool = False
    rest: dict[str, Handler] = field(default_factory=dict)

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        seen = Seen(request)
        self.seen.append(seen)
        handler = self.actions
        for ending, rest_handler in {**self._defaults(), **self.rest}.items():
            if seen.path.endswith(ending):
                handler = rest_handler
        answer = handler(seen)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, TransportFault):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True

    def _defaults(self) -> dict[str, Handler]:
        return {
            "/registration-token": lambda seen: reply(201, {"token": "registration"}),
            "/actions/runner-registration": lambda seen: self.registered(),
        }

    def registered(self, mark: str = "admin") -> Response:
        exp = self.clock.now_s() + self.token_life_s
        return reply(200, {"url": TENANT, "token": admin_jwt(exp=exp, mark=mark)})

    def calls(self, *, rest: bool = False) -> list[Seen]:
        """The Actions calls, or the REST calls, in order."""
        return [
            s for s in self.seen if (urlsplit(s.request.url).hostname == "api.github.com") is rest
        ]


def in_turn(*answers: Answer) -> Handler:
    """Each call gets the next; the last one for ever."""
    left = list(answers)
    return lambda seen: left.pop(0) if len(left) > 1 else left[0]


def client_of(
    stub: Stub,
    *,
    config_url: str = "https://github.com/my-org",
    credentials: Credentials | None = None,
    policy: RetryPolicy = CALM,
    limits: HostLimits | None = None,
) -> ScaleSetClient:
    return ScaleSetClient(
        config_url,
        credentials or personal_access_token("token"),
        transport=stub,
        clock=stub.clock,
        random=seeded(1),
        policy=policy,
        limits=limits,
    )


def stub_with(actions: Handler | None = None) -> Stub:
    return Stub(ManualClock(), actions or (lambda seen: reply(404)))
