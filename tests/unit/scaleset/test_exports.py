"""The public surface: what others may rely on, and that no other error gets out."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import runnerscale.scaleset
from runnerscale.scaleset import errors, transport
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.interface import ScaleSetApi, SessionApi
from runnerscale.scaleset.session import MessageSession

PUBLIC = {
    "aiohttp_transport": ["AiohttpTransport", "NetworkOptions"],
    "client": ["ScaleSetClient", "MessageSession", "FRESH_DEMAND", "CLEAN_UP"],
    "config_url": ["ConfigUrl", "Scope", "parse_config_url", "force_ghes_in", "without_secrets"],
    "credentials": [
        "AppCredentials",
        "PersonalAccessToken",
        "app_credentials",
        "personal_access_token",
    ],
    "interface": ["ScaleSetApi", "SessionApi"],
    "limits": ["HostLimits"],
    "proxy": ["ProxyRules", "proxies_in", "split_no_proxy"],
    "retry": ["RetryPolicy"],
    "trust": ["check_root_ca", "tls_context"],
    "transport": ["Request", "Response", "Transport", "TransportFault"],
    "user_agent": ["SystemInfo"],
}

# Drawn at the top of errors.py; here as the test sees it: child -> parent.
TREE = {
    "InvalidConfigUrl": "ScaleSetError",
    "InvalidCredentials": "ScaleSetError",
    "InvalidCertificate": "ScaleSetError",
    "InvalidProxy": "ScaleSetError",
    "Unavailable": "ScaleSetError",
    "RateLimited": "Unavailable",
    "ProxyDenied": "Unavailable",
    "BadAnswer": "ScaleSetError",
    "Refused": "ScaleSetError",
    "CredentialsRefused": "Refused",
    "RunnerExists": "Refused",
    "RunnerNotFound": "Refused",
    "JobStillRunning": "Refused",
    "ScaleSetNotFound": "Refused",
    "ScaleSetAmbiguous": "Refused",
    "RunnerGroupNotFound": "Refused",
    "SessionConflict": "Refused",
    "SessionLost": "Refused",
    "QueueTokenExpired": "Refused",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_names_are_there(module: str) -> None:
    found = importlib.import_module(f"runnerscale.scaleset.{module}")
    for name in PUBLIC[module]:
        assert hasattr(found, name), f"{module}.{name}"


def test_the_error_tree_is_the_drawn_one() -> None:
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.ScaleSetError)
    }
    assert {n: k.__base__.__name__ for n, k in classes.items() if n != "ScaleSetError"} == TREE
    for name, kind in classes.items():
        assert kind.__doc__ and name in (errors.__doc__ or "")


def test_client_and_session_are_what_the_interface_promises() -> None:
    for promised, real in ((ScaleSetApi, ScaleSetClient), (SessionApi, MessageSession)):
        for name, member in vars(promised).items():
            if name.startswith("_") or not callable(member):
                continue
            promise, kept = inspect.signature(member), inspect.signature(getattr(real, name))
            assert list(promise.parameters) == list(kept.parameters), name


def test_every_fault_of_the_network_is_mapped_in_one_place() -> None:
    # A new kind of fault must say whether it was sent and whether it may pass.
    faults = [
        kind
        for kind in vars(transport).values()
        if inspect.isclass(kind) and issubclass(kind, transport.TransportFault)
    ]
    assert {(f.__name__, f.sent, f.worth_repeating) for f in faults} == {
        ("TransportFault", True, True),
        ("NotReached", False, True),
        ("ProxyRefused", False, False),
        ("CertificateRefused", False, False),
        ("NoAnswer", True, True),
        ("UnusableRequest", False, False),
    }


def test_only_one_file_knows_the_http_library() -> None:
    room = Path(runnerscale.scaleset.__file__).parent
    users = set()
    for path in room.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in ("aiohttp", "yarl") for name in names):
                users.add(path.name)
    assert users == {"aiohttp_transport.py"}
