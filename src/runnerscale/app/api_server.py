"""The embedded Kubernetes API as a process: our kinds, our identities, its metrics.

What the server is, is `apiserver/server.py`. Here: it is given our CRDs as data, the identities
of the single machine, and a count of requests by user, beside which the budget of a job is read.
"""

import secrets
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from runnerscale.api.crds import crd_documents
from runnerscale.apiserver.certificates import write_secret_file
from runnerscale.apiserver.credentials import IdentityRequest
from runnerscale.apiserver.handler import Served
from runnerscale.apiserver.server import ApiServerOptions, CannotServe, run_api_server
from runnerscale.apiserver.store import StoreError
from runnerscale.app.logs import Style, configure_logging
from runnerscale.app.manifests import CONTROLLER_ACCOUNT, NODE_ACCOUNT, SYSTEM_NAMESPACE
from runnerscale.app.problem import Problem
from runnerscale.app.process import run_process
from runnerscale.core.clock import SystemClock
from runnerscale.core.private_folder import make_private
from runnerscale.core.randomness import system_random
from runnerscale.core.secret import SecretText
from runnerscale.core.small_file import UnfitFile, read_small_text

ADMIN = "admin"
CONTROLLER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}"
NODE = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{NODE_ACCOUNT}"
IDENTITIES = (
    IdentityRequest(ADMIN, ("system:masters",)),
    IdentityRequest(CONTROLLER),
    IdentityRequest(NODE),
)
TOKEN_LENGTH_MIN = 16
USERS_MAX = 50  # more than that share one series


def kubeconfig_path(data: Path, identity: str) -> Path:
    """Where the server writes the kubeconfig of an identity."""
    return data / "kubeconfigs" / f"{identity}.yaml"


def ensure_token(path: Path) -> SecretText:
    """The token in a file only we can read; made at first use.

    Raises:
        Problem: the file can neither be read nor made.
    """
    try:
        if not path.exists():
            make_private(path.parent)
            write_secret_file(path, secrets.token_urlsafe(32).encode())
        token = read_small_text(path, encoding="ascii").strip()
    except UnfitFile as error:
        raise Problem(
            f"the token file {path} cannot be used: {error.strerror}",
            "Remove it; a new one is made",
        ) from error
    except OSError as error:
        raise Problem(
            f"the token file {path} cannot be used: {error.strerror}", "Choose a writable folder"
        ) from error
    except UnicodeDecodeError:
        token = ""
    if len(token) < TOKEN_LENGTH_MIN or not token.isprintable():
        # An empty one would let everybody in.
        raise Problem(f"the file {path} holds no token", "Delete it; a new one is made")
    return SecretText(token)


class RequestCounter:
    """Requests by who asked: an observer of the server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Counts into `registry`."""
        self._counter = Counter(
            "runnerscale_apiserver_requests_total",
            "Requests answered, by user, verb, resource and subresource.",
            ("user", "verb", "resource", "subresource"),
            registry=registry,
        )
        self._users: set[str] = set()

    def __call__(self, served: Served) -> None:
        """One answered request; refused ones count as well, they cost as much."""
        user = served.user
        if user not in self._users:
            if len(self._users) >= USERS_MAX:
                user = "other"
            else:
                self._users.add(user)
        request = served.request
        resource = request.plural if served.code != 404 or request.name else ""
        self._counter.labels(user, request.verb, resource, request.subresource).inc()


def run_api_server_process(*, data: Path, port: int) -> int:
    """Serve until SIGTERM; the exit code.

    Raises:
        Problem: folder, database or port cannot be used.
    """
    clock = SystemClock()
    configure_logging("info", "text", style=Style.CONTROLLER, clock=clock)
    registry = CollectorRegistry()

    async def work() -> int:
        options = ApiServerOptions(
            data_dir=data,
            port=port,
            crds=crd_documents(),
            identities=IDENTITIES,
            node_token=ensure_token(data / "node.token"),
            metrics=registry,
            observer=RequestCounter(registry),
        )
        try:
            await run_api_server(options, clock=clock, random=system_random())
        except (CannotServe, StoreError) as error:
            raise Problem(str(error).rstrip("."), "") from error
        return 0

    return run_process(work)
