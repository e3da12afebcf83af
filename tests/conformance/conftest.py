"""The one fixture of the conformance suite: a server, and a runner for cases in a namespace.

By default the embedded server, in this process. With RUNNERSCALE_CONFORMANCE_URL (and _TOKEN,
_BOB_TOKEN, _CA; _CONTROLLERS=1 where garbage collection runs) the same cases go to whatever
answers there, for instance a kube-apiserver.
"""

import os
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded, system_random
from runnerscale.core.secret import SecretText
from tests.conformance.transcript import Case, Runner, Step, Target
from tests.conformance.widget_crd import WIDGET_CRD

EMBEDDED_TOKENS = {"admin": "token-of-admin", "bob": "token-of-bob"}


def elsewhere() -> Target | None:
    """The server of the environment, if one is named."""
    url = os.environ.get("RUNNERSCALE_CONFORMANCE_URL")
    if not url:
        return None
    context: Any = False
    ca = os.environ.get("RUNNERSCALE_CONFORMANCE_CA")
    if ca:
        context = ssl.create_default_context(cafile=ca)
    tokens = {
        "admin": os.environ["RUNNERSCALE_CONFORMANCE_TOKEN"],
        "bob": os.environ.get("RUNNERSCALE_CONFORMANCE_BOB_TOKEN", ""),
    }
    return Target(url.rstrip("/"), tokens, context)


class Conformance:
    """Runs cases."""

    def __init__(self, session: aiohttp.ClientSession, target: Target) -> None:
        self._session = session
        self._target = target

    async def prepare(self) -> str:
        """A namespace with its account, and the CRD of the cases; the namespace's name."""
        namespace = f"conformance-{system_random().randrange(10**9):09d}"
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = WIDGET_CRD["metadata"]["name"]
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        widgets = "/apis/conformance.runnerscale.dev/v1/widgets"
        steps = (
            Step("POST", crds, WIDGET_CRD),
            Step("GET", f"{crds}/{name}", until={"status.conditions.1.status": "True"}),
            Step("POST", "/api/v1/namespaces", body),
            Step("POST", "/api/v1/namespaces/{ns}/serviceaccounts", account),
            Step("GET", widgets, until_code=200),
        )
        await Runner(self._session, self._target, namespace).run(Case("prepare", steps))
        return namespace

    async def transcript(self, case: Case) -> list[dict[str, Any]]:
        """Run a case in a namespace of its own."""
        namespace = await self.prepare()
        try:
            return await Runner(self._session, self._target, namespace).run(case)
        finally:
            gone = (Step("DELETE", "/api/v1/namespaces/{ns}"),)
            await Runner(self._session, self._target, namespace).run(Case("end", gone))


@pytest.fixture
async def conformance() -> AsyncIterator[Conformance]:
    """Cases against the embedded server, or the one of the environment."""
    target = elsewhere()
    server = None
    if target is None:
        api = ApiServer(
            MemoryStore(),
            clock=SystemClock(),
            random=seeded(1),
            identities=[
                Identity("admin", SecretText(EMBEDDED_TOKENS["admin"]), ("system:masters",)),
                Identity("bob", SecretText(EMBEDDED_TOKENS["bob"]), ("devs",)),
            ],
            signing_key=SecretText("k" * 32),
        )
        server = TestServer(api.app)
        await server.start_server()
        target = Target(str(server.make_url("")).rstrip("/"), EMBEDDED_TOKENS)
    async with aiohttp.ClientSession() as session:
        yield Conformance(session, target)
    if server is not None:
        await server.close()
