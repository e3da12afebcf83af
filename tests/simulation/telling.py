"""What a failed history prints: what did not hold, the last writes, what was drawn, how to repeat.

The order is that of a reader: the sentence first, the command last.
"""

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
    lines += ["", f"the last {len(outcome.trace.writes)} writes:", outcome.trace.table()]
    lines += ["", "what was drawn, as far as it is needed:", str(small)]
    lines += ["", f"repeat all of it: make simulate SEED={scenario.seed}"]
    if kept != Keep():
        command = f'make simulate SEED={scenario.seed} ARGS="{kept.arguments()}"'
        lines.append(f"repeat the smallest: {command}")
    return "\n".join(lines)
