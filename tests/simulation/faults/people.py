"""What people do to their sets while everything runs."""

from tests.simulation.faults.fault import Fault
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World


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


FAULTS: dict[str, Fault] = {
    "maximum-changed": maximum_changed,
    "minimum-changed": minimum_changed,
    "template-changed": template_changed,
}
