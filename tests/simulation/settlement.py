"""What must be true once nothing breaks any more and everything has come to rest.

Returns what is still missing, one sentence each; the world waits until there is nothing, or the
time is up. Judged by GitHub, the machine and the API server's objects side by side.
"""

import math
from collections.abc import Iterable
from typing import Any

from runnerscale.apiserver.record import decode_object
from runnerscale.apiserver.server import ApiServer
from runnerscale.fake_github.model import Job, JobState
from tests.simulation.invariants.counters import wrong_counters, wrong_metrics
from tests.simulation.invariants.leaks import leaks, scale_set_name
from tests.simulation.invariants.names import (
    RUNNERS,
    SCALE_SETS,
    TERMINAL,
    Json,
    is_going,
    meta,
    owner,
    phase,
    status,
)
from tests.simulation.invariants.running import unsaid
from tests.simulation.invariants.seen import Seen
from tests.simulation.invariants.words import wrong_troubles, wrong_words
from tests.simulation.runner import SECONDS

ASSIGNED = (JobState.ASSIGNED, JobState.HANDED, JobState.RUNNING)


def objects(server: ApiServer, resource: str) -> list[Json]:
    """All objects of a resource."""
    kind = server.registry.of_resource(resource)
    assert kind is not None, resource
    table = server.operations.table(kind)
    return [decode_object(record.data) for record in table.list(everywhere=True)]


def missing(world: Any) -> list[str]:
    """What does not hold yet. What costs more is only looked at when all else is well."""
    seen = world.judge.seen
    found = [
        *_jobs(seen),
        *_runner_counts(seen),
        *_sessions(seen, world),
        *(f"{name} has job {number} and does not say so" for name, number in unsaid(seen)),
        *leaks(seen, world),
    ]
    return found or [
        *wrong_counters(seen),
        *wrong_words(seen),
        *wrong_metrics(seen, world),
        *wrong_troubles(seen, world),
    ]


def is_lasting(job: Job) -> bool:
    """A job that goes on until everything else has come to rest."""
    return dict(job.request.env).get(SECONDS) == repr(math.inf)


def _jobs(seen: Seen) -> Iterable[str]:
    """All have ended, but those that last, and what waits because these fill their set."""
    full = {scale_set_name(s) for s in seen.all(SCALE_SETS) if _is_full_of_lasting(seen, s)}
    for job in seen.github.jobs.values():
        if job.state is JobState.COMPLETED or (is_lasting(job) and job.state is JobState.RUNNING):
            continue
        if not full.intersection(job.request.labels):
            yield f"job {job.number} is still {job.state}"


def _is_full_of_lasting(seen: Seen, runner_set: Json) -> bool:
    lasting = _lasting(seen, scale_set_name(runner_set))
    return lasting >= runner_set["spec"].get("maxRunners", math.inf)


def _lasting(seen: Seen, name: str) -> int:
    return sum(
        job.state is JobState.RUNNING and is_lasting(job) and name in job.request.labels
        for job in seen.github.jobs.values()
    )


def _runner_counts(seen: Seen) -> Iterable[str]:
    """min(max, min + assigned), all of them registered; more only where jobs last that had begun
    before somebody lowered the maximum.
    """
    for runner_set in seen.all(SCALE_SETS):
        name, spec = meta(runner_set)["name"], runner_set["spec"]
        if is_going(runner_set):
            yield f"{name} is still being deleted"
            continue
        assigned = _assigned(seen, scale_set_name(runner_set))
        assigned += _of_a_scale_set_that_is_gone(seen, scale_set_name(runner_set))
        wanted = min(spec.get("maxRunners", math.inf), spec.get("minRunners", 0) + assigned)
        wanted = max(wanted, _lasting(seen, scale_set_name(runner_set)))
        here = [r for r in seen.all(RUNNERS) if _serves(r, name) and phase(r) not in TERMINAL]
        if len(here) != wanted:
            yield f"{name} has {len(here)} runners, wanted are {wanted}"
        for runner in here:
            if is_going(runner):
                yield f"{meta(runner)['name']} is still being deleted"
            elif status(runner).get("runnerId") not in seen.github.runners:
                yield f"{meta(runner)['name']} is not registered"


def _assigned(seen: Seen, name: str) -> int:
    ids = {s.id for s in seen.github.scale_sets.values() if s.name == name}
    jobs = seen.github.jobs.values()
    return sum(job.state in ASSIGNED and job.scale_set_id in ids for job in jobs)


def _of_a_scale_set_that_is_gone(seen: Seen, name: str) -> int:
    """Jobs that go on after somebody deleted their scale set: they keep their runners."""
    return sum(
        job.state is JobState.RUNNING
        and name in job.request.labels
        and job.scale_set_id not in seen.github.scale_sets
        for job in seen.github.jobs.values()
    )


def _serves(runner: Json, runner_set: str) -> bool:
    return bool(owner(runner).get("name") == runner_set)


def _sessions(seen: Seen, world: Any) -> Iterable[str]:
    """Each runner set has one scale set, with a session of its listener that runs."""
    listening = {process.spec.pod.name for process in world.machine.running("listener")}
    for runner_set in seen.all(SCALE_SETS):
        name = scale_set_name(runner_set)
        found = [s for s in seen.github.scale_sets.values() if s.name == name]
        left = [s for s in found if _has_lasting_job(seen, s.id) and s.session is None]
        if len(found) - min(len(left), len(found) - 1) != 1:  # an old place ends with its jobs
            yield f"{name} has {len(found)} scale sets at GitHub"
        if not any(s.session is not None and s.session.owner in listening for s in found):
            yield f"{name} has no session of a listener that runs"


def _has_lasting_job(seen: Seen, scale_set_id: int) -> bool:
    return any(
        job.scale_set_id == scale_set_id and job.state is JobState.RUNNING and is_lasting(job)
        for job in seen.github.jobs.values()
    )
