"""The node agent as a real process beside the embedded API server: kill it, lose nothing.

What a container sees and how it ends is `test_node_processes.py`; the rules on virtual time are
tests/unit/node.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client import CollectorRegistry

import runnerscale
from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import NODES, PODS, SECRETS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.kube.errors import BadRequest, KubeError, NotFound
from runnerscale.kube.objects import AnyObject
from runnerscale.kube.resource import Resource
from runnerscale.node.attempt_files import NodeFolder
from runnerscale.node.config import ImageRule, NodeConfig, NodeConfigError
from runnerscale.node.node_server import NodeServer
from runnerscale.node.process_identity import start_ticks
from runnerscale.node.server import NodeOptions, clear_node, hold_folder, run_node
from tests.system.node_process import TOKEN

NAMESPACE = "default"
RAW_PODS: Resource[AnyObject] = Resource("", "v1", "pods", "Pod", AnyObject)
SCRIPT = Path(__file__).with_name("node_process.py")
Json = dict[str, Any]


@dataclass
class Cluster:
    """One API server in this process, one agent in another."""

    client: KubeClient
    folder: Path
    mounts: str = "auto"
    agents: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "node"

    async def start_agent(self) -> subprocess.Popen[bytes]:
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        source = str(Path(runnerscale.__file__).parents[1])
        root = str(Path(__file__).parents[2])
        with (self.folder / "agent.log").open("ab") as log:
            agent = subprocess.Popen(  # noqa: ASYNC220 - it must outlive no loop of ours
                [
                    *(sys.executable, "-m", "tests.system.node_process"),
                    *(str(self.data), str(self.folder / "node.yaml"), str(port_file)),
                    self.mounts,
                ],
                stdout=log,
                stderr=log,
                cwd=root,
                env={"PYTHONPATH": f"{source}:{root}", "PATH": "/usr/local/bin:/usr/bin:/bin"},
            )
        self.agents.append(agent)
        await self.until(lambda: port_file.exists() and port_file.read_text())
        return agent

    def kill_agent(self) -> None:
        self.agents[-1].kill()
        self.agents[-1].wait()

    async def until(self, true: Callable[[], object], within_s: float = 20.0) -> None:
        async with asyncio.timeout(within_s):
            while not true():  # noqa: ASYNC110 - other processes tell nobody
                await asyncio.sleep(0.02)

    async def add_pod(self, name: str, script: str, *, container: Any = None, **spec: Any) -> None:
        body = {
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "containers": [
                    {
                        "name": "main",
                        "image": "shell:1",
                        "args": ["-c", script],
                        **(container or {}),
                    }
                ],
                **spec,
            },
        }
        await self.client.create(PODS, NAMESPACE, body)

    async def pod(self, name: str) -> Json:
        found: Json = await self.client.get_raw(RAW_PODS.path(NAMESPACE, name))
        return found

    async def wait_phase(self, name: str, phase: str, within_s: float = 20.0) -> Json:
        async with asyncio.timeout(within_s):
            while True:
                found = await self.pod(name)
                if found["status"].get("phase") == phase:
                    return found
                await asyncio.sleep(0.02)

    async def wait_gone(self, name: str, within_s: float = 20.0) -> None:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await self.pod(name)
                except NotFound:
                    return
                await asyncio.sleep(0.02)

    async def log(self, name: str) -> str:
        return await self.client.pod_logs(NAMESPACE, name, tail_lines=1000)

    async def wait_log(self, name: str, text: str, within_s: float = 20.0) -> str:
        async with asyncio.timeout(within_s):
            while True:
                with contextlib.suppress(KubeError):
                    said = await self.log(name)
                    if text in said:
                        return said
                await asyncio.sleep(0.05)

    async def fault(self, body: Json, token: str = TOKEN) -> tuple[int, Json]:
        port = (self.folder / "port").read_text()
        url = f"http://127.0.0.1:{port}/faults"
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=body, headers=headers) as answer,
        ):
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else {}


def terminated(pod: Json) -> Json:
    told: Json = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return told


@pytest.fixture
async def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    clock, random = SystemClock(), system_random()
    server = ApiServer(
        MemoryStore(),
        clock=clock,
        random=random,
        identities=[
            Identity("admin", SecretText("admin-token"), ("system:masters",)),
            Identity("system:node:here", SecretText("node-identity"), ("system:nodes",)),
        ],
        signing_key=SecretText("k" * 40),
        node_token=SecretText(TOKEN),
    )
    serving = await server.serve()
    for name, identity in (("admin", "admin"), ("node", "system:node:here")):
        config = server.kubeconfig(identity, server=serving.url)
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config))
    client = open_client(load_config(tmp_path / "admin.yaml", {}), clock=clock, random=random)
    found = Cluster(client, tmp_path, mounts=getattr(request, "param", "auto"))
    try:
        await found.start_agent()
        yield found
    finally:
        for agent in found.agents:
            agent.kill()
            agent.wait()
        await clear_node(found.data, clock=clock)
        await client.close()
        await serving.stop()


both_modes = pytest.mark.parametrize("cluster", ["namespace", "rewrite"], indirect=True)


# --- a life -------------------------------------------------------------------------------------


async def test_a_pod_runs_tells_its_exit_code_and_is_removed(cluster: Cluster) -> None:
    await cluster.add_pod("one", "echo hello; exit 7")
    pod = await cluster.wait_phase("one", "Failed")
    assert pod["spec"]["nodeName"] == "single-machine"
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (7, "Error")
    assert await cluster.log("one") == "hello\n"
    await cluster.client.delete(PODS, NAMESPACE, "one")
    await cluster.wait_gone("one")
    await cluster.until(lambda: not list((cluster.data / "pods").iterdir()))


async def test_deletion_sends_term_then_kill_within_the_grace(cluster: Cluster) -> None:
    # The first heeds SIGTERM and says so; the second does not.
    await cluster.add_pod("good", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
    await cluster.add_pod("bad", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    await cluster.wait_log("good", "up")
    await cluster.wait_log("bad", "up")
    for name in ("good", "bad"):
        await cluster.client.delete(PODS, NAMESPACE, name)
    await cluster.wait_gone("good", within_s=1.8)
    await cluster.wait_gone("bad", within_s=4)


async def test_a_finalizer_keeps_the_object_but_nothing_runs_again(cluster: Cluster) -> None:
    starts = cluster.folder / "starts"
    await cluster.add_pod("held", f"echo x >> {starts}; exec sleep 100")
    await cluster.wait_phase("held", "Running")
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await cluster.client.patch(PODS, NAMESPACE, "held", hold)
    await cluster.client.delete(PODS, NAMESPACE, "held")
    await cluster.until(lambda: not list((cluster.data / "pods").iterdir()))
    assert (await cluster.pod("held"))["status"]["phase"] == "Failed"
    await cluster.client.patch(PODS, NAMESPACE, "held", {"metadata": {"labels": {"a": "b"}}})
    cluster.kill_agent()
    await cluster.start_agent()
    await cluster.client.patch(PODS, NAMESPACE, "held", {"metadata": {"finalizers": None}})
    await cluster.wait_gone("held")
    assert starts.read_text() == "x\n"


async def test_the_node_is_there_with_its_address(cluster: Cluster) -> None:
    await cluster.add_pod("any", "exit 0")
    await cluster.wait_phase("any", "Succeeded")
    node = await cluster.client.get_raw(NODES.path("", "single-machine"))
    port = int((cluster.folder / "port").read_text())
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == port
    ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["True"]


# --- kill -9 ------------------------------------------------------------------------------------


async def test_a_killed_agent_neither_kills_nor_loses_its_containers(cluster: Cluster) -> None:
    starts = cluster.folder / "starts"
    script = (
        f"echo start >> {starts}; until [ -e {cluster.folder}/$POD ]; do sleep 0.02; done; exit 5"
    )
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    for name in ("after", "between"):
        await cluster.add_pod(name, script, container={"env": env})
        await cluster.wait_phase(name, "Running")
    cluster.kill_agent()
    (cluster.folder / "between").touch()  # it ends while nobody is there
    await asyncio.sleep(0.3)
    await cluster.start_agent()
    assert terminated(await cluster.wait_phase("between", "Failed"))["exitCode"] == 5
    assert (await cluster.pod("after"))["status"]["phase"] == "Running"
    (cluster.folder / "after").touch()
    assert terminated(await cluster.wait_phase("after", "Failed"))["exitCode"] == 5
    assert starts.read_text().splitlines() == ["start", "start"]


async def test_no_container_starts_twice_however_often_the_agent_is_killed(
    cluster: Cluster,
) -> None:
    starts = cluster.folder / "starts"
    starts.mkdir()
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    script = f"echo x >> {starts}/$POD; sleep 0.1; exit 0"
    names = [f"p{number}" for number in range(12)]
    random = system_random()
    for place, name in enumerate(names):
        await cluster.add_pod(name, script, container={"env": env})
        if place % 3 == 2:
            await asyncio.sleep(random.random() * 0.15)
            cluster.kill_agent()
            await cluster.start_agent()
    for name in names:
        await cluster.wait_phase(name, "Succeeded", within_s=30)
    assert {path.name: path.read_text() for path in starts.iterdir()} == dict.fromkeys(names, "x\n")


async def test_pods_deleted_while_the_agent_was_dead_are_stopped(cluster: Cluster) -> None:
    pid_file = cluster.folder / "pid"
    # Two dollars are one in an argument, as in Kubernetes.
    await cluster.add_pod("asked", f"echo $$$$ > {pid_file}; exec sleep 100")
    await cluster.add_pod("forced", "exec sleep 100")
    await cluster.wait_phase("asked", "Running")
    await cluster.wait_phase("forced", "Running")
    pid = int(pid_file.read_text())
    cluster.kill_agent()
    await cluster.client.delete(PODS, NAMESPACE, "asked")
    await cluster.client.delete(PODS, NAMESPACE, "forced", grace_period_s=0)
    assert start_ticks(pid) is not None
    await cluster.start_agent()
    await cluster.wait_gone("asked")
    await cluster.until(lambda: start_ticks(pid) is None)
    await cluster.until(lambda: not list((cluster.data / "pods").iterdir()))


async def test_two_agents_never_share_a_folder(cluster: Cluster) -> None:
    argv = [
        *(sys.executable, "-m", "tests.system.node_process"),
        *(str(cluster.data), str(cluster.folder / "node.yaml"), str(cluster.folder / "p2"), "auto"),
    ]
    second = await asyncio.create_subprocess_exec(
        *argv, stderr=subprocess.PIPE, cwd=str(Path(__file__).parents[2])
    )
    _, said = await second.communicate()
    assert second.returncode != 0
    assert b"is in use by another node agent" in said


# --- what a container sees ----------------------------------------------------------------------


@both_modes
async def test_a_python_listener_sees_its_config_and_its_account(cluster: Cluster) -> None:
    data = {"config.json": '{"a": 1}'}
    await cluster.client.create(
        SECRETS, NAMESPACE, {"metadata": {"name": "cfg"}, "stringData": data}
    )
    program = (
        "import os, json, pathlib; "
        "print(json.load(open(os.environ['LISTENER_CONFIG_PATH']))['a']); "
        "account = pathlib.Path(os.environ['RUNNERSCALE_SERVICE_ACCOUNT_DIR']); "
        "print((account / 'namespace').read_text(), (account / 'ca.crt').read_text()); "
        "print((account / 'token').read_text().count('.'), os.environ['KUBERNETES_SERVICE_HOST'])"
    )
    container = {
        "command": ["/python"],
        "args": ["-c", program],
        "env": [{"name": "LISTENER_CONFIG_PATH", "value": "/etc/gha-listener/config.json"}],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/gha-listener", "readOnly": True}],
    }
    volumes = [{"name": "config", "secret": {"secretName": "cfg"}}]
    await cluster.add_pod("listener", "", container=container, volumes=volumes)
    await cluster.wait_phase("listener", "Succeeded")
    assert (await cluster.log("listener")).splitlines() == ["1", "default PEM", "2 127.0.0.1"]


@both_modes
async def test_a_changed_secret_reaches_a_running_container_within_seconds(
    cluster: Cluster,
) -> None:
    body = {"metadata": {"name": "cfg"}, "stringData": {"v": "old"}}
    await cluster.client.create(SECRETS, NAMESPACE, body)
    container = {
        "env": [{"name": "SEEN", "value": "/etc/rs-system/v"}],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/rs-system"}],
    }
    script = "echo up; until grep -q new $SEEN; do sleep 0.05; done; cat $SEEN"
    volumes = [{"name": "config", "secret": {"secretName": "cfg"}}]
    await cluster.add_pod("one", script, container=container, volumes=volumes)
    await cluster.wait_log("one", "up")
    await cluster.client.patch(SECRETS, NAMESPACE, "cfg", {"stringData": {"v": "new"}})
    await cluster.wait_phase("one", "Succeeded", within_s=5)
    assert await cluster.log("one") == "up\nnew"


async def test_a_sidecar_shares_an_empty_dir_with_the_main_container(cluster: Cluster) -> None:
    mounts = [{"name": "work", "mountPath": "/srv/rs-shared"}]
    shared = {"volumeMounts": mounts, "env": [{"name": "DIR", "value": "/srv/rs-shared"}]}
    side = {
        **shared,
        "name": "side",
        "image": "shell:1",
        "restartPolicy": "Always",
        "args": ["-c", "echo from-side > $DIR/note; exec sleep 100"],
    }
    script = "until [ -e $DIR/note ]; do sleep 0.02; done; cat $DIR/note"
    await cluster.add_pod(
        "one",
        script,
        container=shared,
        initContainers=[side],
        volumes=[{"name": "work", "emptyDir": {}}],
    )
    await cluster.wait_phase("one", "Succeeded")
    assert await cluster.client.pod_logs(NAMESPACE, "one", container="main") == "from-side\n"


# --- logs ---------------------------------------------------------------------------------------


async def test_logs_can_be_followed_and_belong_to_the_token(cluster: Cluster) -> None:
    script = "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done"
    await cluster.add_pod("one", script)
    await cluster.wait_log("one", "line 1")
    port = (cluster.folder / "port").read_text()
    url = f"http://127.0.0.1:{port}/containerLogs/{NAMESPACE}/one/main?follow=true&tailLines=10"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as refused:
            assert refused.status == 401
        async with session.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert (await answer.text()).splitlines() == [f"line {n}" for n in range(1, 6)]


async def test_a_log_that_does_not_exist_yet_says_what_is_waited_for(cluster: Cluster) -> None:
    await cluster.add_pod("one", "", container={"image": "unknown/image:1"})
    await cluster.until(lambda: True)
    await asyncio.sleep(0.5)
    with pytest.raises(BadRequest, match="is waiting to start: ErrImagePull"):
        await cluster.log("one")
    with pytest.raises(BadRequest, match='previous terminated container "main"'):
        await cluster.client.pod_logs(NAMESPACE, "one", previous=True)


# --- faults -------------------------------------------------------------------------------------


async def test_faults_are_injected_over_http_with_their_own_token(cluster: Cluster) -> None:
    await cluster.add_pod("evicted", "exec sleep 100")
    await cluster.add_pod("oom", "exec sleep 100")
    await cluster.wait_phase("evicted", "Running")
    await cluster.wait_phase("oom", "Running")
    assert (await cluster.fault({"fault": "evict"}, token="wrong"))[0] == 401
    status, answer = await cluster.fault({"fault": "flood"})
    assert status == 400
    assert "Known faults" in answer["error"]
    assert await cluster.fault({"fault": "evict", "pod": "evicted"}) == (
        200,
        {"struck": "pod default/evicted"},
    )
    assert (await cluster.fault({"fault": "oom-kill", "pod": "oom"}))[0] == 200
    assert (await cluster.wait_phase("evicted", "Failed"))["status"]["reason"] == "Evicted"
    oom = terminated(await cluster.wait_phase("oom", "Failed"))
    assert (oom["exitCode"], oom["reason"]) == (137, "OOMKilled")


async def test_clearing_a_node_ends_what_a_killed_agent_left(cluster: Cluster) -> None:
    await cluster.add_pod("one", "exec sleep 100")
    await cluster.wait_phase("one", "Running")
    cluster.kill_agent()
    assert await clear_node(cluster.data, clock=SystemClock()) == 1
    assert await clear_node(cluster.data, clock=SystemClock()) == 0


async def test_an_agent_told_so_ends_its_containers_when_it_is_stopped(cluster: Cluster) -> None:
    cluster.kill_agent()
    config = NodeConfig(
        images=(ImageRule(pattern="shell:*", entrypoint=("sh",)),), stop_pods_on_exit=True
    )
    clock, random = SystemClock(), system_random()
    options = NodeOptions(config=config, data_dir=cluster.data, log_token=SecretText("t"))
    client = open_client(load_config(cluster.folder / "node.yaml", {}), clock=clock, random=random)
    agent = asyncio.get_running_loop().create_task(
        run_node(
            options,
            client,
            clock=clock,
            random=random,
            registry=CollectorRegistry(),
            environ={"PATH": "/usr/bin:/bin"},
        )
    )
    await cluster.add_pod("one", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
    await cluster.wait_phase("one", "Running")
    await asyncio.sleep(0.2)
    agent.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await agent
    await client.close()
    assert terminated(await cluster.wait_phase("one", "Failed"))["exitCode"] == 3
    assert await clear_node(cluster.data, clock=clock) == 0


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(NodeConfigError, match=r"file.* cannot be used"),
        hold_folder(tmp_path / "file" / "node"),
    ):
        pass


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    taken = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    server = NodeServer(
        NodeFolder(tmp_path),
        token=SecretText("t"),
        control_token=None,
        registry=CollectorRegistry(),
        clock=SystemClock(),
        port=port,
    )
    with pytest.raises(NodeConfigError, match=f"cannot listen on port {port}"):
        async with server:
            pass
    taken.close()
