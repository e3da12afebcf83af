"""The listener's file: what is read, what is refused, and with which words."""

import json
from dataclasses import replace
from typing import Any

import pytest

from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import AzureKeyVault, Proxy, ProxyServer
from runnerscale.credentials.record import BOTH, MISSING, NEITHER, Record
from runnerscale.listener.config import (
    ConfigError,
    check_limits,
    checked_record,
    read_config,
    read_vault_record,
    validate,
)
from runnerscale.listener.scaler import Bounds

# As the controller writes it (C1 3.5): compact, all four keys present without a vault.
FILE: dict[str, Any] = {
    "configure_url": "https://github.com/actions",
    "vault_type": "",
    "vault_lookup_key": "",
    "github_app_id": "",
    "github_app_installation_id": 0,
    "github_app_private_key": "",
    "github_token": "token",
    "ephemeral_runner_set_namespace": "runners",
    "ephemeral_runner_set_name": "set",
    "max_runners": 5,
    "min_runners": 1,
    "runner_scale_set_id": 7,
    "runner_scale_set_name": "set",
    "server_root_ca": "",
    "log_level": "debug",
    "log_format": "text",
    "metrics_addr": ":8080",
    "metrics_endpoint": "/metrics",
    "metrics": None,
}
APP = {
    "github_app_id": "1",
    "github_app_installation_id": 10,
    "github_app_private_key": "key",
    "github_token": "",
}
CREDENTIALS = ("github_app_id", "github_app_installation_id", "github_app_private_key")
VAULT = {
    "tenant_id": "t",
    "client_id": "c",
    "url": "https://v.vault.azure.net",
    "certificate_path": "/cert.pem",
}


def content(**changes: Any) -> bytes:
    return json.dumps(FILE | changes).encode()


def without(*keys: str, **changes: Any) -> bytes:
    return json.dumps({k: v for k, v in (FILE | changes).items() if k not in keys}).encode()


def refusal(file: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    return str(caught.value)


@pytest.mark.behaviour("C2 T168")
def test_a_file_of_the_controller_is_read_whole() -> None:
    config = read_config(content())
    assert config.config_url == "https://github.com/actions"
    assert (config.namespace, config.set_name, config.scale_set_id) == ("runners", "set", 7)
    assert config.bounds == Bounds(min_runners=1, max_runners=5)
    assert config.record == Record(token=SecretText("token"))
    assert (config.metrics_addr, config.metrics_path) == (":8080", "/metrics")
    assert config.metrics is None and config.azure_key_vault is None


@pytest.mark.behaviour("C2 T168")
def test_a_missing_url_is_told() -> None:
    assert "GitHubConfigUrl is not provided" in refusal(content(configure_url=""))


def test_the_rules_come_in_the_contracts_order() -> None:
    assert refusal(content(configure_url="", runner_scale_set_id=0)).endswith(
        "GitHubConfigUrl is not provided"
    )
    assert refusal(content(ephemeral_runner_set_name="", runner_scale_set_id=0)).endswith(
        'EphemeralRunnerSetNamespace "runners" or EphemeralRunnerSetName "" is missing'
    )
    assert refusal(content(runner_scale_set_id=0, min_runners=9)).endswith(
        'RunnerScaleSetId "0" is missing'
    )
    assert refusal(content(min_runners=9, github_token="")).endswith(
        'MinRunners "9" cannot be greater than MaxRunners "5"'
    )


@pytest.mark.behaviour("C2 T164")
def test_a_minimum_above_the_maximum_is_told_with_both() -> None:
    text = refusal(content(min_runners=5, max_runners=2))
    assert 'MinRunners "5" cannot be greater than MaxRunners "2"' in text


def test_a_negative_minimum_is_refused() -> None:
    assert 'MinRunners "-1" cannot be negative' in refusal(content(min_runners=-1))  # W53


@pytest.mark.behaviour("C2 T165")
def test_no_credentials_object_at_all() -> None:
    file = without("github_token", *CREDENTIALS)
    assert f"AppConfig validation failed: {MISSING}" in refusal(file)


@pytest.mark.behaviour("C2 T166")
@pytest.mark.parametrize("app_id", ["1", "Iv23f8doAlphaNumer1c"])
def test_an_app_without_its_key(app_id: str) -> None:
    changes = APP | {"github_app_id": app_id, "github_app_private_key": ""}
    assert f"AppConfig validation failed: {NEITHER}" in refusal(content(**changes))


@pytest.mark.behaviour("C2 T167")
def test_a_whole_app_and_a_token() -> None:
    text = refusal(content(**(APP | {"github_token": "asdf"})))
    assert f"AppConfig validation failed: {BOTH}" in text


@pytest.mark.behaviour("C2 T169")
def test_a_vault_needs_no_credentials_but_a_known_type_and_a_key() -> None:
    vault = {"vault_type": "azure_key_vault", "vault_lookup_key": "k", "azure_key_vault": VAULT}
    config = read_config(without("github_token", *CREDENTIALS, **vault))
    assert config.record is None and config.vault_lookup_key == "k"
    assert config.azure_key_vault == AzureKeyVault(
        "https://v.vault.azure.net", "t", "c", "/cert.pem"
    )
    text = refusal(without("github_token", **(vault | {"vault_lookup_key": ""})))
    assert 'VaultLookupKey is required when VaultType is set to "azure_key_vault"' in text
    with pytest.raises(ConfigError, match='unknown vault type: "invalid_vault_type"'):
        validate(replace(config, vault_type="invalid_vault_type"))


def test_the_vaults_proxy_is_passed_on() -> None:
    proxy = {"HTTPProxy": "", "HTTPSProxy": "http://p:3128", "NoProxy": "a,b"}
    vault = VAULT | {"proxy": proxy}
    config = read_config(
        content(vault_type="azure_key_vault", vault_lookup_key="k", azure_key_vault=vault)
    )
    assert config.azure_key_vault is not None
    assert config.azure_key_vault.proxy == Proxy(
        https=ProxyServer("http://p:3128"), no_proxy=("a", "b")
    )


@pytest.mark.behaviour("C2 T170")
def test_an_unknown_vault_and_a_broken_file_are_told() -> None:
    assert refusal(content(vault_type="x")) == "unsupported vault type: x"
    assert refusal(b"{").startswith("failed to decode config")
    assert refusal(b"[]").startswith("failed to decode config")


@pytest.mark.behaviour("C2 T171")
def test_a_vault_without_its_settings_is_refused_and_does_not_crash() -> None:
    text = refusal(content(vault_type="azure_key_vault", vault_lookup_key="k"))
    assert "azure_key_vault is required" in text


@pytest.mark.behaviour("C2 T174")
def test_an_installation_id_that_is_text_is_a_decoding_error_without_the_secrets() -> None:
    text = refusal(content(github_app_installation_id="10", github_token="ghp_secret"))
    assert text.startswith("failed to decode config") and "ghp_secret" not in text


@pytest.mark.behaviour("C2 T173")
def test_the_five_invalid_combinations_and_the_three_valid_ones() -> None:
    whole = Record(app_id="1", app_installation_id=10, app_private_key=SecretText("key"))
    token = Record(token=SecretText("t"))
    invalid = [
        Record(),
        replace(whole, token=SecretText("t")),
        replace(whole, app_id=""),
        replace(whole, app_installation_id=0),
        replace(whole, app_private_key=SecretText("")),
    ]
    for record in invalid:
        with pytest.raises(ConfigError):
            checked_record(record)
    assert checked_record(token) == token
    assert checked_record(whole) == whole
    partial = replace(whole, token=SecretText("t"), app_private_key=SecretText(""))
    assert checked_record(partial) == token  # the parts of the App are dropped


@pytest.mark.behaviour("C2 T177")
def test_log_level_and_format_are_checked() -> None:
    assert read_config(content(log_level="INFO")).log_level == "INFO"
    for level in ("verbose", ""):
        assert f"invalid log level: {level}" in refusal(content(log_level=level))
    for log_format in ("JSON", ""):
        assert f"invalid log format: {log_format}" in refusal(content(log_format=log_format))


@pytest.mark.behaviour("C2 T116")
def test_the_listeners_own_limits() -> None:
    with pytest.raises(ConfigError, match="scaleSetID is required"):
        check_limits(0, Bounds(0, 0))
    check_limits(1, Bounds(0, 0))
    for maximum in (-1, 2147483648):
        with pytest.raises(ConfigError, match="maxRunners must be between 0 and MaxInt32"):
            check_limits(1, Bounds(min(0, maximum), maximum))
    check_limits(1, Bounds(0, 5))


@pytest.mark.behaviour("C2 T178")
def test_the_metrics_path_has_a_default_and_the_address_is_kept() -> None:
    config = read_config(content(metrics_addr=":6060", metrics_endpoint=""))
    assert (config.metrics_addr, config.metrics_path) == (":6060", "/metrics")


def test_unknown_keys_and_nulls_are_passed_over() -> None:
    config = read_config(content(scaler_qps=50, server_root_ca=None, token="old key"))
    assert config.server_root_ca == ""


def test_only_what_can_change_under_a_session_keeps_the_place() -> None:
    config = read_config(content())
    live = {"min_runners": 0, "max_runners": 9, "github_token": "n", "log_level": "info"}
    assert config.same_place(read_config(content(**live, metrics={})))
    for key, value in (
        ("configure_url", "https://github.com/other"),
        ("runner_scale_set_id", 8),
        ("ephemeral_runner_set_name", "other"),
        ("ephemeral_runner_set_namespace", "other"),
        ("server_root_ca", "pem"),
        ("metrics_addr", ":1"),
    ):
        assert not config.same_place(read_config(content(**{key: value})))


def test_a_vault_item_is_read_like_the_four_keys_and_never_quoted() -> None:
    record = read_vault_record(SecretText('{"github_token": "t", "other": 1}'))
    assert record == Record(token=SecretText("t"))
    for text in ("ghp_secret", "[]", '{"github_app_installation_id": "ghp_secret"}', "{}"):
        with pytest.raises(ConfigError, match="config validation failed") as caught:
            read_vault_record(SecretText(text))
        assert "ghp_secret" not in str(caught.value)


def test_secrets_do_not_show() -> None:
    assert "token123" not in repr(read_config(content(github_token="token123")))
