"""What users of the workflows do: queue jobs, cancel them."""

import math

from runnerscale.fake_github import jobs
from runnerscale.fake_github.model import Job, JobRequest, JobState
from tests.simulation.runner import SECONDS
from tests.simulation.world import World

OWNER, REPOSITORY = "demo-org", "demo"


def cancel_lasting(world: World, *, runner: str = "", set_name: str = "") -> None:
    """Cancel jobs without an end: what a person has deleted waits for them."""
    for job in list(world.github.state.jobs.values()):
        endless = dict(job.request.env).get(SECONDS) == repr(math.inf)
        meant = job.runner_name == runner or set_name in job.request.labels
        if endless and meant and job.state is not JobState.COMPLETED and not job.cancel_asked:
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
