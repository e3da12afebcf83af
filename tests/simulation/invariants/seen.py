"""What the judges look at: GitHub's state, the machine, and the API server's objects as written.

The objects are kept from the writes themselves, so that nothing is decoded twice, and so that a
test can fabricate a world out of a few values. No rules in here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runnerscale.fake_github.model import Job, JobState
from runnerscale.fake_github.state import State
from tests.simulation.invariants.names import SERVER, Json, is_ours, meta
from tests.simulation.writes import Write

ON_A_RUNNER = (JobState.HANDED, JobState.RUNNING)
Key = tuple[str, str]  # namespace, name
CALM_S = 60.0  # by then a watch that had ended, or a listener, is back


@dataclass(slots=True)
class Seen:
    """`containers`: all that ever started, with `.spec` and `.exit` (None while one runs)."""

    github: State
    now_s: Callable[[], float]
    containers: Callable[[], Sequence[Any]] = tuple
    objects: dict[str, dict[Key, Json]] = field(default_factory=dict)
    deleted_by: dict[str, str] = field(default_factory=dict)  # uid: who began its deletion
    uids: set[str] = field(default_factory=set)  # of all objects that exist
    # Runners whose job began in an envelope that nobody can read. It is acknowledged all the same
    # (C2 4.5, W36), GitHub says it only once, and nobody but the listener may write `Running`.
    untold: set[str] = field(default_factory=set)
    calm_since_s: float = 0.0  # no disturbance after that
    disturbance: str = ""  # the last one
    trouble_since_s: float = 0.0  # when the last row of disturbances began

    @property
    def calm_s(self) -> float:
        """For how long nothing has been broken."""
        return self.now_s() - self.calm_since_s

    @property
    def calm_began_s(self) -> float:
        """Until when everybody had heard of everything: now, or before the disturbances."""
        return self.now_s() if self.calm_s > CALM_S else self.trouble_since_s

    def disturbed(self, what: str) -> None:
        """Something is broken at this moment."""
        if self.calm_s > CALM_S:
            self.trouble_since_s = self.now_s()
        self.calm_since_s = self.now_s()
        self.disturbance = what

    def hear(self, write: Write) -> None:
        """One stored change."""
        table = self.objects.setdefault(write.resource, {})
        if write.after is None:
            table.pop((write.namespace, write.name), None)
            self.uids.discard(write.uid)
        else:
            table[(write.namespace, write.name)] = write.after
            self.uids.add(write.uid)
        if write.begins_deletion:
            self.deleted_by[write.uid] = self._blamed(write)

    def _blamed(self, write: Write) -> str:
        """Who decided it: garbage collection goes back to whoever deleted the owner."""
        if write.by != SERVER:
            return write.by
        for reference in meta(write.before or write.after).get("ownerReferences") or ():
            if reference["uid"] in self.deleted_by:
                return self.deleted_by[reference["uid"]]
        return write.by

    def all(self, resource: str) -> list[Json]:
        """All objects of a resource, by namespace and name."""
        table = self.objects.get(resource) or {}
        return [table[key] for key in sorted(table)]

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        """One object."""
        return (self.objects.get(resource) or {}).get((namespace, name))

    def job_on(self, runner_name: str) -> Job | None:
        """The job that GitHub believes to be running there."""
        for job in self.github.jobs.values():
            if job.runner_name == runner_name and job.state in ON_A_RUNNER:
                return job
        return None

    def ever_had_job(self, runner_name: str) -> bool:
        """Whether GitHub ever gave that runner a job."""
        return any(job.runner_name == runner_name for job in self.github.jobs.values())

    def container_runs(
        self,
        *,
        pod_uid: str = "",
        pod_name: str = "",
        but_not: Callable[[str], bool] = lambda _uid: False,
    ) -> bool:
        """Whether a container of that pod runs. `but_not`: of pods with such an uid."""
        return any(
            process.exit is None
            and (process.spec.pod.uid == pod_uid or not pod_uid)
            and (process.spec.pod.name == pod_name or not pod_name)
            and not but_not(process.spec.pod.uid)
            for process in self.containers()
        )

    def taken_by_others(self, uid: str) -> bool:
        """That object is gone, and its deletion was not decided by us."""
        return uid not in self.uids and uid in self.deleted_by and not is_ours(self.deleted_by[uid])
