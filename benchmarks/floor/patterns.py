"""The patterns of the floor's requests, made by the builders of our own controller.

So the floor sends the same bytes as we do; of one runner that was there, and a JIT call that was
heard. Pure: what it is given was read by `script.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks.floor import orders
from benchmarks.floor.orders import Orders, Pattern
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.controllers.ephemeral_runner.identity import Jit
from runnerscale.controllers.ephemeral_runner.jit_secret import jit_secret, template_hash
from runnerscale.controllers.ephemeral_runner.runner_pod import runner_pod
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import PODS, SECRETS
from runnerscale.kube.resource import Resource
from runnerscale.scaleset.requests import acknowledge_request, poll_request
from runnerscale.scaleset.transport import Request

SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
AGENT = "runnerscale"
MERGE = "application/merge-patch+json"
CAPACITY = 10_000


@dataclass(frozen=True, slots=True)
class Heard:
    """What the patterns are made from."""

    server: str
    ca_pem: str
    token: str
    namespace: str
    prefix: str
    own_connections: bool
    runner: Mapping[str, Any]  # as the server shows it
    jit: Request  # that asked for a runner named `orders.NAME`
    github: str
    queue_url: SecretText
    queue_token: SecretText


def made(heard: Heard) -> Orders:
    """All patterns."""
    document = json.dumps(_as_created(heard.runner))
    runner = json.loads(document.replace(str(heard.runner["metadata"]["name"]), orders.NAME))
    jit = Jit(
        runner_id=int(orders.NUMBER),
        runner_name=orders.NAME,
        scale_set_id=int(runner["spec"]["runnerScaleSetId"]),
        config=SecretText(orders.CONFIG),
    )
    shown = {**runner, "metadata": {**runner["metadata"], "uid": orders.UID}}
    seen = msgspec.json.decode(json.dumps(shown), type=EphemeralRunner)
    pod = runner_pod(seen, build_version=COMPATIBLE_VERSION, template_hash=template_hash(jit))
    api = _Api(heard)
    name, status = orders.NAME, f"{orders.NAME}/status"
    pending = {"phase": "Pending", "runnerId": int(orders.NUMBER), "runnerName": name}
    running = {"metadata": {"resourceVersion": orders.VERSION}, "status": orders.JOB}
    word = api.patch(EPHEMERAL_RUNNERS, status, running)
    word.body = word.body.replace(f'"{orders.JOB}"', orders.JOB)  # an object will stand there
    return Orders(
        api=heard.server,
        ca_pem=heard.ca_pem,
        github=heard.github,
        prefix=heard.prefix,
        own_connections=heard.own_connections,
        runner=api.create(EPHEMERAL_RUNNERS, runner),
        jit=_github(heard.jit),
        pending=api.patch(EPHEMERAL_RUNNERS, status, {"status": pending}),
        secret=api.create(SECRETS, jit_secret(seen, jit)),
        pod=api.create(PODS, pod),
        read=api.asked("GET", EPHEMERAL_RUNNERS, name),
        running=word,
        delete_pod=api.asked("DELETE", PODS, name, {"gracePeriodSeconds": 0}),
        delete_runner=api.asked("DELETE", EPHEMERAL_RUNNERS, name),
        finalizers=api.patch(EPHEMERAL_RUNNERS, name, {"metadata": {"finalizers": None}}),
        poll=_github(_poll(heard)),
        acknowledge=_github(
            acknowledge_request(
                heard.queue_url, heard.queue_token, message_id=int(orders.NUMBER), agent=AGENT
            )
        ),
    )


class _Api:
    """Requests to the API server."""

    def __init__(self, heard: Heard) -> None:
        self._namespace = heard.namespace
        self._headers = {
            "Host": urlsplit(heard.server).netloc,
            "Authorization": f"Bearer {heard.token}",
            "User-Agent": AGENT,
            "Accept": "application/json",
        }

    def asked(
        self,
        method: str,
        resource: Resource[Any],
        name: str = "",
        body: Any = None,
        media_type: str = "application/json",
    ) -> Pattern:
        path = resource.path(self._namespace)
        headers = {**self._headers, "Content-Type": media_type}
        text = "" if body is None else msgspec.json.encode(body).decode()
        return Pattern(_head(method, f"{path}/{name}" if name else path, headers), text)

    def patch(self, resource: Resource[Any], name: str, body: Any) -> Pattern:
        return self.asked("PATCH", resource, name, body, MERGE)

    def create(self, resource: Resource[Any], body: Mapping[str, Any]) -> Pattern:
        kind: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self.asked("POST", resource, body={**kind, **body})


def _poll(heard: Heard) -> Request:
    return poll_request(
        heard.queue_url,
        heard.queue_token,
        last_message_id=int(orders.NUMBER),
        capacity=CAPACITY,
        agent=AGENT,
    )


def _as_created(shown: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in shown["metadata"].items() if k not in SERVER_FIELDS}
    return {"metadata": metadata, "spec": shown["spec"]}


def _github(request: Request) -> Pattern:
    parts = urlsplit(request.url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    headers = {"Host": parts.netloc, **request.headers}
    return Pattern(_head(request.method, target, headers), (request.body or b"").decode())


def _head(method: str, target: str, headers: Mapping[str, str]) -> str:
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines)
