"""Defects of the listener."""

from tests.simulation.mutants.mutant import Mutant

AT = "listener"

MUTANTS = (
    Mutant(
        name="listener: a message is acknowledged before its effects",
        kind="acknowledge early",
        file=f"{AT}/loop.py",
        old="        await self._effects.take(session, message, max_runners=maximum)\n"
        "        await self._acknowledge(session, message.id)\n",
        new="        await self._acknowledge(session, message.id)\n"
        "        await self._effects.take(session, message, max_runners=maximum)\n",
        danger="a listener that dies in between leaves a busy runner that looks idle",
        seen_by="a runner with a job says so",
        needs=("listener-killed",),
    ),
    Mutant(
        name="listener: an API server in trouble is taken for a runner that is gone",
        kind="acknowledge early",
        file=f"{AT}/job_started.py",
        old="            return Read(after=Answer.TROUBLE)\n",
        new="            return Outcome.MOOT\n",
        danger="a busy runner looks idle until its end",
        seen_by="a runner with a job says so",
        needs=("api-500", "api-503", "api-429", "line-to-api-cut"),
    ),
    Mutant(
        name="listener: the maximum is not looked at",
        kind="max ignored",
        file=f"{AT}/scaler.py",
        old="return min(bounds.max_runners, bounds.min_runners + max(0, assigned))",
        new="return bounds.min_runners + max(0, assigned)",
        danger="more machines than anybody agreed to pay",
        seen_by="no runner beyond the maximum",
    ),
    Mutant(
        name="listener: other limits are not followed",
        kind="max ignored",
        file=f"{AT}/loop.py",
        old="            self._wanted.use_bounds(config.bounds)\n",
        new="",
        danger="a lowered maximum has no effect before the listener is started anew",
        seen_by="no runner beyond the maximum",
        needs=("maximum-changed",),
    ),
    Mutant(
        name="listener: Running is written over a verdict",
        kind="terminal phase overwritten",
        file=f"{AT}/job_started.py",
        old="promotes = not seen.deleting and not is_terminal(seen.phase)",
        new="promotes = not seen.deleting",
        danger="a runner that failed comes back to life, and its failure is never counted",
        seen_by="terminal phases stay",
        needs=("runners-crash",),
    ),
    Mutant(
        name="listener: Running is written without the version it was decided on",
        kind="drop a precondition",
        file=f"{AT}/job_started.py",
        old='        "metadata": {"resourceVersion": resource_version},\n',
        new="",
        danger="a runner that failed in this moment comes back to life",
        seen_by="terminal phases stay",
        needs=("runners-crash",),
    ),
    Mutant(
        name="listener: no pause while another holds the session",
        kind="retry without back-off (hot loop)",
        file=f"{AT}/states.py",
        old="HELD = Backoff(first_s=5.0, cap_s=30.0,",
        new="HELD = Backoff(first_s=0.05, cap_s=0.05,",
        danger="GitHub is asked as fast as the network can, and locks us out",
        seen_by="no hot loop",
        needs=("github-session-held",),
    ),
    Mutant(
        name="listener: the session is left open",
        kind="session not closed",
        file=f"{AT}/loop.py",
        old="                await session.close()\n",
        new="                pass\n",
        danger="the next listener is kept out for minutes at each rollout",
        seen_by="a session is given back",
        needs=("listener-pod-deleted", "listener-evicted", "url-changed", "set-created-anew"),
    ),
)
