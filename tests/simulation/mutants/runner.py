"""Defects of the EphemeralRunner controller."""

from tests.simulation.mutants.mutant import Mutant

AT = "controllers/ephemeral_runner"

MUTANTS = (
    Mutant(
        name="runner: its container is started again by the node",
        kind="JIT secret reused",
        file=f"{AT}/runner_pod.py",
        old='        "spec": spec,\n',
        new='        "spec": {**spec, "restartPolicy": "OnFailure"},\n',
        danger="a second container starts with a configuration that the first may have used",
        seen_by="GitHub saw: JIT config started twice",
        needs=("runner-killed", "runner-out-of-memory", "runners-crash"),
    ),
    Mutant(
        name="runner: its deletion does not wait for its job",
        kind="take out a guard",
        file=f"{AT}/cleanup.py",
        old="_pod(seen, seen.pod, may_kill=github.settled)",
        new="_pod(seen, seen.pod, may_kill=True)",
        danger="somebody tidies up with kubectl, and a build dies",
        seen_by="no job dies by our hand",
        needs=("runner-deleted",),
    ),
    Mutant(
        name="runner: GitHub is not told that it is gone",
        kind="no deregistration at GitHub before deletion",
        file=f"{AT}/deregistration.py",
        old="    if not is_needed(seen):\n",
        new="    if True:\n",
        danger="registrations of failed runners stay behind, and jobs are offered to the dead",
        seen_by="at rest: registration has no runner object",
        needs=("runners-crash", "runner-killed", "runner-out-of-memory"),
    ),
    Mutant(
        name="runner: finalizers go before GitHub has answered",
        kind="finalizer removed early",
        file=f"{AT}/deregistration.py",
        old="        return given_up(seen, talk.trouble.happened)\n"
        "    return Deregistration(False, remove(seen))\n",
        new="        return given_up(seen, talk.trouble.happened)\n"
        "    return Deregistration(True, remove(seen))\n",
        danger="the object goes, and nobody remembers that GitHub still has the runner",
        seen_by="at rest: registration has no runner object",
        needs=("runner-deleted", "runner-killed", "runner-out-of-memory", "set-created-anew"),
    ),
    Mutant(
        name="runner: the controller takes Running back",
        kind="controller may overwrite Running",
        file="api/phase.py",
        old="        frozenset({RunnerPhase.NONE, RunnerPhase.UNKNOWN}),\n",
        new="        frozenset({RunnerPhase.NONE, RunnerPhase.UNKNOWN, RunnerPhase.RUNNING}),\n",
        danger="a busy runner looks idle to people and to every tool that reads the phase",
        seen_by="running is not taken back",
    ),
    Mutant(
        name="runner: the JIT config is in the log",
        kind="secret logged",
        file=f"{AT}/apply.py",
        old='log.info("runner registered", runner=name, runner_id=runner.id)',
        new='log.info("runner registered", runner=name, jit=made.encoded.reveal())',
        danger="whoever reads logs can take a job with its secrets",
        seen_by="no secret is told",
    ),
)
