"""From an object's spec to the place at GitHub that it names.

Runner sets, listeners and runners spell the same fields, so one function reads them all; what a
place is and how it becomes a client is `credentials/`. Pure.
"""

from typing import Protocol

from runnerscale.api.values import ProxyConfig, ProxyServerConfig, TLSConfig, VaultConfig
from runnerscale.credentials.place import (
    AzureKeyVault,
    CertificateFrom,
    GitHubPlace,
    Proxy,
    ProxyServer,
)
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.errors import InvalidConfigUrl


class NamesPlace(Protocol):
    """A spec with the fields that decide where at GitHub, and with whose credentials."""

    github_config_url: str
    github_config_secret: str
    proxy: ProxyConfig | None
    github_server_tls: TLSConfig | None
    vault_config: VaultConfig | None


def place_of(spec: NamesPlace, *, namespace: str) -> GitHubPlace:
    """`namespace`: where the Secrets and the config map are, the runner set's own."""
    vault = spec.vault_config
    return GitHubPlace(
        namespace=namespace,
        config_url=spec.github_config_url,
        secret_name=spec.github_config_secret,
        proxy=_proxy(spec.proxy),
        certificate=_certificate(spec.github_server_tls),
        vault_type=vault.type if vault else "",
        azure_key_vault=_azure(vault) if vault else None,
    )


def place_labels(config_url: str) -> dict[str, str]:
    """Enterprise, organization and repository of a config URL; all empty if it is unreadable."""
    try:
        parsed = parse_config_url(config_url)
    except InvalidConfigUrl:
        return {"enterprise": "", "organization": "", "repository": ""}
    return {
        "enterprise": parsed.enterprise,
        "organization": parsed.organization,
        "repository": parsed.repository,
    }


def _proxy(config: ProxyConfig | None) -> Proxy | None:
    if config is None:
        return None
    return Proxy(_server(config.http), _server(config.https), tuple(config.no_proxy or ()))


def _server(config: ProxyServerConfig | None) -> ProxyServer | None:
    return None if config is None else ProxyServer(config.url, config.credential_secret_ref)


def _certificate(config: TLSConfig | None) -> CertificateFrom | None:
    if config is None:
        return None
    # An empty reference is passed on: who reads it says that it names nothing.
    source = config.certificate_from
    reference = source.config_map_key_ref if source else None
    return CertificateFrom(
        name=reference.name if reference else "", key=reference.key if reference else ""
    )


def _azure(vault: VaultConfig) -> AzureKeyVault | None:
    azure = vault.azure_key_vault
    if azure is None:
        return None
    return AzureKeyVault(
        url=azure.url,
        tenant_id=azure.tenant_id,
        client_id=azure.client_id,
        certificate_path=azure.certificate_path,
        proxy=_proxy(vault.proxy),
    )
