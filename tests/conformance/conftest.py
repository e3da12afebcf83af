"""The fixture of the conformance suite, and the table that a run on two servers ends with."""

import json
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from runnerscale.api.crds import crd_documents
from runnerscale.apiserver.certificates import ensure_certificates
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from tests.conformance import servers
from tests.conformance.transcript import Case, Runner, Step, Target
from tests.conformance.widget_crd import WIDGET_CRD

if TYPE_CHECKING:
    from tests.kubernetes.cluster import Cluster

COLLECTIONS = (
    "/apis/conformance.runnerscale.dev/v1/widgets",
    *(
        f"/apis/actions.github.com/v1alpha1/{crd['spec']['names']['plural']}"
        for crd in crd_documents()
    ),
)
ESTABLISHED = {"status.conditions.1.status": "True"}
FURNISHED = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")


class Conformance:
    """Runs cases on one server."""

    def __init__(self, session: aiohttp.ClientSession, target: Target) -> None:
        self._session = session
        self._target = target

    async def transcript(self, case: Case) -> list[dict[str, Any]]:
        """Run a case in a namespace of its own, which has what every namespace has."""
        namespace = f"conformance-{system_random().randrange(10**9):09d}"
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        definitions = (WIDGET_CRD, *crd_documents())
        steps = (
            *(Step("POST", crds, crd) for crd in definitions),
            *(
                Step("GET", f"{crds}/{crd['metadata']['name']}", until=ESTABLISHED)
                for crd in definitions
            ),
            Step("POST", "/api/v1/namespaces", body),
            *(Step("GET", f"/api/v1/namespaces/{{ns}}/{p}", until_code=200) for p in FURNISHED),
            *(Step("GET", path, until_code=200) for path in COLLECTIONS),
        )
        runner = Runner(self._session, self._target, namespace)
        await runner.run(Case("prepare", steps))
        try:
            return await Runner(self._session, self._target, namespace).run(case)
        finally:
            await runner.run(Case("end", (Step("DELETE", "/api/v1/namespaces/{ns}"),)))


@pytest.fixture(scope="session")
def real_cluster() -> Iterator["Cluster"]:
    """etcd, kube-apiserver and its controllers, once."""
    from tests.kubernetes.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture(params=servers.chosen())
async def conformance(request: pytest.FixtureRequest) -> AsyncIterator[Conformance]:
    """Runs cases on each of the chosen servers in turn."""
    async with aiohttp.ClientSession() as session, target_of(request) as target:
        yield Conformance(session, target)


@asynccontextmanager
async def target_of(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    """The server of this run of a test."""
    if request.param == servers.EMBEDDED:
        async with servers.embedded() as target:
            yield target
    elif request.param == servers.REAL:
        yield servers.real(request.getfixturevalue("real_cluster"))
    else:
        yield servers.named()


@dataclass(frozen=True, slots=True)
class KubectlServer:
    """What kubectl is pointed at."""

    kubeconfig: Path
    address: str


@pytest.fixture(params=servers.chosen())
async def kubectl_server(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[KubectlServer]:
    """The chosen servers in turn, over HTTPS, with our kinds and the cases' own in place."""
    async with aiohttp.ClientSession() as session, https_target(request, tmp_path) as target:
        await Conformance(session, target).transcript(Case("prepare", ()))
        path = tmp_path / "kubeconfig.json"
        path.write_text(json.dumps(kubeconfig(target)))
        yield KubectlServer(path, target.url.partition("://")[2])


@asynccontextmanager
async def https_target(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Target]:
    """As `target_of`, but the embedded server speaks TLS too."""
    if request.param != servers.EMBEDDED:
        async with target_of(request) as target:
            yield target
        return
    certificates = ensure_certificates(folder / "certificates", now_s=SystemClock().now_s())
    api = servers.embedded_api(certificates.ca_pem)
    serving = await api.serve(ssl=certificates.server_context())
    try:
        context = ssl.create_default_context(cadata=certificates.ca_pem)
        yield Target(serving.url, servers.EMBEDDED_TOKENS, context)
    finally:
        await serving.stop()


def kubeconfig(target: Target) -> dict[str, Any]:
    """As JSON, which kubectl reads too; who is asked is pinned elsewhere."""
    cluster = {"server": target.url, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": target.tokens["admin"]}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Cases by servers: which gave the recorded transcript."""
    chosen = servers.chosen()
    if len(chosen) < 2:
        return
    table: dict[str, dict[str, str]] = defaultdict(dict)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            properties = dict(report.user_properties)
            if "case" in properties:
                words = {"passed": "equal"}
                row = table[str(properties["case"])]
                row[str(properties["server"])] = words.get(outcome, outcome.upper())
                row["requests"] = str(properties.get("requests", "?"))
    terminalreporter.section("conformance: the recorded transcript of a real kube-apiserver, and")
    columns = ("requests", *chosen)
    wide = max((len(name) for name in table), default=0)
    terminalreporter.write_line(f"{'case':{wide}}  " + "  ".join(f"{c:>10}" for c in columns))
    for name, row in table.items():
        cells = "  ".join(f"{row.get(column, 'NOT RUN'):>10}" for column in columns)
        terminalreporter.write_line(f"{name:{wide}}  {cells}")
    equal = sum(all(row.get(server) == "equal" for server in chosen) for row in table.values())
    requests = sum(int(row["requests"]) for row in table.values() if row["requests"].isdigit())
    terminalreporter.write_line(
        f"{len(table)} cases, {requests} requests on each of {len(chosen)} servers;"
        f" equal on all of them: {equal}"
    )
