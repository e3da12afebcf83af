"""The node's own HTTP server on loopback: logs for the API server, health, metrics, faults.

The log route is kubelet's, so that the API server asks for logs as it would ask a real node. A
bearer token is asked for: other users of the machine may reach the port. Faults have a token of
their own; without one there is no such route.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from runnerscale.core.clock import Clock, parse_time
from runnerscale.core.patience import PatientSite, let_in
from runnerscale.core.secret import SecretText
from runnerscale.node.agent import NodeAgent
from runnerscale.node.attempt_files import NodeFolder
from runnerscale.node.config import NodeConfigError
from runnerscale.node.container_run import ContainerRun
from runnerscale.node.environment import LOOPBACK
from runnerscale.node.faults import FaultRefused, decode_fault
from runnerscale.node.log_files import LogReader, LogRequest

log = structlog.get_logger(__name__)

BODY_MAX_BYTES = 64 * 1024
FOLLOW_MAX_S = 4 * 3600.0  # a reader who went away without a word
SHUTDOWN_S = 1.0
KEEPALIVE_S = 75.0
DIGITS_MAX = 18

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BadLogRequest(Exception):
    """The reader asked for something that makes no sense; 400 with this text."""


def log_request(query: Mapping[str, str], now_s: float) -> tuple[LogRequest, bool, bool]:
    """What is asked for, whether to follow, whether the attempt before is meant.

    Raises:
        BadLogRequest: a number that is none.
    """
    request = LogRequest(
        tail_lines=_number(query, "tailLines"),
        timestamps=_flag(query, "timestamps"),
        limit_bytes=_number(query, "limitBytes"),
        since_s=_since(query, now_s),
    )
    return request, _flag(query, "follow"), _flag(query, "previous")


class NodeServer:
    """`async with` around the agent's work; the port is known inside."""

    def __init__(
        self,
        folder: NodeFolder,
        *,
        token: SecretText,
        control_token: SecretText | None,
        registry: CollectorRegistry,
        clock: Clock,
        port: int = 0,
    ) -> None:
        """`port` 0 takes a free one."""
        self._folder = folder
        self._token = token
        self._control_token = control_token
        self._registry = registry
        self._clock = clock
        self._wanted_port = port
        self._agent: NodeAgent | None = None
        app = web.Application(client_max_size=BODY_MAX_BYTES)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._metrics)
        path = "/containerLogs/{namespace}/{pod}/{container}"
        app.router.add_get(path, self._guarded(self._logs, token))
        if control_token is not None:
            app.router.add_post("/faults", self._guarded(self._faults, control_token))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            auto_decompress=False,  # a body is read as it came: nothing is unpacked, ever
            shutdown_timeout=SHUTDOWN_S,
        )

    def serve(self, agent: NodeAgent) -> None:
        """From now on the questions are about this agent."""
        self._agent = agent

    @property
    def port(self) -> int:
        """The port in use."""
        addresses = self._runner.addresses
        return int(addresses[0][1]) if addresses else 0

    async def __aenter__(self) -> "NodeServer":
        """Listen. `NodeConfigError` when the port is taken."""
        await self._runner.setup()
        try:
            site = PatientSite(self._runner, LOOPBACK, self._wanted_port, keepalive_s=KEEPALIVE_S)
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise NodeConfigError(
                f"the node agent cannot listen on port {self._wanted_port}: "
                f"{error.strerror or error}; choose another, or 0 for a free one"
            ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def _guarded(self, handler: Handler, token: SecretText) -> Handler:
        expected = f"Bearer {token.reveal()}".encode()

        async def guarded(request: web.Request) -> web.StreamResponse:
            given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
            if not hmac.compare_digest(given, expected):
                return web.Response(status=401, text="Unauthorized")
            let_in(request)
            return await handler(request)

        return guarded

    async def _health(self, _request: web.Request) -> web.Response:
        ready = self._agent is not None and self._agent.ready
        return web.Response(text="ok" if ready else "starting", status=200 if ready else 503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _faults(self, request: web.Request) -> web.Response:
        if self._agent is None:
            return web.Response(status=503, text="starting")
        try:
            fault = decode_fault(msgspec.json.decode(await request.read()))
            struck = self._agent.faults.inject(fault)
        except (msgspec.DecodeError, RecursionError) as error:
            return web.json_response({"error": f"not JSON: {error}"}, status=400)
        except web.RequestPayloadError:  # cut, or not in the pieces it promised
            return web.json_response({"error": "the body cannot be decoded"}, status=400)
        except FaultRefused as refusal:
            return web.json_response({"error": str(refusal)}, status=400)
        return web.json_response({"struck": struck})

    # --- logs ------------------------------------------------------------------------------

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        where = request.match_info
        namespace, name, container = where["namespace"], where["pod"], where["container"]
        worker = self._agent.find(namespace, name) if self._agent else None
        if worker is None:
            return web.Response(status=404, text=f'pod "{name}" not found on this node')
        run = worker.run_of(container)
        if run is None:
            text = f"container {container} is not valid for pod {name}"
            return web.Response(status=400, text=text)
        try:
            asked, follow, previous = log_request(request.query, self._clock.now_s())
        except BadLogRequest as problem:
            return web.Response(status=400, text=str(problem))
        attempts = self._folder.attempts(worker.ref.uid, container)
        back = 2 if previous else 1
        if len(attempts) < back:
            return web.Response(status=400, text=_nothing_yet(name, container, run, previous))
        reader = LogReader(attempts[-back].path)
        if not follow or previous:
            body = await asyncio.to_thread(reader.read, asked)
            return web.Response(body=body, content_type="text/plain")
        return await self._follow(request, reader, asked, run)

    async def _follow(
        self, request: web.Request, reader: LogReader, asked: LogRequest, run: ContainerRun
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        process = run.process

        def ended() -> bool:
            return process is None or process.exit is not None

        try:
            async with asyncio.timeout(FOLLOW_MAX_S):
                async for chunk in reader.follow(asked, clock=self._clock, ended=ended):
                    await answer.write(chunk)
                await answer.write_eof()
        except (TimeoutError, ConnectionResetError):
            log.debug("log reader gone", path=request.path)
        return answer


def _nothing_yet(pod: str, container: str, run: ContainerRun, previous: bool) -> str:
    if previous:
        return f'previous terminated container "{container}" in pod "{pod}" not found'
    reason = run.trouble.reason if run.trouble else "ContainerCreating"
    return f'container "{container}" in pod "{pod}" is waiting to start: {reason}'


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise BadLogRequest(f"{name} is {text!r}, not a number of 0 or more")
    return int(text)


def _since(query: Mapping[str, str], now_s: float) -> float | None:
    seconds = _number(query, "sinceSeconds")
    if seconds is not None:
        return now_s - seconds
    text = query.get("sinceTime", "")
    try:
        return parse_time(text) if text else None
    except ValueError as error:
        raise BadLogRequest(f"sinceTime is {text!r}, not a time such as RFC 3339") from error


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true")
