"""What people do to their sets and to the controller while everything runs."""

import base64

from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.record import Json
from runnerscale.app.manifests import Manifest
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.fake_github import jobs
from runnerscale.fake_github.model import Job, JobState
from runnerscale.kube.builtin import SECRETS
from tests.simulation.faults.fault import SETS, Fault, as_a_job_begins, running, victim
from tests.simulation.loop import Component
from tests.simulation.scenario import PlannedFault
from tests.simulation.users import cancel_lasting, cancel_what_deletions_wait_for
from tests.simulation.world import GROUPS, World

NEXT_VERSION = "0.14.3"
VERSION_LABEL = "app.kubernetes.io/version"
ASLEEP_SHARE = 0.4  # of the edits of a template
ASLEEP_S = 6.0
GONE_MAX_S = 4200.0  # of a set that is deleted: an hour without GitHub, and a pause of any backoff


async def _a_set(world: World, draw: float) -> Json | None:
    await world.api_up()
    return await victim(world, lambda: world.living(SETS, ""), draw)


async def maximum_changed(world: World, fault: PlannedFault) -> bool:
    """Somebody edits maxRunners."""
    scale_set = await _a_set(world, 0.0)
    if scale_set is None:
        return False
    low = scale_set["spec"].get("minRunners", 0)
    world.edit_spec(scale_set, maxRunners=low + 1 + int(fault.draw * 6))
    return True


async def minimum_changed(world: World, fault: PlannedFault) -> bool:
    """Somebody edits minRunners."""
    scale_set = await _a_set(world, 0.0)
    if scale_set is None:
        return False
    high = scale_set["spec"]["maxRunners"]
    world.edit_spec(scale_set, minRunners=int(fault.draw * min(3, high + 1)))
    return True


async def runner_wanted(world: World, fault: PlannedFault) -> bool:
    """Somebody wants a runner to wait for jobs."""
    scale_set = await _a_set(world, fault.draw)
    if scale_set is None or scale_set["spec"].get("minRunners", 0) > 0:
        return False
    world.edit_spec(scale_set, minRunners=1)
    return True


async def template_changed(world: World, fault: PlannedFault) -> bool:
    """Somebody edits the runners' template; or just as a job begins, while listeners sleep."""
    asleep: list[Component] = []

    def sleep() -> None:
        asleep.extend(process.component for process in running(world, "listener"))
        for component in asleep:
            component.pause()

    if fault.draw < ASLEEP_SHARE:
        await as_a_job_begins(world, sleep)
    scale_set = await _a_set(world, 0.0)
    if scale_set is not None:
        _edit_template(world, scale_set)
    if asleep:
        await world.clock.sleep(ASLEEP_S)
    for component in asleep:
        world.go_on(component)
    return scale_set is not None


async def images_updated(world: World) -> None:
    """Somebody takes a newer runner image, everywhere."""
    await world.api_up()
    for scale_set in world.living(SETS, ""):
        _edit_template(world, scale_set)


def _edit_template(world: World, scale_set: Json) -> None:
    template = scale_set["spec"]["template"]
    mark = {"name": "EDITED_AT", "value": f"{world.clock.monotonic_s():.0f}"}
    template["spec"]["containers"][0]["env"] = [mark]
    world.edit_spec(scale_set, template=template)


async def group_changed(world: World, fault: PlannedFault) -> bool:
    """Somebody moves the set to another runner group."""
    scale_set = await _a_set(world, fault.draw)
    if scale_set is None:
        return False
    now = scale_set["spec"].get("runnerGroup") or GROUPS[0]
    world.edit_spec(scale_set, runnerGroup=GROUPS[1] if now == GROUPS[0] else GROUPS[0])
    return True


async def url_changed(world: World, fault: PlannedFault) -> bool:
    """Somebody moves the set from the repository to its organization, or back."""
    scale_set = await _a_set(world, fault.draw)
    if scale_set is None:
        return False
    url = scale_set["spec"]["githubConfigUrl"]
    other = url.rpartition("/")[0] if url.endswith("/demo-org/demo") else f"{url}/demo"
    world.edit_spec(scale_set, githubConfigUrl=other)
    return True


async def secret_changed(world: World, fault: PlannedFault) -> bool:
    """Somebody points the set to another Secret with credentials that are as good."""
    scale_set = await _a_set(world, fault.draw)
    if scale_set is None:
        return False
    namespace = scale_set["metadata"]["namespace"]
    present = scale_set["spec"]["githubConfigSecret"]
    name = f"github-{world.clock.monotonic_s():.0f}"
    if not world.has("secrets", namespace, name):
        data = next(o["data"] for o in world.objects("secrets") if o["metadata"]["name"] == present)
        try:
            world.put(Manifest(SECRETS, namespace, {"metadata": {"name": name}, "data": data}))
        except ApiFailure:
            return False  # there is a quota: he leaves it as it is
    world.edit_spec(scale_set, githubConfigSecret=name)
    return True


async def set_created_anew(world: World, fault: PlannedFault) -> bool:
    """Somebody deletes a set, whatever runs on it, and creates it again by the same name."""
    scale_set = await _a_set(world, fault.draw)
    if scale_set is None:
        return False
    meta = scale_set["metadata"]
    where = (SETS, meta["namespace"], meta["name"])
    world.delete(*where)
    await world.clock.sleep(min(fault.seconds, 30.0))
    cancel_lasting(world, set_name=meta["name"])
    until_s = world.clock.monotonic_s() + GONE_MAX_S
    while world.has(*where) and world.clock.monotonic_s() < until_s:
        await world.clock.sleep(1.0)
        cancel_what_deletions_wait_for(world)
    await world.clock.sleep(fault.draw * 5)
    await world.api_up()
    if not world.has(*where):
        world.create_set(meta["namespace"], meta["name"], meta["labels"], scale_set["spec"])
    return True


async def controller_upgraded(world: World, fault: PlannedFault) -> bool:
    """`helm upgrade` of the controller, then of the sets: processes in turn, then the labels.

    And back again, the next time.
    """
    world.version = NEXT_VERSION if world.version == COMPATIBLE_VERSION else COMPATIBLE_VERSION
    for process in list(world.controllers):
        process.terminate()
        await world.clock.sleep(1.0 + fault.draw * 4)
        world.kill_controller(process)
        world.fill_controllers()
    await world.clock.sleep(min(fault.seconds, 20.0))
    await world.api_up()
    for scale_set in world.living(SETS, ""):
        world.label(scale_set, VERSION_LABEL, world.version)
    return True


async def job_cancelled(world: World, fault: PlannedFault) -> bool:
    """Somebody cancels a job, wherever it is."""

    def open_jobs() -> list[Job]:
        found = world.github.state.jobs.values()
        return [j for j in found if j.state is not JobState.COMPLETED and not j.cancel_asked]

    job = await victim(world, open_jobs, fault.draw, with_work=True)
    if job is None:
        return False
    world.note("user", f"cancels job {job.number}")
    world.hub.run(jobs.cancel, job)
    return True


def encoded(text: str) -> str:
    """As a Secret holds it."""
    return base64.b64encode(text.encode()).decode()


FAULTS: dict[str, Fault] = {
    "maximum-changed": maximum_changed,
    "minimum-changed": minimum_changed,
    "template-changed": template_changed,
    "group-changed": group_changed,
    "url-changed": url_changed,
    "secret-changed": secret_changed,
    "set-created-anew": set_created_anew,
    "controller-upgraded": controller_upgraded,
    "job-cancelled": job_cancelled,
}
