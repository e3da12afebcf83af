"""The server as a whole: where it listens, what it writes, faults, logs, counters, surprises."""

import asyncio
import contextlib
import gc
import io
import stat
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from runnerscale.apiserver.certificates import ensure_certificates
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.faults import FaultRule
from runnerscale.apiserver.handler import Served
from runnerscale.apiserver.server import (
    ApiServer,
    ApiServerOptions,
    CannotServe,
    Serving,
    check_loopback,
    run_api_server,
)
from runnerscale.apiserver.sqlite_journal import SqliteJournal
from runnerscale.apiserver.store import MemoryStore, StoreError
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from tests.unit.apiserver.harness import ADMIN, CM, KEY, PODS, Api, config_map, pod, serving


def server() -> ApiServer:
    return ApiServer(
        MemoryStore(), clock=SystemClock(), random=seeded(1), identities=[ADMIN], signing_key=KEY
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "example.com", "::", "192.168.1.1"])
def test_it_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(CannotServe, match=r"listens on loopback only, not on .*; use 127\.0\.0\.1"):
        check_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_every_loopback_address_will_do(host: str) -> None:
    check_loopback(host)


async def test_a_port_in_use_is_one_sentence() -> None:
    first = await server().serve()
    with pytest.raises(CannotServe, match=rf"cannot listen on 127\.0\.0\.1:{first.port} "):
        await server().serve(port=first.port)
    await first.stop()


async def test_the_process_writes_kubeconfigs_that_work_and_keeps_tokens_over_restarts(
    tmp_path: Path,
) -> None:
    async def run_once(work: Any) -> None:
        ready: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
        options = ApiServerOptions(data_dir=tmp_path / "data", on_ready=ready.set_result)
        running = asyncio.create_task(
            run_api_server(options, clock=SystemClock(), random=seeded(1))
        )
        await asyncio.wait([ready, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        await work(ready.result())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    seen: list[Any] = []

    async def work(listening: Serving) -> None:
        path = tmp_path / "data" / "kubeconfigs" / "admin.yaml"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        config = yaml.safe_load(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        assert cluster["server"] == listening.url
        import base64
        import ssl

        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=ca)
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {user['token']}"}
            url = f"{listening.url}/api/v1/namespaces/default/configmaps"
            for host in ("127.0.0.1", "localhost"):
                there = url.replace("127.0.0.1", host)
                async with session.get(there, headers=headers, ssl=context) as response:
                    assert response.status == 200
            if not seen:
                body = {"metadata": {"name": "kept"}}
                async with session.post(url, json=body, headers=headers, ssl=context) as made:
                    assert made.status == 201
            else:
                async with session.get(f"{url}/kept", headers=headers, ssl=context) as kept:
                    assert kept.status == 200
        seen.append((user["token"], ca))

    await run_once(work)
    await run_once(work)
    assert seen[0] == seen[1]
    for name in ("tokens.json", "service-account.key", "objects.sqlite", "certificates/ca.key"):
        assert stat.S_IMODE((tmp_path / "data" / name).stat().st_mode) == 0o600


async def test_a_data_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    options = ApiServerOptions(data_dir=blocked)
    with pytest.raises(CannotServe, match="the data folder cannot be used"):
        await run_api_server(options, clock=SystemClock(), random=seeded(1))


async def test_a_bad_crd_at_start_is_one_sentence(tmp_path: Path) -> None:
    crd = {"metadata": {"name": "x.y.z"}, "spec": {"scope": "Odd"}}
    options = ApiServerOptions(data_dir=tmp_path, crds=[crd])
    with pytest.raises(CannotServe, match=r"CustomResourceDefinition x\.y\.z: .*start again"):
        await run_api_server(options, clock=SystemClock(), random=seeded(1))


# The server ends under an open connection: what that leaves is collected here, and not later
# under some other test.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_failing_disk_ends_the_process_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals: list[SqliteJournal] = []

    class Remembered(SqliteJournal):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            journals.append(self)

    monkeypatch.setattr("runnerscale.apiserver.sqlite_journal.SqliteJournal", Remembered)
    ready: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    options = ApiServerOptions(data_dir=tmp_path, on_ready=ready.set_result)
    running = asyncio.create_task(run_api_server(options, clock=SystemClock(), random=seeded(1)))
    listening = await ready
    journals[0]._db.execute("DROP TABLE objects")
    tokens = yaml.safe_load((tmp_path / "tokens.json").read_text())
    headers = {"Authorization": f"Bearer {tokens['admin']}"}
    # Its own housekeeping may meet the damage first; then nobody answers any more.
    statuses = [503]
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            body = {"metadata": {"name": "x"}}
            url = f"{listening.url}{CM}"
            async with session.post(url, json=body, headers=headers, ssl=False) as response:
                statuses.append(response.status)
    assert set(statuses) == {503}  # not stored, and not said to be
    with pytest.raises(StoreError, match="cannot store objects"):
        await running
    del running
    await asyncio.sleep(0.05)  # the loop lets go of the socket
    gc.collect()


def test_the_server_certificate_is_renewed_at_half_of_its_life(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path, now_s=1_800_000_000)
    made = first.certificate.read_bytes()
    again = ensure_certificates(tmp_path, now_s=1_800_000_000 + 100 * 86400)
    assert again.certificate.read_bytes() == made
    late = ensure_certificates(tmp_path, now_s=1_800_000_000 + 200 * 86400)
    assert late.certificate.read_bytes() != made
    assert late.ca_pem == first.ca_pem


async def test_faults_delay_refuse_and_lose_answers(api: Api) -> None:
    faults = api.server.faults
    refusal = ApiFailure(500, "InternalError", "on purpose", retry_after_s=3)
    faults.add(FaultRule(verbs=frozenset({"create"}), times=1, failure=refusal))
    refused = await api.create(CM, config_map("a"))
    assert (refused.code, refused["message"], refused.headers["Retry-After"]) == (
        500,
        "on purpose",
        "3",
    )
    faults.add(FaultRule(verbs=frozenset({"create"}), times=1, drop_before=True))
    with pytest.raises(aiohttp.ClientError):
        await api.create(CM, config_map("a"))
    assert (await api.get(f"{CM}/a")).code == 404
    faults.add(FaultRule(verbs=frozenset({"create"}), times=1, drop_after=True))
    with pytest.raises(aiohttp.ClientError):
        await api.create(CM, config_map("a"))
    assert (await api.get(f"{CM}/a")).code == 200


async def test_faults_can_be_ordered_over_http_by_who_may_do_everything() -> None:
    async with serving(fault_control=True) as api:
        order = {
            "verbs": ["get"],
            "resource": "configmaps",
            "code": 429,
            "times": 1,
            "retryAfterSeconds": 1,
        }
        assert (await api.create("/faults", order))["rules"] == 1
        assert (await api.get(f"{CM}/a")).code == 429
        assert (await api.get(f"{CM}/a")).code == 404
        assert (await api.create("/faults", {"cutWatches": True}))["cut"] == 0
        assert (await api.create("/faults", {"delay": 1})).code == 400
        assert (await api.create("/faults", order, token="token-of-bob")).code == 403
        assert (await api.delete("/faults"))["rules"] == 0
    async with serving() as api:
        assert (await api.create("/faults", {})).code == 405


async def kubelet(asked: list[tuple[str, str]]) -> TestServer:
    async def logs(request: web.Request) -> web.StreamResponse:
        asked.append((request.path_qs, request.headers.get("Authorization", "")))
        if request.match_info["container"] == "broken":
            return web.Response(status=400, text="container is waiting to start")
        response = web.StreamResponse()
        await response.prepare(request)
        for line in (b"one\n", b"two\n"):
            await response.write(line)
        return response

    app = web.Application()
    app.router.add_get("/containerLogs/{ns}/{pod}/{container}", logs)
    running = TestServer(app)
    await running.start_server()
    return running


async def test_logs_are_read_from_the_node_with_its_token() -> None:
    asked: list[tuple[str, str]] = []
    node = await kubelet(asked)
    async with serving(node_token=SecretText("node token")) as api:
        await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
        await api.patch(
            "/api/v1/nodes/n1/status",
            {
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": node.port}},
                }
            },
        )
        containers = [{"name": n, "image": "i"} for n in ("main", "broken")]
        await api.create(PODS, pod("p", nodeName="n1", containers=containers))
        log = await api.get(f"{PODS}/p/log", params={"container": "main", "tailLines": "5"})
        assert log.body == "one\ntwo\n"
        assert asked == [("/containerLogs/default/p/main?tailLines=5", "Bearer node token")]
        which = await api.get(f"{PODS}/p/log")
        assert which.code == 400
        assert which["message"] == (
            "a container name must be specified for pod p, choose one of: [main broken]"
        )
        said = await api.get(f"{PODS}/p/log", params={"container": "broken"})
        assert (said.code, said["message"]) == (400, "container is waiting to start")
        none = await api.get(f"{PODS}/p/log", params={"container": "none"})
        assert none["message"] == "container none is not valid for pod p"
        await node.close()
        dead = await api.get(f"{PODS}/p/log", params={"container": "main"})
        assert (dead.code, dead["reason"]) == (500, "InternalError")
    waiting = pod("q")
    async with serving() as api:
        await api.create(PODS, waiting)
        early = await api.get(f"{PODS}/q/log")
        assert (early.code, early.body) == (200, None)  # as Kubernetes: nobody runs it yet


async def test_every_answer_is_told_to_the_observer_and_counted() -> None:
    audit: list[Served] = []
    registry = CollectorRegistry()
    async with serving(audit=audit, metrics=registry) as api:
        await api.create(CM, config_map("a"))
        await api.get(f"{CM}/none")
        metrics = await api.get("/metrics")
    seen = [(s.user, s.request.verb, s.request.plural, s.code) for s in audit[:2]]
    assert seen == [("admin", "create", "configmaps", 201), ("admin", "get", "configmaps", 404)]
    line = (
        'apiserver_request_total{code="201",group="",resource="configmaps",subresource="",'
        'verb="CREATE",version="v1"} 1.0'
    )
    assert line in metrics.body


async def test_an_unexpected_error_is_a_500_and_the_server_goes_on(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: Any, **_more: Any) -> None:
        raise RuntimeError("a secret could be in here")

    monkeypatch.setattr(api.server.operations, "get", broken)
    reply = await api.get(f"{CM}/a")
    assert (reply.code, reply["reason"]) == (500, "InternalError")
    assert "secret" not in str(reply.body)
    monkeypatch.undo()
    assert (await api.get(f"{CM}/a")).code == 404


async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    large = io.BytesIO(b" " * (3 * 1024 * 1024 + 1))
    headers = {"Content-Type": "application/json"}
    reply = await api.send("POST", CM, data=large, headers=headers)
    assert (reply.code, reply["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"null"])
async def test_a_body_that_is_no_object_is_a_bad_request(api: Api, body: bytes) -> None:
    reply = await api.send("POST", CM, body=body)
    assert (reply.code, reply["reason"]) == (400, "BadRequest")


async def test_yaml_is_read_too_and_dates_stay_text(api: Api) -> None:
    text = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: y}\ndata: {when: 2026-01-02}\n"
    reply = await api.send("POST", CM, body=text, content_type="application/yaml")
    assert reply.code == 201
    assert reply["data"] == {"when": "2026-01-02"}


async def test_openapi_tells_kubectl_that_fields_are_checked_by_the_server(api: Api) -> None:
    index = await api.get("/openapi/v3")
    assert index["paths"]["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")
    core = await api.get("/openapi/v3/api/v1")
    patch = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in [p["name"] for p in patch["parameters"]]
    container = core["components"]["schemas"]["io.k8s.api.v1.PodSpec"]["properties"]["containers"]
    assert container["x-kubernetes-patch-merge-key"] == "name"
