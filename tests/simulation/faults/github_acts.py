"""What happens at GitHub itself, and the person who puts right what cannot heal."""

from dataclasses import replace

from runnerscale.core.secret import SecretText
from runnerscale.fake_github import jobs, runner_sessions, runners
from runnerscale.fake_github.model import Job, JobState, Result, Runner, ScaleSet
from runnerscale.fake_github.scale_sets import delete
from runnerscale.fake_github.twists import BEFORE, FOREIGN_SCALE_SET, Spoilt
from tests.simulation.faults.fault import RUNNERS, Fault, victim
from tests.simulation.faults.people import encoded, images_updated, runner_wanted
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

NOBODY = Spoilt(0, "", "", b"", "", {})


async def scale_set_deleted(world: World, fault: PlannedFault) -> bool:
    """Somebody deletes a scale set at GitHub; jobs nobody runs are queued again."""

    def ours() -> list[ScaleSet]:
        found = world.github.state.scale_sets.values()
        return [s for s in found if s.name != FOREIGN_SCALE_SET]

    scale_set = await victim(world, ours, fault.draw)
    if scale_set is None:
        return False
    world.note("user", f"deletes scale set {scale_set.id} at GitHub")
    world.hub.run(delete, scale_set)
    return True


async def credentials_revoked(world: World, fault: PlannedFault) -> bool:
    """The credentials are revoked with every token made of them; after a while there are new ones.

    The person writes whatever GitHub takes at that moment into every Secret in use.
    """
    new = SecretText(f"a-new-token-{fault.at_s:.3f}-{fault.draw:.6f}")
    world.hub.options = replace(world.hub.options, access_tokens=(new,))
    world.github.state.tokens.revoke("registration")
    world.hub.run(BEFORE["expire-tokens"], NOBODY)
    await world.clock.sleep(fault.seconds)
    await world.api_up()
    taken = world.hub.options.access_tokens[0].reveal()
    for secret in world.objects("secrets"):
        if secret["metadata"]["namespace"] == world.sets_namespace and "github_token" in (
            secret.get("data") or {}
        ):
            world.edit_data(secret, github_token=encoded(taken))
    return True


async def runner_version_refused(world: World, fault: PlannedFault) -> bool:
    """GitHub refuses the runner's version (exit code 7), until somebody takes a newer image."""
    before = world.runner_program.refused
    world.runner_program.too_old = True

    def struck() -> list[int]:
        return [1] if world.runner_program.refused > before else []

    felt = await victim(world, struck, 0.0, with_work=True)
    await world.clock.sleep(fault.seconds)
    world.runner_program.too_old = False
    await images_updated(world)
    return felt is not None


def _waiting(world: World) -> list[Runner]:
    found = world.github.state.runners.values()
    return [r for r in found if r.session_id and not (r.job_id or r.forgotten or r.closed)]


async def runner_ghost(world: World, fault: PlannedFault) -> bool:
    """GitHub forgets a waiting runner; its process is not told."""
    if not _waiting(world):
        await runner_wanted(world, fault)
    runner = await victim(world, lambda: _waiting(world), fault.draw)
    return runner is not None and bool(world.hub.run(runner_sessions.make_ghost, runner))


async def runner_unknown(world: World, fault: PlannedFault) -> bool:
    """A user removes a waiting runner at GitHub, another one its object: 404 when we ask.

    GitHub never says so of a runner that has a job; so this is no answer out of the blue.
    """
    state = world.github.state
    if not _waiting(world):
        await runner_wanted(world, fault)
    runner = await victim(world, lambda: _waiting(world), fault.draw)
    if runner is None:
        return False
    state.options = replace(state.options, unknown_runner_removal_status=404)
    world.note("user", f"removes runner {runner.name} at GitHub")
    world.hub.run(runners.forget, runner, "removed by a user")
    world.delete(RUNNERS, world.sets_namespace, runner.name)
    await world.clock.sleep(min(fault.seconds, 20.0) + 5.0)
    state.options = replace(state.options, unknown_runner_removal_status=204)
    return True


async def job_completed_early(world: World, fault: PlannedFault) -> bool:
    """GitHub says that a job is complete while its runner works on it."""

    def running() -> list[Job]:
        found = world.github.state.jobs.values()
        return [job for job in found if job.state is JobState.RUNNING]

    job = await victim(world, running, fault.draw, with_work=True)
    if job is None:
        return False
    world.note("github", f"says job {job.number} is complete")
    world.hub.run(jobs.complete, job, Result.SUCCEEDED)
    return True


FAULTS: dict[str, Fault] = {
    "github-scale-set-deleted": scale_set_deleted,
    "github-credentials-revoked": credentials_revoked,
    "github-runner-version-refused": runner_version_refused,
    "github-runner-ghost": runner_ghost,
    "github-runner-unknown": runner_unknown,
    "github-job-completed-early": job_completed_early,
}
