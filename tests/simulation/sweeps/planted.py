"""A fault on purpose: a sweep must find it. `python -m tests.simulation.sweeps.planted ARGUMENTS`.

The guard that is taken out: a name that our own lost call has taken at GitHub is not looked up
any more. Then whoever is killed after its registration was made, and before it was written down,
leaves it behind; nothing but a crash at that very point can show it.
"""

import os
import sys
from typing import Any

from runnerscale.scaleset.client import ScaleSetClient
from tests.simulation.sweeps.__main__ import main


async def nobody(*_arguments: Any, **_named: Any) -> None:
    """Finds no runner of any name."""


if __name__ == "__main__":
    setattr(ScaleSetClient, "find_runner", nobody)  # noqa: B010 - mypy knows that it is a method
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
