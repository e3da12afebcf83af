"""When the jobs of a workflow run are queued: needs, conditions, matrix bounds, fail-fast.

A job is decided once everything it needs has ended: skipped, or queued with its instances.
Here expressions become plain values; a runner gets nothing to evaluate.
"""

from runnerscale.fake_github import jobs
from runnerscale.fake_github.expressions import (
    Allowance,
    Contexts,
    Expression,
    ExpressionError,
    Status,
    has_expression,
    holds,
    substitute,
)
from runnerscale.fake_github.matrix import Combination, display
from runnerscale.fake_github.model import Job, JobRequest, JobState, Step
from runnerscale.fake_github.run_model import Instance, Run, RunNode
from runnerscale.fake_github.state import State
from runnerscale.fake_github.workflow import Env, JobTemplate, StepTemplate, Workflow

FIRST_RUN_ID = 9_000_000_001
RUNS_MAX = 1_000  # finished runs beyond it are forgotten, oldest first
NAME_CHARS_MAX = 1_000  # of a job: it is in every message, event and list
IN_NEEDS = {"succeeded": "success", "failed": "failure", "canceled": "cancelled"}


def next_run_id(state: State) -> int:
    """The id of a new run; synthetic jobs have one too, though no file made their run."""
    return state.next_number("run", FIRST_RUN_ID)


def start_run(
    state: State,
    now_s: float,
    workflow: Workflow,
    *,
    repository: str = "",
    ref: str = "refs/heads/main",
    event: str = "",
    labels: tuple[str, ...] = (),
) -> Run:
    """Begin a run; its first jobs are queued at once."""
    run = Run(
        id=next_run_id(state),
        number=state.next_number("run number"),
        workflow=workflow,
        repository=repository or state.options.repository,
        ref=ref,
        event=event or workflow.event,
        created_s=now_s,
        labels=labels,
    )
    for template in workflow.jobs.values():
        run.nodes[template.id] = RunNode(template, _instances(run, template))
    _make_room(state)
    state.runs[run.id] = run
    state.emit(now_s, "run", run=run.id, name=workflow.name, state="started")
    progress(state, now_s, run)
    return run


def cancel_run(state: State, now_s: float, run: Run) -> None:
    """Cancel what runs and what waits; jobs with `if: always()` still follow."""
    if run.finished_s or run.cancelled:
        return
    run.cancelled = True
    for node in run.nodes.values():
        if node.decided:
            _cancel_rest(state, now_s, run, node, "the run was canceled")
    progress(state, now_s, run)


def job_ended(state: State, now_s: float, job: Job) -> None:
    """A job of some run has completed: its run may go on."""
    run = state.runs.get(job.request.run_id)
    node = run.nodes.get(job.request.job_key) if run is not None else None
    if run is None or node is None:
        return
    for instance in node.instances:
        if instance.job_id == job.id and job.result is not None:
            instance.result = job.result.value
            if instance.result == "failed" and node.template.has_matrix and node.template.fail_fast:
                _cancel_rest(state, now_s, run, node, "another job of its matrix failed")
    progress(state, now_s, run)


def progress(state: State, now_s: float, run: Run) -> None:
    """Decide what can be decided, queue what can be queued, and close what is done."""
    moved = True
    while moved and not run.finished_s:  # each round decides or closes a node: bounded
        moved = False
        for node in run.nodes.values():
            if not node.decided and _needs_are_done(run, node):
                _decide(state, now_s, run, node)
                moved = True
            if node.decided and not node.result:
                _queue_instances(state, now_s, run, node)
                if all(instance.result for instance in node.instances):
                    node.result = _node_result(node)
                    moved = True
        if all(node.result for node in run.nodes.values()):
            _finish(state, now_s, run)


def _needs_are_done(run: Run, node: RunNode) -> bool:
    return all(run.nodes[needed].result for needed in node.template.needs)


def _decide(state: State, now_s: float, run: Run, node: RunNode) -> None:
    node.decided = True
    template = node.template
    try:
        contexts, status = _contexts(run, template), _status(run, template)
        wanted = holds(template.condition, contexts, status, run.allowance)
        note = "its condition or a job it needs said no"
    except ExpressionError as problem:
        wanted, note = False, f"the expression in 'if' {problem}"
    if run.cancelled and (template.condition is None or not template.condition.uses_status):
        wanted, note = False, "the run was canceled"
    if not wanted:
        for instance in node.instances:
            _end_unqueued(state, now_s, run, instance, "skipped", note)


def _end_unqueued(
    state: State, now_s: float, run: Run, instance: Instance, result: str, note: str
) -> None:
    instance.result = result
    instance.note = note
    state.emit(
        now_s,
        "job",
        job="",
        name=instance.name,
        run=run.id,
        state=JobState.COMPLETED.value,
        result=result,
        runner="",
        note=note,
    )


def _queue_instances(state: State, now_s: float, run: Run, node: RunNode) -> None:
    bound = node.template.max_parallel or len(node.instances)
    active = sum(1 for each in node.instances if each.job_id and not each.result)
    for instance in node.instances:
        if active >= bound:
            return
        if instance.job_id or instance.result:
            continue
        try:
            request = job_request(run, node.template, instance)
        except ExpressionError as problem:
            _end_unqueued(state, now_s, run, instance, "failed", f"an expression {problem}")
            continue
        instance.job_id = jobs.queue_job(state, now_s, request).id
        active += 1


def job_request(run: Run, template: JobTemplate, instance: Instance) -> JobRequest:
    """The job as it is queued, every expression resolved.

    Raises:
        ExpressionError: one cannot be evaluated, or all of them ask for too much text.
    """
    owner, _, repository = run.repository.partition("/")
    allowance = run.allowance.for_job()
    contexts = _contexts(run, template, instance)
    env = _env(run.workflow.env, contexts, allowance)
    env |= _env(template.env, {**contexts, "env": env}, allowance)
    contexts = {**contexts, "env": env}
    labels = run.labels or tuple(
        substitute(label, contexts, allowance) for label in template.labels
    )
    return JobRequest(
        display_name=instance.name,
        labels=labels,
        group="" if run.labels else substitute(template.group, contexts, allowance),
        steps=tuple(_step(each, contexts, allowance) for each in template.steps),
        env=tuple({**github_env(run, template), **env}.items()),
        timeout_s=template.timeout_s,
        owner=owner,
        repository=repository,
        workflow_ref=f"{run.repository}/.github/workflows/{_file_name(run)}@{run.ref}",
        event_name=run.event,
        run_id=run.id,
        job_key=template.id,
    )


def github_env(run: Run, template: JobTemplate) -> dict[str, str]:
    """The variables every job of GitHub has, as far as they are known before it has a runner."""
    return {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": run.event,
        "GITHUB_JOB": template.id,
        "GITHUB_REF": run.ref,
        "GITHUB_REPOSITORY": run.repository,
        "GITHUB_REPOSITORY_OWNER": run.repository.partition("/")[0],
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_ID": str(run.id),
        "GITHUB_RUN_NUMBER": str(run.number),
        "GITHUB_WORKFLOW": run.workflow.name,
    }


def _contexts(run: Run, template: JobTemplate, instance: Instance | None = None) -> Contexts:
    combination: Combination = instance.combination if instance is not None else {}
    return {
        "github": {
            "run_id": str(run.id),
            "run_number": str(run.number),
            "run_attempt": "1",
            "repository": run.repository,
            "repository_owner": run.repository.partition("/")[0],
            "workflow": run.workflow.name,
            "job": template.id,
            "event_name": run.event,
            "ref": run.ref,
            "ref_name": run.ref.rpartition("/")[2],
            "actor": "fake-github",
        },
        "matrix": combination,
        "env": dict(run.workflow.env) if instance is None else {},
        "needs": {name: {"result": run.nodes[name].result} for name in template.needs},
        "strategy": {
            "job-index": instance.place if instance is not None else 0,
            "job-total": len(template.combinations),
            "fail-fast": template.fail_fast,
            "max-parallel": template.max_parallel or len(template.combinations),
        },
    }


def _status(run: Run, template: JobTemplate) -> Status:
    needed = [run.nodes[name].result for name in template.needs]
    ancestors = _ancestors(run, template)
    return Status(
        success=all(result == "success" for result in needed),
        failure=any(run.nodes[name].result == "failure" for name in ancestors),
        cancelled=run.cancelled,
    )


def _ancestors(run: Run, template: JobTemplate) -> set[str]:
    found: set[str] = set()
    todo = list(template.needs)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(run.nodes[name].template.needs)
    return found


def _env(entries: Env, contexts: Contexts, allowance: Allowance) -> dict[str, str]:
    return {name: substitute(text, contexts, allowance) for name, text in entries}


def _step(template: StepTemplate, contexts: Contexts, allowance: Allowance) -> Step:
    outer = contexts["env"] if isinstance(contexts["env"], dict) else {}
    own = _env(template.env, contexts, allowance)
    inner = {**contexts, "env": {**outer, **own}}
    run = substitute(template.run, inner, allowance)
    first_line = run.strip().splitlines()[0] if run.strip() else ""
    return Step(
        name=substitute(template.name, inner, allowance) or f"Run {first_line}"[:120],
        run=run,
        shell=template.shell,
        env=tuple(own.items()),
        working_directory=substitute(template.working_directory, inner, allowance),
        timeout_s=template.timeout_s,
        run_when=run_when(template.condition, inner, allowance),
    )


def run_when(
    condition: Expression | None, contexts: Contexts, allowance: Allowance
) -> tuple[bool, bool, bool]:
    """A step's `if`, answered beforehand for a job that is fine, has failed, was canceled."""
    return (
        holds(condition, contexts, Status(success=True), allowance),
        holds(condition, contexts, Status(success=False, failure=True), allowance),
        holds(condition, contexts, Status(success=False, cancelled=True), allowance),
    )


def _instances(run: Run, template: JobTemplate) -> list[Instance]:
    made: list[Instance] = []
    for place, combination in enumerate(template.combinations):
        instance = Instance(template.name or template.id, combination, place)
        try:
            contexts = _name_contexts(run, template, instance)
            instance.name = substitute(instance.name, contexts, run.allowance)
        except ExpressionError:
            pass  # the name stays as written; what matters is resolved, and told, when queued
        if template.has_matrix and not has_expression(template.name):
            instance.name = f"{instance.name} {display(combination)}"
        instance.name = instance.name[:NAME_CHARS_MAX]
        made.append(instance)
    return made


def _name_contexts(run: Run, template: JobTemplate, instance: Instance) -> Contexts:
    bare = Run(
        run.id, run.number, run.workflow, run.repository, run.ref, run.event, run.created_s,
        nodes={name: RunNode(template, []) for name in template.needs},
    )  # fmt: skip
    return {**_contexts(bare, template, instance), "needs": {}, "env": {}}


def _cancel_rest(state: State, now_s: float, run: Run, node: RunNode, why: str) -> None:
    for instance in node.instances:
        if instance.result:
            continue
        job = state.jobs.get(instance.job_id)
        if job is None:
            _end_unqueued(state, now_s, run, instance, "canceled", why)
        elif job.state is not JobState.COMPLETED:
            jobs.cancel(state, now_s, job)


def _node_result(node: RunNode) -> str:
    results = {instance.result for instance in node.instances}
    for result in ("failed", "canceled"):
        if result in results:
            return IN_NEEDS[result]
    return "success" if "succeeded" in results else "skipped"


def _finish(state: State, now_s: float, run: Run) -> None:
    run.finished_s = now_s
    results = {node.result for node in run.nodes.values()}
    if "failure" in results:
        run.conclusion = "failure"
    elif run.cancelled or "cancelled" in results:
        run.conclusion = "cancelled"
    else:
        run.conclusion = "success"
    state.emit(now_s, "run", run=run.id, name=run.workflow.name, state="finished",
               conclusion=run.conclusion)  # fmt: skip


def _file_name(run: Run) -> str:
    return run.workflow.file.replace("\\", "/").rpartition("/")[2]


def _make_room(state: State) -> None:
    finished = [run.id for run in state.runs.values() if run.finished_s]
    for run_id in finished[: max(0, len(state.runs) - RUNS_MAX + 1)]:
        del state.runs[run_id]
