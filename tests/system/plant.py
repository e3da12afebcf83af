"""The whole system as real processes that a test may hurt: one command line each, no supervisor.

What the demo starts through `app/single_machine.py` is started here one by one, so that a test
decides what dies, what stands still, what has no disk, and when it comes back. Only processes
started here (and what their node agent started) are ever signalled, by their id.
"""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runnerscale.app.api_server import ADMIN, CONTROLLER, NODE, kubeconfig_path
from runnerscale.app.demo_state import DONE
from runnerscale.app.github_control import GitHubControl
from runnerscale.app.manifests import (
    CONTROLLER_IMAGE,
    SYSTEM_NAMESPACE,
    github_secret,
    runner_set,
    set_namespace_manifests,
    system_manifests,
)
from runnerscale.app.single_machine import Ports, free_ports, processes_with
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.builtin import CONFIG_MAPS, PODS, SECRETS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.kube.errors import AlreadyExists, KubeError
from runnerscale.node.server import clear_node

BINARY = str(Path(sys.executable).parent / "runnerscale")
NAMESPACE = "demo"
SET = "demo"
GRACE_S = 15.0  # what a supervisor gives between SIGTERM and SIGKILL
WITHIN_S = 60.0
Json = dict[str, Any]
Limits = Mapping[int, int]


@dataclass(slots=True)
class Part:
    """One process of ours: started, hurt, started again."""

    name: str
    argv: Sequence[str]
    log_path: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=dict)  # RLIMIT_...: soft and hard
    inside: "Room | None" = None
    process: subprocess.Popen[bytes] | None = None
    began_at: int = 0  # where in the log this start begins

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self.process is not None
        return self.process.pid

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Now; whether it gets ready is another question."""
        assert not self.runs, f"{self.name} runs already"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self.began_at = self.log_path.stat().st_size if self.log_path.exists() else 0
        limits = dict(self.limits)

        def limit() -> None:
            for which, most in limits.items():
                resource.setrlimit(which, (most, most))

        inside = self.inside.prefix() if self.inside is not None else []
        with self.log_path.open("ab") as sink:
            self.process = subprocess.Popen(
                [*inside, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **self.environ},
                start_new_session=True,
                preexec_fn=limit if limits else None,
            )

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    async def ended(self, within_s: float = GRACE_S) -> int:
        """Its exit code; whoever does not end in time fails the test."""
        process = self.process
        assert process is not None

        async def gone() -> bool:
            return process.poll() is not None

        await until(gone, within_s=within_s, why=lambda: f"{self.name} does not end: {self.said()}")
        return int(process.returncode)

    def said(self) -> str:
        """What it has logged since this start."""
        with self.log_path.open("rb") as file:
            file.seek(self.began_at)
            return file.read().decode(errors="replace")

    @property
    def last_words(self) -> str:
        """The last line it said."""
        lines = self.said().strip().splitlines()
        return lines[-1] if lines else ""


class Room:
    """A mount namespace that a process of ours holds open: small disks that leave no trace."""

    def __init__(self, script: str) -> None:
        """`script`: shell commands that mount; they run inside, once, as root there."""
        own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        argv = ["unshare", *own, "--mount", "--propagation", "private"]
        # It ends with us, however we end: then nobody writes to its standard input any more.
        held = f"set -e\n{script}\necho ready\nexec cat > /dev/null"
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self._holder = subprocess.Popen([*argv, "sh", "-c", held], text=True, **pipes)
        assert self._holder.stdout is not None
        if self._holder.stdout.readline().strip() != "ready":
            assert self._holder.stderr is not None
            raise AssertionError(f"no mount namespace: {self._holder.stderr.read()}")

    def prefix(self) -> list[str]:
        """What stands before a command line that is to run inside."""
        own = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self._holder.pid), "--mount", *own, "--"]

    def run(self, script: str) -> None:
        """Shell commands inside."""
        subprocess.run([*self.prefix(), "sh", "-c", script], check=True, timeout=20)

    def path(self, inside: Path) -> Path:
        """The same file, as this process reaches it."""
        return Path(f"/proc/{self._holder.pid}/root{inside}")

    def close(self) -> None:
        """The mounts go with the last process inside."""
        self._holder.kill()
        self._holder.communicate()


async def until(
    check: Callable[[], Awaitable[object]],
    *,
    within_s: float = WITHIN_S,
    why: Callable[[], str] = lambda: "",
    every_s: float = 0.1,
) -> None:
    """Ask again until the answer is yes."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not await check():
        if loop.time() > deadline_s:
            raise AssertionError(f"not within {within_s:.0f} s. {why()}")
        await asyncio.sleep(every_s)


class Plant:
    """API server, stand-in for GitHub, node agent, controller; the listener is the node's pod."""

    def __init__(
        self,
        folder: Path,
        *,
        session_s: float = 5.0,
        hold_s: float = 10.0,
        leaders: int = 0,
        ports: Ports | None = None,
        api_relay: int = 0,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """`leaders`: so many controllers with a lease, instead of one without. `api_relay`: the
        port through which everybody but the test reaches the API server. `certificate`: GitHub's,
        and its key.
        """
        self.folder = folder
        self.ports = ports or free_ports()
        self.control_url = f"http://127.0.0.1:{self.ports.github}"
        self.config_url = f"{self.control_url}/demo-org/demo"
        self.api_relay = api_relay
        self.set_spec: Json = {}
        self.runner_env: dict[str, str] = {}
        self.more_objects: list[tuple[Any, str, Json]] = []
        self.clock = SystemClock()
        data = folder / "api"
        self.api = self.part("api-server", "api-server", "--data", str(data),
                             "--port", str(self.ports.api))  # fmt: skip
        self.github = self.part("fake-github", "fake-github", "--port", str(self.ports.github),
                                "--hold-seconds", f"{hold_s:g}",
                                "--session-seconds", f"{session_s:g}")  # fmt: skip
        if certificate is not None:
            with_tls = ["--certificate", str(certificate[0]), "--key", str(certificate[1])]
            self.github.argv = [*self.github.argv, *with_tls]
        self.node_kubeconfig = self._kubeconfig(NODE)
        self.node = self.node_part()
        names = [f"controller-{n}" for n in range(leaders)] or ["controller"]
        self.controllers = [self.controller_part(name) for name in names]
        self.client: KubeClient | None = None
        self.control: GitHubControl | None = None

    @property
    def controller(self) -> Part:
        return self.controllers[0]

    @property
    def parts(self) -> list[Part]:
        return [self.api, self.github, self.node, *self.controllers]

    def part(self, name: str, *words: str, **environ: str) -> Part:
        return Part(name, [BINARY, *words], self.folder / "logs" / f"{name}.log", environ)

    def _kubeconfig(self, identity: str) -> Path:
        """Of somebody who may have to go through the relay."""
        if self.api_relay:
            return self.folder / "relayed" / f"{identity}.yaml"
        return kubeconfig_path(self.folder / "api", identity)

    def _relay_kubeconfigs(self) -> None:
        for identity in (NODE, CONTROLLER) if self.api_relay else ():
            text = kubeconfig_path(self.folder / "api", identity).read_text()
            path = self._kubeconfig(identity)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace(f":{self.ports.api}", f":{self.api_relay}"))

    def node_part(self) -> Part:
        data = self.folder
        work = data / "work"  # of runners; those that are killed leave theirs there
        work.mkdir(parents=True, exist_ok=True)
        return self.part(
            "node",
            *("node", "--data", str(data / "node"), "--stop-pods"),
            *("--kubeconfig", str(self.node_kubeconfig)),
            *("--token-file", str(data / "api" / "node.token")),
            *("--port", str(self.ports.node)),
            TMPDIR=str(work),
        )

    def controller_part(self, name: str) -> Part:
        ports = free_ports() if name != "controller" else self.ports
        where = self._kubeconfig(CONTROLLER)
        leading = ["--enable-leader-election"] if name.startswith("controller-") else []
        if leading:
            where = kubeconfig_path(self.folder / "api", ADMIN)  # the demo's role has no leases
        return self.part(
            name,
            *("controller", "--log-level=info", "--log-format=text", *leading),
            f"--kubeconfig={where}",
            f"--metrics-addr=127.0.0.1:{ports.metrics}",
            f"--health-probe-bind-address=127.0.0.1:{ports.probes}",
            f"--listener-metrics-addr=127.0.0.1:{self.ports.listener_metrics}",
            CONTROLLER_MANAGER_POD_NAMESPACE=SYSTEM_NAMESPACE,
            CONTROLLER_MANAGER_CONTAINER_IMAGE=CONTROLLER_IMAGE,
            HOSTNAME=name,
        )

    @property
    def admin(self) -> KubeClient:
        assert self.client is not None
        return self.client

    @property
    def hub(self) -> GitHubControl:
        assert self.control is not None
        return self.control

    # --- the life of it ----------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Plant"]:
        """All parts up, a runner set in place; everything ended and removed afterwards."""
        try:
            self.github.start()
            await self.start_api()
            await self.prepare()
            self._relay_kubeconfigs()
            self.node.start()
            for each in self.controllers:
                each.start()
            async with GitHubControl(self.control_url) as control:
                self.control = control
                await until(control.healthy, why=self.github.said)
                yield self
        except AssertionError:
            kept = tempfile.mkdtemp(prefix="runnerscale-fault-logs-")
            shutil.copytree(self.folder / "logs", kept, dirs_exist_ok=True)
            print(f"the logs of all parts are kept in {kept}")
            raise
        finally:
            await self.end()

    async def start_api(self) -> None:
        """Start it and wait until it answers."""
        self.api.start()
        await self.until_api()

    async def until_api(self) -> None:
        """It answers; the admin's client is a new one."""

        async def there() -> bool:
            assert self.api.runs, self.api.said()
            return kubeconfig_path(self.folder / "api", ADMIN).exists()

        await until(there, why=self.api.said, every_s=0.02)
        await self._close_client()
        config = load_config(kubeconfig_path(self.folder / "api", ADMIN), {})
        self.client = open_client(config, clock=self.clock, random=system_random())

        async def answers() -> bool:
            assert self.api.runs, self.api.said()
            try:
                await self.admin.get_raw("/readyz?verbose", timeout_s=2)
            except KubeError as error:
                return "not JSON" in str(error) or "did not answer with JSON" in str(error)
            return True

        await until(answers, why=self.api.said, every_s=0.02)

    async def prepare(self) -> None:
        """What must be in the API server before anybody works."""
        manifests = [*system_manifests(), *set_namespace_manifests(NAMESPACE)]
        manifests.append(github_secret(NAMESPACE, "demo-token"))
        wanted = runner_set(NAMESPACE, SET, config_url=self.config_url, min_runners=0,
                            max_runners=4, version=COMPATIBLE_VERSION, grace_s=5)  # fmt: skip
        wanted.body["spec"].update(self.set_spec)
        [runner] = wanted.body["spec"]["template"]["spec"]["containers"]
        runner["env"] = [{"name": n, "value": v} for n, v in self.runner_env.items()]
        objects = [(m.resource, m.namespace, m.body) for m in manifests]
        objects += self.more_objects
        objects.append((wanted.resource, wanted.namespace, wanted.body))
        for kind, namespace, body in objects:
            with contextlib.suppress(AlreadyExists):
                await self.admin.create(kind, namespace, body)

    async def end(self) -> None:
        """Nothing of it is left running."""
        await self._close_client()
        # The listener says goodbye to GitHub, and the node tells how its pods ended.
        for group in ([self.node, *self.controllers], [self.github, self.api]):
            for each in group:
                if each.runs:
                    each.signal(signal.SIGCONT)
                    each.signal(signal.SIGTERM)
            for each in group:
                if each.process is not None:
                    try:
                        await each.ended(GRACE_S)
                    except AssertionError:
                        each.kill()
        with contextlib.suppress(Exception):
            await clear_node(self.folder / "node", clock=self.clock)

    async def _close_client(self) -> None:
        if self.client is not None:
            await self.client.close()
            self.client = None

    # --- what is asked of it -----------------------------------------------------------------

    def listener_pids(self) -> list[int]:
        """The listener's process, if it runs."""
        port = str(self.listener_port)
        return processes_with("listener", variable="KUBERNETES_SERVICE_PORT", value=port)

    @property
    def listener_port(self) -> int:
        """Where pods are told that the API server is."""
        return int(load_config(self.node_kubeconfig, {}).server.rpartition(":")[2])

    def pod_logs(self) -> str:
        """What all containers that are left have said."""
        found = sorted((self.folder / "node" / "pods").glob("*/containers/*/*/log"))
        return "\n".join(path.read_text(errors="replace") for path in found)

    async def queue(self, count: int, *, seconds: float = 0.5) -> None:
        await self.hub.queue_jobs(count, seconds=seconds, label=SET)

    async def states(self) -> list[str]:
        """One word for each job."""
        return [job.state for job in await self.hub.jobs(None)]

    async def until_started(self, count: int = 1, *, within_s: float = WITHIN_S) -> None:
        """So many jobs run now."""

        async def started() -> bool:
            return (await self.states()).count("running") >= count

        await until(started, within_s=within_s, why=self.tell)

    async def until_done(self, count: int, *, within_s: float = WITHIN_S) -> None:
        """All jobs have ended well, each was started once, nothing forbidden happened."""

        async def done() -> bool:
            return [s for s in await self.states() if s in DONE] == ["succeeded"] * count

        await until(done, within_s=within_s, why=self.tell)
        assert [job.starts for job in await self.hub.jobs(None)] == [1] * count
        assert (await self.hub.state())["violations"] == []

    async def until_clean(self, *, within_s: float = WITHIN_S) -> None:
        """No runner, pod, secret or registration is left over."""

        async def clean() -> bool:
            from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS

            runners = (await self.admin.list(EPHEMERAL_RUNNERS, NAMESPACE)).items
            pods = (await self.admin.list(PODS, NAMESPACE)).items
            secrets = (await self.admin.list(SECRETS, NAMESPACE)).items
            registered = (await self.hub.state()).get("runners", ())
            return not runners and not pods and len(secrets) == 1 and not registered

        await until(clean, within_s=within_s, why=self.tell)

    async def witness(self, count: int = 20) -> None:
        """Objects that nobody touches: whether they are all there tells whether the store is."""
        for n in range(count):
            body = {"metadata": {"name": f"witness-{n}"}, "data": {"v": f"{n}" * 400}}
            await self.admin.create(CONFIG_MAPS, NAMESPACE, body)

    async def kept(self) -> dict[str, Any]:
        """Name to uid and content of what nobody touches, and of what a person wished."""
        maps = (await self.admin.list(CONFIG_MAPS, NAMESPACE)).items
        kept: dict[str, Any] = {
            str(m.metadata.name): (m.metadata.uid, m.metadata.resource_version, m.data)
            for m in maps
            if str(m.metadata.name).startswith("witness-")
        }
        path = (
            f"/apis/actions.github.com/v1alpha1/namespaces/{NAMESPACE}/autoscalingrunnersets/{SET}"
        )
        wish = await self.admin.get_raw(path)
        kept["the runner set"] = (wish["metadata"]["uid"], wish["spec"])
        return kept

    async def troubles(self) -> str:
        """What the runner set says of itself."""
        path = (
            f"/apis/actions.github.com/v1alpha1/namespaces/{NAMESPACE}/autoscalingrunnersets/{SET}"
        )
        found = await self.admin.get_raw(path)
        conditions = found.get("status", {}).get("conditions", [])
        return "\n".join(
            f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in conditions
        )

    def tell(self) -> str:
        """For a failure: the end of every log."""
        ends = [f"--- {p.name} ({p.process.poll() if p.process else None})\n{p.said()[-1500:]}"
                for p in self.parts if p.process is not None]  # fmt: skip
        return "\n".join([*ends, "--- pods", self.pod_logs()[-1500:]])


def one_sentence(text: str) -> str:
    """The last line, if nothing in the text looks like a crash."""
    assert "Traceback" not in text, text
    assert "internal error" not in text, text
    return text.strip().splitlines()[-1]
