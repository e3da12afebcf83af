"""The API server says no, says it late, or not at all."""

from dataclasses import replace

from runnerscale.apiserver.failures import ApiFailure, expired, internal, unavailable
from runnerscale.apiserver.faults import FaultRule
from tests.simulation.faults.fault import Fault
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World


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
}
