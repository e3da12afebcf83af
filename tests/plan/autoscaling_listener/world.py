"""A listener in the tiny world: its runner set, its reconciler, and credentials to be had."""

from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.controllers.autoscaling_listener.controller import (
    BY_RUNNER_SET,
    Caches,
    ListenerReconciler,
    by_runner_set,
)
from runnerscale.controllers.autoscaling_listener.snapshot import Settings
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.core.clock import ManualClock
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import PlaceTrouble, Resolved
from runnerscale.kube.builtin import (
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.reconcile import Pass, PassEnd
from tests.plan.memory_api import MemoryApi

HOME = "arc-systems"
RUNNERS = "arc-runners"
NAME = "linux-5b5868b7-listener"
IMAGE = "ghcr.io/runnerscale/runnerscale:0.14.2"

SPEC: dict[str, Any] = {
    "githubConfigUrl": "https://github.com/octo-org/octo-repo",
    "githubConfigSecret": "github",
    "runnerScaleSetId": 7,
    "autoscalingRunnerSetNamespace": RUNNERS,
    "autoscalingRunnerSetName": "linux",
    "ephemeralRunnerSetName": "linux",
    "maxRunners": 10,
    "minRunners": 1,
    "image": IMAGE,
}
LABELS = {
    "app.kubernetes.io/part-of": "gha-runner-scale-set",
    "app.kubernetes.io/component": "runner-scale-set-listener",
    "team": "a",
}
TOKEN = Resolved(
    token=SecretText("ghp_first"),
    app_id="",
    app_installation_id=0,
    app_private_key=None,
    http_proxy=None,
    https_proxy=None,
    no_proxy=(),
    root_ca_pem="",
)


class FakeClients:
    """Credentials as the test has them."""

    def __init__(self) -> None:
        self.means: Resolved | PlaceTrouble = TOKEN
        self.asked: list[Any] = []

    async def resolve(self, place: Any) -> Resolved:
        self.asked.append(place)
        if isinstance(self.means, PlaceTrouble):
            raise self.means
        return self.means

    async def client_for(self, place: Any) -> Any:
        raise NotImplementedError


class Events:
    """What was said in Events."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def record(self, about: Any, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.said.append((type, str(reason), message))


class World:
    """One listener and everything around it."""

    def __init__(self, **spec: Any) -> None:
        self.clock = ManualClock()
        self.api = MemoryApi(self.clock)
        self.clients = FakeClients()
        self.events = Events()
        self.registry = CollectorRegistry()
        self.settings = Settings(image=IMAGE)
        self.caches = Caches(
            listeners=self.api.cache(AUTOSCALING_LISTENERS, **{BY_RUNNER_SET: by_runner_set}),
            runner_sets=self.api.cache(AUTOSCALING_RUNNER_SETS),
            pods=self.api.cache(PODS),
            service_accounts=self.api.cache(SERVICE_ACCOUNTS),
            roles=self.api.cache(ROLES),
            role_bindings=self.api.cache(ROLE_BINDINGS),
        )
        self.metrics = ControllerMetrics(self.registry)
        self.reporter = Reporter(self.events, self.metrics)
        self.start()
        self.api.put(AUTOSCALING_RUNNER_SETS, RUNNERS, {"metadata": {"name": "linux"}})
        self.api.put(
            AUTOSCALING_LISTENERS,
            HOME,
            {"metadata": {"name": NAME, "labels": LABELS}, "spec": {**SPEC, **spec}},
        )

    def start(self, **settings: Any) -> None:
        """A controller process with these settings, and no memory."""
        self.settings = replace(self.settings, **settings)
        self.reconciler = ListenerReconciler(
            client=self.api,  # type: ignore[arg-type]
            clients=self.clients,  # type: ignore[arg-type]
            caches=self.caches,
            settings=self.settings,
            reporter=self.reporter,
            metrics=self.metrics,
            own_writes=OwnWrites(clock=self.clock),
            clock=self.clock,
        )

    async def one_pass(self) -> PassEnd:
        """One pass of the controller over the listener."""
        running = Pass(self.reconciler, f"{HOME}/{NAME}")
        end = await running.run()
        running.report()
        return end

    async def settle(self, passes: int = 6) -> PassEnd:
        """Passes until nothing is written any more."""
        for _ in range(passes):
            self.api.changes()
            end = await self.one_pass()
            if not self.api.writes:
                return end
        raise AssertionError(f"never comes to rest: {self.api.writes}")

    def edit(self, **spec: Any) -> None:
        """Somebody changes the listener's spec."""
        self.api.change(AUTOSCALING_LISTENERS, HOME, NAME, {"spec": spec})

    def kubelet(self, **status: Any) -> None:
        """The node speaks about the pod."""
        self.api.change(PODS, HOME, NAME, {"status": status})

    def run_pod(self, since_s: float | None = None) -> None:
        """The listener's container runs."""
        from runnerscale.core.clock import format_time

        started = format_time(self.clock.now_s() if since_s is None else since_s)
        state = {"running": {"startedAt": started}}
        self.kubelet(phase="Running", containerStatuses=[{"name": "listener", "state": state}])

    def end_pod(self, exit_code: int = 1, *, ran_s: float = 1.0) -> None:
        """The listener's container ends now."""
        from runnerscale.core.clock import format_time

        now_s = self.clock.now_s()
        terminated = {
            "exitCode": exit_code,
            "startedAt": format_time(now_s - ran_s),
            "finishedAt": format_time(now_s),
            "reason": "Error" if exit_code else "Completed",
        }
        status = [{"name": "listener", "state": {"terminated": terminated}}]
        phase = "Failed" if exit_code else "Succeeded"
        self.kubelet(phase=phase, containerStatuses=status)

    def pod_gone(self) -> None:
        """The kubelet has ended a pod that was being deleted."""
        self.api.drop(PODS, HOME, NAME)

    # --- what is there ---------------------------------------------------------------------

    @property
    def listener(self) -> Any:
        return self.api.body(AUTOSCALING_LISTENERS, HOME, NAME)

    @property
    def pod(self) -> Any:
        return self.api.body(PODS, HOME, NAME)

    @property
    def config(self) -> Any:
        return self.api.body(SECRETS, HOME, f"{NAME}-config")

    @property
    def proxy(self) -> Any:
        return self.api.body(SECRETS, HOME, f"{NAME}-proxy")

    @property
    def role(self) -> Any:
        return self.api.body(ROLES, RUNNERS, NAME)

    @property
    def role_binding(self) -> Any:
        return self.api.body(ROLE_BINDINGS, RUNNERS, NAME)

    @property
    def service_account(self) -> Any:
        return self.api.body(SERVICE_ACCOUNTS, HOME, NAME)
