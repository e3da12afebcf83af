import asyncio
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runnerscale.api.reasons import Reason
from runnerscale.core.clock import LoopClock, ManualClock
from runnerscale.core.secret import SecretText
from runnerscale.credentials import vault as rules
from runnerscale.credentials.place import AzureKeyVault, PlaceTrouble, Proxy, ProxyServer
from runnerscale.credentials.vault import AzureVaults, check, open_azure, read_item
from runnerscale.scaleset.proxy import ProxyRules

NO_PROXY = ProxyRules()


@pytest.fixture
def azure(tmp_path: Path) -> AzureKeyVault:
    certificate = tmp_path / "cert.pem"
    certificate.write_text("x")
    return AzureKeyVault("https://v.example", "tenant", "client", str(certificate))


class Client:
    """A vault's client that answers what it is told to."""

    def __init__(self, value: Any = "text") -> None:
        self.value = value
        self.closed = False

    async def get(self, name: str) -> str:
        if isinstance(self.value, Exception):
            raise self.value
        return str(self.value)

    async def close(self) -> None:
        self.closed = True


class HttpResponseError(Exception):
    """As the SDK's: the text quotes the request."""

    def __init__(self, status_code: int | None) -> None:
        super().__init__("Authorization: Bearer hush")
        self.status_code = status_code


@pytest.mark.behaviour("C1 T182", "C2 T172")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tenant_id": "", "client_id": "", "url": "", "certificate_path": ""}, "no tenant id"),
        ({"tenant_id": ""}, "no tenant id"),
        ({"client_id": ""}, "no client id"),
        ({"url": ""}, "no usable url"),
        ({"url": "v.example"}, "no usable url"),
        ({"url": "https://[v"}, "no usable url"),
        ({"certificate_path": ""}, "no certificate path"),
        ({"certificate_path": "/nowhere/cert.pem"}, "does not exist here"),
        ({"proxy": Proxy()}, "a proxy in which nothing is set"),
    ],
)
async def test_an_incomplete_vault_is_told_and_never_asked(
    azure: AzureKeyVault, change: dict[str, Any], said: str
) -> None:
    opened: list[Any] = []

    def open_vault(vault: AzureKeyVault, proxies: ProxyRules) -> Client:
        opened.append(vault)
        return Client()

    vaults = AzureVaults(clock=ManualClock(), open_vault=open_vault)
    with pytest.raises(PlaceTrouble, match=said) as caught:
        await vaults.read(replace(azure, **change), "item", proxies=NO_PROXY)
    assert caught.value.reason == Reason.VAULT_FAILED
    assert opened == []


@pytest.mark.behaviour("C2 T172")
def test_a_complete_vault_is_fine(azure: AzureKeyVault) -> None:
    check(azure)
    check(replace(azure, proxy=Proxy(no_proxy=("a",))))


async def test_one_client_serves_a_vault_until_it_is_old(azure: AzureKeyVault) -> None:
    clock, opened = ManualClock(), list[Client]()

    def open_vault(vault: AzureKeyVault, proxies: ProxyRules) -> Client:
        opened.append(Client(proxies.https.reveal() if proxies.https else "direct"))
        return opened[-1]

    environment = ProxyRules(https=SecretText("http://env:1"))
    vaults = AzureVaults(clock=clock, environment=environment, open_vault=open_vault)
    for _ in range(3):
        text = await vaults.read(azure, "item", proxies=NO_PROXY)
        assert text == SecretText("http://env:1")  # without proxies of its own: the environment's
    assert len(opened) == 1
    await vaults.read(azure, "item", proxies=ProxyRules(https=SecretText("http://own:1")))
    assert len(opened) == 2
    clock.advance(rules.CLIENT_KEPT_S)
    await vaults.read(azure, "item", proxies=NO_PROXY)
    assert [client.closed for client in opened] == [True, True, False]
    await vaults.close()
    assert opened[2].closed


async def test_the_number_of_clients_is_bounded(azure: AzureKeyVault) -> None:
    clock, opened = ManualClock(), list[Client]()

    def open_vault(vault: AzureKeyVault, proxies: ProxyRules) -> Client:
        opened.append(Client())
        return opened[-1]

    vaults = AzureVaults(clock=clock, open_vault=open_vault)
    for number in range(rules.CLIENTS_MAX + 5):
        clock.advance(1)
        await vaults.read(replace(azure, tenant_id=str(number)), "item", proxies=NO_PROXY)
    assert sum(not client.closed for client in opened) == rules.CLIENTS_MAX
    assert [client.closed for client in opened[:6]] == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("value", "reason", "passing"),
    [
        (HttpResponseError(404), Reason.CREDENTIALS_MISSING, False),
        (HttpResponseError(403), Reason.VAULT_FAILED, False),
        (HttpResponseError(401), Reason.VAULT_FAILED, False),
        (HttpResponseError(429), Reason.VAULT_FAILED, True),
        (HttpResponseError(503), Reason.VAULT_FAILED, True),
        (HttpResponseError(None), Reason.VAULT_FAILED, True),
        (OSError("hush"), Reason.VAULT_FAILED, True),
        ("", Reason.CREDENTIALS_MISSING, False),
    ],
)
async def test_what_a_vault_says_has_its_reason(
    azure: AzureKeyVault, value: Any, reason: Reason, passing: bool
) -> None:
    vaults = AzureVaults(clock=ManualClock(), open_vault=lambda *_: Client(value))
    with pytest.raises(PlaceTrouble) as caught:
        await vaults.read(azure, "the-item", proxies=NO_PROXY)
    assert (caught.value.reason, caught.value.passing) == (reason, passing)
    assert "the-item" in str(caught.value) and "hush" not in str(caught.value)


def test_a_vault_that_hangs_is_given_up(azure: AzureKeyVault, run_virtual: Any) -> None:
    class Hanging(Client):
        async def get(self, name: str) -> str:
            await asyncio.sleep(10_000)
            return ""

    async def work() -> None:
        vaults = AzureVaults(clock=LoopClock(0), open_vault=lambda *_: Hanging())
        with pytest.raises(PlaceTrouble, match="no answer in 60 s") as caught:
            await vaults.read(azure, "item", proxies=NO_PROXY)
        assert caught.value.passing

    run_virtual(work())


async def test_without_the_sdk_it_is_told_how_to_get_it(
    azure: AzureKeyVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity.aio", None)
    with pytest.raises(PlaceTrouble, match=r"runnerscale\[azure\]") as caught:
        await AzureVaults(clock=ManualClock()).read(azure, "item", proxies=NO_PROXY)
    assert caught.value.reason == Reason.VAULT_FAILED


async def test_a_certificate_that_cannot_be_read_is_told(azure: AzureKeyVault) -> None:
    def open_vault(vault: AzureKeyVault, proxies: ProxyRules) -> Client:
        raise ValueError("hush")

    with pytest.raises(PlaceTrouble, match="ValueError") as caught:
        await AzureVaults(clock=ManualClock(), open_vault=open_vault).read(
            azure, "item", proxies=NO_PROXY
        )
    assert "hush" not in str(caught.value)


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand-ins for the SDK's modules that keep what they were made with."""
    made: dict[str, Any] = {}

    class Part:
        def __init__(self, *args: Any, **options: Any) -> None:
            made[type(self).__name__] = (args, options)

        async def close(self) -> None:
            made.setdefault("closed", []).append(type(self).__name__)

    class CertificateCredential(Part):
        pass

    class SecretClient(Part):
        async def get_secret(self, name: str) -> Any:
            return types.SimpleNamespace(value=f"text of {name}")

    def module(name: str, **members: Any) -> None:
        found = types.ModuleType(name)
        vars(found).update(members)
        monkeypatch.setitem(sys.modules, name, found)

    for name in ("azure", "azure.identity", "azure.keyvault", "azure.keyvault.secrets"):
        module(name)
    module("azure.identity.aio", CertificateCredential=CertificateCredential)
    module("azure.keyvault.secrets.aio", SecretClient=SecretClient)
    return made


async def test_the_sdk_is_given_certificate_and_the_proxy_of_each_address(
    azure: AzureKeyVault, sdk: dict[str, Any]
) -> None:
    proxies = ProxyRules(
        https=SecretText("http://us%20er:p%40@proxy:8080"), no_proxy=("v.example",)
    )
    client = open_azure(azure, proxies)
    assert await client.get("item") == "text of item"
    args, options = sdk["CertificateCredential"]
    assert args == ("tenant", "client")
    assert options["certificate_path"] == azure.certificate_path
    assert options["proxies"] == {"https": "http://us%20er:p%40@proxy:8080"}
    assert (options["retry_total"], options["retry_backoff_max"]) == (4, 30)
    _, options = sdk["SecretClient"]
    assert options["vault_url"] == "https://v.example"
    assert options["proxies"] == {}  # the vault itself is exempt
    await client.close()
    assert sdk["closed"] == ["SecretClient", "CertificateCredential"]


async def test_one_item_can_be_read_without_kubernetes(
    azure: AzureKeyVault, sdk: dict[str, Any]
) -> None:
    with_proxy = replace(azure, proxy=Proxy(https=ProxyServer("http://u:p@proxy:1")))
    text = await read_item(with_proxy, "item", clock=ManualClock())
    assert text == SecretText("text of item")
    assert sdk["SecretClient"][1]["proxies"] == {"https": "http://u:p@proxy:1"}
    assert sdk["closed"] == ["SecretClient", "CertificateCredential"]
    broken = replace(azure, proxy=Proxy(https=ProxyServer("socks5://u:hush@proxy:1")))
    with pytest.raises(PlaceTrouble, match=r"proxy\.https\.url") as caught:
        await read_item(broken, "item", clock=ManualClock())
    assert caught.value.reason == Reason.PROXY_INVALID
    assert "hush" not in str(caught.value)
