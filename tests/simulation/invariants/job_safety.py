"""Invariant 1: a runner with a job is never removed by us, nor its pod deleted.

"With a job": GitHub has given it one, and its container runs. What dies by itself, by the machine
or by a person is no breach; nor is asking GitHub, which refuses (contract C2 2.13: the refusal
is final). A deletion that began before the job came counts too: then the registration was left
open while the runner was being taken away.

A pod that a person deletes without grace is gone at once, though its container runs on until its
node hears of it. That job dies by the person's hand: a runner without a pod is over (C1 4.4 R3,
design section 4), and its Secret goes, which no container needs that has started.
"""

from collections.abc import Iterable

from runnerscale.fake_github.model import JobState
from tests.simulation.invariants.names import (
    RUNNERS,
    SERVER,
    is_going,
    is_ours,
    meta,
    owner,
)
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write

KINDS = ("pods", RUNNERS, "secrets")


class NoJobDiesByOurHand(Rule):
    """Neither the pod under a job goes, nor its runner object, Secret or finalizers."""

    sentence = "no job dies by our hand"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._started: set[tuple[object, str]] = set()  # jobs, and on which runner

    def hear(self, write: Write) -> Iterable[str]:
        """A deletion that begins, finalizers that are dropped, a runner that is given up."""
        if write.resource not in KINDS or write.before is None:
            return
        if not is_ours(write.by) and write.by != SERVER:
            return
        name = self._runner_of(write)
        job = self.seen.job_on(name)
        if job is None or not self._may_finish(name, _pod_uid(write)):
            return
        told = f"job {job.number} ({job.state})"
        if write.begins_deletion and is_ours(self.seen.deleted_by[write.uid]):
            yield f"{self.seen.deleted_by[write.uid]} decided to {write} under {told}"
        elif write.resource == RUNNERS and _drops_finalizers(write):
            yield f"{write.by} let go of {write.name} under {told}"

    def _may_finish(self, name: str, pod_uid: str) -> bool:
        """A container of it runs, and nobody else has taken its pod away."""
        runs = self.seen.container_runs
        return runs(pod_name=name, pod_uid=pod_uid, but_not=self.seen.taken_by_others)

    def happened(self, event: dict[str, object]) -> Iterable[str]:
        """A job that starts on a runner which we are deleting; a registration removed by us."""
        if event["kind"] == "job" and event["state"] == JobState.RUNNING:
            start = event["number"], str(event["runner"])
            if start not in self._started:  # else it is told again: somebody cancels it
                self._started.add(start)
                yield from self._starts_on_its_way_out(start[1], start[0])
        if event["kind"] == "runner" and event.get("why") == "removed":
            job = self.seen.job_on(str(event["runner"]))
            if job is not None and self.seen.container_runs(pod_name=str(event["runner"])):
                yield f"the registration of {event['runner']} was removed under job {job.number}"

    def _starts_on_its_way_out(self, name: str, number: object) -> Iterable[str]:
        for resource in ("pods", RUNNERS):
            for (_, each), obj in (self.seen.objects.get(resource) or {}).items():
                by = self.seen.deleted_by.get(meta(obj).get("uid", ""), "")
                if each == name and is_going(obj) and is_ours(by):
                    yield f"{by} was deleting {resource} {name} when it was given job {number}"

    def _runner_of(self, write: Write) -> str:
        if write.resource != "secrets":
            return write.name
        reference = owner(write.before)
        return str(reference.get("name", "")) if reference.get("kind") == "EphemeralRunner" else ""


def _pod_uid(write: Write) -> str:
    return write.uid if write.resource == "pods" else ""


def _drops_finalizers(write: Write) -> bool:
    had = meta(write.before).get("finalizers") or []
    return bool(had) and not meta(write.after).get("finalizers")
