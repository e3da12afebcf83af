"""What users of the workflows do: queue jobs."""

from runnerscale.fake_github import jobs
from runnerscale.fake_github.model import Job, JobRequest
from tests.simulation.runner import SECONDS
from tests.simulation.world import World

OWNER, REPOSITORY = "demo-org", "demo"


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
