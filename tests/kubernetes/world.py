"""The world of a scenario: a real cluster, our node agent, the pretended GitHub, our two charts.

What is installed is installed by real helm and runs as pods, under the rights that the charts
grant and no others. A scenario says what shall come to be, within how many seconds; what was
seen instead is told at length when it does not (`describe`).
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.kubernetes.audit import AuditEvent
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.github import OWNER, Authority, GitHub
from tests.kubernetes.node import Node

Json = dict[str, Any]
T = TypeVar("T")

CHARTS = Path(__file__).resolve().parents[2] / "charts"
CONTROLLER_CHART = CHARTS / "gha-runner-scale-set-controller"
SCALE_SET_CHART = CHARTS / "gha-runner-scale-set"
GHA = "/apis/actions.github.com/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LOOK_EVERY_S = 0.15
LATER_MAX = 20
EVERYBODY = ""
CONTROLLER_READY_S = 60.0  # the two bounds of upstream's own scenarios
LISTENER_READY_S = 120.0
GONE_WITHIN_S = 120.0
TAIL_LINES = 40


def until(what: str, check: Callable[[], T], *, within_s: float = 30.0) -> T:
    """The first true answer of `check`; AssertionError with the last one if none comes."""
    ends_s = time.monotonic() + within_s
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > ends_s:
            raise AssertionError(f"not within {within_s:g} s: {what}; the last answer: {found!r}")
        time.sleep(LOOK_EVERY_S)


def now() -> str:
    """As the audit log writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def name_of(item: Json) -> str:
    """metadata.name."""
    return str(item["metadata"]["name"])


def labels_of(item: Json) -> Mapping[str, str]:
    """metadata.labels."""
    return item["metadata"].get("labels") or {}


def condition(item: Json, kind: str) -> Json:
    """The condition of that type, or an empty one."""
    conditions = (item.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def is_ready(pod: Json) -> bool:
    """The pod's own word for it."""
    return condition(pod, "Ready").get("status") == "True"


@dataclass(slots=True)
class World:
    """Everything that the scenarios share; one per session."""

    cluster: Cluster
    folder: Path
    node: Node
    github: GitHub
    authority: Authority
    controllers: dict[tuple[str, str], "Controller"] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)  # namespaces of the scenario under way
    # Who lost rights on purpose, from when until when: helm takes the rights of a release away
    # before its pods have ended.
    excused: list[tuple[str, str, str]] = field(default_factory=list)
    _tls: GitHub | None = None
    _count: int = 0

    @property
    def tls_github(self) -> GitHub:
        """Another pretended GitHub, with a certificate of an authority that nobody trusts yet."""
        if self._tls is None:
            self._tls = GitHub(self.folder / "github", "github-tls", self.authority)
        return self._tls

    def close(self) -> None:
        """End what is not the cluster's own."""
        self.node.stop()
        self.github.stop()
        if self._tls is not None:
            self._tls.stop()

    # -- objects -----------------------------------------------------------------------------

    def get(self, path: str) -> Json | None:
        """An object, or None."""
        code, found = self._read(path)
        assert code in (200, 404), f"GET {path}: {code} {found}"
        return found if code == 200 else None

    def items(self, path: str, selector: str = "") -> list[Json]:
        """The objects of a list; none where the kind or the namespace is not there."""
        query = f"?labelSelector={selector}" if selector else ""
        code, found = self._read(f"{path}{query}")
        assert code in (200, 404), f"GET {path}: {code} {found}"
        return [*found["items"]] if code == 200 else []

    def _read(self, path: str) -> tuple[int, Any]:
        """A server that has just started asks to come back a little later (429)."""
        for _ in range(LATER_MAX):
            code, found = self.cluster.api("GET", path)
            if code != 429:
                break
            time.sleep(1)
        return code, found

    def create(self, path: str, body: Json) -> Json:
        """Made, or an AssertionError with the server's words."""
        code, found = self.cluster.api("POST", path, body)
        assert code == 201, f"POST {path}: {code} {found}"
        return dict(found)

    def patch(self, path: str, body: Json) -> Json:
        """A merge patch."""
        kind = "application/merge-patch+json"
        code, found = self.cluster.api("PATCH", path, body, content_type=kind)
        assert code == 200, f"PATCH {path}: {code} {found}"
        return dict(found)

    def delete(self, path: str, **options: Any) -> None:
        """Deleted, or already gone."""
        code, found = self.cluster.api("DELETE", path, options or None)
        assert code in (200, 202, 404), f"DELETE {path}: {code} {found}"

    def secret(self, namespace: str, name: str, **data: str) -> None:
        """A Secret."""
        body = {"metadata": {"name": name}, "stringData": data}
        self.create(f"/api/v1/namespaces/{namespace}/secrets", body)

    def pods(self, namespace: str, selector: str = "") -> list[Json]:
        """The pods of a namespace; their logs are kept."""
        self.node.keep_logs()
        return self.items(f"/api/v1/namespaces/{namespace}/pods", selector)

    def events(self, namespace: str) -> list[Json]:
        """The Events of a namespace."""
        return self.items(f"/api/v1/namespaces/{namespace}/events")

    def fresh(self, word: str) -> str:
        """A name that nothing has had yet."""
        self._count += 1
        return f"{word}-{self._count}"

    def namespace(self, word: str = "runners") -> str:
        """A new namespace."""
        name = self.fresh(word)
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(f"{name} is furnished", lambda: self.get(account))
        self.touched.append(name)
        return name

    def leave(self) -> None:
        """The scenario is over: its namespaces go, in their own time."""
        for name in self.touched:
            self.delete(f"/api/v1/namespaces/{name}")
        self.touched.clear()

    # -- installing --------------------------------------------------------------------------

    def install_controller(
        self, release: str = "arc", namespace: str = "arc-systems", **values: Any
    ) -> "Controller":
        """The controller chart, its pods ready within upstream's 60 s."""
        controller = self.start_controller(release, namespace, **values)
        controller.wait_ready()
        return controller

    def start_controller(
        self,
        release: str = "arc",
        namespace: str = "arc-systems",
        *,
        skip_crds: bool = False,
        **values: Any,
    ) -> "Controller":
        """The controller chart installed; its pods may be on their way."""
        controller = Controller(self, release, namespace)
        controller.helm("install", values, *(["--skip-crds"] if skip_crds else []))
        self.controllers[(namespace, release)] = controller
        return controller

    def cluster_wide_controller(self) -> "Controller":
        """One controller for all namespaces, the chart's defaults: installed once, then shared."""
        found = self.controllers.get(("arc-systems", "arc"))
        if found is not None:
            return found
        self.no_controllers()
        return self.install_controller()

    def no_controllers(self) -> None:
        """Nobody watches anything: for scenarios with controllers of their own."""
        for controller in list(self.controllers.values()):
            controller.uninstall()

    def install_set(self, namespace: str, name: str = "", **values: Any) -> "ScaleSet":
        """The scale-set chart for the pretended GitHub; `values` are the chart's own."""
        found = ScaleSet(self, namespace, name or self.fresh("set"))
        found.helm("install", values)
        return found

    # -- judging -----------------------------------------------------------------------------

    def forbidden(self, since: int) -> list[str]:
        """What anybody of ours was refused for want of a right, from the audit log."""
        return [
            said(event)
            for event in self.cluster.audit(since=since)
            if event.decision == "forbid" and is_ours(event) and not self._is_excused(event)
        ]

    def _is_excused(self, event: AuditEvent) -> bool:
        return any(
            user in (event.user, EVERYBODY) and begin <= event.received <= end
            for user, begin, end in self.excused
        )

    @contextlib.contextmanager
    def losing_rights(self, user: str = EVERYBODY) -> Iterator[None]:
        """What this user is refused meanwhile is meant to be."""
        begin = now()
        try:
            yield
        finally:
            self.excused.append((user, begin, now()))

    def describe(self) -> str:
        """What a person would look at: objects, Events, the ends of logs."""
        parts = [f"GitHub says: {self.github.violations()}"]
        for namespace in dict.fromkeys([*self.touched, *(where for where, _ in self.controllers)]):
            parts.append(f"--- namespace {namespace}")
            for plural in PLURALS:
                parts += [
                    brief(item) for item in self.items(f"{GHA}/namespaces/{namespace}/{plural}")
                ]
            parts += [brief(item) for item in self.pods(namespace)]
            parts += [
                f"event {e['involvedObject'].get('kind')} {e['involvedObject'].get('name')}: "
                f"{e.get('reason')}: {e.get('message')}"
                for e in self.events(namespace)[-30:]
            ]
        recent = sorted(self.node.logs.iterdir(), key=lambda path: path.stat().st_mtime)[-5:]
        for log in recent:
            lines = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            parts += [f"--- log {log.name}", *lines]
        parts += ["--- node agent", self.node.tail(), "--- GitHub", self.github.tail()]
        return "\n".join(parts)


PLURALS = ("autoscalingrunnersets", "autoscalinglisteners", "ephemeralrunnersets")
PLURALS += ("ephemeralrunners",)


def is_ours(event: AuditEvent) -> bool:
    """Asked by a service account of a pod, or by the node agent: not by Kubernetes' own parts."""
    user = event.user
    if user == "runnerscale-node":
        return True
    return user.startswith("system:serviceaccount:") and ":kube-system:" not in user


def said(event: AuditEvent) -> str:
    """A refusal in a line."""
    what = f"{event.resource}/{event.subresource}".rstrip("/")
    who = event.user.removeprefix("system:serviceaccount:")
    return f"{event.received} {who} may not {event.verb} {what} {event.namespace}/{event.name}"


def brief(item: Json) -> str:
    """An object in a line or two."""
    meta, status = item["metadata"], item.get("status") or {}
    conditions = [
        f"{c['type']}={c['status']} {c.get('reason', '')} {c.get('message', '')}".strip()
        for c in status.get("conditions") or []
        if c["type"] not in ("PodScheduled", "Initialized", "ContainersReady")
    ]
    states = [c.get("state") for c in status.get("containerStatuses") or []]
    going = "going " if meta.get("deletionTimestamp") else ""
    kind = item.get("kind") or (meta.get("labels") or {}).get("app.kubernetes.io/component", "pod")
    phase = status.get("phase", "")
    about = f"{going}{kind} {meta['name']} {phase} finalizers={meta.get('finalizers')}"
    return "\n    ".join([about, *conditions, *map(str, states)])


@dataclass(frozen=True, slots=True, eq=False)
class Controller:
    """An installed controller chart."""

    world: World
    release: str
    namespace: str

    def helm(self, verb: str, values: Mapping[str, Any], *more: str) -> None:
        """install or upgrade."""
        words = [verb, self.release, str(CONTROLLER_CHART), "--namespace", self.namespace, *more]
        if verb == "install":
            words.append("--create-namespace")
        self.world.cluster.helm(*words, "--values", "-", stdin=yaml.safe_dump(dict(values)))

    @property
    def account(self) -> str:
        """The user name of its service account."""
        account = self.deployment()["spec"]["template"]["spec"]["serviceAccountName"]
        return f"system:serviceaccount:{self.namespace}:{account}"

    def deployment(self) -> Json:
        """Its Deployment."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        found = self.world.items(path, f"app.kubernetes.io/instance={self.release}")
        assert len(found) == 1, found
        return found[0]

    def pods(self) -> list[Json]:
        """Its pods that are not going, by upstream's selector."""
        return [pod for pod in self._all_pods() if not pod["metadata"].get("deletionTimestamp")]

    def _all_pods(self) -> list[Json]:
        part_of = "app.kubernetes.io/part-of=gha-rs-controller"
        selector = f"{part_of},app.kubernetes.io/instance={self.release}"
        return self.world.pods(self.namespace, selector)

    def wait_ready(self) -> None:
        """As many pods as it wants are ready."""
        wanted = self.deployment()["spec"]["replicas"]

        def ready() -> bool:
            return len([pod for pod in self.pods() if is_ready(pod)]) == wanted

        until(f"{wanted} controller pods are ready", ready, within_s=CONTROLLER_READY_S)

    def upgrade(self, **values: Any) -> None:
        """helm upgrade to these values and no others; its new pods ready, the old ones gone."""
        with self.world.losing_rights(self.account):
            self.helm("upgrade", values)
            self.wait_ready()
            wanted = self.deployment()["spec"]["replicas"]
            until(
                "the pods of before are gone",
                lambda: len(self._all_pods()) == wanted,
                within_s=CONTROLLER_READY_S,
            )

    def uninstall(self) -> None:
        """The release goes, with its pods."""
        with self.world.losing_rights(self.account):
            self.world.cluster.helm("uninstall", self.release, "--namespace", self.namespace)
            self.world.controllers.pop((self.namespace, self.release), None)
            until("the controller's pods are gone", lambda: not self._all_pods(), within_s=60)

    def log(self) -> str:
        """All that its pods said."""
        return self.world.node.log_of(f"{self.release}*", container="manager")


@dataclass(frozen=True, slots=True, eq=False)
class ScaleSet:
    """An installed scale-set chart."""

    world: World
    namespace: str
    name: str

    def helm(self, verb: str, values: Mapping[str, Any]) -> None:
        """install or upgrade, with the pretended GitHub where `values` name none."""
        given = {
            "githubConfigUrl": f"{self.world.github.url}/{OWNER}",
            "githubConfigSecret": {"github_token": "ghp_of-the-scenario"},
            **values,
        }
        words = [verb, self.name, str(SCALE_SET_CHART), "--namespace", self.namespace]
        self.world.cluster.helm(*words, "--values", "-", stdin=yaml.safe_dump(given))

    def uninstall(self) -> None:
        """helm uninstall; what follows is the controller's."""
        self.world.cluster.helm("uninstall", self.name, "--namespace", self.namespace)

    # -- objects -----------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Of its AutoscalingRunnerSet."""
        return f"{GHA}/namespaces/{self.namespace}/autoscalingrunnersets/{self.name}"

    def runner_set(self) -> Json:
        """Its AutoscalingRunnerSet."""
        found = self.world.get(self.path)
        assert found is not None, f"{self.path} is gone"
        return found

    def listeners(self) -> list[Json]:
        """Its listener pods, in whatever namespace."""
        selector = f"actions.github.com/scale-set-name={self.name}"
        selector += f",actions.github.com/scale-set-namespace={self.namespace}"
        found = self.world.items("/api/v1/pods", selector)
        component = "app.kubernetes.io/component"
        return [p for p in found if labels_of(p).get(component) == "runner-scale-set-listener"]

    def wait_listener(self) -> Json:
        """Its listener pod, ready within upstream's 120 s."""
        self.world.node.keep_logs()
        found = until(
            f"the listener of {self.name} is ready",
            lambda: [pod for pod in self.listeners() if is_ready(pod)],
            within_s=LISTENER_READY_S,
        )
        assert len(found) == 1, found
        self.world.node.keep_logs()
        return found[0]

    def runners(self) -> list[Json]:
        """Its EphemeralRunners."""
        found = self.world.items(f"{GHA}/namespaces/{self.namespace}/ephemeralrunners")
        key = "actions.github.com/scale-set-name"
        return [each for each in found if labels_of(each).get(key) == self.name]

    def runner_pods(self) -> list[Json]:
        """The pods of its runners."""
        selector = f"actions.github.com/scale-set-name={self.name}"
        found = self.world.pods(self.namespace, selector)
        component = "app.kubernetes.io/component"
        return [pod for pod in found if labels_of(pod).get(component) == "runner"]

    # -- jobs --------------------------------------------------------------------------------

    def run_jobs(
        self,
        count: int = 1,
        *,
        seconds: float = 0.1,
        within_s: float = 90.0,
        github: GitHub | None = None,
        label: str = "",
    ) -> None:
        """Queue jobs and see each end well, started exactly once."""
        service = github or self.world.github
        ids = service.queue(label or self.name, count, seconds=seconds)
        self.wait_jobs(ids, within_s=within_s, github=service)

    def wait_jobs(
        self, ids: list[str], *, within_s: float = 90.0, github: GitHub | None = None
    ) -> None:
        """Each of them ends well, started exactly once."""
        service = github or self.world.github

        def over() -> bool:
            self.world.node.keep_logs()
            return all(job["state"] == "completed" for job in service.jobs(ids))

        until(f"{len(ids)} jobs of {self.name} are over", over, within_s=within_s)
        wrong = [j for j in service.jobs(ids) if (j["result"], j["starts"]) != ("succeeded", 1)]
        assert not wrong, wrong

    def wait_idle(self, count: int = 0, *, within_s: float = 60.0) -> None:
        """Exactly so many runners are left."""
        until(
            f"{self.name} has {count} runners",
            lambda: len(self.runners()) == count and len(self.runner_pods()) == count,
            within_s=within_s,
        )

    # -- the end -----------------------------------------------------------------------------

    def uninstall_cleanly(self, *, github: GitHub | None = None) -> None:
        """Gone within upstream's 120 s, and nothing of it is left anywhere."""
        service = github or self.world.github
        known = service.scale_sets(self.name)
        self.uninstall()
        until(
            f"the AutoscalingRunnerSet {self.name} is gone",
            lambda: self.world.get(self.path) is None,
            within_s=GONE_WITHIN_S,
        )
        until(f"nothing is left of {self.name}", lambda: not self.left_overs(), within_s=30)
        ids = {each["id"] for each in known}
        left = [each for each in service.scale_sets(self.name) if each["id"] in ids]
        assert not left, left
        assert not [runner for each in ids for runner in service.runners(each)]

    def left_overs(self) -> list[str]:
        """Everything in the cluster that bears its name."""
        found = []
        for root, plurals in LEFT_OVER_KINDS.items():
            for plural in plurals:
                for item in self.world.items(f"{root}/{plural}"):
                    if self._is_mine(item):
                        found.append(
                            f"{plural} {item['metadata'].get('namespace')}/{name_of(item)}"
                        )
        return found

    def _is_mine(self, item: Json) -> bool:
        labels = labels_of(item)
        mine = labels.get("actions.github.com/scale-set-name") == self.name
        return mine and labels.get("actions.github.com/scale-set-namespace") == self.namespace


LEFT_OVER_KINDS = {
    GHA: PLURALS,
    RBAC: ("roles", "rolebindings"),
    "/api/v1": ("pods", "secrets", "serviceaccounts"),
}


def open_world(cluster: Cluster, folder: Path) -> World:
    """Node agent and GitHub started; nothing is installed yet."""
    authority = Authority(folder / "tls")
    github = GitHub(folder / "github")
    node: Node | None = None
    try:
        node = Node(cluster, folder / "node")
    finally:
        if node is None:
            github.stop()
    return World(cluster, folder, node, github, authority)
