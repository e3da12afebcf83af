"""A short run of the whole system, with a real Prometheus that watches it.

Two machines (two installations, one scale set each), because the listeners of one machine share
its loopback address. What happens: jobs that succeed, a job whose runner is killed for its memory
(so that a failed runner is kept), a scale set whose Secret is missing (so that something is stuck).
The first machine logs JSON at info, the second text at debug.
"""

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.app.demo_faults import RUNNER_LABELS, Breaker
from runnerscale.app.github_control import GitHubControl
from runnerscale.app.manifests import (
    SYSTEM_NAMESPACE,
    github_secret,
    runner_set,
    set_namespace_manifests,
)
from runnerscale.app.problem import Problem
from runnerscale.app.single_machine import MANAGER, Machine, free_ports
from runnerscale.app.supervisor import Child, Supervisor
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.builtin import EVENTS, PODS, SECRETS
from tests.dashboards.prometheus_process import Prometheus

ROOT = Path(__file__).resolve().parents[2]
CLOCK = SystemClock()
STEP_WITHIN_S = 60.0
SCRAPE_EVERY = "1s"
# (folder, scale set, namespace, log level, log format)
MACHINES = (("a", "linux", "team-a", "info", "json"), ("b", "windows", "team-b", "debug", "text"))
LONG_JOB_S = 300.0
SECRET_KEYS = ("jitToken", "github_token", "github_app_private_key")
NAMESPACES = (SYSTEM_NAMESPACE, "team-a", "team-b")
KINDS = (
    AUTOSCALING_RUNNER_SETS,
    AUTOSCALING_LISTENERS,
    EPHEMERAL_RUNNER_SETS,
    EPHEMERAL_RUNNERS,
    PODS,
    EVENTS,
)


@dataclass
class LoudMachine(Machine):
    """A machine whose controller (and so its listeners) logs as asked."""

    level: str = "info"
    form: str = "json"

    def _node(self) -> Child:
        child = super()._node()
        work = self.folder / "work"  # who is killed for its memory leaves its folder there
        work.mkdir(exist_ok=True)
        child.environ = {**child.environ, "TMPDIR": str(work)}
        return child

    def _controller(self) -> Child:
        child = super()._controller()
        change = {"--log-level=info": f"--log-level={self.level}"}
        change["--log-format=json"] = f"--log-format={self.form}"
        child.argv = [change.get(word, word) for word in child.argv]
        return child


@dataclass
class Observed:
    """What was seen."""

    prometheus: Prometheus
    at_s: float = 0.0  # the moment everything could be seen; all queries ask for it
    scrape: dict[str, str] = field(default_factory=dict)  # /metrics by process
    logs: dict[str, str] = field(default_factory=dict)  # by machine and file
    objects: dict[str, list[Any]] = field(default_factory=dict)  # by machine
    secrets: set[str] = field(default_factory=set)  # every secret text that there was
    jobs: dict[str, list[Any]] = field(default_factory=dict)  # GitHub's view, by machine


def token_of(machine: str) -> str:
    """The GitHub token of a machine: a text that nothing else has."""
    return f"github-token-of-machine-{machine}-31c6f5"


async def until(check: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait; AssertionError if it does not come."""
    try:
        async with asyncio.timeout(STEP_WITHIN_S):
            while not await check():
                await CLOCK.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"it did not happen within {STEP_WITHIN_S:.0f} s: {what}") from None


async def observe(program: Path, folder: Path) -> Observed:
    """The whole run; the machines are ended, Prometheus goes on and has the data."""
    machines = {}
    for name, _, _, level, form in MACHINES:
        args = (folder / name, free_ports(), Supervisor(CLOCK), CLOCK, system_random())
        machines[name] = LoudMachine(*args, level=level, form=form)
    try:
        async with asyncio.TaskGroup() as group:
            for name, scale_set, namespace, _, _ in MACHINES:
                group.create_task(begin(machines[name], name, scale_set, namespace))
        pods = [pod for machine in machines.values() for pod in await listener_pods(machine)]
        pods += [controller_pod(name, machine) for name, machine in machines.items()]
        prometheus = Prometheus(program, folder, scrape_config(pods))
        try:
            return await watch(machines, Observed(prometheus))
        except BaseException:
            prometheus.stop()
            raise
    finally:
        async with asyncio.TaskGroup() as group:
            for machine in machines.values():
                group.create_task(machine.stop())


async def listener_pods(machine: LoudMachine) -> list[Any]:
    """The pod of the machine's listener, once it runs."""
    found: list[Any] = []

    async def runs() -> bool:
        found[:] = (await machine.admin.get_raw(PODS.path(SYSTEM_NAMESPACE)))["items"]
        return [pod["status"].get("phase") for pod in found] == ["Running"]

    await until(runs, "a listener pod runs")
    return found


def controller_pod(name: str, machine: LoudMachine) -> dict[str, Any]:
    """The controller, which is no pod on a single machine, as the chart's pod would be."""
    port = {"name": "metrics", "containerPort": machine.ports.metrics}
    labels = {
        "app.kubernetes.io/part-of": "gha-rs-controller",
        "app.kubernetes.io/component": "controller-manager",
    }
    return {
        "metadata": {
            "name": f"controller-{name}",
            "namespace": SYSTEM_NAMESPACE,
            "labels": labels,
        },
        "spec": {"containers": [{"name": "manager", "ports": [port]}]},
        "status": {"podIP": "127.0.0.1", "phase": "Running"},
    }


def scrape_config(pods: list[Any]) -> dict[str, Any]:
    """The file of dashboards/, with what Kubernetes discovery would find.

    Debian's Prometheus is built without that discovery, so its labels are handed in; the
    relabelling of the file works on them.
    """
    given = yaml.safe_load((ROOT / "dashboards" / "prometheus-scrape.yaml").read_text())
    for job in given["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        job["static_configs"] = [discovered(pod) for pod in pods]
    timing = {"scrape_interval": SCRAPE_EVERY, "scrape_timeout": SCRAPE_EVERY}
    return {"global": timing, **given}


def discovered(pod: Any) -> dict[str, Any]:
    """A pod with one port, as `role: pod` describes it."""
    meta = "__meta_kubernetes_"
    (port,) = (port for c in pod["spec"]["containers"] for port in c["ports"])
    labels = {
        f"{meta}pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', key)}": value
        for key, value in pod["metadata"]["labels"].items()
    }
    labels |= {
        f"{meta}namespace": pod["metadata"]["namespace"],
        f"{meta}pod_name": pod["metadata"]["name"],
        f"{meta}pod_phase": pod["status"]["phase"],
        f"{meta}pod_container_port_name": port["name"],
    }
    return {"targets": [f"{pod['status']['podIP']}:{port['containerPort']}"], "labels": labels}


async def watch(machines: dict[str, LoudMachine], seen: Observed) -> Observed:
    """Make things happen until all of it can be seen."""
    collecting = [
        asyncio.get_running_loop().create_task(collect_secrets(machine, seen))
        for machine in machines.values()
    ]
    try:
        await jobs_done(machines, seen, count=2)
        await shown(seen, "sum(gha_completed_jobs_total) >= 4")
        await jobs_done(machines, seen, count=3)  # a rate needs a value before the next
        await lose_a_runner(machines["a"], "linux", "team-a")
        await shown(seen, "sum(gha_controller_failed_ephemeral_runners) == 1")
        await shown(seen, 'runnerscale_trouble{reason="CredentialsMissing"} == 1')
        await shown(seen, "sum(gha_controller_running_listeners) == 2")
        await shown(seen, "sum(gha_completed_jobs_total) >= 10")
        await CLOCK.sleep(2.5)  # two scrapes more
        seen.at_s = CLOCK.now_s()
        for name, machine in machines.items():
            await look(machine, name, seen)
    finally:
        for task in collecting:
            task.cancel()
        await asyncio.wait(collecting)
    return seen


async def begin(machine: LoudMachine, name: str, scale_set: str, namespace: str) -> None:
    """The machine with a scale set that works and one whose Secret is missing."""
    await machine.start()
    url = f"{machine.github_url}/demo-org/demo"  # where jobs are queued unless told otherwise
    common = {"config_url": url, "min_runners": 0, "version": COMPATIBLE_VERSION}
    works = runner_set(namespace, scale_set, max_runners=3, **common)
    stuck = runner_set(namespace, "locked-out", max_runners=1, **common)
    stuck.body["spec"]["githubConfigSecret"] = "nowhere"
    await machine.apply(
        [*set_namespace_manifests(namespace), github_secret(namespace, token_of(name))]
    )
    await machine.apply([works, stuck])


async def jobs_done(machines: dict[str, LoudMachine], seen: Observed, *, count: int) -> None:
    """Queue so many jobs on each machine and see them end."""

    async def on(name: str, scale_set: str) -> None:
        async with GitHubControl(machines[name].github_url) as github:
            wanted = len(await github.jobs(None)) + count
            await github.queue_jobs(count, seconds=0.5, label=scale_set)

            async def done() -> bool:
                ended = [job for job in await github.jobs(None) if job.state == "succeeded"]
                return len(ended) == wanted

            await until(done, f"{count} jobs succeed on machine {name}")
            seen.jobs[name] = list(await github.jobs(None))

    async with asyncio.TaskGroup() as group:
        for name, scale_set, *_ in MACHINES:
            group.create_task(on(name, scale_set))


async def lose_a_runner(machine: LoudMachine, scale_set: str, namespace: str) -> None:
    """A runner is killed for its memory under its job."""
    async with GitHubControl(machine.github_url) as github:
        await github.queue_jobs(1, seconds=LONG_JOB_S, label=scale_set)

        async def only_one_runs() -> bool:
            items = (await machine.admin.list(EPHEMERAL_RUNNERS, namespace)).items
            return [r.status is not None and r.status.phase for r in items] == ["Running"]

        await until(only_one_runs, "the long job runs, and nothing else")

        async def struck() -> bool:
            try:
                fault = {"fault": "oom-kill", "namespace": namespace, "labels": RUNNER_LABELS}
                await Breaker(machine, github).node(fault)
            except Problem:
                return False
            return True

        await until(struck, "the runner is killed")


async def shown(seen: Observed, expr: str) -> None:
    """Prometheus has it."""

    async def there() -> bool:
        return bool(await asyncio.to_thread(seen.prometheus.query, expr))

    await until(there, expr)


async def collect_secrets(machine: LoudMachine, seen: Observed) -> None:
    """Every secret value, all the time, for JIT configurations live only seconds."""
    while True:
        for namespace in NAMESPACES:
            for secret in (await machine.admin.list(SECRETS, namespace)).items:
                for key, value in (secret.data or {}).items():
                    seen.secrets |= secret_texts(key, base64.b64decode(value).decode())
        await CLOCK.sleep(0.15)


def secret_texts(key: str, text: str) -> set[str]:
    """What of a Secret's entry nobody may see: not the names and numbers that stand beside."""
    if key == "config.json":
        file = json.loads(text)
        return {str(file[name]) for name in SECRET_KEYS if file.get(name)}
    return {text} if key in SECRET_KEYS else set()


async def look(machine: LoudMachine, name: str, seen: Observed) -> None:
    """Logs, objects, metrics: all that a person can see."""
    seen.secrets |= {token_of(name), machine.node_token.reveal()}
    objects = []
    for kind in KINDS:
        for namespace in NAMESPACES:
            objects += (await machine.admin.get_raw(kind.path(namespace)))["items"]
    seen.objects[name] = objects
    ports = machine.ports
    addresses = {MANAGER: ports.metrics, "listener": ports.listener_metrics}
    async with aiohttp.ClientSession() as session:
        for process, port in addresses.items():
            async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                seen.scrape[f"{name} {process}"] = await answer.text()
    for path in [
        *(machine.folder / "logs").rglob("*.log"),
        *(machine.folder / "node").rglob("log"),
    ]:
        place = path.relative_to(machine.folder).as_posix()
        seen.logs[f"{name} {place}"] = path.read_text(errors="replace")
