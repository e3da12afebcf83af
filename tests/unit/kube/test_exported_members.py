"""The names that other rooms and other people may rely on."""

import importlib

import pytest

import runnerscale.kube

PUBLIC = {
    "client": ["Client", "KubeClient", "Listed", "PatchType"],
    "cluster": ["ClusterConfig", "Login", "load_config", "open_client"],
    "controller": ["Controller"],
    "errors": ["ApiError", "KubeError", "StatusCause"],
    "events": ["EventRecorder"],
    "informer": ["Informer"],
    "lease": ["LeaderLease"],
    "metrics": ["KubeMetrics"],
    "objects": ["KubeObject", "ObjectMeta", "ObjectReference", "reference_to", "key_of"],
    "own_writes": ["OwnWrites"],
    "patching": ["at_version", "controller_reference", "merge_diff", "owner_index"],
    "reconcile": ["Pass", "PassEnd", "Plan", "Reconciler"],
    "resource": ["Resource"],
    "store": ["Change", "Store"],
    "aiohttp_transport": ["AiohttpTransport"],
    "httptools_transport": ["Address", "HttptoolsTransport", "tcp_dial"],
    "transport": ["Answer", "Endpoint", "Stream", "Transport"],
    "watch": ["Added", "Bookmark", "Deleted", "ErrorEvent", "Modified", "Poisoned"],
    "work_queue": ["QueueShutDown", "WorkQueue"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_names_are_there_and_explained(module: str) -> None:
    found = importlib.import_module(f"runnerscale.kube.{module}")
    for name in PUBLIC[module]:
        assert getattr(found, name).__doc__, f"{module}.{name}"


def test_the_package_itself_exports_nothing() -> None:
    # Importing a part must not load the HTTP library with it.
    names = {name for name in vars(runnerscale.kube) if not name.startswith("_")}
    modules = {name for name in names if hasattr(getattr(runnerscale.kube, name), "__spec__")}
    assert names == modules
