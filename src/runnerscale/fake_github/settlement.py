"""One command on the state from beginning to end: time catches up, it acts, all settles.

The server (or a test, or a simulation) calls `run_command` and nothing else; afterwards the
state is consistent, `state.touched` says who has news, and `state.timers.next_s()` says when
`run_command` has to be called again even if nobody asks. Pure: time is an argument.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from runnerscale.fake_github import assignment, jobs, runs
from runnerscale.fake_github.model import JobState, Result
from runnerscale.fake_github.runners import forget, online
from runnerscale.fake_github.sessions import end_session, session_expires_s
from runnerscale.fake_github.state import State
from runnerscale.fake_github.timers import Due

P = ParamSpec("P")
T = TypeVar("T")


def run_command(
    state: State,
    now_s: float,
    command: Callable[Concatenate[State, float, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """`command(state, now_s, ...)` on a state that knows the time, settled afterwards.

    Raises:
        Refused: what the command refused; the state is settled then too.
    """
    advance(state, now_s)
    try:
        return command(state, now_s, *args, **kwargs)
    finally:
        settle(state, now_s)


def advance(state: State, now_s: float) -> None:
    """Let everything happen that time alone makes happen."""
    while (due := state.timers.pop_due(now_s)) is not None:
        what, key = due
        _RULES[what](state, now_s, key)
        settle(state, now_s)


def settle(state: State, now_s: float) -> None:
    """Runs hear of ended jobs, queued jobs are assigned, assigned ones handed out."""
    while state.ended or state.unsettled:
        while state.ended:
            job = state.jobs.get(state.ended.popleft())
            if job is not None:
                runs.job_ended(state, now_s, job)
        assignment.settle(state, now_s)


def _session(state: State, now_s: float, session_id: str) -> None:
    session = state.sessions.get(session_id)
    if session is None or session.ended:
        return
    expires_s = session_expires_s(state, session, now_s)
    if expires_s <= now_s:
        end_session(state, now_s, session, "expired")
    else:
        state.timers.at(expires_s, Due.SESSION, session_id)


def _assignment(state: State, now_s: float, job_id: str) -> None:
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.ASSIGNED:
        return
    if job.assigned_s + state.options.assignment_timeout_s <= now_s:
        jobs.withdraw_assignment(state, now_s, job)


def _delayed_job(state: State, _now_s: float, job_id: str) -> None:
    job = state.jobs.get(job_id)
    if job is not None:
        jobs.make_ready(state, job)


def _offer(state: State, now_s: float, job_id: str) -> None:
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.AVAILABLE:
        return
    if job.offered_s + state.options.offer_repeat_s <= now_s:
        jobs.offer(state, now_s, job, state.scale_sets[job.scale_set_id])


def _handover(state: State, now_s: float, job_id: str) -> None:
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.HANDED:
        return
    if job.handed_s + state.options.handover_timeout_s <= now_s:
        jobs.take_back(state, now_s, job)


def _runner(state: State, now_s: float, runner_id: str) -> None:
    runner = state.runners.get(int(runner_id))
    if runner is None:
        return
    seen_s = now_s if online(state, runner, now_s) else runner.last_seen_s
    due_s = max(seen_s, runner.registered_s) + state.options.offline_runner_life_s
    if due_s <= now_s and not runner.job_id:
        forget(state, now_s, runner, "unused for too long")
    else:
        state.timers.at(max(due_s, now_s + 1), Due.RUNNER, runner_id)


def _running_job(state: State, now_s: float, job_id: str) -> None:
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING:
        return
    runner = state.runners.get(job.runner_id)
    seen_s = runner.last_seen_s if runner is not None else job.started_s
    lost_s = seen_s + state.options.runner_lost_s
    overdue_s = job.started_s + job.request.timeout_s + jobs.TIMEOUT_SLACK_S
    if lost_s <= now_s:
        jobs.disown(state, now_s, job, Result.FAILED, "runner lost")
    elif overdue_s <= now_s:
        jobs.disown(state, now_s, job, Result.CANCELED, "ran into its timeout")
    else:
        state.timers.at(min(lost_s, overdue_s), Due.RUNNING_JOB, job_id)


def _cancel(state: State, now_s: float, job_id: str) -> None:
    job = state.jobs.get(job_id)
    if job is not None and job.state is JobState.RUNNING:
        jobs.disown(state, now_s, job, Result.CANCELED, "runner did not react to cancel")


def _forget(state: State, now_s: float, runner_id: str) -> None:
    runner = state.runners.get(int(runner_id))
    if runner is not None and not runner.job_id:
        forget(state, now_s, runner, "job done")


_RULES: dict[Due, Callable[[State, float, str], None]] = {
    Due.SESSION: _session,
    Due.ASSIGNMENT: _assignment,
    Due.DELAYED_JOB: _delayed_job,
    Due.OFFER: _offer,
    Due.HANDOVER: _handover,
    Due.RUNNER: _runner,
    Due.RUNNING_JOB: _running_job,
    Due.CANCEL: _cancel,
    Due.FORGET: _forget,
}
