"""The control API: queue work, watch it, cancel it, break things. Not part of GitHub.

Loopback only, as the whole server; with a token where the options name one. Described in
docs/fake-github.md. What the values look like is in `control_views.py`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec

from runnerscale.fake_github import control_views as views
from runnerscale.fake_github import jobs, runs
from runnerscale.fake_github.answers import Answer, Call, json_answer, nothing
from runnerscale.fake_github.faults import Action, Drop, FaultInvalid, Match, Rule, for_scale_set
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.model import Job, JobRequest, Step
from runnerscale.fake_github.operations import OPERATIONS
from runnerscale.fake_github.presets import PRESETS, Ask, preset
from runnerscale.fake_github.refusals import rest
from runnerscale.fake_github.run_model import Run
from runnerscale.fake_github.state import EVENTS, FAULTS, State
from runnerscale.fake_github.twists import AFTER, BEFORE, Spoilt
from runnerscale.fake_github.workflow import parse_workflow
from runnerscale.fake_github.workflow_yaml import WorkflowError

JOBS_MAX = 10_000  # in one call
EVENTS_HOLD_MAX_S = 60.0


class AddJobs(msgspec.Struct, forbid_unknown_fields=True):
    """Synthetic jobs: each sleeps for some seconds."""

    labels: list[str]
    count: int = 1
    seconds: float = 1.0
    name: str = "job"
    group: str = ""
    repository: str = ""
    failing: int = 0  # the first so many exit with 1
    timeout_seconds: float = 3_600.0


class AddWorkflow(msgspec.Struct, forbid_unknown_fields=True):
    """A workflow file to be run."""

    content: str
    name: str = "workflow.yml"
    repository: str = ""
    ref: str = "refs/heads/main"
    event: str = ""
    runs_on: list[str] = []  # used instead of every `runs-on` of the file


class MatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """See `faults.Match`."""

    methods: list[str] = []
    path: str = ""
    host: str = ""
    operations: list[str] = []
    scale_set: str = ""


class ActionBody(msgspec.Struct, forbid_unknown_fields=True):
    """See `faults.Action`."""

    status: int = 0
    body: str = ""
    content_type: str = "application/json; charset=utf-8"
    headers: dict[str, str] = {}
    delay_s: float = 0.0
    drop: str = ""
    black_hole: bool = False
    twist: str = ""
    value: str = ""


class AddFault(msgspec.Struct, forbid_unknown_fields=True):
    """A preset by name, or a rule of one's own."""

    preset: str = ""
    match: MatchBody = msgspec.field(default_factory=MatchBody)
    action: ActionBody | None = None
    times: int | None = None
    after: int = 0
    seconds: float | None = None
    rate: float = 1.0
    scale_set: str = ""
    value: str = ""
    name: str = ""


async def health(_hub: Hub, _call: Call) -> Answer:
    """The server is up; needs no token."""
    return json_answer({"ok": True})


async def show_state(hub: Hub, _call: Call) -> Answer:
    """Everything."""
    return json_answer(views.state_view(hub))


async def show_summary(hub: Hub, _call: Call) -> Answer:
    """Counts and quantiles."""
    return json_answer(views.summary_view(hub))


async def show_violations(hub: Hub, _call: Call) -> Answer:
    """What must never happen and did."""
    return json_answer({"violations": views.violations_view(hub.state)})


async def show_calls(hub: Hub, _call: Call) -> Answer:
    """Calls by operation."""
    return json_answer(views.calls_view(hub))


async def show_events(hub: Hub, call: Call) -> Answer:
    """What happened after event `after`; waits up to `timeout` seconds for something to."""
    after = int(call.query_number("after", 0))
    limit = int(min(5_000, max(1, call.query_number("limit", 1_000))))
    hold_s = min(EVENTS_HOLD_MAX_S, max(0.0, call.query_number("timeout", 0)))
    ends_s = hub.now_s() + hold_s
    while True:
        events, missed = hub.state.events.after(after, limit)
        left_s = ends_s - hub.now_s()
        if events or left_s <= 0:
            last = events[-1]["id"] if events else max(after, 0)
            return json_answer({"events": events, "last": last, "missed": missed})
        await hub.wait(EVENTS, left_s)


async def show_presets(_hub: Hub, _call: Call) -> Answer:
    """The known troubles."""
    return json_answer({"presets": views.presets_view(PRESETS)})


async def show_faults(hub: Hub, _call: Call) -> Answer:
    """The rules that stand."""
    hub.faults.drop_expired(hub.now_s())
    return json_answer({"faults": views.faults_view(hub.faults)})


async def add_fault(hub: Hub, call: Call) -> Answer:
    """Switch a trouble on."""
    asked = call.decode(AddFault)
    try:
        rules = _preset_rules(hub, asked) if asked.preset else [_own_rule(hub, asked)]
        made = [hub.faults.add(rule) for rule in rules]
    except (FaultInvalid, ValueError) as problem:
        raise rest(400, str(problem)) from None
    return json_answer({"faults": [views.rule_view(rule) for rule in made]}, 201)


async def clear_faults(hub: Hub, _call: Call) -> Answer:
    """All rules go: GitHub is healthy again."""
    count = hub.faults.clear()
    hub.run(_touch_faults)
    return json_answer({"removed": count})


async def remove_fault(hub: Hub, call: Call) -> Answer:
    """One rule goes."""
    if not hub.faults.remove(call.number("fault")):
        raise rest(404, f"there is no fault rule {call.params['fault']}")
    hub.run(_touch_faults)
    return nothing()


async def show_jobs(hub: Hub, call: Call) -> Answer:
    """Jobs, by state or of one run if asked."""
    state, run = call.query.get("state", ""), call.query.get("run", "")
    found = [
        views.job_view(hub.state, job)
        for job in hub.state.jobs.values()
        if (not state or job.state.value == state) and (not run or str(job.request.run_id) == run)
    ]
    return json_answer({"jobs": found})


async def add_jobs(hub: Hub, call: Call) -> Answer:
    """Queue synthetic jobs."""
    asked = call.decode(AddJobs)
    if not asked.labels or not all(asked.labels):
        raise rest(400, "labels must name at least one label, as 'runs-on' does")
    if not 1 <= asked.count <= JOBS_MAX:
        raise rest(400, f"count must be between 1 and {JOBS_MAX}")
    if not 0 <= asked.seconds <= 86_400:
        raise rest(400, "seconds must be between 0 and 86400")
    repository = asked.repository or hub.options.repository
    if repository.count("/") != 1:
        raise rest(400, "repository must be owner/name")
    made = hub.run(_queue_synthetic, asked, repository)
    return json_answer({"jobs": [job.id for job in made]}, 201)


async def show_job(hub: Hub, call: Call) -> Answer:
    """One job."""
    return json_answer(views.job_view(hub.state, _job(hub, call)))


async def show_job_log(hub: Hub, call: Call) -> Answer:
    """The kept part of a job's log."""
    job = _job(hub, call)
    answer = Answer(200, bytes(job.log), "text/plain; charset=utf-8")
    answer.headers["X-Log-Bytes-Dropped"] = str(job.log_bytes - len(job.log))
    return answer


async def cancel_job(hub: Hub, call: Call) -> Answer:
    """Cancel one job."""
    job = _job(hub, call)
    hub.run(jobs.cancel, job)
    return json_answer(views.job_view(hub.state, job))


async def add_workflow(hub: Hub, call: Call) -> Answer:
    """Start a run of a workflow file."""
    asked = call.decode(AddWorkflow)
    if asked.repository and asked.repository.count("/") != 1:
        raise rest(400, "repository must be owner/name")
    try:
        workflow = parse_workflow(asked.content, asked.name)
    except WorkflowError as problem:
        raise rest(400, str(problem)) from None
    run = hub.run(
        runs.start_run,
        workflow,
        repository=asked.repository,
        ref=asked.ref,
        event=asked.event,
        labels=tuple(asked.runs_on),
    )
    return json_answer(views.run_view(hub.state, run), 201)


async def show_runs(hub: Hub, _call: Call) -> Answer:
    """All runs."""
    return json_answer({"runs": [views.run_view(hub.state, r) for r in hub.state.runs.values()]})


async def show_run(hub: Hub, call: Call) -> Answer:
    """One run."""
    return json_answer(views.run_view(hub.state, _run(hub, call)))


async def cancel_run(hub: Hub, call: Call) -> Answer:
    """Cancel one run."""
    run = _run(hub, call)
    hub.run(runs.cancel_run, run)
    return json_answer(views.run_view(hub.state, run))


HANDLERS: dict[str, Callable[[Hub, Call], Awaitable[Answer]]] = {
    "control-health": health,
    "control-state": show_state,
    "control-summary": show_summary,
    "control-violations": show_violations,
    "control-calls": show_calls,
    "control-events": show_events,
    "control-presets": show_presets,
    "control-faults": show_faults,
    "control-add-fault": add_fault,
    "control-clear-faults": clear_faults,
    "control-remove-fault": remove_fault,
    "control-jobs": show_jobs,
    "control-add-jobs": add_jobs,
    "control-job": show_job,
    "control-job-log": show_job_log,
    "control-cancel-job": cancel_job,
    "control-workflow": add_workflow,
    "control-runs": show_runs,
    "control-run": show_run,
    "control-cancel-run": cancel_run,
}


def _preset_rules(hub: Hub, asked: AddFault) -> list[Rule]:
    known = preset(asked.preset)
    if asked.action is not None or asked.after or asked.rate != 1.0:
        raise FaultInvalid("a preset takes only seconds, times, scale_set and value")
    seconds = asked.seconds if asked.seconds is not None else known.seconds
    value = asked.value or known.value
    ask = Ask(now_s=hub.now_s(), seconds=seconds, times=asked.times, value=value)
    rules = [for_scale_set(rule, asked.scale_set) for rule in known.rules(ask)]
    for rule in rules:
        rule.name = asked.preset
    if known.twist:
        target = _scale_set_id(hub.state, asked.scale_set)
        spoilt = Spoilt(target, "", "", b"", value or str(seconds), {})
        hub.run(BEFORE[known.twist], spoilt)
    return rules


def _own_rule(hub: Hub, asked: AddFault) -> Rule:
    if asked.action is None:
        raise FaultInvalid("give a preset, or an action of your own")
    unknown = sorted(set(asked.match.operations) - OPERATIONS)
    if unknown:
        raise FaultInvalid(
            f"there is no operation {unknown[0]!r}; there are: {', '.join(sorted(OPERATIONS))}"
        )
    if asked.action.twist and asked.action.twist not in BEFORE | AFTER:
        raise FaultInvalid(f"there is no twist {asked.action.twist!r}")
    body = asked.action
    action = Action(
        delay_s=body.delay_s,
        black_hole=body.black_hole,
        drop=Drop(body.drop),
        status=body.status,
        body=body.body,
        content_type=body.content_type,
        headers=tuple(body.headers.items()),
        twist=body.twist,
        value=body.value or asked.value,
    )
    match = Match(
        methods=tuple(method.upper() for method in asked.match.methods),
        path=asked.match.path,
        host=asked.match.host,
        operations=tuple(asked.match.operations),
        scale_set=asked.match.scale_set or asked.scale_set,
    )
    until_s = None if asked.seconds is None else hub.now_s() + asked.seconds
    rule = Rule(match, action, times=asked.times, after=asked.after, until_s=until_s)
    return replace(rule, rate=asked.rate, name=asked.name)


def _scale_set_id(state: State, wanted: str) -> int:
    if not wanted:
        return 0
    for scale_set in state.scale_sets.values():
        if wanted in (str(scale_set.id), scale_set.name):
            return scale_set.id
    raise FaultInvalid(f"there is no scale set {wanted!r}")


def _queue_synthetic(state: State, now_s: float, asked: AddJobs, repository: str) -> list[Job]:
    owner, _, name = repository.partition("/")
    made: list[Job] = []
    run_id = runs.next_run_id(state)  # every job belongs to a run, also where no file made it
    for place in range(asked.count):
        command = f"sleep {asked.seconds:g}"
        if place < asked.failing:
            command += "; exit 1"
        request = JobRequest(
            display_name=f"{asked.name}-{place + 1}" if asked.count > 1 else asked.name,
            labels=tuple(asked.labels),
            steps=(Step("Sleep", command, "sh"),),
            group=asked.group,
            timeout_s=asked.timeout_seconds,
            owner=owner,
            repository=name,
            run_id=run_id,
            workflow_ref=f"{repository}/.github/workflows/synthetic.yml@refs/heads/main",
            env=(("CI", "true"), ("GITHUB_ACTIONS", "true")),
        )
        made.append(jobs.queue_job(state, now_s, request))
    return made


def _touch_faults(state: State, _now_s: float) -> None:
    state.touch(FAULTS)


def _job(hub: Hub, call: Call) -> Job:
    job = hub.state.jobs.get(call.params["job"])
    if job is None:
        raise rest(404, f"there is no job {call.params['job']}")
    return job


def _run(hub: Hub, call: Call) -> Run:
    text = call.params["run"]
    run = hub.state.runs.get(int(text)) if text.isascii() and text.isdigit() else None
    if run is None:
        raise rest(404, f"there is no run {text}")
    return run
