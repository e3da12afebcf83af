"""The servers that cases run against: the embedded one, a real one, or one somebody names."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp.test_utils import TestServer

from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from tests.conformance.transcript import Target

if TYPE_CHECKING:  # it needs binaries that `make test` does without
    from tests.kubernetes.cluster import Cluster

EMBEDDED, REAL, NAMED = "embedded", "real", "named"
EMBEDDED_TOKENS = {"admin": "token-of-admin", "bob": "token-of-bob"}
GROUPS = {"admin": ("system:masters",), "bob": ("devs",)}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def chosen() -> list[str]:
    """By default the embedded one; `RUNNERSCALE_CONFORMANCE_SERVERS=embedded,real` for both.

    With RUNNERSCALE_CONFORMANCE_URL (and _TOKEN, _BOB_TOKEN, _CA) the one at that address.
    """
    if os.environ.get("RUNNERSCALE_CONFORMANCE_URL"):
        return [NAMED]
    return os.environ.get("RUNNERSCALE_CONFORMANCE_SERVERS", EMBEDDED).split(",")


def embedded_api(root_ca: str = CERTIFICATE) -> ApiServer:
    """A fresh one, not yet listening."""
    return ApiServer(
        MemoryStore(),
        clock=SystemClock(),
        random=seeded(1),
        identities=[
            Identity(user, SecretText(token), GROUPS[user])
            for user, token in EMBEDDED_TOKENS.items()
        ],
        signing_key=SecretText("k" * 32),
        root_ca=root_ca,
    )


@asynccontextmanager
async def embedded() -> AsyncIterator[Target]:
    """A fresh one in this process."""
    api = embedded_api()
    async with TestServer(api.app) as server:

        async def compact() -> None:
            api.compact()

        yield Target(str(server.make_url("")).rstrip("/"), EMBEDDED_TOKENS, compact=compact)


def real(cluster: "Cluster") -> Target:
    """The kube-apiserver of a test cluster."""
    context = ssl.create_default_context(cafile=str(cluster.ca_path))
    tokens = {user: cluster.token(user) for user in GROUPS}

    async def compact() -> None:
        await asyncio.to_thread(cluster.compact)

    return Target(cluster.url, tokens, context, compact)


def named() -> Target:
    """The one of the environment."""
    ca = os.environ.get("RUNNERSCALE_CONFORMANCE_CA")
    tokens = {
        "admin": os.environ["RUNNERSCALE_CONFORMANCE_TOKEN"],
        "bob": os.environ.get("RUNNERSCALE_CONFORMANCE_BOB_TOKEN", ""),
    }
    url = os.environ["RUNNERSCALE_CONFORMANCE_URL"].rstrip("/")
    return Target(url, tokens, ssl.create_default_context(cafile=ca) if ca else False)
