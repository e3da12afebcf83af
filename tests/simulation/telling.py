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
    lines = [f"seed {scenario.seed} FAILED:", *(f"  {sentence}" for sentence in outcome.wrong)]
    if outcome.crash:
        lines += ["", "traceback:", *outcome.crash.rstrip().splitlines()[-TRACEBACK_LINES:]]
    until_s = outcome.breaches[0].at_s if outcome.breaches else math.inf
    lines += ["", f"the last writes{' until then' * bool(outcome.breaches)}:"]
    lines.append(outcome.trace.table(until_s))
    lines += ["", "what was drawn, as far as it is needed:", drawn(scenario, kept)]
    lines += ["", f"repeat all of it: make simulate SEED={scenario.seed}"]
    if kept != Keep():
        command = f'make simulate SEED={scenario.seed} ARGS="{kept.arguments()}"'
        lines.append(f"repeat the smallest: {command}")
    return "\n".join(lines)


def drawn(scenario: Scenario, kept: Keep) -> str:
    """What happens from outside; each part with its place, by which `--keep-...` asks for it."""
    small = kept.of(scenario)
    sets, jobs, faults = kept.places(scenario)
    with_a_lease = "two controllers with a lease" if scenario.lease else "one controller"
    lines = [f"seed {scenario.seed}, {with_a_lease}"]
    for at, each in zip(sets, small.sets, strict=True):
        lines.append(f"  set {at}: {each.name}, {each.min_runners} to {each.max_runners} runners")
    for at, job in zip(jobs, small.jobs, strict=True):
        lasts = f"{job.seconds:.1f} s long"
        lasts = lasts if math.isfinite(job.seconds) else "runs until all else is at rest"
        lines.append(f"  job {at}: on {job.set_name} at {job.at_s:.1f} s, {lasts}")
    for at, fault in zip(faults, small.faults, strict=True):
        lines.append(f"  fault {at}: {fault.kind} at {fault.at_s:.1f} s for {fault.seconds:.1f} s")
    return "\n".join(lines)
