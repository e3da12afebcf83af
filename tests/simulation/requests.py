"""Who asks the API server, and what happens just before its request is served.

The server knows users; two replicas of a controller are one user. Each component of this world
sends its own name as its User-Agent, and `AGENT` has it while the request is served. Faults that
have to come between a client's read and its write put themselves into `Requests.before`.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from aiohttp import web

from runnerscale.apiserver.paths import Request, parse_request
from runnerscale.apiserver.server import ApiServer

AGENT: ContextVar[str] = ContextVar("agent", default="")

Before = Callable[[str, Request], Awaitable[None]]  # agent, request
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Requests:
    """Of one world: outlives its API servers."""

    def __init__(self) -> None:
        self.before: list[Before] = []

    def listen(self, server: ApiServer) -> None:
        """From now on the requests to that server are known; before it listens."""

        @web.middleware
        async def serve(http: web.Request, handler: Handler) -> web.StreamResponse:
            agent = http.headers.get("User-Agent", "")
            AGENT.set(agent)
            for act in list(self.before):
                await act(agent, parse_request(http.method, http.raw_path))
            return await handler(http)

        server.app.middlewares.append(serve)
