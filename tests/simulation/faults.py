"""Everything that can go wrong, by name. A fault is a coroutine that begins it and ends it again.

GitHub's own troubles are the presets of the pretended GitHub; those of the API server are rules
of the embedded one. Here are the rest: deaths, cut lines, lost containers, people.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from runnerscale.apiserver.failures import ApiFailure, expired, internal, unavailable
from runnerscale.apiserver.faults import FaultRule
from runnerscale.fake_github.presets import PRESETS, Ask, preset
from runnerscale.fake_github.twists import BEFORE, Spoilt
from runnerscale.node.processes import ProcessSpec, StartFailed
from tests.simulation.loop import Component
from tests.simulation.parts import API_PORT, GITHUB_PORT
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

Fault = Callable[[World, PlannedFault], Awaitable[None]]

OUTAGE_MAX_S = 20.0  # of a component: longer ones have scenarios of their own
STEPS_MAX = 150  # a component dies within so many of its steps
PRESET_STRIKES = 2


# -- deaths --------------------------------------------------------------------------------


def _dies_within_steps(component: Component, draw: float) -> None:
    component.kill_at_step = component.steps + 1 + int(draw * STEPS_MAX)


async def controller_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of the controller at any of its steps; another one comes up."""
    if not world.controllers:
        return
    process = world.controllers[0]
    _dies_within_steps(process.component, fault.draw)
    for _ in range(100):
        if process.component.dead:
            break
        await world.clock.sleep(0.1)
    world.kill_controller(process)
    await world.clock.sleep(min(fault.seconds, OUTAGE_MAX_S))
    world.start_controller()


async def listener_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of a listener at any of its steps; its pod ends with 137."""
    running = world.machine.running("listener")
    if not running:
        return
    process = running[int(fault.draw * len(running))]
    _dies_within_steps(process.component, fault.draw)
    for _ in range(100):
        if process.component.dead:
            break
        await world.clock.sleep(0.1)
    process.kill()


async def node_agent_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of the node agent; containers go on, another agent takes them over."""
    if not world.nodes:
        return
    world.kill_node(world.nodes[0])
    await world.clock.sleep(min(fault.seconds, OUTAGE_MAX_S))
    world.start_node()


async def api_server_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of the API server; another one opens the same disk."""
    await world.restart_api(after_s=min(fault.seconds, OUTAGE_MAX_S) * 0.3)


# -- the API server says no, says it late, or not at all ----------------------------------------


def _api_rule(rule: FaultRule) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> None:
        assert world.api is not None
        server = world.api
        added = server.faults.add(replace(rule))
        await world.clock.sleep(planned.seconds)
        server.faults.remove(added)  # this one alone: others may stand

    return fault


def _failure(failure: ApiFailure, chance: float) -> Fault:
    return _api_rule(FaultRule(failure=failure, chance=chance))


async def watches_cut(world: World, fault: PlannedFault) -> None:
    """Every watch ends; clients go on from where they were."""
    if world.api is not None:
        world.api.cut_watches()


async def history_forgotten(world: World, fault: PlannedFault) -> None:
    """Every watch ends, and going on is answered 410."""
    if world.api is not None:
        world.api.compact()
        world.api.cut_watches()


# -- the network -------------------------------------------------------------------------------


def _line_cut(port: int) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> None:
        ends = [c.component for c in world.controllers]
        ends += [p.component for p in world.machine.running("listener")]
        if not ends:
            return
        end = ends[int(planned.draw * len(ends))]
        world.network.cut(end, port)
        await world.clock.sleep(planned.seconds)
        world.network.mend(end, port)

    return fault


async def slow_network(world: World, fault: PlannedFault) -> None:
    """New connections take up to three seconds."""
    world.network.delay_max_s = 3.0
    await world.clock.sleep(fault.seconds)
    world.network.delay_max_s = 0.0


# -- runners and their pods ------------------------------------------------------------------


def _runner_killed(reason: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> None:
        running = world.machine.running("runner")
        if running:
            running[int(planned.draw * len(running))].kill(reason=reason)

    return fault


def _deleted_by_somebody(resource: str, mark: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> None:
        found = [o for o in world.objects(resource) if mark in o["metadata"]["name"]]
        if found:
            victim = found[int(planned.draw * len(found))]["metadata"]
            world.delete(resource, victim["namespace"], victim["name"])

    return fault


async def runners_crash(world: World, fault: PlannedFault) -> None:
    """Half of the runners end with code 1 before they have a job."""
    world.runner_program.crash_rate = 0.5
    await world.clock.sleep(fault.seconds)
    world.runner_program.crash_rate = 0.0


async def image_missing(world: World, fault: PlannedFault) -> None:
    """No container of a runner can be started."""

    def refuse(spec: ProcessSpec) -> StartFailed | None:
        if spec.argv[0] != "runner":
            return None
        return StartFailed("ErrImagePull", "the registry does not answer")

    world.machine.refuse = refuse
    await world.clock.sleep(fault.seconds)
    world.machine.refuse = lambda _spec: None


# -- people -----------------------------------------------------------------------------------


async def maximum_changed(world: World, fault: PlannedFault) -> None:
    """Somebody edits maxRunners."""
    for scale_set in world.objects("autoscalingrunnersets.actions.github.com")[:1]:
        low = scale_set["spec"].get("minRunners", 0)
        world.edit_spec(scale_set, maxRunners=low + 1 + int(fault.draw * 6))


async def minimum_changed(world: World, fault: PlannedFault) -> None:
    """Somebody edits minRunners."""
    for scale_set in world.objects("autoscalingrunnersets.actions.github.com")[:1]:
        high = scale_set["spec"]["maxRunners"]
        world.edit_spec(scale_set, minRunners=int(fault.draw * min(3, high + 1)))


async def template_changed(world: World, fault: PlannedFault) -> None:
    """Somebody edits the runners' template."""
    for scale_set in world.objects("autoscalingrunnersets.actions.github.com")[:1]:
        template = scale_set["spec"]["template"]
        mark = {"name": "EDITED_AT", "value": f"{world.clock.monotonic_s():.0f}"}
        template["spec"]["containers"][0]["env"] = [mark]
        world.edit_spec(scale_set, template=template)


# -- GitHub -----------------------------------------------------------------------------------


def _github(name: str) -> Fault:
    known = preset(name)

    async def fault(world: World, planned: PlannedFault) -> None:
        hub = world.hub
        ask = Ask(
            now_s=hub.now_s(), seconds=planned.seconds, times=PRESET_STRIKES, value=known.value
        )
        for rule in known.rules(ask):
            lasting = rule.until_s is not None
            hub.faults.add(replace(rule, name=name, times=None if lasting else rule.times))
        if known.twist:
            spoilt = Spoilt(0, "", "", b"", known.value or str(planned.seconds), {})
            hub.run(BEFORE[known.twist], spoilt)

    return fault


# Kept out: what changes the rules of the game for good, or needs a scenario of its own.
NOT_DRAWN = {"runner-version-refused", "scale-set-deleted", "credentials-revoked"}

FAULTS: dict[str, Fault] = {
    "controller-killed": controller_killed,
    "listener-killed": listener_killed,
    "node-agent-killed": node_agent_killed,
    "api-server-killed": api_server_killed,
    "api-500": _failure(internal("a fault of the simulation"), 0.3),
    "api-503": _failure(unavailable("a fault of the simulation"), 0.5),
    "api-429": _failure(ApiFailure(429, "TooManyRequests", "slow down", retry_after_s=1), 0.5),
    "api-410": _failure(expired("a fault of the simulation"), 0.2),
    "api-request-lost": _api_rule(FaultRule(drop_before=True, chance=0.3)),
    "api-answer-lost": _api_rule(FaultRule(drop_after=True, chance=0.3)),
    "api-slow": _api_rule(FaultRule(delay_s=2.0, chance=0.5)),
    "watches-cut": watches_cut,
    "history-forgotten": history_forgotten,
    "line-to-api-cut": _line_cut(API_PORT),
    "line-to-github-cut": _line_cut(GITHUB_PORT),
    "slow-network": slow_network,
    "runner-killed": _runner_killed(""),
    "runner-out-of-memory": _runner_killed("OOMKilled"),
    "runner-pod-deleted": _deleted_by_somebody("pods", "-runner-"),
    "listener-pod-deleted": _deleted_by_somebody("pods", "-listener"),
    "runner-deleted": _deleted_by_somebody("ephemeralrunners.actions.github.com", ""),
    "jit-secret-deleted": _deleted_by_somebody("secrets", "-runner-"),
    "listener-deleted": _deleted_by_somebody("autoscalinglisteners.actions.github.com", ""),
    "runners-crash": runners_crash,
    "image-missing": image_missing,
    "maximum-changed": maximum_changed,
    "minimum-changed": minimum_changed,
    "template-changed": template_changed,
    **{f"github-{n}".replace("github-github", "github"): _github(n) for n in PRESETS
       if n not in NOT_DRAWN},
}  # fmt: skip
KINDS = tuple(FAULTS)
