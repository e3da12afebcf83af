"""The embedded API server as a whole: what it is made of, and how it runs as a process.

`ApiServer` is the server without a socket: `.app` is an aiohttp application that starts and
stops it, so that tests and simulations run it in process. `run_api_server` is the process:
data folder, certificates, tokens, kubeconfigs, listening on loopback. The wiring of the
whole product is `app/`.
"""

import asyncio
import contextlib
import errno
import ipaddress
import ssl as ssl_module
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from runnerscale.apiserver.admission import Admission, Hook, bootstrap_objects
from runnerscale.apiserver.authentication import Authenticator, Identity
from runnerscale.apiserver.builtin_kinds import builtin_kinds
from runnerscale.apiserver.certificates import UnusableFile, ensure_certificates
from runnerscale.apiserver.control import FaultControl
from runnerscale.apiserver.credentials import (
    IdentityRequest,
    ensure_identities,
    ensure_signing_key,
    kubeconfig_of,
    write_kubeconfig,
)
from runnerscale.apiserver.custom_kinds import BadDefinition, CustomKinds
from runnerscale.apiserver.deletion import Deletion
from runnerscale.apiserver.documents import Documents
from runnerscale.apiserver.endpoints import Endpoints
from runnerscale.apiserver.failures import BODY_BYTES_MAX
from runnerscale.apiserver.faults import Faults
from runnerscale.apiserver.handler import Handler, Parts, Served
from runnerscale.apiserver.housekeeping import Housekeeping
from runnerscale.apiserver.kinds import Registry
from runnerscale.apiserver.lists import Lists
from runnerscale.apiserver.metrics import ServerMetrics
from runnerscale.apiserver.operations import SYSTEM, Operations
from runnerscale.apiserver.pod_logs import PodLogs
from runnerscale.apiserver.rbac import Authorizer
from runnerscale.apiserver.reviews import Reviews
from runnerscale.apiserver.sqlite_journal import open_sqlite_store
from runnerscale.apiserver.store import Store, StoreError
from runnerscale.apiserver.watching import Watches
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.core.secret import SecretText

log = structlog.get_logger(__name__)

Json = dict[str, Any]

KEEPALIVE_S = 300.0
STOP_GRACE_S = 2.0
HANDSHAKE_S = 10.0  # it takes milliseconds; whoever only connects gives the descriptor back
CERTIFICATE_LOOK_S = 6 * 3600.0
BACKLOG = 1024


class CannotServe(Exception):
    """The server cannot start: one sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A listening server."""

    host: str
    port: int
    url: str
    runner: web.AppRunner

    async def stop(self) -> None:
        """Close the socket, end the watches, write out the store."""
        await self.runner.cleanup()


class ApiServer:
    """The server without its socket."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        random: Random,
        crds: Sequence[Json] = (),
        identities: Sequence[Identity] = (),
        signing_key: SecretText,
        root_ca: str = "",
        node_token: SecretText | None = None,
        log_session: Callable[[], aiohttp.ClientSession] = aiohttp.ClientSession,
        admission_hook: Hook | None = None,
        observer: Callable[[Served], None] | None = None,
        metrics: CollectorRegistry | None = None,
        fault_control: bool = False,
    ) -> None:
        """Put the parts together; nothing is read or started before the app starts.

        Args:
            store: `MemoryStore()` or `open_sqlite_store(path)`.
            crds: CustomResourceDefinition objects that are created or updated at start.
            identities: users with static tokens (group `system:masters` may do everything).
            signing_key: of service account tokens; at least 32 characters.
            root_ca: PEM of the CA, for the config map in every namespace and for kubeconfigs.
            node_token: bearer token that nodes ask for when their logs are read.
            log_session: makes the HTTP client that asks nodes for logs.
            admission_hook: stands for webhooks; see `admission.py`.
            observer: is told of every answered request (audit).
            metrics: counters go there and are served at /metrics.
            fault_control: whoever may do everything can also order faults over HTTP.
        """
        self.store = store
        self.registry = Registry(builtin_kinds())
        self.faults = Faults()
        self.watches = Watches(store, clock)
        self.address = ""  # host:port, known once it listens
        self._clock = clock
        self._crds = crds
        self._identities = {identity.name: identity for identity in identities}
        self._root_ca = root_ca
        self._authorizer = Authorizer(store)
        admission = Admission(store, clock, random, admission_hook, mounts_accounts=bool(root_ca))
        self.operations = Operations(store, admission, self._authorizer, clock=clock, random=random)
        self.deletion = Deletion(self.operations)
        self._custom = CustomKinds(self.registry, self.operations)
        self._housekeeping = Housekeeping(
            self.operations, self.deletion, self.registry, clock=clock, root_ca=root_ca
        )
        self.authenticator = Authenticator(store, clock, random, identities, signing_key)
        self._pod_logs = PodLogs(store, log_session, node_token or SecretText(""))
        parts = self._parts(random, metrics)
        parts.observer = observer
        parts.control = FaultControl(self.faults, self) if fault_control else None
        self.app = web.Application(client_max_size=BODY_BYTES_MAX)
        self.handler = Handler(parts)
        self.app.router.add_route("*", "/{path:.*}", self.handler)
        self.app.cleanup_ctx.append(self._running)
        self.app.on_shutdown.append(self._end_watches)

    def _parts(self, random: Random, metrics: CollectorRegistry | None) -> Parts:
        """What the HTTP front works with."""
        store, lists = self.store, Lists(self.store, self._clock)
        reviews = Reviews(store, self._authorizer, self.authenticator, self._clock)
        return Parts(
            store=store,
            authenticator=self.authenticator,
            authorizer=self._authorizer,
            endpoints=Endpoints(
                self.registry, store, self.operations, self.deletion, lists, reviews
            ),
            documents=Documents(
                self.registry,
                address=lambda: self.address,
                healthy=lambda: store.failure,
                metrics=metrics,
            ),
            lists=lists,
            watches=self.watches,
            pod_logs=self._pod_logs,
            faults=self.faults,
            metrics=ServerMetrics(metrics),
            clock=self._clock,
            random=random,
        )

    async def _end_watches(self, _app: web.Application) -> None:
        """First of all, so that stopping waits for nobody."""
        self.watches.cut()

    async def _running(self, _app: web.Application) -> AsyncIterator[None]:
        self.open()
        task = asyncio.get_running_loop().create_task(self._housekeeping.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._pod_logs.close()
            await self.store.close()

    def open(self) -> None:
        """Read the store, and see that what every cluster has is there."""
        self.store.open()
        for kind in self.registry.stored():
            self.store.table(kind.resource, kind.selectable)
        self._custom.load(self._crds)
        for resource, namespace, obj in bootstrap_objects():
            self._ensure(resource, namespace, obj)

    def _ensure(self, resource: str, namespace: str, obj: Json) -> None:
        kind = self.registry.of_resource(resource)
        assert kind is not None
        name = obj["metadata"]["name"]
        if self.operations.table(kind).get(namespace, name) is None:
            self.operations.create(kind, namespace, obj, SYSTEM)
        elif "rules" in obj:
            rules = obj["rules"]
            self.operations.patch(
                kind, namespace, name, lambda present: {**present, "rules": rules}, SYSTEM
            )

    def cut_watches(self, resource: str = "") -> int:
        """End the open watches of a resource type (`pods`, `ephemeralrunners.GROUP`), or all."""
        return self.watches.cut(resource)

    def compact(self, resource: str = "") -> None:
        """Forget the history: whoever watches from an older version is told 410."""
        for kind in self.registry.stored():
            if resource in ("", kind.resource):
                self.operations.table(kind).log.forget()

    def kubeconfig(self, identity: str, *, server: str = "", namespace: str = "default") -> Json:
        """The kubeconfig of an identity, for the address it listens on."""
        found = self._identities[identity]
        return kubeconfig_of(
            found,
            server=server or f"https://{self.address}",
            ca_pem=self._root_ca,
            namespace=namespace,
        )

    async def serve(
        self, host: str = "127.0.0.1", port: int = 0, ssl: ssl_module.SSLContext | None = None
    ) -> Serving:
        """Listen on a loopback address; port 0 takes a free one.

        Raises:
            CannotServe: the address is no loopback address, or the port is in use.
        """
        check_loopback(host)
        runner = web.AppRunner(
            self.app,
            access_log=None,
            auto_decompress=False,  # a body is read as it came: nothing is unpacked, ever
            handler_cancellation=True,
            keepalive_timeout=KEEPALIVE_S,
            shutdown_timeout=STOP_GRACE_S,
        )
        await runner.setup()
        site = _Site(runner, host, port, ssl_context=ssl, backlog=BACKLOG)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise CannotServe(
                f"the API server cannot listen on {host}:{port} ({error.strerror or error});"
                " stop what uses that port, or choose another"
            ) from None
        bound = runner.addresses[0][1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{bound}"
        scheme = "https" if ssl is not None else "http"
        return Serving(host, bound, f"{scheme}://{self.address}", runner)


class _Site(web.TCPSite):
    """A site that does not wait a minute for who connects and says nothing."""

    async def start(self) -> None:
        """Listen."""
        if self._ssl_context is None:
            await super().start()
            return
        await web.BaseSite.start(self)
        assert self._runner.server is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._runner.server,
            self._host,
            self._port,
            ssl=self._ssl_context,
            ssl_handshake_timeout=HANDSHAKE_S,
            backlog=self._backlog,
        )


def check_loopback(host: str) -> None:
    """This server has no business on a network.

    Raises:
        CannotServe: the host is not this machine alone.
    """
    if host == "localhost":
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise CannotServe(f"the API server listens on loopback only, not on {host}; use 127.0.0.1")


@dataclass(frozen=True, slots=True)
class ApiServerOptions:
    """What the process is told."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    crds: Sequence[Json] = ()
    identities: Sequence[IdentityRequest] = field(
        default_factory=lambda: (IdentityRequest("admin", ("system:masters",)),)
    )
    kubeconfig_dir: Path | None = None  # one NAME.yaml an identity; default DATA_DIR/kubeconfigs
    node_token: SecretText | None = None
    metrics: CollectorRegistry | None = None
    observer: Callable[[Served], None] | None = None
    on_ready: Callable[[Serving], None] | None = None
    fault_control: bool = False  # POST /faults for system:masters, see `control.py`


async def run_api_server(options: ApiServerOptions, *, clock: Clock, random: Random) -> None:
    """Serve until cancelled.

    When it listens, the kubeconfig of each identity has been written (mode 0600) and
    `on_ready` is called. Tokens, keys and certificates are made at the first start and kept
    in `data_dir`, so clients survive a restart on the same port.

    Raises:
        CannotServe: the folder, the address or the port cannot be used.
        StoreError: the database cannot be used, now or later.
    """
    folder = options.data_dir
    with _writing(folder):
        certificates = ensure_certificates(folder / "certificates", now_s=clock.now_s())
        identities = ensure_identities(folder / "tokens.json", options.identities)
        signing_key = ensure_signing_key(folder / "service-account.key")
    store = open_sqlite_store(folder / "objects.sqlite")
    server = ApiServer(
        store,
        clock=clock,
        random=random,
        crds=options.crds,
        identities=identities,
        signing_key=signing_key,
        root_ca=certificates.ca_pem,
        node_token=options.node_token,
        observer=options.observer,
        metrics=options.metrics,
        fault_control=options.fault_control,
    )
    context = certificates.server_context()
    try:
        serving = await server.serve(options.host, options.port, context)
    except BadDefinition as error:
        raise CannotServe(str(error)) from None
    renewing = asyncio.get_running_loop().create_task(_renew(folder, context, clock))
    try:
        where = options.kubeconfig_dir or folder / "kubeconfigs"
        with _writing(where):
            for identity in identities:
                write_kubeconfig(where / f"{identity.name}.yaml", server.kubeconfig(identity.name))
        log.info("API server ready", url=serving.url, kubeconfigs=str(where))
        if options.on_ready is not None:
            options.on_ready(serving)
        await store.failed.wait()
        raise StoreError(store.failure)
    finally:
        renewing.cancel()
        await serving.stop()


async def _renew(folder: Path, context: ssl_module.SSLContext, clock: Clock) -> None:
    """A server that runs for more than a year must not end up with a certificate of last year."""
    while True:
        await clock.sleep(CERTIFICATE_LOOK_S)
        try:
            found = ensure_certificates(folder / "certificates", now_s=clock.now_s())
            found.load_into(context)
        except (OSError, UnusableFile) as error:  # ssl's errors are OSErrors
            log.error("the server's certificate cannot be renewed", error=str(error))


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What goes wrong with the files of a folder, as one sentence."""
    try:
        yield
    except OSError as error:
        remedy = "choose a folder that this user may write to"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "free some of the disk, then start again"
        raise CannotServe(
            f"{folder}: the data folder cannot be used ({error.strerror}); {remedy}"
        ) from None
    except UnusableFile as error:
        raise CannotServe(f"{error}; {error.remedy}") from None
