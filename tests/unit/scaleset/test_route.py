"""Who carries a request: decided by the rules, once, and aiohttp is not even loaded in vain."""

import subprocess
import sys

import pytest

from runnerscale.core.secret import SecretText
from runnerscale.scaleset import aiohttp_transport
from runnerscale.scaleset.httptools_transport import HttptoolsTransport
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.proxy import ProxyRules
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.transport import Request, Response, UnusableRequest

PROXY = SecretText("http://user:hush@proxy.example:3128")


class Recorder:
    """In place of a transport: who was asked for what."""

    has_proxy = has_root_ca = False

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = 0

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        self.asked.append(request.url)
        return Response(200)

    async def close(self) -> None:
        self.closed += 1


async def test_only_what_the_rules_send_through_a_proxy_goes_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    through, direct = Recorder(), Recorder()
    monkeypatch.setattr(aiohttp_transport, "AiohttpTransport", lambda _options: through)
    monkeypatch.setattr(HttptoolsTransport, "send", direct.send)
    rules = ProxyRules(https=PROXY, no_proxy=("ghes.example",))
    transport = open_transport(NetworkOptions(proxies=rules))
    assert transport.has_proxy
    assert not transport.has_root_ca
    proxied = ["https://api.github.com/a", "https://api.github.com/b"]
    straight = ["https://ghes.example/a", "http://api.github.com/a", "https://127.0.0.1/"]
    for url in [*straight, *proxied]:
        await transport.send(Request("GET", url), timeout_s=1.0)
    assert (through.asked, direct.asked) == (proxied, straight)
    await transport.close()
    assert through.closed == 1


async def test_the_direct_transport_goes_round_no_proxy() -> None:
    transport = HttptoolsTransport(NetworkOptions(proxies=ProxyRules(https=PROXY)))
    with pytest.raises(UnusableRequest, match="through a proxy") as caught:
        await transport.send(Request("GET", "https://api.github.com/"), timeout_s=1.0)
    assert "hush" not in str(caught.value)


def test_without_proxies_everything_is_direct() -> None:
    assert isinstance(open_transport(), HttptoolsTransport)
    no_proxy = NetworkOptions(proxies=ProxyRules(no_proxy=("a.example",)))
    assert isinstance(open_transport(no_proxy), HttptoolsTransport)


def test_neither_client_loads_aiohttp_before_a_proxy_needs_it() -> None:
    code = (
        "import sys, runnerscale.scaleset.route, runnerscale.scaleset.client;"
        "import runnerscale.credentials.clients, runnerscale.kube.cluster;"
        "from runnerscale.scaleset.network import NetworkOptions as O;"
        "from runnerscale.scaleset.proxy import proxies_in;"
        "runnerscale.scaleset.route.open_transport(O(proxies_in({'https_proxy': 'http://p'})));"
        "print([name for name in sys.modules if name.split('.')[0] == 'aiohttp'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
