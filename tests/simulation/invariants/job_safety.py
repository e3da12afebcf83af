"""Invariant 1: a runner with a job is never removed by us, nor its pod deleted."""

from collections.abc import Iterable

from tests.simulation.invariants.names import RUNNERS, is_ours
from tests.simulation.invariants.rule import Rule
from tests.simulation.writes import Write


class NoJobDiesByOurHand(Rule):
    """The pod under a job, or the runner object, is not deleted by controller or listener."""

    sentence = "no job dies by our hand"

    def hear(self, write: Write) -> Iterable[str]:
        """A deletion that begins."""
        if write.resource not in ("pods", RUNNERS) or not write.begins_deletion:
            return
        if not is_ours(write.by):
            return
        job = self.seen.job_on(write.name)
        if job is None:
            return
        runs = self.seen.container_runs
        if write.resource == "pods" and not runs(pod_uid=write.uid):
            return
        if write.resource == RUNNERS and not runs(pod_name=write.name):
            return  # GitHub does not know yet that it died
        yield f"{write.by} decided to {write} under job {job.number} ({job.state})"
