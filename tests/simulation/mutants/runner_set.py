"""Defects of the EphemeralRunnerSet controller."""

from tests.simulation.mutants.mutant import Mutant

AT = "controllers/ephemeral_runner_set"

MUTANTS = (
    Mutant(
        name="set: GitHub's word about a job is taken for a yes",
        kind="scale-down picks busy runners",
        file=f"{AT}/removals.py",
        old="return self._word(Removal.HAS_JOB)",
        new="return self._word(Removal.FORGOTTEN)",
        danger="a runner that has just taken a job is deleted, as its object still looks idle",
        seen_by="no job dies by our hand",
        needs=("template-changed", "minimum-changed"),
    ),
    Mutant(
        name="set: the patch id is not looked at",
        kind="patch id ignored",
        file=f"{AT}/controller.py",
        old="exact=item.spec.patch_id == 0,",
        new="exact=False,",
        danger="idle runners stay for ever, and cost money",
        seen_by="at rest: too many runners",
    ),
    Mutant(
        name="set: a name that is taken is taken by a stranger",
        kind="forget an expectation",
        file=f"{AT}/apply.py",
        old="                return await self._whose(at, name)\n",
        new="                return Said.CONFLICT\n",
        danger="each lost answer to a creation makes a runner too many",
        seen_by="no runner beyond the maximum",
        needs=("api-answer-lost",),
    ),
    Mutant(
        name="set: failures cost nothing",
        kind="retry without back-off (hot loop)",
        file=f"{AT}/failure_policy.py",
        old="    if costly:\n        return _backing_off(",
        new="    if False:\n        return _backing_off(",
        danger="a broken image makes runners as fast as the machine can, each with a registration",
        seen_by="no hot loop",
        needs=("runners-crash",),
    ),
)
