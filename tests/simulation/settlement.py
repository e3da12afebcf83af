"""What must be true once nothing breaks any more and everything has come to rest.

Returns what is still missing, one sentence each; the world waits until there is nothing, or the
time is up. Judged by GitHub, the machine and the API server's objects side by side.
"""

from typing import Any

from runnerscale.apiserver.record import decode_object
from runnerscale.apiserver.server import ApiServer
from runnerscale.fake_github.model import JobState
from runnerscale.fake_github.state import State
from tests.simulation.invariants import RUNNERS, SCALE_SETS, TERMINAL

Json = dict[str, Any]
DONE = (JobState.COMPLETED,)


def objects(server: ApiServer, resource: str) -> list[Json]:
    """All objects of a resource."""
    kind = server.registry.of_resource(resource)
    assert kind is not None, resource
    table = server.operations.table(kind)
    return [decode_object(record.data) for record in table.list(everywhere=True)]


def missing(server: ApiServer, github: State) -> list[str]:
    """What does not hold yet."""
    return [
        *_jobs(github),
        *_runner_counts(server, github),
        *_running_says_so(server, github),
        *_leaks(server, github),
    ]


def _jobs(github: State) -> list[str]:
    return [
        f"job {job.number} is still {job.state}"
        for job in github.jobs.values()
        if job.state not in DONE
    ]


def _alive(server: ApiServer) -> list[Json]:
    return [
        runner
        for runner in objects(server, RUNNERS)
        if (runner.get("status") or {}).get("phase") not in TERMINAL
    ]


def _runner_counts(server: ApiServer, github: State) -> list[str]:
    """min(max, min + assigned), as all jobs are done: the minimum."""
    found = []
    for scale_set in objects(server, SCALE_SETS):
        name = scale_set["metadata"]["name"]
        wanted = scale_set["spec"].get("minRunners", 0)
        here = [r for r in _alive(server) if r["metadata"]["ownerReferences"][0]["name"] == name]
        if len(here) != wanted:
            found.append(f"{name} has {len(here)} runners, wanted are {wanted}")
        going = [r["metadata"]["name"] for r in here if r["metadata"].get("deletionTimestamp")]
        found += [f"{each} is still being deleted" for each in going]
        online = [r for r in here if (r.get("status") or {}).get("runnerId")]
        if len(online) != len(here):
            found.append(f"{len(here) - len(online)} runners of {name} are not registered")
    return found


def _running_says_so(server: ApiServer, github: State) -> list[str]:
    busy = {job.runner_name for job in github.jobs.values() if job.state is JobState.RUNNING}
    phases = {r["metadata"]["name"]: (r.get("status") or {}).get("phase") for r in _alive(server)}
    return [
        f"{name} has a job, but its phase is {phases.get(name)}"
        for name in sorted(busy)
        if phases.get(name) != "Running"
    ]


def _leaks(server: ApiServer, github: State) -> list[str]:
    runners = {r["metadata"]["name"]: r for r in objects(server, RUNNERS)}
    alive = {r["metadata"]["name"] for r in _alive(server)}
    ours = {scale_set["metadata"]["name"] for scale_set in objects(server, SCALE_SETS)}
    found = [
        f"registration {runner.name} has no runner object"
        for runner in github.runners.values()
        if github.scale_sets[runner.scale_set_id].name in ours
        and not runner.forgotten
        and runner.name not in alive
    ]
    uids = {r["metadata"]["uid"] for r in runners.values()}
    for resource in ("pods", "secrets"):
        for obj in objects(server, resource):
            owners = obj["metadata"].get("ownerReferences") or []
            lost = [o for o in owners if o["kind"] == "EphemeralRunner" and o["uid"] not in uids]
            if lost:
                found.append(f"{resource} {obj['metadata']['name']} outlived its runner")
    return found
