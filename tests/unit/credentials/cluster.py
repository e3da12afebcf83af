"""A cluster that has only Secrets and config maps, and a vault that has only items."""

import base64
from dataclasses import dataclass, field
from typing import Any

from runnerscale.core.clock import ManualClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.credentials.clients import ClientCache
from runnerscale.credentials.place import AzureKeyVault, GitHubPlace
from runnerscale.kube.builtin import ConfigMap, Secret
from runnerscale.kube.errors import NotFound
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.proxy import ProxyRules
from runnerscale.scaleset.user_agent import SystemInfo
from tests.unit.scaleset.stub import CALM, Stub, reply

PLACE = GitHubPlace(namespace="ns", config_url="https://github.com/my-org", secret_name="github")


def base64_of(values: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


@dataclass
class Cluster:
    """`get` of the client, with what was asked written down; a value may be an error."""

    objects: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def secret(self, name: str, **values: str) -> None:
        self.objects["secrets", name] = Secret(data=base64_of(values))

    def config_map(self, name: str, **values: str) -> None:
        self.objects["configmaps", name] = ConfigMap(data=values)

    async def get(self, resource: Any, namespace: str, name: str, **_: Any) -> Any:
        assert namespace == "ns"
        self.asked.append((resource.plural, name))
        found = self.objects.get((resource.plural, name))
        if found is None:
            raise NotFound(404, "NotFound", f'{resource.plural} "{name}" not found')
        if isinstance(found, Exception):
            raise found
        return found


@dataclass
class Vaults:
    """The vault, by item name; a value may be an error."""

    items: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, ProxyRules]] = field(default_factory=list)
    closed: bool = False

    async def read(self, vault: AzureKeyVault, name: str, *, proxies: ProxyRules) -> SecretText:
        self.asked.append((name, proxies))
        found = self.items[name]
        if isinstance(found, Exception):
            raise found
        return SecretText(found)

    async def close(self) -> None:
        self.closed = True


@dataclass
class World:
    """A cache, and everything around it that a test looks at."""

    environ: dict[str, str] = field(default_factory=dict)
    cluster: Cluster = field(default_factory=Cluster)
    vaults: Vaults = field(default_factory=Vaults)
    clock: ManualClock = field(default_factory=ManualClock)
    networks: list[NetworkOptions] = field(default_factory=list)
    stubs: list[Stub] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster.secret("github", github_token="token")
        self.cache = ClientCache(
            self.cluster,  # type: ignore[arg-type]
            clock=self.clock,
            random=seeded(1),
            system_info=SystemInfo(subsystem="gha-scale-set-controller"),
            environ=self.environ,
            transport_factory=self.network,
            vault=self.vaults,
            policy=CALM,
        )

    def network(self, options: NetworkOptions) -> Stub:
        self.networks.append(options)
        stub = Stub(self.clock, lambda seen: reply(200, {"id": 5, "name": "r"}))
        stub.has_proxy = options.proxies.configured
        self.stubs.append(stub)
        return stub
