"""Azure Key Vault, for those who keep their credentials there.

The SDK is an extra (`pip install runnerscale[azure]`) and heavy, so it is imported when the
first vault is read, here and nowhere else. One client a vault is kept and used again, with
the access token that the SDK keeps in it (weakness W23). How long an item is remembered is
`reads.py`; what is in it, `record.py`.

Contract: resources-and-controllers 5.3, github-service-and-listener 6.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from runnerscale.api.reasons import Reason
from runnerscale.core.clock import Clock
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import AzureKeyVault, PlaceTrouble
from runnerscale.credentials.proxy import flattened
from runnerscale.scaleset.errors import InvalidProxy
from runnerscale.scaleset.proxy import ProxyRules

READ_S = 60.0  # one item, the SDK's own retries included
CLIENT_KEPT_S = 3600.0  # then its certificate file is read again
CLIENTS_MAX = 64
RETRIES_MAX = 4
RETRY_WAIT_MAX_S = 30
LOGIN_URL = "https://login.microsoftonline.com"

_REMEDY = Reason.VAULT_FAILED.what_you_can_do.rstrip(".")


class VaultClient(Protocol):
    """A client of one vault."""

    async def get(self, name: str) -> str:
        """The latest version's value. Raises anything."""
        ...

    async def close(self) -> None:
        """Let the connections go."""
        ...


OpenVault = Callable[[AzureKeyVault, ProxyRules], VaultClient]


@dataclass(frozen=True, slots=True)
class _Open:
    client: VaultClient
    until_s: float


class AzureVaults:
    """Reads items of any number of vaults. Proxies unset: the environment's are taken."""

    def __init__(
        self,
        *,
        clock: Clock,
        environment: ProxyRules | None = None,
        open_vault: OpenVault | None = None,
    ) -> None:
        """`open_vault`: makes a client; the SDK's unless a test hands in another."""
        self._clock = clock
        self._environment = environment or ProxyRules()
        self._open_vault = open_vault or open_azure
        self._clients: dict[tuple[AzureKeyVault, ProxyRules], _Open] = {}

    async def read(self, vault: AzureKeyVault, name: str, *, proxies: ProxyRules) -> SecretText:
        """The latest text of an item.

        Raises:
            PlaceTrouble: VaultFailed, or CredentialsMissing if the item does not exist.
        """
        check(vault)
        client = await self._client(vault, proxies if proxies.configured else self._environment)
        what = f'item "{name}" of the vault {vault.url}'
        try:
            async with asyncio.timeout(READ_S):
                value = await client.get(name)
        except TimeoutError:
            happened = f"{what} gave no answer in {READ_S:.0f} s"
            raise PlaceTrouble(Reason.VAULT_FAILED, happened, _REMEDY, passing=True) from None
        except Exception as error:  # noqa: BLE001 - the SDK's tree is not here to be named
            raise _trouble(error, what) from None
        if not value:
            raise PlaceTrouble(Reason.CREDENTIALS_MISSING, f"{what} is empty", _REMEDY)
        return SecretText(value)

    async def close(self) -> None:
        """Let all connections go."""
        clients, self._clients = self._clients, {}
        for entry in clients.values():
            await entry.client.close()

    async def _client(self, vault: AzureKeyVault, proxies: ProxyRules) -> VaultClient:
        now_s = self._clock.monotonic_s()
        known = self._clients.get((vault, proxies))
        if known is not None and now_s < known.until_s:
            return known.client
        ended = [key for key, entry in self._clients.items() if now_s >= entry.until_s]
        if len(self._clients) - len(ended) >= CLIENTS_MAX:
            ended.append(min(self._clients, key=lambda key: self._clients[key].until_s))
        for key in ended:
            await self._clients.pop(key).client.close()
        try:
            client = self._open_vault(vault, proxies)
        except ImportError as error:
            happened = f"the vault {vault.url} needs the Azure libraries ({error.name} is missing)"
            remedy = "Use the image that has them, or install runnerscale[azure]"
            raise PlaceTrouble(Reason.VAULT_FAILED, happened, remedy) from error
        except Exception as error:  # noqa: BLE001 - such as a certificate that cannot be read
            what = f"the certificate {vault.certificate_path} cannot be used"
            happened = f"{what} for the vault {vault.url} ({type(error).__name__})"
            remedy = "Give a PEM or PKCS#12 file with certificate and RSA key, without password"
            raise PlaceTrouble(Reason.VAULT_FAILED, happened, remedy) from None
        self._clients[vault, proxies] = _Open(client, now_s + CLIENT_KEPT_S)
        return client


async def read_item(
    vault: AzureKeyVault, name: str, *, clock: Clock, environment: ProxyRules | None = None
) -> SecretText:
    """One item, for who reads one now and then and has no Kubernetes (the listener).

    Raises:
        PlaceTrouble: VaultFailed, or CredentialsMissing if the item does not exist.
    """
    try:
        proxies = flattened(vault.proxy, {})
    except InvalidProxy as error:
        raise PlaceTrouble(Reason.PROXY_INVALID, f"the vault's {error}", _REMEDY) from error
    vaults = AzureVaults(clock=clock, environment=environment)
    try:
        return await vaults.read(vault, name, proxies=proxies)
    finally:
        await vaults.close()


def check(vault: AzureKeyVault) -> None:
    """Everything that is needed is there, the certificate's file included.

    Raises:
        PlaceTrouble: VaultFailed, naming what is missing.
    """
    wrong = ""
    if not vault.tenant_id:
        wrong = "has no tenant id"
    elif not vault.client_id:
        wrong = "has no client id"
    elif not _is_address(vault.url):
        wrong = f'has no usable url ("{vault.url}")'
    elif not vault.certificate_path:
        wrong = "has no certificate path"
    elif not Path(vault.certificate_path).is_file():
        wrong = f"names a certificate that does not exist here ({vault.certificate_path})"
    elif vault.proxy is not None and not (
        vault.proxy.http or vault.proxy.https or vault.proxy.no_proxy
    ):
        wrong = "has a proxy in which nothing is set"
    if wrong:
        raise PlaceTrouble(Reason.VAULT_FAILED, f"the Azure Key Vault {wrong}", _REMEDY)


class AzureClient:
    """The SDK's two clients: who we are, and the vault."""

    def __init__(self, credential: Any, secrets: Any) -> None:
        """Both from the SDK's `aio` packages."""
        self._credential = credential
        self._secrets = secrets

    async def get(self, name: str) -> str:
        """The latest version's value."""
        secret = await self._secrets.get_secret(name)
        return secret.value or ""

    async def close(self) -> None:
        """Let the connections go."""
        await self._secrets.close()
        await self._credential.close()


def open_azure(vault: AzureKeyVault, proxies: ProxyRules) -> VaultClient:
    """The SDK's clients, each with the proxy that its own address takes.

    Raises:
        ImportError: the SDK is not installed.
    """
    from azure.identity.aio import CertificateCredential
    from azure.keyvault.secrets.aio import SecretClient

    options = {"retry_total": RETRIES_MAX, "retry_backoff_max": RETRY_WAIT_MAX_S}
    credential = CertificateCredential(
        vault.tenant_id,
        vault.client_id,
        certificate_path=vault.certificate_path,
        proxies=_proxies_for(LOGIN_URL, proxies),
        use_env_settings=False,
        **options,
    )
    secrets = SecretClient(
        vault_url=vault.url,
        credential=credential,
        proxies=_proxies_for(vault.url, proxies),
        use_env_settings=False,
        **options,
    )
    return AzureClient(credential, secrets)


def _proxies_for(url: str, proxies: ProxyRules) -> dict[str, str]:
    server = proxies.server_for(url)
    if server is None:
        return {}
    login = ""
    if server.username or server.password is not None:
        password = server.password.reveal() if server.password else ""
        login = f"{quote(server.username, safe='')}:{quote(password, safe='')}@"
    scheme, _, rest = server.url.partition("://")
    return {urlsplit(url).scheme: f"{scheme}://{login}{rest}"}


def _trouble(error: Exception, what: str) -> PlaceTrouble:
    """By the SDK's status where it has one; its texts may quote headers, so only its kind."""
    status = getattr(error, "status_code", None)
    said = type(error).__name__ + (f", status {status}" if status else "")
    if status == 404:
        remedy = "Create the item in the vault, or correct githubConfigSecret"
        return PlaceTrouble(Reason.CREDENTIALS_MISSING, f"{what} does not exist", remedy)
    passing = status is None or status >= 500 or status in (408, 429)
    happened = f"{what} could not be read ({said})"
    return PlaceTrouble(Reason.VAULT_FAILED, happened, _REMEDY, passing=passing)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
