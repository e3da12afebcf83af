"""A few objects behind an API address, for the template function `lookup` and nothing else.

Helm asks for the kinds of one group version and then for the list or the object. That is all
this server answers: no rights, no writes, no watches. It lives in the test's own process, on
127.0.0.1, for one render.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import helm_python

# Kinds that a chart may look for even when none exists.
KNOWN_KINDS = (
    ("v1", "ConfigMap"),
    ("v1", "Namespace"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("actions.github.com/v1alpha1", "AutoscalingRunnerSet"),
)
WITHOUT_NAMESPACE = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}


@contextmanager
def cluster_with(objects: Sequence[Mapping[str, Any]]) -> Iterator[helm_python.Config]:
    """Helm's configuration for a cluster that holds exactly these objects."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(objects))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": address}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
        "current-context": "test",
    }
    try:
        with helm_python.Config(
            kubeconfig_content=json.dumps(kubeconfig), storage_driver="memory"
        ) as config:
            yield config
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(objects: Sequence[Mapping[str, Any]], path: str) -> dict[str, Any] | None:
    """What a GET of the path gives; None for 404."""
    parts = path.strip("/").split("/")
    if parts[0] not in {"api", "apis"} or len(parts) < 2:
        return None
    group_version = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    kinds = {kind for version, kind in KNOWN_KINDS if version == group_version}
    kinds |= {o["kind"] for o in objects if o["apiVersion"] == group_version}
    if not kinds:
        return None
    if not rest:
        return _discovery(group_version, kinds)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = next((k for k in kinds if _plural(k) == rest[0]), None)
    found = [
        dict(o)
        for o in objects
        if (o["apiVersion"], o["kind"]) == (group_version, kind)
        and namespace in ("", o["metadata"].get("namespace", ""))
    ]
    if kind is None:
        return None
    if len(rest) > 1:
        return next((o for o in found if o["metadata"]["name"] == rest[1]), None)
    return {"apiVersion": group_version, "kind": f"{kind}List", "metadata": {}, "items": found}


def _discovery(group_version: str, kinds: set[str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": [
            {
                "name": _plural(kind),
                "singularName": kind.lower(),
                "namespaced": kind not in WITHOUT_NAMESPACE,
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for kind in sorted(kinds)
        ],
    }


def _plural(kind: str) -> str:
    word = kind.lower()
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def _handler(objects: Sequence[Mapping[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body leave in one piece; else each answer waits 40 ms for an ACK

        def do_GET(self) -> None:
            found = answer(objects, urlsplit(self.path).path)
            status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404}
            body = json.dumps(found or {**status, "reason": "NotFound"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_arguments: object) -> None:
            """Say nothing: the test asserts what Helm made of it."""

    return Handler
