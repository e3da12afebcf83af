"""The pretended GitHub as an HTTP server on the loopback interface.

The only file here that knows aiohttp: it reads requests into plain values, calls
`dispatch.py`, writes answers, and cuts connections where a fault says so. A held poll whose
client goes away is cancelled, so that a killed listener or runner is noticed at once.
"""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate

import structlog
from aiohttp import web

from runnerscale.core.clock import Clock
from runnerscale.core.patience import PatientSite, let_in
from runnerscale.core.randomness import Random
from runnerscale.core.small_file import read_small
from runnerscale.fake_github.answers import Answer
from runnerscale.fake_github.dispatch import Dropped, Incoming, dispatch
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.state import State

log = structlog.get_logger(__name__)

BODY_MAX_BYTES = 8 << 20
SHUTDOWN_S = 1.0  # held polls are not waited for
KEEPALIVE_S = 300.0  # between two requests of a listener


class FakeGitHubFailed(Exception):
    """The server cannot start; the text is one sentence for a person."""


class FakeGitHub:
    """The server: `app` to be served by whoever likes, `hub` and `state` to look inside."""

    def __init__(self, options: Options, *, clock: Clock, random: Random) -> None:
        """Nothing is opened yet: see `serve_fake_github`, or serve `app` yourself."""
        self.options = options
        self.hub = Hub(options, clock=clock, random=random)
        self.app = web.Application(client_max_size=BODY_MAX_BYTES)
        self.app.router.add_route("*", "/{path:.*}", self._serve)
        self.app.cleanup_ctx.append(self._timers)

    @property
    def state(self) -> State:
        """All that is remembered."""
        return self.hub.state

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:port` once it listens."""
        return self.hub.base_url

    async def _timers(self, _app: web.Application) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.hub.run_timers())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        let_in(request)  # it believes whoever is on loopback
        try:
            body = await request.read()
        except web.RequestPayloadError:  # cut, or not in the pieces it promised
            return web.Response(status=400, text="the body cannot be decoded")
        incoming = Incoming(
            method=request.method,
            scheme=request.scheme,
            host=request.host,
            path=request.rel_url.raw_path,
            query=dict(request.rel_url.query),
            headers={name.lower(): value for name, value in request.headers.items()},
            body=body,
        )
        try:
            answer = await dispatch(self.hub, incoming)
        except Dropped:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        except Exception:  # a bug of ours is a 500 and a log line, not the end
            log.exception("request failed", method=request.method, path=incoming.path)
            answer = Answer(500, b'{"message":"the fake GitHub has a bug"}')
        return self._response(answer)

    def _response(self, answer: Answer) -> web.Response:
        headers = {
            "Date": formatdate(self.hub.shown_s(), usegmt=True),
            "Server": "GitHub.com",
            **answer.headers,
        }
        if answer.content_type and answer.status not in (204, 304):
            headers["Content-Type"] = answer.content_type
        body = answer.body if answer.status not in (204, 304) else None
        return web.Response(status=answer.status, body=body, headers=headers)


@asynccontextmanager
async def serve_fake_github(
    options: Options, *, clock: Clock, random: Random
) -> AsyncIterator[FakeGitHub]:
    """The server, listening, for the length of the block.

    Raises:
        FakeGitHubFailed: the port is taken, or the certificate cannot be read.
    """
    fake = FakeGitHub(options, clock=clock, random=random)
    context = _tls(options)
    runner = web.AppRunner(
        fake.app,
        access_log=None,
        auto_decompress=False,  # a body is read as it came: nothing is unpacked, ever
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    try:
        try:
            site = PatientSite(
                runner,
                options.host,
                options.port,
                ssl_context=context,
                keepalive_s=KEEPALIVE_S,
            )
            await site.start()
        except OSError as problem:
            raise FakeGitHubFailed(_why_not_listening(options, problem)) from problem
        port = runner.addresses[0][1]
        host = f"[{options.host}]" if ":" in options.host else options.host
        fake.hub.base_url = f"{'https' if context else 'http'}://{host}:{port}"
        log.info("fake GitHub listens", url=fake.base_url, assignment=options.assignment.value)
        yield fake
    finally:
        await runner.cleanup()


async def run_fake_github(
    options: Options,
    *,
    clock: Clock,
    random: Random,
    on_ready: Callable[[FakeGitHub], None] | None = None,
) -> None:
    """Serve until cancelled; `on_ready` is called once it listens.

    Raises:
        FakeGitHubFailed: the port is taken, or the certificate cannot be read.
    """
    async with serve_fake_github(options, clock=clock, random=random) as fake:
        if on_ready is not None:
            on_ready(fake)
        await asyncio.Event().wait()


def _tls(options: Options) -> ssl.SSLContext | None:
    if not options.certificate_file:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        for name in (options.certificate_file, options.key_file):
            read_small(name)  # what loads them would wait for a pipe
        context.load_cert_chain(options.certificate_file, options.key_file)
    except (OSError, ssl.SSLError) as problem:
        raise FakeGitHubFailed(
            f"The certificate {options.certificate_file} with key {options.key_file} cannot be "
            f"used ({problem}). Give two PEM files that belong together."
        ) from problem
    return context


def _why_not_listening(options: Options, problem: OSError) -> str:
    if problem.errno == errno.EADDRINUSE:
        return (
            f"Port {options.port} on {options.host} is already in use. "
            "Give another port, or 0 to take a free one."
        )
    return f"Cannot listen on {options.host} port {options.port}: {problem.strerror or problem}."
