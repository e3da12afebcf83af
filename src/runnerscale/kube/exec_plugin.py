"""Credentials from a command that the kubeconfig names (`client.authentication.k8s.io`).

The command prints an ExecCredential with a token, a certificate, or both, and until when they
are good. It runs when something is needed: at the first call, when the time is up, after a
401; never twice at once. No terminal is offered: a plugin that insists on one is refused at
the beginning, in a sentence.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from runnerscale.core.clock import Clock, parse_time
from runnerscale.core.secret import SecretText
from runnerscale.kube.credentials import bearer
from runnerscale.kube.errors import ConfigError
from runnerscale.kube.pem import ClientCertificate

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIMEOUT_S = 60.0  # cloud plugins ask a metadata service, some after a cold start
EXPIRY_MARGIN_S = 30.0  # a token that ends in flight is a wasted call
RERUN_MIN_S = 5.0  # one that fails, or hands out ended tokens, is not run for every call
OUTPUT_BYTES_MAX = 1024 * 1024
COMPLAINT_MAX = 300


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """What the kubeconfig says about the command. `cluster` is passed on where it asks for it."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    code: int
    stdout: bytes
    stderr: bytes


# From arguments and the whole environment to how it ended; OSError if it cannot be started.
RunProcess = Callable[[Sequence[str], Mapping[str, str]], Awaitable[Finished]]


async def run_process(argv: Sequence[str], env: Mapping[str, str]) -> Finished:
    """Run a command without a terminal; it is killed when the caller gives up."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        stdout, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Finished(process.returncode or 0, stdout, stderr)


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_ExecCredential)


@dataclass(frozen=True, slots=True)
class Issued:
    """What a plugin handed out."""

    token: SecretText | None
    certificate: ClientCertificate | None
    expires_s: float | None  # wall time


def decode_issued(plugin: ExecPlugin, output: bytes) -> Issued:
    """Pure: the credential in a plugin's output.

    Raises:
        ConfigError: it is not one. What it is instead is not repeated: it may hold secrets.
    """
    try:
        document = _decoder.decode(output[:OUTPUT_BYTES_MAX])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(
            f"exec plugin {plugin.command} printed no ExecCredential", lasting=True
        ) from None
    if document.kind != "ExecCredential" or document.api_version != plugin.api_version:
        raise ConfigError(
            f"exec plugin {plugin.command} answered with {document.kind} of "
            f"{document.api_version}, the kubeconfig asks for {plugin.api_version}",
            lasting=True,
        )
    status = document.status or _Status()
    certificate = None
    if status.client_certificate_data and status.client_key_data:
        key = SecretText(status.client_key_data)
        certificate = ClientCertificate(status.client_certificate_data, key)
    token = bearer(status.token.strip(), "of the exec plugin") if status.token else None
    if token is None and certificate is None:
        raise ConfigError(
            f"exec plugin {plugin.command} gave neither a token nor a certificate with its key",
            lasting=True,
        )
    return Issued(token, certificate, _expiry(plugin, status.expiration_timestamp))


def _expiry(plugin: ExecPlugin, text: str | None) -> float | None:
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise ConfigError(
            f"exec plugin {plugin.command} gave an unreadable expirationTimestamp: {error}",
            lasting=True,
        ) from error


class ExecCredentials:
    """Credentials of one plugin, kept until they end."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        clock: Clock,
        run: RunProcess,
        environ: Mapping[str, str],
        on_certificate: Callable[[ClientCertificate], None],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`on_certificate` is told of each new certificate before it is needed."""
        self._plugin = plugin
        self._clock = clock
        self._run = run
        self._environ = environ
        self._on_certificate = on_certificate
        self._timeout_s = timeout_s
        self._issued: Issued | None = None
        self._issued_s = float("-inf")
        self._rejected = False
        self._failed: ConfigError | None = None
        self._failed_s = float("-inf")
        self._running = asyncio.Lock()

    async def authorization(self) -> SecretText | None:
        """See `Credentials`."""
        if self._is_good():
            return self._issued.token if self._issued else None
        async with self._running:
            if not self._is_good():  # else somebody else has just run it
                await self._renew_or_bear()
        return self._issued.token if self._issued else None

    async def _renew_or_bear(self) -> None:
        """Run the plugin; if it fails, what it gave before serves until its very end."""
        if self._clock.monotonic_s() - self._failed_s >= RERUN_MIN_S:
            self._failed = None
            try:
                await self._renew()
            except ConfigError as error:
                self._failed, self._failed_s = error, self._clock.monotonic_s()
        if self._failed is not None and not self._still_counts():
            # Another object each time: many callers raise it, each with a trace of its own.
            raise ConfigError(str(self._failed), lasting=self._failed.lasting)

    def _still_counts(self) -> bool:
        issued = self._issued
        if issued is None or self._rejected:
            return False
        return issued.expires_s is None or self._clock.now_s() < issued.expires_s

    def reject(self, used: SecretText | None) -> None:
        """See `Credentials`."""
        if self._issued is not None and self._issued.token == used:
            self._rejected = True

    def _is_good(self) -> bool:
        issued = self._issued
        if issued is None:
            return False
        if self._clock.monotonic_s() - self._issued_s < RERUN_MIN_S:
            return True
        if self._rejected:
            return False
        ends_s = issued.expires_s
        return ends_s is None or self._clock.now_s() < ends_s - EXPIRY_MARGIN_S

    async def _renew(self) -> None:
        plugin = self._plugin
        argv = (plugin.command, *plugin.args)
        env = {**self._environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": exec_info(plugin)}
        hint = f" ({plugin.install_hint})" if plugin.install_hint else ""
        try:
            async with asyncio.timeout(self._timeout_s):
                finished = await self._run(argv, env)
        except TimeoutError:
            raise ConfigError(
                f"exec plugin {plugin.command} did not end within {self._timeout_s:.0f} s"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"exec plugin {plugin.command} cannot be started: {os.strerror(error.errno or 0)}"
                f"{hint}",
                lasting=True,
            ) from error
        if finished.code != 0:
            complaint = finished.stderr[:COMPLAINT_MAX].decode("utf-8", errors="replace").strip()
            raise ConfigError(
                f"exec plugin {plugin.command} ended with code {finished.code}: {complaint}{hint}"
            )
        issued = decode_issued(plugin, finished.stdout)
        if issued.certificate is not None:
            before = self._issued.certificate if self._issued else None
            if issued.certificate != before:
                self._on_certificate(issued.certificate)
        self._issued = issued
        self._issued_s = self._clock.monotonic_s()
        self._rejected = False


def exec_info(plugin: ExecPlugin) -> str:
    """The value of KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    document = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(document).decode()
