"""The listener's configuration file, byte for byte."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from runnerscale.controllers.autoscaling_listener.config_secret import encode
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import PlaceTrouble, Resolved
from runnerscale.kube.builtin import SECRETS
from tests.plan.autoscaling_listener.world import HOME, NAME, RUNNERS, TOKEN, World

APP = Resolved(
    token=None,
    app_id="1234",
    app_installation_id=567,
    app_private_key=SecretText("-----BEGIN KEY-----\nx\n-----END KEY-----\n"),
    http_proxy=None,
    https_proxy=None,
    no_proxy=(),
    root_ca_pem="",
)
VAULT = {
    "type": "azure_key_vault",
    "azureKeyVault": {
        "url": "https://vault.example",
        "tenantId": "tenant",
        "clientId": "client",
        "certificatePath": "/akv.pem",
    },
}


def bytes_of(world: World) -> bytes:
    return base64.b64decode(world.config["data"]["config.json"])


def file_of(world: World) -> Any:
    return json.loads(bytes_of(world))


@pytest.mark.behaviour("C1 T106")
async def test_the_file_is_what_arc_writes_byte_for_byte() -> None:
    world = World()
    await world.settle()
    # Keys and order: contract 3.5; compact, a newline at the end.
    assert bytes_of(world) == (
        b'{"configure_url":"https://github.com/octo-org/octo-repo","vault_type":"",'
        b'"vault_lookup_key":"","github_app_id":"","github_app_installation_id":0,'
        b'"github_app_private_key":"","github_token":"ghp_first",'
        b'"ephemeral_runner_set_namespace":"arc-runners","ephemeral_runner_set_name":"linux",'
        b'"max_runners":10,"min_runners":1,"runner_scale_set_id":7,'
        b'"runner_scale_set_name":"linux","server_root_ca":"","log_level":"debug",'
        b'"log_format":"text","metrics_addr":":8080","metrics_endpoint":"/metrics",'
        b'"metrics":null}\n'
    )
    assert world.config["type"] == "Opaque"


def test_angle_brackets_and_ampersands_are_escaped_as_go_does() -> None:
    assert encode({"a": "<&>\u2028"}) == b'{"a":"\\u003c\\u0026\\u003e\\u2028"}\n'


@pytest.mark.behaviour("C1 T98")
async def test_a_token_leaves_the_app_fields_empty_and_an_app_the_token() -> None:
    world = World()
    await world.settle()
    file = file_of(world)
    assert (file["github_token"], file["github_app_id"]) == ("ghp_first", "")
    assert file["github_app_installation_id"] == 0
    world.clients.means = APP
    await world.settle()
    file = file_of(world)
    assert (file["github_token"], file["github_app_id"]) == ("", "1234")
    assert file["github_app_installation_id"] == 567
    assert file["github_app_private_key"].startswith("-----BEGIN KEY")


@pytest.mark.behaviour("C1 T98")
async def test_with_a_vault_no_credential_is_in_the_file() -> None:
    world = World(vaultConfig=VAULT)
    await world.settle()
    file = file_of(world)
    assert not [key for key in file if key.startswith("github_")]
    assert file["vault_type"] == "azure_key_vault"
    assert file["vault_lookup_key"] == "github"
    assert file["azure_key_vault"] == {
        "tenant_id": "tenant",
        "client_id": "client",
        "url": "https://vault.example",
        "certificate_path": "/akv.pem",
    }


async def test_the_proxy_before_the_vault_is_passed_on_with_its_credentials() -> None:
    proxy = {"https": {"url": "http://p:1", "credentialSecretRef": "vp"}, "noProxy": ["a", "b"]}
    world = World(vaultConfig=VAULT | {"proxy": proxy})
    data = {
        "username": base64.b64encode(b"u").decode(),
        "password": base64.b64encode(b"p").decode(),
    }
    world.api.put(SECRETS, "arc-runners", {"metadata": {"name": "vp"}, "data": data})
    await world.settle()
    assert file_of(world)["azure_key_vault"]["proxy"] == {
        "HTTPProxy": "",
        "HTTPSProxy": "http://u:p@p:1",
        "NoProxy": "a,b",
    }


@pytest.mark.behaviour("C1 T99")
async def test_more_minimum_than_maximum_writes_no_secret_and_says_so() -> None:
    world = World(minRunners=5, maxRunners=2)
    await world.settle()
    assert world.config is None
    words = 'MinRunners "5" cannot be greater than MaxRunners "2"'
    assert words in world.listener["status"]["message"]


@pytest.mark.behaviour("C1 T100")
async def test_an_unknown_vault_writes_no_secret_and_is_named() -> None:
    world = World(vaultConfig={"type": "x"})
    await world.settle()
    assert world.config is None
    assert 'unknown vault type: "x"' in world.listener["status"]["message"]


@pytest.mark.behaviour("C1 T100")
async def test_a_vault_without_a_lookup_key_is_refused() -> None:
    world = World(vaultConfig=VAULT, githubConfigSecret="")
    await world.settle()
    assert world.config is None
    assert "VaultLookupKey is required" in world.listener["status"]["message"]


@pytest.mark.behaviour("C1 T102")
@pytest.mark.parametrize(
    ("level", "log_format", "wanted"),
    [
        ("debug", "text", ("debug", "text")),
        ("info", "json", ("info", "json")),
        ("-4", "text", ("debug", "text")),  # a numeric controller level
        ("info", "xml", ("debug", "text")),
    ],
)
async def test_log_settings_are_passed_on_if_the_listener_knows_them(
    level: str, log_format: str, wanted: tuple[str, str]
) -> None:
    world = World()
    world.start(log_level=level, log_format=log_format)
    await world.settle()
    file = file_of(world)
    assert (file["log_level"], file["log_format"]) == wanted


@pytest.mark.behaviour("C1 T101")
async def test_metrics_off_means_empty_strings() -> None:
    world = World()
    world.start(metrics_addr="")
    await world.settle()
    file = file_of(world)
    assert (file["metrics_addr"], file["metrics_endpoint"]) == ("", "")


async def test_metric_settings_are_written_sorted_and_without_needless_fractions() -> None:
    world = World(
        metrics={
            "histograms": {"b": {"labels": ["x"], "buckets": [0.5, 1.0]}},
            "counters": {"z": {"labels": []}, "a": {"labels": ["y"]}},
        }
    )
    await world.settle()
    assert bytes_of(world).endswith(
        b'"metrics":{"counters":{"a":{"labels":["y"]},"z":{"labels":[]}},'
        b'"histograms":{"b":{"labels":["x"],"buckets":[0.5,1]}}}}\n'
    )


@pytest.mark.behaviour("C1 T103")
async def test_a_rotated_token_reaches_a_running_listener_of_ours_without_a_restart() -> None:
    # Overrules "and the pod restarts": issue 3 section 5, changes are taken up without one.
    world = World()
    await world.settle()
    pod, secret = world.pod["metadata"]["uid"], world.config["metadata"]["uid"]
    world.clients.means = replace(TOKEN, token=SecretText("ghp_second"))
    await world.settle()
    assert file_of(world)["github_token"] == "ghp_second"
    assert world.config["metadata"]["uid"] == secret
    assert world.pod["metadata"]["uid"] == pod


async def test_data_and_fingerprint_are_written_together() -> None:
    # W2: upstream renews the annotation and keeps the old data.
    world = World()
    await world.settle()
    world.clients.means = replace(TOKEN, token=SecretText("ghp_second"))
    world.api.bodies.clear()
    await world.one_pass()
    (patch,) = (b for b in world.api.bodies if b and set(b) == {"metadata", "data"})
    assert world.api.writes.count(("patch", "secrets", f"{NAME}-config")) == 1
    assert "config.json" in patch["data"]


async def test_a_secret_edited_by_hand_is_put_right() -> None:
    world = World()
    await world.settle()
    world.api.change(SECRETS, HOME, f"{NAME}-config", {"data": {"config.json": "e30="}})
    await world.settle()
    assert file_of(world)["github_token"] == "ghp_first"


async def test_no_secret_shows_in_actions_or_logs() -> None:
    from runnerscale.controllers.autoscaling_listener.snapshot import Child, Create, Patch

    for action in (Create(Child.CONFIG_SECRET, {"a": "s3cret"}), Patch(Child.POD, {"b": "s3cret"})):
        assert "s3cret" not in repr(action)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"githubConfigUrl": ""}, "GitHubConfigUrl is not provided"),
        ({"ephemeralRunnerSetName": ""}, 'EphemeralRunnerSetName "" is missing'),
        ({"runnerScaleSetId": 0}, 'RunnerScaleSetId "0" is missing'),
        ({"vaultConfig": {"type": "azure_key_vault"}}, "azureKeyVault is required"),
    ],
)
async def test_what_no_listener_could_use_is_not_written(spec: dict[str, Any], words: str) -> None:
    world = World(**spec)
    await world.settle()
    assert world.config is None
    assert words in world.listener["status"]["message"]


async def test_a_configuration_that_became_unusable_leaves_the_last_good_one() -> None:
    world = World()
    await world.settle()
    before = bytes_of(world)
    world.edit(minRunners=50)
    await world.settle()
    assert bytes_of(world) == before
    assert world.listener["status"]["reason"] == "SpecInvalid"


async def test_a_secret_of_a_listener_that_is_gone_becomes_ours() -> None:
    world = World()
    await world.settle()
    owner = {**world.config["metadata"]["ownerReferences"][0], "uid": "another"}
    other = {"metadata": {"ownerReferences": [owner]}}
    world.api.change(SECRETS, HOME, f"{NAME}-config", other)
    await world.settle()
    (now,) = world.config["metadata"]["ownerReferences"]
    assert now["uid"] == world.listener["metadata"]["uid"]


@pytest.mark.parametrize("plural", ["secrets", "serviceaccounts"])
async def test_a_part_that_may_not_be_made_is_told(plural: str) -> None:
    from runnerscale.kube.errors import Forbidden

    def fault(verb: str, kind: str, name: str) -> Exception | None:
        refused = (verb, kind) == ("create", plural)
        words = f'User "x" cannot create resource "{plural}"'
        return Forbidden(403, "Forbidden", words) if refused else None

    world = World(proxy={"http": {"url": "http://proxy:8080"}})
    world.api.fault = fault
    await world.settle()
    assert world.pod is None
    assert world.listener["status"]["reason"] == "RightsMissing"
    assert plural in world.listener["status"]["message"]


async def test_a_part_that_may_not_be_changed_is_told_and_the_listener_lives_on() -> None:
    from runnerscale.kube.errors import Forbidden

    def fault(verb: str, kind: str, name: str) -> Exception | None:
        refused = (verb, kind) == ("patch", "secrets")
        return Forbidden(403, "Forbidden", "denied by a webhook") if refused else None

    world = World()
    await world.settle()
    world.run_pod()
    world.api.fault = fault
    world.edit(maxRunners=50)
    await world.settle()
    assert world.listener["status"]["reason"] == "ApiServerRefused"
    assert "deletionTimestamp" not in world.pod["metadata"]


async def test_metric_settings_without_sections_are_an_empty_object() -> None:
    world = World(metrics={"gauges": {}})
    await world.settle()
    assert file_of(world)["metrics"] == {}


async def test_a_vault_proxy_without_credentials_is_passed_on_as_it_is() -> None:
    proxy = {"http": {"url": "http://p:1"}, "https": {"url": "http://q:1"}}
    world = World(vaultConfig=VAULT | {"proxy": proxy})
    await world.settle()
    found = file_of(world)["azure_key_vault"]["proxy"]
    assert (found["HTTPProxy"], found["HTTPSProxy"]) == ("http://p:1", "http://q:1")


async def test_a_file_that_is_no_json_is_none_and_stops_nobody() -> None:
    # With credentials that cannot be had, the plan fell over it in every pass.
    world = World()
    await world.settle()
    world.run_pod()
    spoilt = {"data": {"config.json": base64.b64encode(b"no JSON").decode()}}
    world.api.change(SECRETS, HOME, f"{NAME}-config", spoilt)
    world.clients.means = PlaceTrouble("CredentialsMissing", "no Secret", "Create it")
    await world.settle()
    assert world.pod is not None
    assert world.listener["status"]["reason"] == "CredentialsMissing"


async def test_credentials_of_the_vaults_proxy_that_are_no_text_stop_nobody() -> None:
    azure = {"url": "u", "tenantId": "t", "clientId": "c", "certificatePath": "p"}
    server = {"url": "http://p:1", "credentialSecretRef": "vault-proxy"}
    vault = {"type": "azure_key_vault", "azureKeyVault": azure, "proxy": {"https": server}}
    world = World(vaultConfig=vault)
    data = {"username": base64.b64encode(b"u\xff").decode()}
    world.api.put(SECRETS, RUNNERS, {"metadata": {"name": "vault-proxy"}, "data": data})
    await world.settle()
    assert file_of(world)["azure_key_vault"]["proxy"]["HTTPSProxy"].endswith("@p:1")
