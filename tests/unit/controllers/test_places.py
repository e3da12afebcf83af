"""From an object's spec to the place at GitHub that it names."""

from runnerscale.api.autoscaling_listener import AutoscalingListenerSpec
from runnerscale.api.autoscaling_runner_set import AutoscalingRunnerSetSpec
from runnerscale.api.ephemeral_runner import EphemeralRunnerSpec
from runnerscale.api.values import (
    AzureKeyVaultConfig,
    CertificateSource,
    ConfigMapKeyRef,
    ProxyConfig,
    ProxyServerConfig,
    TLSConfig,
    VaultConfig,
)
from runnerscale.controllers.places import place_labels, place_of
from runnerscale.credentials.place import (
    AzureKeyVault,
    CertificateFrom,
    GitHubPlace,
    Proxy,
    ProxyServer,
)

URL = "https://github.com/octo-org"


def test_all_kinds_name_a_place_in_the_same_fields() -> None:
    specs = (
        AutoscalingRunnerSetSpec(github_config_url=URL, github_config_secret="s"),
        AutoscalingListenerSpec(github_config_url=URL, github_config_secret="s"),
        EphemeralRunnerSpec(github_config_url=URL, github_config_secret="s"),
    )
    places = {place_of(spec, namespace="ns") for spec in specs}
    assert places == {GitHubPlace("ns", URL, "s")}


def test_everything_that_decides_which_client_serves_is_part_of_it() -> None:
    proxy = ProxyConfig(
        http=ProxyServerConfig("http://p"),
        https=ProxyServerConfig("http://q", "c"),
        no_proxy=["a"],
    )
    spec = AutoscalingRunnerSetSpec(
        github_config_url=URL,
        github_config_secret="s",
        proxy=proxy,
        github_server_tls=TLSConfig(CertificateSource(ConfigMapKeyRef(key="k", name="m"))),
        vault_config=VaultConfig(
            "azure_key_vault", AzureKeyVaultConfig("u", "t", "c", "p"), ProxyConfig()
        ),
    )
    assert place_of(spec, namespace="ns") == GitHubPlace(
        namespace="ns",
        config_url=URL,
        secret_name="s",
        proxy=Proxy(ProxyServer("http://p"), ProxyServer("http://q", "c"), ("a",)),
        certificate=CertificateFrom("m", "k"),
        vault_type="azure_key_vault",
        azure_key_vault=AzureKeyVault("u", "t", "c", "p", Proxy()),
    )


def test_an_empty_reference_is_passed_on_so_that_its_reader_can_say_so() -> None:
    spec = AutoscalingRunnerSetSpec(github_server_tls=TLSConfig())
    assert place_of(spec, namespace="ns").certificate == CertificateFrom("", "")
    vault = AutoscalingRunnerSetSpec(vault_config=VaultConfig("x"))
    assert place_of(vault, namespace="ns").vault_type == "x"
    assert place_of(vault, namespace="ns").azure_key_vault is None


def test_labels_of_a_place_and_of_none() -> None:
    assert place_labels("https://github.com/enterprises/acme")["enterprise"] == "acme"
    assert set(place_labels("nonsense").values()) == {""}
