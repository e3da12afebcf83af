"""The Actions service as a client sees it: groups, scale sets, sessions, JIT configs, runners.

Who may ask is checked here (admin JWT, `api-version`); the rules are in the file named after
the thing. Contract C2 2.6-2.8, 2.11-2.13.
"""

from runnerscale.core.whole_number import whole_number
from runnerscale.fake_github import runners, scale_sets, sessions
from runnerscale.fake_github.addresses import moved, queue_url, scale_set_url
from runnerscale.fake_github.answers import Answer, Call, nothing, service_answer
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.jit_config import encode_jit_config
from runnerscale.fake_github.model import ScaleSet, Session, Tenant
from runnerscale.fake_github.refusals import Refused, bad_argument, rest, unauthorized
from runnerscale.fake_github.wire import (
    group_json,
    job_message,
    list_json,
    runner_json,
    session_json,
    statistics_json,
)


def check_version(hub: Hub, call: Call) -> None:
    """Every call of the Actions service says its `api-version`.

    Raises:
        Refused: 400.
    """
    if hub.options.strict and not call.query.get("api-version"):
        raise bad_argument("No api-version was supplied for the request.")


def check_json_body(hub: Hub, call: Call) -> None:
    """A body must say that it is JSON.

    Raises:
        Refused: 415.
    """
    kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if hub.options.strict and call.body and kind != "application/json":
        raise Refused(415, "", "The request entity's media type is not supported.")


def tenant_of(hub: Hub, call: Call) -> Tenant:
    """Whose admin JWT this is; it must be for the tenant in the path, if the path has one.

    Raises:
        Refused: 401 unknown or expired; 404 another tenant.
    """
    check_version(hub, call)
    check_json_body(hub, call)
    tenant_id = hub.state.tokens.subject("admin", call.bearer(), now_s=hub.shown_s())
    if tenant_id is None:
        raise unauthorized()
    if call.place.tenant_id not in (None, tenant_id):
        raise rest(404, "Not Found")
    return hub.state.tenants_by_id[tenant_id]


async def find_groups(hub: Hub, call: Call) -> Answer:
    """Runner groups by name (C2 2.6)."""
    tenant = tenant_of(hub, call)
    groups = scale_sets.find_groups(tenant, call.query.get("groupName", ""))
    sizes = [scale_sets.group_size(hub.state, tenant, group) for group in groups]
    pairs = zip(groups, sizes, strict=True)
    return service_answer(list_json([group_json(group, size) for group, size in pairs]))


async def find_scale_sets(hub: Hub, call: Call) -> Answer:
    """Scale sets by group and name (C2 2.7)."""
    tenant = tenant_of(hub, call)
    text = call.query.get("runnerGroupId", "")
    group_id = whole_number(text) if text else None
    if text and group_id is None:
        raise bad_argument("runnerGroupId must be a whole number")
    name = call.query.get("name", "")
    found = scale_sets.find(hub.state, tenant, group_id=group_id, name=name)
    return service_answer(list_json([_scale_set_json(hub, call, each) for each in found]))


async def create_scale_set(hub: Hub, call: Call) -> Answer:
    """A new scale set; 200, not 201."""
    tenant = tenant_of(hub, call)
    wanted = scale_sets.wanted_from_body(call.json_object())
    made = hub.run(scale_sets.create, tenant, wanted)
    return service_answer(_scale_set_json(hub, call, made))


async def get_scale_set(hub: Hub, call: Call) -> Answer:
    """A scale set by id."""
    return service_answer(_scale_set_json(hub, call, scale_set_of(hub, call)))


async def update_scale_set(hub: Hub, call: Call) -> Answer:
    """Change what the body mentions."""
    tenant = tenant_of(hub, call)
    scale_set = scale_set_of(hub, call)
    wanted = scale_sets.wanted_from_body(call.json_object())
    changed = hub.run(scale_sets.update, tenant, scale_set, wanted)
    return service_answer(_scale_set_json(hub, call, changed))


async def delete_scale_set(hub: Hub, call: Call) -> Answer:
    """Delete a scale set."""
    hub.run(scale_sets.delete, scale_set_of(hub, call))
    return nothing()


async def open_session(hub: Hub, call: Call) -> Answer:
    """The scale set's one session (C2 2.8); the nil session id of the body is ignored."""
    scale_set = scale_set_of(hub, call)
    session = hub.run(sessions.open_session, scale_set, call.json_object().get("ownerName"))
    return _session_answer(hub, call, scale_set, session)


async def refresh_session(hub: Hub, call: Call) -> Answer:
    """A new queue token."""
    scale_set = scale_set_of(hub, call)
    session = hub.run(sessions.refresh_session, scale_set, call.params["session"])
    return _session_answer(hub, call, scale_set, session)


async def delete_session(hub: Hub, call: Call) -> Answer:
    """The owner ends its session."""
    hub.run(sessions.close_session, scale_set_of(hub, call), call.params["session"])
    return nothing()


async def make_jit_config(hub: Hub, call: Call) -> Answer:
    """Register a runner (C2 2.12)."""
    tenant = tenant_of(hub, call)
    scale_set = scale_set_of(hub, call)
    body = call.json_object()
    name, work_folder = body.get("name"), body.get("workFolder")
    if not isinstance(name, str) or not isinstance(work_folder, str):
        raise bad_argument("name and workFolder must be texts")
    runner = hub.run(runners.register, scale_set, name)
    server_url = hub.options.runner_url or hub.base_url or f"{call.scheme}://{call.host}"
    encoded = encode_jit_config(
        runner,
        server_url=server_url,
        github_url=f"{call.scheme}://{call.host}/{tenant.path}",
        work_folder=work_folder,
    )
    answer = {"runner": runner_json(runner, online=False), "encodedJITConfig": encoded}
    return service_answer(answer)


async def acquire_jobs(hub: Hub, call: Call) -> Answer:
    """Claim offered jobs, with the queue token (C2 2.11); unknown to the push-mode router."""
    if not sessions.acquires(hub.state):
        return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
    check_version(hub, call)
    check_json_body(hub, call)
    taken = hub.run(sessions.acquire_jobs, call.bearer(), call.number("id"), call.json())
    return service_answer(list_json(taken))


async def acquirable_jobs(hub: Hub, call: Call) -> Answer:
    """The jobs that are offered to a scale set (C2 Annex A)."""
    scale_set = scale_set_of(hub, call)
    offered = [hub.state.jobs[job_id] for job_id in scale_set.available]
    if not offered:
        return nothing()
    messages = [job_message("JobAvailable", job, request_id=job.number) for job in offered]
    return service_answer(list_json(messages))


async def find_runner(hub: Hub, call: Call) -> Answer:
    """Runners by name, or all (C2 2.13)."""
    tenant = tenant_of(hub, call)
    name = call.query.get("agentName", "")
    if name:
        found = runners.find(hub.state, tenant.id, name)
        matching = [found] if found is not None else []
    else:
        matching = [r for r in hub.state.runners.values() if r.tenant_id == tenant.id]
    now_s = hub.now_s()
    values = [runner_json(r, online=runners.online(hub.state, r, now_s)) for r in matching]
    return service_answer(list_json(values))


async def get_runner(hub: Hub, call: Call) -> Answer:
    """A runner by id."""
    tenant = tenant_of(hub, call)
    runner = runners.get(hub.state, tenant.id, call.number("runner"))
    online = runners.online(hub.state, runner, hub.now_s())
    return service_answer(runner_json(runner, online=online))


async def remove_runner(hub: Hub, call: Call) -> Answer:
    """Forget a registration."""
    tenant = tenant_of(hub, call)
    hub.run(runners.remove, tenant.id, call.number("runner"))
    return nothing()


def scale_set_of(hub: Hub, call: Call) -> ScaleSet:
    """The scale set in the path.

    Raises:
        Refused: 401, 404.
    """
    return scale_sets.get(hub.state, tenant_of(hub, call).id, call.number("id"))


def _session_answer(hub: Hub, call: Call, scale_set: ScaleSet, session: Session) -> Answer:
    url = queue_url(
        call.scheme, call.host, call.place, scale_set_id=scale_set.id, session_id=session.id
    )
    url = moved(url, hub.options.public_url)
    shown = _scale_set_json(hub, call, scale_set)
    return service_answer(session_json(session, url, shown, statistics_json(scale_set)))


def _scale_set_json(hub: Hub, call: Call, scale_set: ScaleSet) -> dict[str, object]:
    url = scale_set_url(
        call.scheme, call.host, call.place, scale_set_id=scale_set.id, what="generatejitconfig"
    )
    jit_url = moved(url, hub.options.public_url)
    return scale_sets.to_json(hub.state, scale_set, jit_url=jit_url)
