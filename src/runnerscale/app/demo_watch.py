"""The demo's eyes: runners through an informer, troubles from conditions, memory, counts.

Only looks; what is shown of it is `demo_state.py`.
"""

import contextlib
import re
from collections.abc import Iterable

import aiohttp

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.reasons import Reason
from runnerscale.app.api_server import CONTROLLER
from runnerscale.app.demo_state import Leftovers, RunnerRow
from runnerscale.app.github_control import Json
from runnerscale.app.manifests import GITHUB_SECRET, SYSTEM_NAMESPACE
from runnerscale.app.single_machine import (
    NAMESPACE,
    Machine,
    peak_rss_mib,
    processes_with,
)
from runnerscale.core.clock import parse_time
from runnerscale.core.small_file import read_small_text
from runnerscale.kube.builtin import PODS, SECRETS
from runnerscale.kube.errors import KubeError
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import Condition, is_deleting
from runnerscale.kube.store import Change

WRITE_VERBS = frozenset({"create", "patch", "update", "delete", "deletecollection"})
REQUESTS = re.compile(r"^runnerscale_apiserver_requests_total\{(?P<labels>.*)\} (?P<count>\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')
REASONS = frozenset(reason.value for reason in Reason)
TIMEOUT_S = 5.0


class Eyes:
    """Follows the runners of the demo."""

    def __init__(self, machine: Machine) -> None:
        """Nothing is asked before `runners.run()`."""
        self._machine = machine
        self.runners: Informer[EphemeralRunner] = Informer(
            machine.admin,
            EPHEMERAL_RUNNERS,
            namespace=NAMESPACE,
            clock=machine.clock,
            random=machine.random,
        )
        self.peak_runners = 0
        self.rss_mib: dict[str, float] = {}
        self._alive: set[str] = set()
        self.runners.on_change(self._count)

    def _count(self, change: Change[EphemeralRunner]) -> None:
        if change.new is not None and self._row(change.new).alive:
            self._alive.add(change.key)
        else:
            self._alive.discard(change.key)
        self.peak_runners = max(self.peak_runners, len(self._alive))

    def rows(self) -> tuple[RunnerRow, ...]:
        """The runners now, oldest first."""
        rows = [self._row(runner) for runner in self.runners.store.list()]
        return tuple(sorted(rows, key=lambda row: (-row.age_s, row.name)))

    def _row(self, runner: EphemeralRunner) -> RunnerRow:
        created = runner.metadata.creation_timestamp
        age_s = self._machine.clock.now_s() - parse_time(created) if created else 0.0
        return RunnerRow(
            name=str(runner.metadata.name),
            phase=runner.status.phase,
            age_s=max(0.0, age_s),
            reason=runner.status.reason,
            job=runner.status.job_display_name,
            deleting=is_deleting(runner),
        )

    async def troubles(self) -> tuple[str, ...]:
        """What the four kinds say is wrong: reason, object, message."""
        admin = self._machine.admin
        found: list[str] = []
        with contextlib.suppress(KubeError):
            for item in (await admin.list(AUTOSCALING_RUNNER_SETS, NAMESPACE)).items:
                found += _bad_news("ars", item.metadata.name, item.status.conditions)
            for runner_set in (await admin.list(EPHEMERAL_RUNNER_SETS, NAMESPACE)).items:
                name = runner_set.metadata.name
                found += _bad_news("ers", name, runner_set.status.conditions)
            for listener in (await admin.list(AUTOSCALING_LISTENERS, SYSTEM_NAMESPACE)).items:
                name = listener.metadata.name
                found += _bad_news("arl", name, listener.status.conditions)
        for runner in self.runners.store.list():
            if runner.status.reason:
                said = f"{runner.status.reason}: er {runner.metadata.name}: "
                found.append(said + runner.status.message)
        return tuple(dict.fromkeys(found))

    def weigh(self) -> None:
        """Note the most memory that each process has held."""
        for child in self._machine.supervisor.children:
            self._note(child.name, peak_rss_mib(child.pid) if child.pid else 0.0)
        port = str(self._machine.ports.api)
        for pid in processes_with("listener", variable="KUBERNETES_SERVICE_PORT", value=port):
            self._note("listener", peak_rss_mib(pid))

    def _note(self, name: str, mib: float) -> None:
        self.rss_mib[name] = max(self.rss_mib.get(name, 0.0), mib)

    async def leftovers(self, state: Json) -> Leftovers:
        """What is still there; `state`: GitHub's."""
        admin = self._machine.admin
        runners = await admin.list(EPHEMERAL_RUNNERS, NAMESPACE)
        pods = await admin.list(PODS, NAMESPACE)
        secrets = await admin.list(SECRETS, NAMESPACE)
        others = [s for s in secrets.items if s.metadata.name != GITHUB_SECRET]
        registrations = len(state.get("runners", ()))
        return Leftovers(len(runners.items), len(pods.items), len(others), registrations)

    async def requests(self) -> tuple[int, int]:
        """Writes of controller and listener, and the listener's reads, so far."""
        url = f"https://127.0.0.1:{self._machine.ports.api}/metrics"
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._admin_token()}"}
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url, ssl=self._machine.api_tls() or True, headers=headers) as answer,
            ):
                return count_requests((await answer.text()).splitlines())
        except (aiohttp.ClientError, TimeoutError):
            return 0, 0

    def _admin_token(self) -> str:
        text = read_small_text(self._machine.kubeconfig)
        match = re.search(r"token: (\S+)", text)
        return match[1] if match else ""


def count_requests(lines: Iterable[str]) -> tuple[int, int]:
    """Writes of controller and listeners (Events apart), and reads of runners by listeners."""
    writes = reads = 0.0
    for line in lines:
        match = REQUESTS.match(line)
        if match is None:
            continue
        labels = dict(LABEL.findall(match["labels"]))
        user, verb, resource = labels["user"], labels["verb"], labels["resource"]
        listener = user.startswith(f"system:serviceaccount:{SYSTEM_NAMESPACE}:") and (
            user.endswith("-listener")
        )
        if not listener and user != CONTROLLER:
            continue
        if verb in WRITE_VERBS and resource != "events":
            writes += float(match["count"])
        if listener and verb == "get" and resource == "ephemeralrunners":
            reads += float(match["count"])
    return int(writes), int(reads)


def _bad_news(kind: str, name: str | None, conditions: Iterable[Condition] | None) -> list[str]:
    return [f"{c.reason}: {kind} {name}: {c.message}" for c in conditions or () if is_bad_news(c)]


def is_bad_news(condition: Condition) -> bool:
    """Whether a condition tells of a trouble, whichever way round its type is named."""
    return condition.reason in REASONS
