"""What users of the workflows do: queue jobs, cancel them."""

from runnerscale.fake_github import jobs
from runnerscale.fake_github.model import Job, JobRequest, JobState
from tests.simulation.invariants.names import RUNNERS, SCALE_SETS, is_going, is_ours, meta
from tests.simulation.runner import SECONDS
from tests.simulation.settlement import is_lasting
from tests.simulation.world import World

OWNER, REPOSITORY = "demo-org", "demo"


def cancel_lasting(world: World, *, runner: str = "", set_name: str = "") -> None:
    """Cancel jobs without an end: what a person has deleted waits for them."""
    for job in list(world.github.state.jobs.values()):
        meant = job.runner_name == runner or set_name in job.request.labels
        if meant and job.state is not JobState.COMPLETED:
            _cancel(world, job)


def cancel_what_deletions_wait_for(world: World) -> None:
    """The same for jobs that came after somebody looked: a runner can get one until it is gone.

    GitHub may have said, wrongly, that it had one, and be asked again only in half a minute; or
    nobody could ask. Not what we delete ourselves: there a job is none of the person's.
    """
    going = set()
    for resource in (RUNNERS, SCALE_SETS):
        for obj in world.objects(resource):
            by = world.judge.seen.deleted_by.get(meta(obj)["uid"], "")
            if is_going(obj) and not is_ours(by):
                going.add((resource, meta(obj)["name"]))
    for job in list(world.github.state.jobs.values()):
        served = {(SCALE_SETS, label) for label in job.request.labels}
        if job.state is JobState.RUNNING and going & {(RUNNERS, job.runner_name), *served}:
            _cancel(world, job)


def _cancel(world: World, job: Job) -> None:
    if is_lasting(job) and not job.cancel_asked:
        world.note("user", f"cancels job {job.number}")
        world.hub.run(jobs.cancel, job)


def queue_job(world: World, set_name: str, seconds: float) -> Job:
    """A job for that set, which takes so long."""
    request = JobRequest(
        display_name=f"job of {set_name}",
        labels=(set_name,),
        steps=(),
        env=((SECONDS, repr(seconds)),),
        owner=OWNER,
        repository=REPOSITORY,
    )
    queued = world.hub.run(jobs.queue_job, request)
    world.note("user", f"queues job {queued.number} on {set_name}")
    return queued
