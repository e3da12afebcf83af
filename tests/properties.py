"""How much a property looks at: a fixed part in `make test`, much more and by chance in depth.

In `make test` each property sees the same examples every time, so that a red run is red again.
With the variable below it looks at so many times as many, drawn anew each time; what it finds is
made small, printed, and becomes a test of its own (docs/simulation.md).
"""

import os

from hypothesis import HealthCheck, Phase, settings

VARIABLE = "PROPERTIES_TIMES"
TIMES = max(1, int(os.environ.get(VARIABLE, "1")))


def examples(number: int, *, steps: int = 50) -> settings:
    """So many examples, or their multiple in depth; `steps`: of a state machine, at most."""
    deep = TIMES > 1
    return settings(
        max_examples=number * TIMES,
        stateful_step_count=steps,
        derandomize=not deep,
        database=None,
        deadline=None,
        print_blob=deep,
        # `explain` runs a failing example many times again: too slow for whole worlds.
        phases=(Phase.explicit, Phase.generate, Phase.target, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )


def fix() -> None:
    """All other tests of hypothesis, too: the same each time, however slow the machine."""
    settings.register_profile("fixed", derandomize=TIMES == 1, database=None, deadline=None)
    settings.load_profile("fixed")
