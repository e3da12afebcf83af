"""All planted defects."""

from tests.simulation.mutants import listener, runner, runner_scale_set, runner_set, runtime
from tests.simulation.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *runner.MUTANTS,
    *runner_set.MUTANTS,
    *listener.MUTANTS,
    *runner_scale_set.MUTANTS,
    *runtime.MUTANTS,
)
