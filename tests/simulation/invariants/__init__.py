"""What must hold at every step, judged by GitHub and the machine, never by our own objects.

One idea a file; `judge.py` brings them together. They import none of the rules they judge. What
must hold when everything has come to rest is `settlement.py`.
"""

from tests.simulation.invariants.breach import Breach
from tests.simulation.invariants.judge import Judge
from tests.simulation.invariants.names import (
    LISTENER_MARK,
    LISTENERS,
    NODE_USER,
    OUR_USERS,
    RUNNER_SETS,
    RUNNERS,
    SCALE_SETS,
    TERMINAL,
)
from tests.simulation.invariants.seen import Seen

__all__ = [
    "LISTENERS",
    "LISTENER_MARK",
    "NODE_USER",
    "OUR_USERS",
    "RUNNERS",
    "RUNNER_SETS",
    "SCALE_SETS",
    "TERMINAL",
    "Breach",
    "Judge",
    "Seen",
]
