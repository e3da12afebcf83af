"""Where a place's credentials are kept: in Kubernetes Secrets, or in a vault.

One source for each credential of a place (weakness W24): with a vault, GitHub's record and
the login of the proxy to GitHub both come from it; only the login of a proxy before the
vault itself is a Kubernetes Secret. Certificates are always in a config map. What the texts
mean is `record.py`, `proxy.py` and `ca.py`; how long a reading lasts is `reads.py`.

Contract: resources-and-controllers 5.2; replaces weaknesses W23, W24.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from runnerscale.api.reasons import Reason
from runnerscale.core.clock import Clock
from runnerscale.core.secret import SecretText
from runnerscale.credentials.ca import certificates_in
from runnerscale.credentials.place import AzureKeyVault, CertificateFrom, PlaceTrouble
from runnerscale.credentials.proxy import Login, login_of_secret, login_of_vault
from runnerscale.credentials.reads import Reading, Reads
from runnerscale.credentials.record import (
    InvalidRecord,
    NoRecord,
    Record,
    record_of_secret,
    record_of_vault,
)
from runnerscale.kube.builtin import CONFIG_MAPS, SECRETS
from runnerscale.kube.client import Client
from runnerscale.kube.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    KubeError,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from runnerscale.scaleset.errors import InvalidCertificate
from runnerscale.scaleset.proxy import ProxyRules

T = TypeVar("T")

# The server is away or overloaded: that says nothing about a Secret.
_AWAY = (Unreachable, ServerFault, TooManyRequests, Unauthorized)


class VaultReader(Protocol):
    """A reader of vaults; the real one is `vault.AzureVaults`."""

    async def read(self, vault: AzureKeyVault, name: str, *, proxies: ProxyRules) -> SecretText:
        """The latest text of an item. Raises PlaceTrouble."""
        ...

    async def close(self) -> None:
        """Let the connections go."""
        ...


class SecretSource(Protocol):
    """What both kinds of source can be asked. Raises PlaceTrouble, or a KubeError."""

    async def record(self, name: str) -> Record:
        """Who we are at GitHub."""
        ...

    async def login(self, name: str) -> Login:
        """Who we are to a proxy."""
        ...


@dataclass(slots=True)
class Look:
    """One look at everything that a place refers to: how old its parts may be and are."""

    age_max_s: float
    oldest_s: float  # on the monotonic clock

    def noted(self, at_s: float) -> None:
        """A part was read then."""
        self.oldest_s = min(self.oldest_s, at_s)


@dataclass(frozen=True, slots=True)
class Item:
    """Names a reading; safe to log."""

    kind: str
    namespace: str
    name: str
    vault: AzureKeyVault | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def secret_item(namespace: str, name: str) -> Item:
    """The reading of a Secret."""
    return Item("Secret", namespace, name)


def vault_item(namespace: str, name: str, vault: AzureKeyVault) -> Item:
    """The reading of a vault item; by namespace, whose Secrets lead to the vault."""
    return Item("vault item", namespace, name, vault)


def certificate_item(namespace: str, certificate: CertificateFrom) -> Item:
    """The reading of a key of a config map."""
    return Item("ConfigMap", namespace, f"{certificate.name}[{certificate.key}]")


class Readings:
    """All readings of one process, for as long as they are of use."""

    def __init__(self, kube: Client, vault: VaultReader, *, clock: Clock) -> None:
        """Nothing is read yet."""
        self._kube = kube
        self._vault = vault
        self.secrets: Reads[Mapping[str, str]] = _reads(clock)
        self.items: Reads[SecretText] = _reads(clock)
        self.certificates: Reads[str] = _reads(clock)

    async def secret(
        self, namespace: str, name: str, missing: Reason, look: Look
    ) -> Mapping[str, str]:
        """The `data` of a Secret (base64 values); `missing`: what it means that there is none."""

        async def read() -> Mapping[str, str]:
            try:
                secret = await self._kube.get(SECRETS, namespace, name)
            except ApiError as error:
                what = f'failed to get kubernetes secret: "{namespace}/{name}"'
                raise _translated(error, what, Reason.CREDENTIALS_MISSING) from error
            return dict(secret.data or {})

        item = secret_item(namespace, name)
        try:
            reading = await self.secrets.get(item, read, age_max_s=look.age_max_s)
        except PlaceTrouble as error:
            # It is read once for all who refer to it, and missing to each in its own way.
            if error.reason == Reason.CREDENTIALS_MISSING != missing:
                raise trouble(missing, error.happened) from error
            raise
        return _noted(reading, look)

    async def item(
        self, namespace: str, name: str, vault: AzureKeyVault, proxies: ProxyRules, look: Look
    ) -> SecretText:
        """The text of a vault item."""

        async def read() -> SecretText:
            return await self._vault.read(vault, name, proxies=proxies)

        key = vault_item(namespace, name, vault)
        return _noted(await self.items.get(key, read, age_max_s=look.age_max_s), look)

    async def certificate(self, namespace: str, source: CertificateFrom, look: Look) -> str:
        """The PEM text under a key of a config map, found readable."""
        what = f'config map "{namespace}/{source.name}"'

        async def read() -> str:
            try:
                config_map = await self._kube.get(CONFIG_MAPS, namespace, source.name)
                return certificates_in(config_map, source)
            except ApiError as error:
                reason = Reason.CERTIFICATE_INVALID
                raise _translated(error, f"failed to get {what}", reason) from error
            except InvalidCertificate as error:
                raise trouble(Reason.CERTIFICATE_INVALID, f"{what}: {error}") from error

        key = certificate_item(namespace, source)
        return _noted(await self.certificates.get(key, read, age_max_s=look.age_max_s), look)

    async def close(self) -> None:
        """Let the connections go."""
        await self._vault.close()


class KubernetesSource:
    """Secrets of a namespace."""

    def __init__(self, readings: Readings, namespace: str, look: Look) -> None:
        """`look`: how old a reading may be."""
        self._readings = readings
        self._namespace = namespace
        self._look = look

    async def record(self, name: str) -> Record:
        """Who we are at GitHub."""
        missing = Reason.CREDENTIALS_MISSING
        data = await self._readings.secret(self._namespace, name, missing, self._look)
        with told(f'Secret "{self._namespace}/{name}"'):
            return record_of_secret(data)

    async def login(self, name: str) -> Login:
        """Who we are to a proxy."""
        missing = Reason.PROXY_INVALID
        data = await self._readings.secret(self._namespace, name, missing, self._look)
        with told(f'Secret "{self._namespace}/{name}" of a proxy', missing):
            return login_of_secret(data)


class VaultSource:
    """Items of an Azure Key Vault."""

    def __init__(
        self,
        readings: Readings,
        namespace: str,
        vault: AzureKeyVault,
        proxies: ProxyRules,
        look: Look,
    ) -> None:
        """`proxies`: on the way to the vault."""
        self._readings = readings
        self._namespace = namespace
        self._vault = vault
        self._proxies = proxies
        self._look = look

    async def record(self, name: str) -> Record:
        """Who we are at GitHub."""
        item = await self._item(name)
        with told(f'vault item "{name}"'):
            return record_of_vault(item)

    async def login(self, name: str) -> Login:
        """Who we are to a proxy."""
        item = await self._item(name)
        with told(f'vault item "{name}" of a proxy', Reason.PROXY_INVALID):
            return login_of_vault(item)

    async def _item(self, name: str) -> SecretText:
        return await self._readings.item(
            self._namespace, name, self._vault, self._proxies, self._look
        )


def trouble(reason: Reason, happened: str) -> PlaceTrouble:
    """A PlaceTrouble whose remedy is the catalogue's own."""
    return PlaceTrouble(reason, happened.rstrip("."), reason.what_you_can_do.rstrip("."))


@contextmanager
def told(what: str, invalid: Reason = Reason.CREDENTIALS_INVALID) -> Iterator[None]:
    """An unusable content becomes trouble with its name; `invalid`: the reason for it."""
    try:
        yield
    except NoRecord as error:
        raise trouble(Reason.CREDENTIALS_MISSING, f"{what}: {error}") from error
    except InvalidRecord as error:
        raise trouble(invalid, f"{what}: {error}") from error


def _translated(error: ApiError, what: str, missing: Reason) -> KubeError | PlaceTrouble:
    """Trouble, if the server said something about the thing; else the error itself."""
    if isinstance(error, NotFound):
        return trouble(missing, f"{what} (it does not exist)")
    if isinstance(error, BadRequest):  # nothing can have the name that somebody wrote down
        return trouble(missing, f"{what} ({error.message})")
    if isinstance(error, Forbidden):
        return trouble(Reason.RIGHTS_MISSING, f"{what}: {error.message}")
    return error


def _is_passing(error: Exception) -> bool:
    return isinstance(error, _AWAY) or (isinstance(error, PlaceTrouble) and error.passing)


def _reads(clock: Clock) -> Reads[Any]:
    return Reads(clock, failures=PlaceTrouble, is_passing=_is_passing)


def _noted(reading: Reading[T], look: Look) -> T:
    look.noted(reading.at_s)
    return reading.value
