"""From a place to a ready client: cached by content, changed when what it refers to changes.

    place -> what it refers to (`source.py`, remembered for less than a minute)
          -> a client, found by the whole of what was read, so that a rotated token, another
             proxy or another CA is another client, and equal places share one (weakness W22)

A client that nobody asked for in a while is closed. When GitHub refuses credentials, what
they came from is read again at once. When proxy, CA or vault of a place that worked become
unreadable, its last good client goes on working, and `resolve` says what is wrong. Which
object is at which place is the caller's to say.

Contract: resources-and-controllers 5.4; github-service-and-listener 3.5, W43.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from runnerscale.api.reasons import Reason
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.credentials.ca import check_reference
from runnerscale.credentials.place import GitHubPlace, PlaceTrouble, Proxy, Resolved
from runnerscale.credentials.proxy import flattened, references
from runnerscale.credentials.record import Record, credentials_of
from runnerscale.credentials.source import (
    KubernetesSource,
    Look,
    Readings,
    SecretSource,
    VaultReader,
    VaultSource,
    certificate_item,
    secret_item,
    trouble,
    vault_item,
)
from runnerscale.credentials.vault import AzureVaults
from runnerscale.kube.client import Client
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.config_url import force_ghes_in, parse_config_url
from runnerscale.scaleset.credentials import Credentials
from runnerscale.scaleset.errors import InvalidCertificate, InvalidCredentials, InvalidProxy
from runnerscale.scaleset.limits import HostLimits
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.proxy import ProxyRules, proxies_in
from runnerscale.scaleset.retry import RetryPolicy
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.transport import Transport
from runnerscale.scaleset.user_agent import SystemInfo

log = structlog.get_logger(__name__)

AZURE = "azure_key_vault"
AGE_MAX_S = 50.0  # of what a client is made of: with the caller's own pace, live in a minute
RESOLVED_AGE_MAX_S = 20.0  # of what is handed on: others need the rest of the minute
UNUSED_MAX_S = 600.0
CLIENTS_MAX = 1024
LAST_GOOD_S = 5.0  # how long a last good client stands before we look again

# What may become unreadable without touching what works.
_LAST_GOOD = (Reason.PROXY_INVALID, Reason.CERTIFICATE_INVALID, Reason.VAULT_FAILED)

TransportFactory = Callable[[NetworkOptions], Transport]


@dataclass(frozen=True, slots=True)
class _Found:
    """All that a place refers to, read."""

    record: Record
    proxies: ProxyRules
    root_ca_pem: str
    oldest_s: float


@dataclass(slots=True)
class _Ready:
    client: ScaleSetClient
    used_s: float


class ClientCache:
    """The `Clients` of a process. Close it at the end."""

    def __init__(
        self,
        kube: Client,
        *,
        clock: Clock,
        random: Random,
        system_info: SystemInfo,
        environ: Mapping[str, str],
        transport_factory: TransportFactory = open_transport,
        vault: VaultReader | None = None,
        policy: RetryPolicy | None = None,
        limits: HostLimits | None = None,
    ) -> None:
        """Nothing is read or opened yet.

        Args:
            kube: reads Secrets and config maps; each once a minute at most.
            environ: of the process, read once: its proxies serve places without any of their
                own, and it may say that no host is GitHub's own.
            transport_factory: makes a client's network; where tests put theirs in.
            limits: of calls at once and pauses, shared by all clients of the process.
        """
        self._clock = clock
        self._random = random
        self._system_info = system_info
        self._environment = proxies_in(environ)
        self._force_ghes = force_ghes_in(environ)
        self._transport_factory = transport_factory
        self._policy = policy
        self._limits = limits or HostLimits(clock)
        vault = vault or AzureVaults(clock=clock, environment=self._environment)
        self._readings = Readings(kube, vault, clock=clock)
        self._ready: dict[str, _Ready] = {}
        self._known: dict[GitHubPlace, tuple[str, float]] = {}  # place: client's key, until when
        self._told: set[tuple[str, str]] = set()

    async def client_for(self, place: GitHubPlace) -> ScaleSetClient:
        """The client of a place, made now if there is none for what the place refers to.

        Raises:
            PlaceTrouble: something it refers to is missing or makes no sense.
            InvalidConfigUrl: its URL names no place.
            KubeError: the API server did not answer.
        """
        now_s = self._clock.monotonic_s()
        key, until_s = self._known.get(place, ("", 0.0))
        ready = self._ready.get(key)
        if ready is None or now_s >= until_s:
            try:
                found = await self._find(place, AGE_MAX_S)
            except PlaceTrouble as error:
                if ready is None or error.reason not in _LAST_GOOD:
                    raise
                log.warning(
                    "the last good client stands", secret=place.secret_name, error=str(error)
                )
                self._known[place] = (key, now_s + LAST_GOOD_S)
            else:
                ready = await self._ready_for(place, found)
        ready.used_s = self._clock.monotonic_s()
        return ready.client

    async def resolve(self, place: GitHubPlace) -> Resolved:
        """What a place refers to, for who must hand it on.

        Raises:
            PlaceTrouble: something it refers to is missing or makes no sense.
            KubeError: the API server did not answer.
        """
        found = await self._find(place, RESOLVED_AGE_MAX_S)
        self._credentials(place, found.record)  # nobody should be handed what cannot be used
        return Resolved(
            token=found.record.token,
            app_id=found.record.app_id,
            app_installation_id=found.record.app_installation_id,
            app_private_key=found.record.app_private_key,
            http_proxy=found.proxies.http,
            https_proxy=found.proxies.https,
            no_proxy=found.proxies.no_proxy,
            root_ca_pem=found.root_ca_pem,
        )

    def forget(self, place: GitHubPlace) -> None:
        """Read what it refers to again at the next call, unless that was a moment ago."""
        if place in self._known:
            self._known[place] = (self._known[place][0], float("-inf"))
        readings, vault = self._readings, place.azure_key_vault
        names = {place.secret_name, *references(place.proxy)}
        for name in names | set(references(vault.proxy if vault else None)):
            readings.secrets.forget(secret_item(place.namespace, name))
            if vault is not None:
                readings.items.forget(vault_item(place.namespace, name, vault))
        if place.certificate is not None:
            readings.certificates.forget(certificate_item(place.namespace, place.certificate))

    async def close(self) -> None:
        """Close all clients."""
        ready, self._ready = self._ready, {}
        self._known.clear()
        for entry in ready.values():
            await entry.client.close()
        await self._readings.close()

    async def _find(self, place: GitHubPlace, age_max_s: float) -> _Found:
        _check(place)
        look = Look(age_max_s, self._clock.monotonic_s())
        source = await self._source(place, look)
        record = await source.record(place.secret_name)
        self._tell(place, record)
        proxies = await _flat(place.proxy, source, "proxy")
        pem = ""
        if place.certificate is not None:
            pem = await self._readings.certificate(place.namespace, place.certificate, look)
        return _Found(record, proxies, pem, look.oldest_s)

    async def _source(self, place: GitHubPlace, look: Look) -> SecretSource:
        secrets = KubernetesSource(self._readings, place.namespace, look)
        vault = place.azure_key_vault
        if not place.vault_type or vault is None:
            return secrets
        proxies = await _flat(vault.proxy, secrets, "vaultConfig.proxy")
        return VaultSource(self._readings, place.namespace, vault, proxies, look)

    async def _ready_for(self, place: GitHubPlace, found: _Found) -> _Ready:
        key = _content_key(place, found)
        ready = self._ready.get(key) or self._made(key, place, found)
        self._ready[key] = ready
        self._remember(place, key, found.oldest_s + AGE_MAX_S)
        await self._close_unused(keep=key)
        return ready

    def _made(self, key: str, place: GitHubPlace, found: _Found) -> _Ready:
        config_url = parse_config_url(place.config_url, force_ghes=self._force_ghes)
        credentials = self._credentials(place, found.record)
        proxies = found.proxies if place.proxy is not None else self._environment
        options = NetworkOptions(proxies=proxies, root_ca_pem=found.root_ca_pem)
        client = ScaleSetClient(
            config_url,
            credentials,
            transport=self._transport_factory(options),
            clock=self._clock,
            random=self._random,
            system_info=self._system_info,
            policy=self._policy,
            limits=self._limits,
            on_refused=lambda: self._forget_all(key),
        )
        log.info("client made", place=str(config_url), namespace=place.namespace)
        return _Ready(client, self._clock.monotonic_s())

    def _forget_all(self, key: str) -> None:
        for place in [place for place, known in self._known.items() if known[0] == key]:
            self.forget(place)

    def _credentials(self, place: GitHubPlace, record: Record) -> Credentials:
        try:
            return credentials_of(record)
        except InvalidCredentials as error:
            happened = f'"{place.namespace}/{place.secret_name}": {error}'
            raise trouble(Reason.CREDENTIALS_INVALID, happened) from error

    def _remember(self, place: GitHubPlace, key: str, until_s: float) -> None:
        if len(self._known) >= CLIENTS_MAX:
            now_s = self._clock.monotonic_s()
            self._known = {p: known for p, known in self._known.items() if known[1] > now_s}
        self._known[place] = (key, until_s)

    async def _close_unused(self, *, keep: str) -> None:
        now_s = self._clock.monotonic_s()
        by_age = sorted(self._ready.items(), key=lambda entry: entry[1].used_s)
        too_many = max(0, len(by_age) - CLIENTS_MAX)
        for place, (key, entry) in enumerate(by_age):
            unused = now_s - entry.used_s > UNUSED_MAX_S
            if key != keep and (unused or place < too_many):
                del self._ready[key]
                await entry.client.close()

    def _tell(self, place: GitHubPlace, record: Record) -> None:
        for note in record.notes:
            told = (f"{place.namespace}/{place.secret_name}", note)
            if told not in self._told and len(self._told) < CLIENTS_MAX:
                self._told.add(told)
                log.warning("credentials mended", secret=told[0], what=note)


async def _flat(proxy: Proxy | None, source: SecretSource, called: str) -> ProxyRules:
    logins = {name: await source.login(name) for name in references(proxy)}
    try:
        return flattened(proxy, logins)
    except InvalidProxy as error:
        raise trouble(Reason.PROXY_INVALID, f"{called}: {error}") from error


def _check(place: GitHubPlace) -> None:
    """What can be said before anything is read."""
    if not place.namespace:
        raise trouble(Reason.SPEC_INVALID, "the object has no namespace to read Secrets from")
    if not place.secret_name:
        raise trouble(Reason.CREDENTIALS_MISSING, "githubConfigSecret names no Secret")
    if place.vault_type not in ("", AZURE):
        raise trouble(Reason.VAULT_FAILED, f'unknown vault type "{place.vault_type}"')
    if place.vault_type and place.azure_key_vault is None:
        happened = f'the vault type is "{place.vault_type}", but azureKeyVault is not set'
        raise trouble(Reason.VAULT_FAILED, happened)
    if place.certificate is not None:
        try:
            check_reference(place.certificate)
        except InvalidCertificate as error:
            raise trouble(Reason.CERTIFICATE_INVALID, str(error)) from error


def _content_key(place: GitHubPlace, found: _Found) -> str:
    """Equal for equal contents; a hash, so that no secret is a key of a dictionary."""
    record, proxies = found.record, found.proxies
    parts = [
        place.namespace,
        place.config_url,
        *(
            secret.reveal() if secret else ""
            for secret in (record.token, record.app_private_key, proxies.http, proxies.https)
        ),
        record.app_id,
        str(record.app_installation_id),
        "own" if place.proxy is not None else "environment",
        ",".join(proxies.no_proxy),
        found.root_ca_pem,
    ]
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()
