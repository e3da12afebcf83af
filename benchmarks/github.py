"""The pretended GitHub of a benchmark: served from this process, as slow as the real one.

Jobs and runners are reached by function calls, so that neither is the limit.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.fake_github import jobs, runners
from runnerscale.fake_github.faults import Action, Match, Rule
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.model import Job, JobRequest, Runner
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.server import serve_fake_github

SECONDS = "BENCHMARK_SECONDS"  # how long a job takes, in its environment
JIT_S = 0.1
REMOVE_S = 0.1
TAIL_S = 2.0
TAIL_RATE = 0.05


class GitHub:
    """The service, and what users and runners do there."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    @property
    def url(self) -> str:
        """Base of all addresses."""
        return self.hub.base_url

    def queue(self, scale_set: str, *, seconds: float) -> Job:
        """A workflow asks for a runner of that set."""
        request = JobRequest(
            display_name=f"job of {scale_set}",
            labels=(scale_set,),
            steps=(),
            env=((SECONDS, repr(seconds)),),
            owner="demo-org",
            repository="demo",
        )
        return self.hub.run(jobs.queue_job, request)

    def runner(self, name: str) -> Runner | None:
        """The newest registration of that name."""
        state = self.hub.state
        for tenant in {each.tenant_id for each in state.scale_sets.values()}:
            found = runners.find(state, tenant, name)
            if found is not None:
                return found
        return None

    def forget(self, runner: Runner) -> None:
        """It was never there."""
        self.hub.run(runners.forget, runner, "a pattern")

    def calls(self) -> dict[str, int]:
        """Requests so far by operation, whoever sent them."""
        found: dict[str, int] = {}
        for (_, operation, _), count in self.hub.calls.items():
            found[operation] = found.get(operation, 0) + count
        return found

    def slow_tail(self) -> None:
        """From now on five of a hundred JIT and remove calls take two seconds."""
        for operation in ("jit-config", "remove-runner"):
            rule = Rule(Match(operations=(operation,)), Action(delay_s=TAIL_S), rate=TAIL_RATE)
            # Before the rules that stand: the first that fires wins.
            standing = dict(self.hub.faults.rules)
            self.hub.faults.clear()
            self.hub.faults.add(rule)
            for each in standing.values():
                self.hub.faults.add(each)


@asynccontextmanager
async def serving(
    options: Options | None = None, *, has_tail: bool = False
) -> AsyncIterator[GitHub]:
    """Listening on a free port of the loopback; `has_tail`: see `slow_tail`."""
    made = options or Options(session_life_s=30.0, poll_hold_s=50.0)
    async with serve_fake_github(made, clock=SystemClock(), random=system_random()) as fake:
        for operation, delay_s in (("jit-config", JIT_S), ("remove-runner", REMOVE_S)):
            fake.hub.faults.add(Rule(Match(operations=(operation,)), Action(delay_s=delay_s)))
        github = GitHub(fake.hub)
        if has_tail:
            github.slow_tail()
        yield github
