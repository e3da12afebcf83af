"""A place at GitHub: where a scale set lives and with whose credentials we go there.

The words that reconcilers and this package share: a place as a spec names it, what it
resolves to, why it does not, and who makes clients of it (`clients.py`).
"""

from dataclasses import dataclass
from typing import Protocol

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.client import ScaleSetClient


@dataclass(frozen=True, slots=True)
class ProxyServer:
    """One proxy; `credential_secret_ref` names a Secret with `username` and `password`."""

    url: str
    credential_secret_ref: str = ""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Which proxy for which scheme, and what goes direct."""

    http: ProxyServer | None = None
    https: ProxyServer | None = None
    no_proxy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificateFrom:
    """The config map key with extra root certificates."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class AzureKeyVault:
    """Where the vault is and who we are there."""

    url: str
    tenant_id: str
    client_id: str
    certificate_path: str
    proxy: Proxy | None = None


@dataclass(frozen=True, slots=True)
class GitHubPlace:
    """All that decides which client serves an object. Hashable: it is a cache key."""

    namespace: str
    config_url: str
    secret_name: str
    proxy: Proxy | None = None
    certificate: CertificateFrom | None = None
    vault_type: str = ""
    azure_key_vault: AzureKeyVault | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The credentials themselves, read just now (or less than a minute ago)."""

    token: SecretText | None
    app_id: str
    app_installation_id: int
    app_private_key: SecretText | None
    http_proxy: SecretText | None  # with user:password@ in it
    https_proxy: SecretText | None
    no_proxy: tuple[str, ...]
    root_ca_pem: str


class PlaceTrouble(Exception):
    """Credentials, proxy or CA could not be had. `reason` is one of `api.reasons`.

    `passing`: it says nothing about the thing itself; what was read before may stand.
    """

    def __init__(self, reason: str, happened: str, remedy: str, *, passing: bool = False) -> None:
        """`happened` and `remedy`: as in a Trouble; never a secret."""
        super().__init__(f"{happened}. {remedy}.")
        self.reason = reason
        self.happened = happened
        self.remedy = remedy
        self.passing = passing


class Clients(Protocol):
    """Ready clients by place; cached; a changed Secret is taken up within a minute."""

    async def client_for(self, place: GitHubPlace) -> ScaleSetClient:
        """Raises PlaceTrouble, an error of `scaleset.errors` for an unusable URL, or a KubeError
        when the API server does not answer."""
        ...

    async def resolve(self, place: GitHubPlace) -> Resolved:
        """Raises PlaceTrouble, or a KubeError when the API server does not answer."""
        ...

    def forget(self, place: GitHubPlace) -> None:
        """Read what it refers to again at the next call, not only when a minute has passed."""
        ...
