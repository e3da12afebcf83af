"""Defects of the AutoscalingRunnerSet and AutoscalingListener controllers."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="listener pod: one that has ended is left as it is",
        kind="forget an expectation",
        file="controllers/autoscaling_listener/pod_life.py",
        old="    if end is not None:\n        return _restarted(seen, found, end)\n",
        new="    if False:\n        return _restarted(seen, found, end)\n",
        danger="nobody listens any more",
        seen_by="at rest: job is still queued",
        needs=("listener-killed",),
    ),
    Mutant(
        name="scale set: what GitHub once had is believed for ever",
        kind="level pass off",
        file="controllers/autoscaling_runner_set/registration.py",
        old="    if not fresh or doubted or not seen.credentials_work:\n",
        new="    if False:\n",
        danger="a scale set that somebody deleted is never registered anew",
        seen_by="at rest: job is still queued",
        needs=("github-scale-set-deleted",),
    ),
)
