"""Everything that can go wrong, by name; a file for each origin.

`KINDS` is what seeds draw from.
"""

from tests.simulation.faults import api, deaths, github, network, people, runners
from tests.simulation.faults.fault import Fault

__all__ = ["FAULTS", "KINDS", "Fault"]

FAULTS: dict[str, Fault] = {
    **deaths.FAULTS,
    **api.FAULTS,
    **network.FAULTS,
    **runners.FAULTS,
    **people.FAULTS,
    **github.FAULTS,
}
KINDS = tuple(FAULTS)
