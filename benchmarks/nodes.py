"""Nodes by script: a pod is up 50 ms after it was created, and its container does what it should.

No node agent and no kubelet: one write when a container runs and one when it has ended. A
runner's container lives in this process (`runner_life.py`); a listener's is the real process,
with the files and the token that a kubelet would mount.
"""

import asyncio
import base64
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from benchmarks.children import Child, start
from benchmarks.github import GitHub
from benchmarks.runner_life import live
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.fake_github.model import Job
from runnerscale.kube.builtin import PODS, SECRETS, Pod
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import ClusterConfig
from runnerscale.kube.errors import NotFound
from runnerscale.kube.informer import Informer
from runnerscale.kube.store import Change

STARTS_AFTER_S = 0.05
IMAGE_ID = "benchmark@sha256:0"
TOKEN_LIFE_S = 3600


class Nodes:
    """All nodes; `events` is told what happened to whom."""

    def __init__(
        self,
        client: KubeClient,
        config: ClusterConfig,
        github: GitHub,
        folder: Path,
        *,
        seen: Callable[[str, str], None],
    ) -> None:
        """`seen(what, name)`: pod, online, started, exited, reported."""
        self._client = client
        self._config = config
        self.githubs = [github]
        self._folder = folder
        self._seen = seen
        self._lives: dict[str, asyncio.Task[None]] = {}
        self.listeners: dict[str, Child] = {}
        self.environ: dict[str, str] = {}  # of listeners, beside what their pods say
        self.listener_starts: list[float] = []
        self._pods = Informer(client, PODS, clock=SystemClock(), random=system_random())
        self._pods.on_change(self._changed)
        self.problems: list[str] = []
        self.job_starts: dict[int, float] = {}
        self._gate = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._pods.run()
        finally:
            for task in list(self._lives.values()):
                task.cancel()

    def let_go(self) -> None:
        """All jobs of 0 seconds that run now end, together."""
        self._gate.set()
        self._gate = asyncio.Event()

    async def _until_let_go(self) -> None:
        await self._gate.wait()

    async def stop(self) -> None:
        """All listeners ended."""
        for child in list(self.listeners.values()):
            await child.stop()

    def _changed(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None or pod.metadata.deletion_timestamp:
            gone = change.old or change.new
            task = self._lives.pop(gone.metadata.uid or "", None) if gone else None
            if task is not None:
                task.cancel()
            if pod is not None:
                self._spawn(self._remove(pod))
            return
        uid = pod.metadata.uid or ""
        if change.old is None and not (pod.status and pod.status.phase in ("Succeeded", "Failed")):
            if "listener" not in (pod.metadata.name or ""):
                self._seen("pod", pod.metadata.name or "")
            self._lives[uid] = self._spawn(self._life(pod))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.problems.append(repr(task.exception()))

    async def _remove(self, pod: Pod) -> None:
        """What a kubelet does with a pod that has to go and whose container was told so."""
        child = self.listeners.pop(pod.metadata.name or "", None)
        if child is not None:
            await child.stop()
        await self._client.delete(
            PODS, pod.metadata.namespace or "", pod.metadata.name or "", grace_period_s=0
        )

    async def _life(self, pod: Pod) -> None:
        await asyncio.sleep(STARTS_AFTER_S)
        name = pod.metadata.name or ""
        if "listener" in name:
            await self._listener(pod)
            return
        running = self._spawn(self._report(pod, "Running", None))

        def online() -> None:
            self._seen("online", name)

        def started(job: Job) -> None:
            self.job_starts[job.number] = time.monotonic()
            self._seen("started", name)

        place = next((g for g in self.githubs if g.runner(name) is not None), self.githubs[0])
        code = await live(
            place,
            name,
            pod.metadata.uid or "",
            online=online,
            started=started,
            until_let_go=self._until_let_go,
        )
        self._seen("exited", name)
        await asyncio.wait([running])
        await self._report(pod, "Succeeded" if code == 0 else "Failed", code)
        self._seen("reported", name)

    async def _report(self, pod: Pod, phase: str, code: int | None) -> None:
        containers = (pod.spec.containers if pod.spec else None) or []
        state: dict[str, Any] = {"running": {}}
        if code is not None:
            reason = "Completed" if code == 0 else "Error"
            state = {"terminated": {"exitCode": code, "reason": reason}}
        status = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if code is None else "False"}],
            "containerStatuses": [
                {
                    "name": each.name,
                    "image": each.image or "",
                    "imageID": IMAGE_ID,
                    "restartCount": 0,
                    "ready": code is None,
                    "state": state,
                }
                for each in containers
            ],
        }
        try:
            await self._client.patch(
                PODS,
                pod.metadata.namespace or "",
                pod.metadata.name or "",
                {"status": status},
                subresource="status",
            )
        except NotFound:
            return

    async def _listener(self, pod: Pod) -> None:
        name = pod.metadata.name or ""
        folder = self._folder / f"{name}-{pod.metadata.uid}"
        environ = {**self.environ, **await self._mounted(pod, folder)}
        self.listener_starts.append(time.monotonic())
        child = await start(name, ["listener"], folder / "log", environ)
        self.listeners[name] = child
        await self._report(pod, "Running", None)
        await child.process.wait()
        if self.listeners.get(name) is child:
            await self._report(pod, "Failed", child.process.returncode or 0)

    async def _mounted(self, pod: Pod, folder: Path) -> dict[str, str]:
        assert pod.spec is not None
        namespace = pod.metadata.namespace or ""
        account = folder / "account"
        account.mkdir(parents=True)
        token = await self._client.create_token(
            namespace, pod.spec.service_account_name or "default", expiration_s=TOKEN_LIFE_S
        )
        (account / "token").write_text(token)
        (account / "ca.crt").write_text(self._config.ca_pem)
        (account / "namespace").write_text(namespace)
        host, _, port = self._config.server.partition("://")[2].rpartition(":")
        raw = await self._client.get_raw(f"/api/v1/namespaces/{namespace}/pods/{pod.metadata.name}")
        mounts: dict[str, str] = {}
        for volume in raw["spec"]["volumes"]:
            if "secret" not in volume:
                continue
            secret = await self._client.get(SECRETS, namespace, volume["secret"]["secretName"])
            for key, value in (secret.data or {}).items():
                (folder / key).write_bytes(base64.b64decode(value))
            mounts[volume["name"]] = str(folder)
        container = raw["spec"]["containers"][0]
        environ = {
            "RUNNERSCALE_SERVICE_ACCOUNT_DIR": str(account),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
        }
        for variable in container.get("env", []):
            value = variable.get("value", "")
            for mount in container["volumeMounts"]:
                if value.startswith(mount["mountPath"]) and mount["name"] in mounts:
                    value = mounts[mount["name"]] + value.removeprefix(mount["mountPath"])
            environ[variable["name"]] = value
        return environ
