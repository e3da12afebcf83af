"""The whole system in one event loop, on virtual time, under one seed.

`World` starts every part, and can kill and start again each of them. What users do is
`drive.py`, what goes wrong `faults/`, what must hold `invariants/`.
"""

import asyncio
import contextvars
from pathlib import Path

from prometheus_client import CollectorRegistry

from runnerscale.api import crds
from runnerscale.apiserver.admission import Attributes, Hook
from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.handler import Served
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import Store
from runnerscale.app.api_server import ADMIN, CONTROLLER, NODE
from runnerscale.app.manifests import (
    CONTROLLER_ACCOUNT,
    CONTROLLER_IMAGE,
    NODE_ACCOUNT,
    RUNNER_IMAGE,
    SYSTEM_NAMESPACE,
    system_manifests,
)
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import Random, seeded
from runnerscale.core.secret import SecretText
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.server import FakeGitHub
from runnerscale.kube.cluster import Login
from runnerscale.node.agent import NodeAgent
from runnerscale.node.config import ImageRule, NodeConfig
from runnerscale.node.parts import Telemetry
from tests.simulation.clocks import SkewedClock
from tests.simulation.controllers import ControllerProcess, lease_manifests
from tests.simulation.disk import Disk
from tests.simulation.invariants import Judge
from tests.simulation.kubectl import Kubectl
from tests.simulation.leadership import Leadership
from tests.simulation.loop import COMPONENT, Component
from tests.simulation.machine import Machine
from tests.simulation.network import Network, VirtualServer
from tests.simulation.parts import (
    API_PORT,
    GITHUB_PORT,
    GITHUB_URL,
    TOKENS,
    ListenerProgram,
    kube_client,
    start,
)
from tests.simulation.requests import AGENT, Requests
from tests.simulation.runner import RunnerProgram
from tests.simulation.stale import Stale
from tests.simulation.trace import Trace
from tests.simulation.writes import Write, Writes
from tests.unit.node.world import NoNetwork

EPOCH_S = 1_800_000_000.0
GROUPS = ("Default", "team")  # of runners, at GitHub
RESTART_S = 2.0  # from the end of a controller to the start of the next
CLOCKS = ("controller-0", "controller-1", "listeners", "machine")
SIGNING_KEY = SecretText("k" * 40)
NODE_CONFIG = NodeConfig(
    images=(
        ImageRule(pattern=CONTROLLER_IMAGE, entrypoint=("controller",)),
        ImageRule(
            pattern=RUNNER_IMAGE,
            entrypoint=("runner",),
            commands={"/home/runner/run.sh": ("runner",)},
        ),
    ),
    commands={"/ghalistener": ("listener",)},
    pods_max=500,
    api_host="127.0.0.1",
    api_port=API_PORT,
)


def account(name: str) -> str:
    """The user name of a service account of the system namespace."""
    return f"system:serviceaccount:{SYSTEM_NAMESPACE}:{name}"


IDENTITIES = (
    Identity(ADMIN, TOKENS[ADMIN], ("system:masters",)),
    Identity(account(CONTROLLER_ACCOUNT), TOKENS[CONTROLLER]),
    Identity(account(NODE_ACCOUNT), TOKENS[NODE]),
)


class World(Kubectl):
    """All parts. Make it inside the running `SimulationLoop`."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        github: Options | None = None,
        controllers: int = 1,
        lease: bool = False,
    ) -> None:
        self.seed = seed
        self.replicas = controllers  # of the controller; more than one needs the lease
        self.lease = lease
        self._seeds = seeded(seed)
        self.clock = LoopClock(EPOCH_S)
        self.network = Network(self.draws())
        self.github_component = Component("github")
        self.github = FakeGitHub(
            github
            or Options(
                session_life_s=20.0, requeue_delays_s=(10.0,) * 50, runner_groups=GROUPS[1:]
            ),
            clock=self.clock,
            random=self.draws(),
        )
        self.hub = self.github.hub
        self.hub.base_url = GITHUB_URL
        self.disk = Disk()
        self.clocks = {name: SkewedClock(self.clock) for name in CLOCKS}
        self.requests = Requests()
        self.stale = Stale(self.clock)
        self.hooks: list[Hook] = []  # webhooks that may deny a write
        self.striking: list[str] = []  # the faults that have begun and not ended
        self.leadership = Leadership() if lease else None
        self.version = COMPATIBLE_VERSION  # of controllers that start from now on
        self.listener_program = ListenerProgram(
            self.network, clock=self.clocks["listeners"], random=self.draws()
        )
        self.runner_program = RunnerProgram(self.hub, clock=self.clock, random=self.draws())
        self.machine = Machine(
            self.clock,
            folder,
            {"listener": self.listener_program, "runner": self.runner_program},
        )
        self.api: ApiServer | None = None
        self.api_component: Component | None = None
        self.controllers: list[ControllerProcess] = []
        self.nodes: list[Component] = []
        self.agents: dict[Component, NodeAgent] = {}
        self.dead: list[Component] = []
        self._generation = 0
        self._watchers: set[asyncio.Task[None]] = set()
        self.trace = Trace()
        self.judge = Judge(self.github.state, self.clock.monotonic_s, lambda: self.machine.started)

    def draws(self) -> Random:
        """A generator of its own for one part, so that parts do not shift each other's draws."""
        return seeded(self._seeds.getrandbits(64))

    # -- the parts ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything, on an empty cluster with the rights that it needs."""
        await self._serve_github()
        await self.start_api()
        for manifest in [*system_manifests(), *(lease_manifests() if self.lease else ())]:
            self.put(manifest)
        self.start_node()
        for _ in range(self.replicas):
            self.start_controller()

    async def _serve_github(self) -> None:
        server = VirtualServer(self.github.app, self.github_component, GITHUB_PORT)
        await start(self.github_component, server.start())

    async def start_api(self) -> None:
        """An API server on what is on disk."""
        component = self._component("api-server")
        self.api = ApiServer(
            Store(self.disk),
            clock=self.clocks["machine"],
            random=self.draws(),
            crds=CRDS,
            identities=IDENTITIES,
            signing_key=SIGNING_KEY,
            root_ca="the authority of this world",
            observer=self._served,
            admission_hook=self._denied,
        )
        self.requests.listen(self.api)
        self.stale.attach(self.api)
        Writes(self.api, self._written)
        self.api_component = component
        await start(component, VirtualServer(self.api.app, component, API_PORT).start())

    def _served(self, served: Served) -> None:
        self.judge.served(served)
        if served.code >= 400:
            asked = served.request
            who = served.user_agent or served.user.rpartition(":")[2]
            what = f"{asked.plural} {asked.namespace}/{asked.name}"
            self.note(who, f"{asked.verb} {what}: answered {served.code}")

    def _written(self, write: Write) -> None:
        agent = AGENT.get()
        who = agent or write.by.rpartition(":")[2]
        self.note(who, str(write))
        kind = write.resource.partition(".")[0]
        name = f"{kind} {write.namespace}/{write.name}{write.change}"
        self.trace.wrote(self.clock.monotonic_s(), who, write.verb, name, write.version)
        self.judge.hear(write)
        if self.leadership is not None:
            now_s = self.clock.monotonic_s()
            wrong = self.leadership.hear(write, agent=agent, now_s=now_s, striking=self.striking)
            if wrong:
                self.judge.breach("one controller works at a time", wrong)

    def _denied(self, attributes: Attributes) -> ApiFailure | None:
        for hook in self.hooks:
            failure = hook(attributes)
            if failure is not None:
                return failure
        return None

    def note(self, who: str, what: str) -> None:
        """A line of the trace."""
        self.trace.add(self.clock.monotonic_s(), who, what)

    async def restart_api(self, *, after_s: float) -> None:
        """kill -9 of the API server, and a new one on the same disk."""
        assert self.api_component is not None
        self.bury(self.api_component)
        await self.clock.sleep(after_s)
        await self.start_api()

    def start_controller(self) -> ControllerProcess:
        """A manager of its own, in the place of a replica that is not there."""
        name = f"controller-{self._next()}"
        taken = {process.place for process in self.controllers}
        place = min(set(range(len(taken) + 1)) - taken)
        process = ControllerProcess(
            name,
            self.network,
            clock=self.clocks[f"controller-{min(place, 1)}"],
            random=self.draws(),
            place=place,
            lease=self.lease,
            version=self.version,
        )
        self.controllers.append(process)
        context = contextvars.copy_context()
        context.run(COMPONENT.set, None)
        context.run(process.start)
        task = asyncio.get_running_loop().create_task(self._look_after(process), context=context)
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)
        return process

    async def _look_after(self, process: ControllerProcess) -> None:
        """As a Deployment does: a process that ended by itself is started again."""
        why = await process.ended()
        if process.component.dead and not process.abandoned:
            return
        if why:
            self.judge.breach("a controller goes on", f"{process.component.name} ended by {why}")
        if process in self.controllers:
            self.note("machine", f"{process.component.name} has ended")
            self.kill_controller(process)
            if not process.leaving:
                await self.clock.sleep(RESTART_S)
                self.fill_controllers()

    @property
    def leader(self) -> ControllerProcess | None:
        """The controller that works."""
        leading = [p for p in self.controllers if p.leads and not p.component.dead]
        return leading[0] if leading else None

    def kill_controller(self, process: ControllerProcess) -> None:
        """kill -9."""
        if process in self.controllers:
            self.controllers.remove(process)
        self.bury(process.component)

    def fill_controllers(self) -> None:
        """As many controllers as there should be."""
        while len(self.controllers) < self.replicas:
            self.start_controller()

    def fill_nodes(self) -> None:
        """An agent on the machine, if there is none."""
        if not self.nodes:
            self.start_node()

    def start_node(self) -> Component:
        """A node agent on the machine."""
        component = self._component("node")
        random = self.draws()
        clock = self.clocks["machine"]
        client = kube_client(
            component, self.network, Login(token=TOKENS[NODE]), clock=clock, random=random
        )
        agent = NodeAgent(
            client,
            config=NODE_CONFIG,
            processes=self.machine,
            network=NoNetwork(),
            clock=clock,
            random=random,
            telemetry=Telemetry.of(CollectorRegistry()),
            environ={},
        )
        self.network.plug(component)
        self.nodes.append(component)
        self.agents[component] = agent
        start(component, agent.run())
        return component

    def kill_node(self, component: Component) -> None:
        """kill -9 of the agent; containers go on."""
        if component in self.nodes:
            self.nodes.remove(component)
        self.bury(component)

    def bury(self, component: Component) -> None:
        """Kill it and remember it until the end of the world."""
        component.kill()
        self.dead.append(component)

    def go_on(self, component: Component) -> None:
        """SIGCONT for a component that was stopped; nothing for others."""
        if component.paused:
            if self.leadership is not None:
                self.leadership.awake_s[component.name] = self.clock.monotonic_s()
            component.go_on()

    def _component(self, kind: str) -> Component:
        return Component(f"{kind}-{self._next()}")

    def _next(self) -> int:
        self._generation += 1
        return self._generation

    def heal(self) -> None:
        """Nothing breaks any more, and every part runs."""
        self.note("fault", "everything is healed")
        assert self.api is not None
        self.api.faults.clear()
        self.hub.faults.clear()
        self.network.mend_all()
        self.machine.refuse = lambda _spec: None
        self.runner_program.crash_rate = 0.0
        self.requests.before.clear()
        self.stale.release_all()
        self.hooks.clear()
        for clock in self.clocks.values():
            clock.set_right()
        for process in list(self.controllers):
            self.go_on(process.component)
            if process.component.dead:
                self.kill_controller(process)
        self.fill_controllers()
        for component in [*self.nodes, *(p.component for p in self.machine.started)]:
            self.go_on(component)
        self.fill_nodes()


CRDS = crds.crd_documents()
