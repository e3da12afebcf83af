"""What a fault is: a coroutine that begins it and ends it again.

It undoes what it began by itself, and only that; what may be left is undone by `World.heal`. What
cannot heal by itself (a quota, credentials, a lost machine) is put right by the person in it.
"""

from collections.abc import Awaitable, Callable

from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

Fault = Callable[[World, PlannedFault], Awaitable[None]]

OUTAGE_MAX_S = 20.0  # of a component: longer ones have scenarios of their own
