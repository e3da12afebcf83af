"""The listener's configuration file: how it is read, and what is refused with which words.

The file is written by the controller (`controllers/autoscaling_listener/`) and, in an ARC
installation, by ARC's: keys, types and texts are the contract between two programs. How a
changed file reaches the running listener is `config_file.py`; the rules about credentials are
`credentials/record.py`, where they go from here is `process.py`.

Pure. Contract: github-service-and-listener 6; resources-and-controllers 3.5. Fixes W53
(negative minimum) and the missing check of a vault without its settings (W15).
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import AzureKeyVault, Proxy, ProxyServer
from runnerscale.credentials.record import (
    MISSING,
    InvalidRecord,
    Record,
    checked,
    given,
    record_of_vault,
)
from runnerscale.listener.metric_settings import MetricsFile
from runnerscale.listener.scaler import UNLIMITED, Bounds

VAULT_AZURE = "azure_key_vault"
LOG_LEVELS = ("debug", "info", "warn", "error")  # any case
LOG_FORMATS = ("text", "json")  # this case
METRICS_PATH = "/metrics"


class ConfigError(Exception):
    """The configuration cannot be used; one sentence for the person who wrote it."""


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """A checked configuration. `record` is None until a vault has given it."""

    config_url: str
    record: Record | None
    vault_type: str
    vault_lookup_key: str
    azure_key_vault: AzureKeyVault | None
    namespace: str  # of the set and its runners
    set_name: str
    bounds: Bounds
    scale_set_id: int
    scale_set_name: str
    server_root_ca: str
    log_level: str
    log_format: str
    metrics_addr: str
    metrics_path: str
    metrics: MetricsFile | None

    def same_place(self, other: "ListenerConfig") -> bool:
        """Whether one process can serve both: only what can change under a held session differs."""
        return self._place() == other._place()

    def _place(self) -> tuple[object, ...]:
        return (
            self.config_url,
            self.namespace,
            self.set_name,
            self.scale_set_id,
            self.vault_type,
            self.azure_key_vault,
            self.server_root_ca,
            self.metrics_addr,
            self.metrics_path,
        )


class _VaultProxy(msgspec.Struct):
    http: str = msgspec.field(name="HTTPProxy", default="")
    https: str = msgspec.field(name="HTTPSProxy", default="")
    no_proxy: str = msgspec.field(name="NoProxy", default="")


class _Vault(msgspec.Struct):
    tenant_id: str = ""
    client_id: str = ""
    url: str = ""
    certificate_path: str = ""
    proxy: _VaultProxy | None = None


class _Record(msgspec.Struct):
    github_app_id: str = ""
    github_app_installation_id: int = 0
    github_app_private_key: str = ""
    github_token: str = ""

    def __repr__(self) -> str:
        return "_Record(***)"


class _File(_Record):
    configure_url: str = ""
    vault_type: str = ""
    vault_lookup_key: str = ""
    azure_key_vault: _Vault | None = None
    ephemeral_runner_set_namespace: str = ""
    ephemeral_runner_set_name: str = ""
    max_runners: int = 0
    min_runners: int = 0
    runner_scale_set_id: int = 0
    runner_scale_set_name: str = ""
    server_root_ca: str = ""
    log_level: str = ""
    log_format: str = ""
    metrics_addr: str = ""
    metrics_endpoint: str = ""
    metrics: MetricsFile | None = None


CREDENTIAL_KEYS = frozenset(_Record.__struct_fields__)


def read_config(content: bytes) -> ListenerConfig:
    """Decode and check the file's content.

    Raises:
        ConfigError: with the words of the contract.
    """
    try:
        members = msgspec.json.decode(content)
        if not isinstance(members, dict):
            raise ConfigError("failed to decode config: the file holds no JSON object")
        # A member that is null counts as absent, as for the program that writes the file.
        members = {key: value for key, value in members.items() if value is not None}
        file = msgspec.convert(members, _File)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"failed to decode config: {error}") from error
    except RecursionError:
        raise ConfigError("failed to decode config: the file is nested too deeply") from None
    if file.vault_type not in ("", VAULT_AZURE):
        raise ConfigError(f"unsupported vault type: {file.vault_type}")
    config = _config(file, _given_record(file, members))
    try:
        validate(config)
    except ConfigError as error:
        raise ConfigError(f"failed to validate configuration: {error}") from error
    check_logging(config.log_level, config.log_format)
    return config


def read_vault_record(text: SecretText) -> Record:
    """The credentials from the text of a vault item.

    Raises:
        ConfigError: no JSON object with the four keys, or unusable credentials. The text
            itself is never quoted.
    """
    try:
        return record_of_vault(text)
    except InvalidRecord as error:
        raise ConfigError(f"config validation failed: {error}") from None


def _given_record(raw: _Record, members: dict[str, Any]) -> Record | None:
    if not CREDENTIAL_KEYS & members.keys():
        return None
    return given(msgspec.structs.asdict(raw), raw.github_app_installation_id)


def _config(file: _File, record: Record | None) -> ListenerConfig:
    return ListenerConfig(
        config_url=file.configure_url,
        record=record,
        vault_type=file.vault_type,
        vault_lookup_key=file.vault_lookup_key,
        azure_key_vault=_vault(file.azure_key_vault),
        namespace=file.ephemeral_runner_set_namespace,
        set_name=file.ephemeral_runner_set_name,
        bounds=Bounds(min_runners=file.min_runners, max_runners=file.max_runners),
        scale_set_id=file.runner_scale_set_id,
        scale_set_name=file.runner_scale_set_name,
        server_root_ca=file.server_root_ca,
        log_level=file.log_level,
        log_format=file.log_format,
        metrics_addr=file.metrics_addr,
        metrics_path=file.metrics_endpoint or METRICS_PATH,
        metrics=file.metrics,
    )


def _vault(raw: _Vault | None) -> AzureKeyVault | None:
    if raw is None:
        return None
    proxy = None
    if raw.proxy is not None:
        proxy = Proxy(
            http=ProxyServer(raw.proxy.http) if raw.proxy.http else None,
            https=ProxyServer(raw.proxy.https) if raw.proxy.https else None,
            no_proxy=tuple(part for part in raw.proxy.no_proxy.split(",") if part),
        )
    return AzureKeyVault(raw.url, raw.tenant_id, raw.client_id, raw.certificate_path, proxy)


def validate(config: ListenerConfig) -> None:
    """The rules of the contract, in its order; the first that fails is told.

    Raises:
        ConfigError: a rule does not hold.
    """
    bounds = config.bounds
    if not config.config_url:
        raise ConfigError("GitHubConfigUrl is not provided")
    if not config.namespace or not config.set_name:
        raise ConfigError(
            f'EphemeralRunnerSetNamespace "{config.namespace}" or '
            f'EphemeralRunnerSetName "{config.set_name}" is missing'
        )
    if config.scale_set_id == 0:
        raise ConfigError('RunnerScaleSetId "0" is missing')
    if bounds.max_runners < bounds.min_runners:
        raise ConfigError(
            f'MinRunners "{bounds.min_runners}" cannot be greater than '
            f'MaxRunners "{bounds.max_runners}"'
        )
    check_limits(config.scale_set_id, bounds)
    if config.vault_type not in ("", VAULT_AZURE):
        raise ConfigError(f'VaultType validation failed: unknown vault type: "{config.vault_type}"')
    if config.vault_type and not config.vault_lookup_key:
        raise ConfigError(f'VaultLookupKey is required when VaultType is set to "{VAULT_AZURE}"')
    if config.vault_type and config.azure_key_vault is None:
        raise ConfigError(f'azure_key_vault is required when VaultType is set to "{VAULT_AZURE}"')
    if not config.vault_type:
        # A lookup key without a type says where nothing can be looked up (W15).
        try:
            checked_record(config.record)
        except ConfigError as error:
            raise ConfigError(f"AppConfig validation failed: {error}") from error


def check_limits(scale_set_id: int, bounds: Bounds) -> None:
    """What the listener itself insists on, wherever its numbers come from.

    Raises:
        ConfigError: no scale set, or limits that make no sense.
    """
    if scale_set_id <= 0:
        raise ConfigError("scaleSetID is required")
    if not 0 <= bounds.max_runners <= UNLIMITED:
        raise ConfigError("maxRunners must be between 0 and MaxInt32")
    if bounds.min_runners < 0:
        raise ConfigError(f'MinRunners "{bounds.min_runners}" cannot be negative')


def checked_record(record: Record | None) -> Record:
    """The record with only the kind that is complete (`credentials/record.py`).

    Raises:
        ConfigError: none, both, or neither complete.
    """
    if record is None:
        raise ConfigError(MISSING)
    try:
        return checked(record)
    except InvalidRecord as error:
        raise ConfigError(str(error)) from None


def check_logging(level: str, log_format: str) -> None:
    """Refuse what the logger would not understand.

    Raises:
        ConfigError: an unknown level or format.
    """
    if level.lower() not in LOG_LEVELS:
        raise ConfigError(f"invalid log level: {level}. Use one of {', '.join(LOG_LEVELS)}")
    if log_format not in LOG_FORMATS:
        raise ConfigError(f"invalid log format: {log_format}. Use one of {', '.join(LOG_FORMATS)}")
