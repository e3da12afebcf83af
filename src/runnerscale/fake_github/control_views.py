"""What the control API shows: jobs, runs, runners, scale sets, counters, as plain JSON values.

Never a token or a JIT secret. Times are seconds since the epoch.
"""

from collections.abc import Mapping, Sequence

from runnerscale.fake_github import assignment, runner_sessions
from runnerscale.fake_github.faults import FaultBook, Rule
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.model import Job, JobState, Runner, ScaleSet
from runnerscale.fake_github.presets import Preset
from runnerscale.fake_github.run_model import Run, RunNode
from runnerscale.fake_github.state import State
from runnerscale.fake_github.wire import statistics_json

View = dict[str, object]


def job_view(state: State, job: Job) -> View:
    """A job."""
    waiting = job.state is JobState.QUEUED
    return {
        "id": job.id,
        "number": job.number,
        "name": job.request.display_name,
        "run": job.request.run_id,
        "labels": list(job.request.labels),
        "repository": f"{job.request.owner}/{job.request.repository}",
        "state": job.state.value,
        "result": job.result.value if job.result else "",
        "scale_set": job.scale_set_id,
        "runner": job.runner_name,
        "runner_id": job.runner_id,
        "queued_s": job.queued_s,
        "assigned_s": job.assigned_s,
        "handed_s": job.handed_s,
        "started_s": job.started_s,
        "finished_s": job.finished_s,
        "queue_to_start_s": job.started_s - job.queued_s if job.started_s else None,
        "requeues": job.requeues,
        "starts": job.starts,
        "cancel_asked": job.cancel_asked,
        "step": job.current_step,
        "steps": job.steps,
        "log_bytes": job.log_bytes,
        "waits_because": assignment.waiting_reason(state, job) if waiting else "",
    }


def run_view(state: State, run: Run) -> View:
    """A run with all its jobs, also those that are not queued yet."""
    return {
        "id": run.id,
        "number": run.number,
        "name": run.workflow.name,
        "file": run.workflow.file,
        "repository": run.repository,
        "created_s": run.created_s,
        "finished_s": run.finished_s,
        "state": "finished" if run.finished_s else "running",
        "conclusion": run.conclusion,
        "jobs": [view for node in run.nodes.values() for view in _node_views(state, node)],
    }


def _node_views(state: State, node: RunNode) -> list[View]:
    views: list[View] = []
    for instance in node.instances:
        job = state.jobs.get(instance.job_id)
        view: View = {"key": node.template.id, "name": instance.name, "note": instance.note}
        if job is not None:
            view |= job_view(state, job)
        else:
            ended = bool(instance.result)
            view |= {"state": "completed" if ended else "waiting", "result": instance.result}
        views.append(view)
    return views


def runner_view(state: State, runner: Runner, now_s: float) -> View:
    """A registration."""
    return {
        "id": runner.id,
        "name": runner.name,
        "scale_set": runner.scale_set_id,
        "state": runner_sessions.runner_state(state, runner, now_s),
        "job": runner.job_id,
        "registered_s": runner.registered_s,
        "connected_s": runner.connected_s,
        "last_seen_s": runner.last_seen_s,
    }


def scale_set_view(state: State, scale_set: ScaleSet) -> View:
    """A scale set with its session and its queue."""
    session = scale_set.session
    return {
        "id": scale_set.id,
        "name": scale_set.name,
        "tenant": state.tenants_by_id[scale_set.tenant_id].path,
        "group": scale_set.group_id,
        "labels": [name for _, name in scale_set.labels],
        "capacity": scale_set.capacity,
        "statistics": statistics_json(scale_set),
        "session": None
        if session is None
        else {
            "id": session.id,
            "owner": session.owner,
            "opened_s": session.opened_s,
            "last_seen_s": session.last_seen_s,
            "polls_held": session.polls_held,
        },
        "queue": {
            "pending": scale_set.queue.pending,
            "undeleted": scale_set.queue.undeleted[:100],
            "last_id": scale_set.queue.last_id,
            "dropped": scale_set.queue.dropped,
        },
    }


def state_view(hub: Hub) -> View:
    """Everything, for a look at it."""
    state, now_s = hub.state, hub.now_s()
    return {
        "now_s": now_s,
        "assignment": state.options.assignment.value,
        "scale_sets": [scale_set_view(state, each) for each in state.scale_sets.values()],
        "runners": [runner_view(state, each, now_s) for each in state.runners.values()],
        "runs": [run_view(state, run) | {"jobs": None} for run in state.runs.values()],
        "summary": summary_view(hub),
        "calls": calls_view(hub),
        "faults": faults_view(hub.faults),
        "violations": violations_view(state),
    }


def summary_view(hub: Hub) -> View:
    """The numbers that a demo ends with."""
    state = hub.state
    everything = list(state.jobs.values())
    waits_s = sorted(j.started_s - j.queued_s for j in everything if j.started_s)
    results: dict[str, int] = {}
    states: dict[str, int] = {}
    for job in everything:
        states[job.state.value] = states.get(job.state.value, 0) + 1
        if job.result is not None:
            results[job.result.value] = results.get(job.result.value, 0) + 1
    pending = sum(1 for run in state.runs.values() for view in _waiting(run) if view)
    return {
        "jobs": len(everything),
        "by_state": states,
        "by_result": results,
        "waiting_for_needs": pending,
        "runs_unfinished": sum(1 for run in state.runs.values() if not run.finished_s),
        "queue_to_start_p50_s": _quantile(waits_s, 0.50),
        "queue_to_start_p95_s": _quantile(waits_s, 0.95),
        "first_queued_s": min((j.queued_s for j in everything), default=0.0),
        "first_started_s": min((j.started_s for j in everything if j.started_s), default=0.0),
        "last_finished_s": max((j.finished_s for j in everything), default=0.0),
        "runners_registered_now": len(state.runners),
        "runners_registered_peak": state.peak_runners,
        "jobs_running_peak": state.peak_running,
        "violations": len(state.violations),
        "counters": dict(sorted(state.counters.items())),
    }


def _waiting(run: Run) -> list[bool]:
    return [
        not instance.job_id and not instance.result
        for node in run.nodes.values()
        for instance in node.instances
    ]


def calls_view(hub: Hub) -> View:
    """Calls by operation and ending, and per completed job."""
    by_operation: dict[str, dict[str, int]] = {}
    by_client: dict[str, dict[str, int]] = {}
    for (client, name, ending), count in sorted(hub.calls.items()):
        if name.startswith("control-"):
            continue
        endings = by_operation.setdefault(name, {})
        endings[ending] = endings.get(ending, 0) + count
        names = by_client.setdefault(client, {})
        names[name] = names.get(name, 0) + count
    done = sum(1 for job in hub.state.jobs.values() if job.state is JobState.COMPLETED)
    totals = {name: sum(endings.values()) for name, endings in by_operation.items()}
    per_job = {name: round(total / done, 3) for name, total in totals.items()} if done else {}
    return {
        "by_operation": by_operation,
        "by_client": by_client,
        "jobs_completed": done,
        "per_job": per_job,
    }


def violations_view(state: State) -> list[View]:
    """What must never happen and did."""
    return [{"kind": v.kind, "detail": v.detail, "at_s": v.at_s} for v in state.violations]


def faults_view(faults: FaultBook) -> list[View]:
    """The fault rules that stand."""
    return [rule_view(rule) for rule in faults.rules.values()]


def rule_view(rule: Rule) -> View:
    """A fault rule."""
    return {
        "id": rule.id,
        "name": rule.name,
        "operations": list(rule.match.operations),
        "methods": list(rule.match.methods),
        "path": rule.match.path,
        "host": rule.match.host,
        "scale_set": rule.match.scale_set,
        "times_left": rule.times,
        "until_s": rule.until_s,
        "fired": rule.fired,
        "action": {
            "delay_s": rule.action.delay_s,
            "black_hole": rule.action.black_hole,
            "drop": rule.action.drop.value,
            "status": rule.action.status,
            "twist": rule.action.twist,
            "value": rule.action.value,
        },
    }


def presets_view(presets: Mapping[str, Preset]) -> list[View]:
    """The known troubles, what they are, and how long they last where nobody says."""
    return [
        {"name": name, "description": preset.description, "seconds": preset.seconds}
        for name, preset in sorted(presets.items())
    ]


def _quantile(ordered: Sequence[float], part: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)
