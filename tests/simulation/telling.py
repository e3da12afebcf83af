"""What a failed history prints: what did not hold, the last writes, what was drawn, how to repeat.

The order is that of a reader: the sentence first, the command last.
"""

import math

from tests.simulation.drive import Outcome
from tests.simulation.scenario import Scenario
from tests.simulation.shrinking import Keep

TRACEBACK_LINES = 40


def failure(scenario: Scenario, outcome: Outcome, kept: Keep) -> str:
    """All of it; `outcome` is that of the smallest scenario that fails."""
    small = kept.of(scenario)
    lines = [f"seed {scenario.seed} FAILED:", *(f"  {sentence}" for sentence in outcome.wrong)]
    if outcome.crash:
        lines += ["", "traceback:", *outcome.crash.rstrip().splitlines()[-TRACEBACK_LINES:]]
    until_s = outcome.breaches[0].at_s if outcome.breaches else math.inf
    lines += ["", f"the last writes{' until then' * bool(outcome.breaches)}:"]
    lines.append(outcome.trace.table(until_s))
    lines += ["", "what was drawn, as far as it is needed:", str(small)]
    lines += ["", f"repeat all of it: make simulate SEED={scenario.seed}"]
    if kept != Keep():
        command = f'make simulate SEED={scenario.seed} ARGS="{kept.arguments()}"'
        lines.append(f"repeat the smallest: {command}")
    return "\n".join(lines)
