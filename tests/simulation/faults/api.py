"""The API server says no, says it late, or not at all; or somebody else was there first."""

from collections.abc import Callable
from dataclasses import replace

from runnerscale.apiserver.admission import Attributes, denied_by_webhook
from runnerscale.apiserver.failures import ApiFailure, expired, internal, unavailable
from runnerscale.apiserver.faults import FaultRule
from runnerscale.apiserver.operations import SYSTEM
from runnerscale.apiserver.paths import Request
from runnerscale.app.manifests import Manifest
from runnerscale.core.randomness import seeded
from runnerscale.kube.objects import KubeObject
from runnerscale.kube.resource import Resource
from tests.simulation.faults import runners
from tests.simulation.faults.fault import LONGER_THAN_AN_ELEMENT_S, Fault, as_a_job_begins, victim
from tests.simulation.kubectl import PERSON
from tests.simulation.parts import API_PORT
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

FOREIGN_CHANCE = 0.4
ALL_SHARE = 0.25  # of the strikes in which the API server fails
GAP_S = 2.0
GAP_SHARE = 0.5  # of the strikes in which history is forgotten
EDITED = ("ephemeralrunners", "ephemeralrunnersets", "autoscalingrunnersets",
          "autoscalinglisteners", "pods", "secrets", "leases")  # fmt: skip
PEOPLE = (PERSON.user.name, SYSTEM.user.name)
DENIAL_CODES = (403, 400, 500)
QUOTAS: Resource[KubeObject] = Resource(
    group="", version="v1", plural="resourcequotas", kind="ResourceQuota", type=KubeObject
)


def _api_rule(rule: FaultRule) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        assert world.api is not None
        server = world.api
        added = server.faults.add(replace(rule))
        await world.clock.sleep(planned.seconds)
        server.faults.remove(added)  # this one alone: others may stand
        return True

    return fault


def _failure(failure: ApiFailure, chance: float) -> Fault:
    """Some requests fail; in some strikes all, from the moment on at which a job begins."""

    async def fault(world: World, planned: PlannedFault) -> bool:
        if planned.draw >= ALL_SHARE:
            return await _api_rule(FaultRule(failure=failure, chance=chance))(world, planned)
        assert world.api is not None
        faults, rule = world.api.faults, FaultRule(failure=failure)

        def begin() -> None:
            faults.add(rule)

        await as_a_job_begins(world, begin)
        await world.clock.sleep(max(planned.seconds, LONGER_THAN_AN_ELEMENT_S))
        faults.remove(rule)
        return True

    return fault


async def watches_cut(world: World, fault: PlannedFault) -> bool:
    """Every watch ends; clients go on from where they were."""
    assert world.api is not None
    world.api.cut_watches()
    return True


async def history_forgotten(world: World, fault: PlannedFault) -> bool:
    """Every watch ends, and going on is answered 410; a controller may have missed a deletion."""
    process = await victim(world, lambda: world.controllers, fault.draw)
    if process is not None and fault.draw < GAP_SHARE:
        world.network.cut(process.component, API_PORT)
        await runners.FAULTS["runner-pod-deleted-at-once"](world, fault)
        await world.clock.sleep(GAP_S)
    assert world.api is not None
    world.api.compact()
    world.api.cut_watches()
    if process is not None and fault.draw < GAP_SHARE:
        world.network.mend(process.component, API_PORT)
    return True


async def foreign_writes(world: World, fault: PlannedFault) -> bool:
    """Others annotate the objects just before we write them: 409 where we said what we had read."""
    chance = seeded(int(fault.draw * 2**53))

    async def annotate(agent: str, request: Request) -> None:
        if request.verb not in ("patch", "update") or request.plural not in EDITED:
            return
        if not agent.startswith("controller-") and "-listener" not in agent:
            return
        if chance.random() < FOREIGN_CHANCE:
            group = f".{request.group}" if request.group else ""
            world.annotate(f"{request.plural}{group}", request.namespace, request.name)

    world.requests.before.append(annotate)
    await world.clock.sleep(fault.seconds)
    if annotate in world.requests.before:
        world.requests.before.remove(annotate)
    return True


def _denied(hits: Callable[[Attributes], bool]) -> Fault:
    """A webhook says no to us; people's own acts are not what it is about."""

    async def fault(world: World, planned: PlannedFault) -> bool:
        code = DENIAL_CODES[int(planned.draw * len(DENIAL_CODES))]

        def hook(attributes: Attributes) -> ApiFailure | None:
            if attributes.user in PEOPLE or not hits(attributes):
                return None
            return denied_by_webhook("policy.example.com", "not today", code=code)

        world.hooks.append(hook)
        await world.clock.sleep(planned.seconds)
        if hook in world.hooks:
            world.hooks.remove(hook)
        return True

    return fault


def _over_quota(what: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        name = f"quota-{planned.at_s:.0f}-{planned.draw:.6f}".replace(".", "-")
        used = int(planned.draw * 2)
        body = {"metadata": {"name": name}, "spec": {"hard": {what: str(used)}}}
        namespace = world.sets_namespace
        await world.api_up()
        world.put(Manifest(QUOTAS, namespace, body))
        await world.clock.sleep(planned.seconds)
        await world.api_up()
        world.delete("resourcequotas", namespace, name)
        return True

    return fault


FAULTS: dict[str, Fault] = {
    "api-500": _failure(internal("a fault of the simulation"), 0.3),
    "api-503": _failure(unavailable("a fault of the simulation"), 0.5),
    "api-429": _failure(ApiFailure(429, "TooManyRequests", "slow down", retry_after_s=1), 0.5),
    "api-410": _failure(expired("a fault of the simulation"), 0.2),
    "api-request-lost": _api_rule(FaultRule(drop_before=True, chance=0.3)),
    "api-answer-lost": _api_rule(FaultRule(drop_after=True, chance=0.3)),
    "api-slow": _api_rule(FaultRule(delay_s=2.0, chance=0.5)),
    "watches-cut": watches_cut,
    "history-forgotten": history_forgotten,
    "foreign-writes": foreign_writes,
    "webhook-denies-pods": _denied(lambda a: a.operation == "CREATE" and a.kind.resource == "pods"),
    "webhook-denies-secrets": _denied(
        lambda a: a.operation == "CREATE" and a.kind.resource == "secrets"
    ),
    "webhook-denies-runner-writes": _denied(
        lambda a: a.operation == "UPDATE" and a.kind.resource.startswith("ephemeralrunners.")
    ),
    "quota-of-pods": _over_quota("pods"),
    "quota-of-secrets": _over_quota("secrets"),
}
