"""Everything that can go wrong, by name; a file for each origin.

`KINDS` is what every seed draws from; `LEASE_KINDS` strike only where two controllers compete,
`APART_KINDS` have scenarios of their own.
"""

from tests.simulation.faults import (
    api,
    deaths,
    github,
    github_acts,
    github_answers,
    lease,
    network,
    nodes,
    past,
    people,
    runners,
)
from tests.simulation.faults.fault import Fault

__all__ = ["FAULTS", "KINDS", "Fault"]

_ANYWHERE: dict[str, Fault] = {
    **deaths.FAULTS,
    **api.FAULTS,
    **past.FAULTS,
    **network.FAULTS,
    **runners.FAULTS,
    **nodes.FAULTS,
    **people.FAULTS,
    **github.FAULTS,
    **github_answers.FAULTS,
    **github_acts.FAULTS,
}
FAULTS: dict[str, Fault] = {**_ANYWHERE, **lease.FAULTS, **github.APART}
KINDS = tuple(FAULTS)
