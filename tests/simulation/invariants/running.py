"""Invariant 6, its second half: a runner that has a job says so.

At rest at once; in the middle of a history within a bound. A job that started while nothing was
broken: `SAID_WITHIN_S`, because a listener stores what a message says within 30 s (design section
5). Else `SAID_AT_LAST_WITHIN_S` after the last disturbance: what could not be stored is tried
again at most every two minutes, and a minute is for the listener that has to come back.
"""

from collections.abc import Iterable
from typing import Any

from runnerscale.fake_github.model import JobState
from tests.simulation.invariants.names import (
    RUNNER_SETS,
    RUNNERS,
    TERMINAL,
    Json,
    is_going,
    meta,
    owner,
    phase,
    status,
)
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import CALM_S, Seen

SAID_WITHIN_S = 40.0
SAID_AT_LAST_WITHIN_S = 180.0


class BusyRunnersSaySo(Rule):
    """GitHub's jobs against the runners' phases."""

    sentence = "a runner with a job says so"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._since: dict[str, float] = {}  # runner: since when it has a job that runs
        self._told: set[str] = set()

    def happened(self, event: dict[str, object]) -> Iterable[str]:
        """A message that was spoilt on its way."""
        if event["kind"] == "message" and event["state"] == "spoilt":
            started = event["started"]
            assert isinstance(started, list)
            self.seen.untold.update(started)
        return ()

    def tick(self, world: Any) -> Iterable[str]:
        """Jobs that run."""
        now_s = self.seen.now_s()
        for name, number in unsaid(self.seen):
            began_s, calm_s = self._since.setdefault(name, now_s), self.seen.calm_since_s
            in_peace = began_s > calm_s + CALM_S
            since_s = began_s if in_peace else max(began_s, calm_s)
            bound_s = SAID_WITHIN_S if in_peace else SAID_AT_LAST_WITHIN_S
            if now_s - since_s > bound_s and name not in self._told:
                self._told.add(name)
                yield f"{name} has had job {number} for {now_s - since_s:.0f} s and is not Running"


def unsaid(seen: Seen) -> Iterable[tuple[str, int]]:
    """Runners with a job that runs, and that do not say so; with the job's number."""
    runners = {name: obj for (_, name), obj in (seen.objects.get(RUNNERS) or {}).items()}
    for job in seen.github.jobs.values():
        if job.state is not JobState.RUNNING:
            continue
        runner = runners.get(job.runner_name)
        if runner is None or is_going(runner) or phase(runner) in TERMINAL:
            continue  # given up while its job goes on: said by its own words
        if job.runner_name in seen.untold:
            continue
        if _is_stray(seen, runner):
            continue  # whose listener may have gone before it heard; GitHub's word protects it
        told = status(runner)
        if phase(runner) != "Running" or not (told.get("jobId") or told.get("workflowRunId")):
            yield job.runner_name, job.number


def _is_stray(seen: Seen, runner: Json) -> bool:
    """It works for another scale set than the one that its set serves now."""
    its_set = seen.get(RUNNER_SETS, meta(runner)["namespace"], str(owner(runner).get("name", "")))
    wished = ((its_set or {}).get("spec") or {}).get("ephemeralRunnerSpec") or {}
    made_for = (runner.get("spec") or {}).get("runnerScaleSetId")
    return "runnerScaleSetId" in wished and wished["runnerScaleSetId"] != made_for
