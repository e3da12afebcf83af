"""Which API server, and who we are there: from files and environment to a ready client.

The order is controller-runtime's: a path that was given, `KUBECONFIG`, the files that a pod
gets, `~/.kube/config`. Reading a kubeconfig is `kubeconfig.py`, a pod's files `in_cluster.py`;
here is what both lead to, and how a client is made from it.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from runnerscale.core.clock import Clock
from runnerscale.core.http_dial import Dial, tcp_dial
from runnerscale.core.randomness import Random
from runnerscale.core.secret import SecretText
from runnerscale.kube.client import KubeClient
from runnerscale.kube.credentials import (
    Anonymous,
    BasicLogin,
    Credentials,
    StaticToken,
    TokenFile,
)
from runnerscale.kube.errors import ConfigError
from runnerscale.kube.exec_plugin import ExecCredentials, ExecPlugin, RunProcess, run_process
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.pem import ClientCertificate
from runnerscale.kube.transport import Endpoint, NetworkTransport

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are. At most one of the ways is set; a certificate may come with any of them."""

    token: SecretText | None = None
    token_file: Path | None = None
    user: str = ""
    password: SecretText = field(default_factory=lambda: SecretText(""))
    exec_plugin: ExecPlugin | None = None
    certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Everything that decides how the API server is reached."""

    server: str
    namespace: str = "default"
    ca_pem: str = ""  # "": the machine's own roots
    insecure: bool = False
    server_name: str = ""
    proxy_url: str = ""
    login: Login = field(default_factory=Login)
    source: str = ""  # for messages: the file, or "in-cluster"
    reread: "Callable[[], ClusterConfig] | None" = field(default=None, compare=False, repr=False)


def load_config(
    kubeconfig_path: str | Path | None, environ: Mapping[str, str], *, context: str = ""
) -> ClusterConfig:
    """How to reach the API server.

    Args:
        kubeconfig_path: what a flag said; None or "": look for it.
        environ: the environment of the process.
        context: the kubeconfig's context to use, where it is not the current one.

    Raises:
        ConfigError: nothing says so, or what says so is unreadable or contradicts itself.
    """

    def read() -> ClusterConfig:
        return _read_config(kubeconfig_path, environ, context)

    return replace(read(), reread=read)


def _read_config(
    kubeconfig_path: str | Path | None, environ: Mapping[str, str], context: str
) -> ClusterConfig:
    # Imported here: both lead back to the types above.
    from runnerscale.kube.in_cluster import in_cluster_config, is_in_cluster
    from runnerscale.kube.kubeconfig import read_kubeconfig

    if kubeconfig_path:
        return read_kubeconfig([Path(kubeconfig_path)], context=context)
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return read_kubeconfig(listed, context=context)
    if is_in_cluster(environ):
        return in_cluster_config(environ)
    home = Path(environ.get("HOME", "")) / ".kube" / "config"
    if environ.get("HOME") and home.is_file():
        return read_kubeconfig([home], context=context)
    raise ConfigError(
        "cannot tell where the API server is: pass --kubeconfig, set KUBECONFIG, or run in a pod "
        f"with a service account (there is no {home} either)"
    )


def open_client(
    config: ClusterConfig,
    *,
    clock: Clock,
    random: Random,
    metrics: KubeMetrics | None = None,
    user_agent: str = "runnerscale",
    dial: Dial = tcp_dial,
    process: RunProcess = run_process,
    environ: Mapping[str, str] | None = None,
) -> KubeClient:
    """The client that this configuration leads to. Nothing is sent yet; close it in the end.

    `dial` makes the connections where there is no proxy; `process` and `environ` serve exec
    plugins only.

    Raises:
        ConfigError: the certificates cannot be used.
    """
    tls = tls_context(config, config.login.certificate)
    if tls is not None and config.insecure:
        log.warning(
            "the API server's certificate is not checked",
            server=config.server,
            asked_by=f"insecure-skip-tls-verify in {config.source}",
        )
    endpoint = Endpoint(config.server, tls, config.server_name, config.proxy_url)
    transport: NetworkTransport = (
        _proxied(endpoint) if config.proxy_url else HttptoolsTransport(endpoint, dial=dial)
    )
    transport.on_untrusted = _Authority(config, transport).look_again
    credentials = _credentials(config, transport, clock, process, environ or {})
    return KubeClient(
        transport,
        clock=clock,
        random=random,
        credentials=credentials,
        metrics=metrics,
        user_agent=user_agent,
    )


def _proxied(endpoint: Endpoint) -> NetworkTransport:
    # Loaded only where a kubeconfig names a proxy: it is 10 MiB large.
    from runnerscale.kube.aiohttp_transport import AiohttpTransport

    return AiohttpTransport(endpoint)


class _Authority:
    """Authorities are exchanged under running processes: a cluster's own, every few years."""

    def __init__(self, config: ClusterConfig, transport: NetworkTransport) -> None:
        self._config = config
        self._transport = transport
        self._ca_pem = config.ca_pem

    def look_again(self) -> bool:
        """The certificate was refused. True: the authority is another one by now, and used."""
        reread = self._config.reread
        if reread is None:
            return False
        try:
            found = reread()
            if found.ca_pem == self._ca_pem:
                return False
            tls = tls_context(found, self._config.login.certificate)
        except ConfigError as error:
            log.warning("the API server's authority cannot be read again", error=str(error))
            return False
        if tls is None:
            return False
        self._ca_pem = found.ca_pem
        self._transport.use_tls(tls)
        log.info("the API server's authority was exchanged", source=self._config.source)
        return True


def _credentials(
    config: ClusterConfig,
    transport: NetworkTransport,
    clock: Clock,
    process: RunProcess,
    environ: Mapping[str, str],
) -> Credentials:
    login = config.login
    if login.exec_plugin is not None:
        return ExecCredentials(
            login.exec_plugin,
            clock=clock,
            run=process,
            environ=environ,
            on_certificate=lambda found: _exchange(transport, config, found),
        )
    if login.token_file is not None:
        return TokenFile(login.token_file, clock=clock)
    if login.token is not None:
        return StaticToken(login.token)
    if login.user:
        return BasicLogin(login.user, login.password)
    return Anonymous()


def _exchange(
    transport: NetworkTransport,
    config: ClusterConfig,
    certificate: ClientCertificate,
) -> None:
    tls = tls_context(config, certificate)
    if tls is not None:
        transport.use_tls(tls)


def tls_context(
    config: ClusterConfig, certificate: ClientCertificate | None
) -> ssl.SSLContext | None:
    """The TLS settings; None for a server on plain HTTP.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    if not config.server.startswith("https://"):
        return None
    try:
        context = ssl.create_default_context(cadata=config.ca_pem or None)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
        raise ConfigError(
            f"{config.source}: the certificate authority of {config.server} is not usable: {error}"
        ) from error
    # Cluster authorities made years ago lack extensions that newer Pythons insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_certificate(context, certificate, config.source)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate, source: str) -> None:
    # The ssl module reads from a file only: private, for the moment of reading.
    handle, path = tempfile.mkstemp(prefix="runnerscale-", suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{certificate.key.reveal()}\n{certificate.certificate_pem}")
        context.load_cert_chain(path)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{source}: the client certificate and its key are not usable: {error}"
        ) from error
    finally:
        with suppress(OSError):
            Path(path).unlink()
