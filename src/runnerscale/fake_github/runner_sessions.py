"""What a runner's process says: it connects once, waits for its job, reports, and ends.

This protocol is ours (GitHub's real one is not public); `demo_runner.py` speaks it and
`docs/fake-github.md` describes it. It is made so that the two things that must never happen
cannot go unnoticed: a JIT config started twice, a job started twice.
"""

from runnerscale.fake_github import jobs
from runnerscale.fake_github.by_secret import same_secret
from runnerscale.fake_github.ids import new_uuid
from runnerscale.fake_github.model import Job, JobState, Result, Runner
from runnerscale.fake_github.refusals import Refused, runner_refused
from runnerscale.fake_github.runners import forget, online
from runnerscale.fake_github.state import State

NONCE_MAX = 64
STEP_REPORTS_MAX = 1_000
RESULTS = {"succeeded": Result.SUCCEEDED, "failed": Result.FAILED, "canceled": Result.CANCELED}


def connect(state: State, now_s: float, *, secret: str, nonce: str) -> Runner:
    """A process starts with a JIT config; the same `nonce` says it is the same process again.

    Raises:
        Refused: 401 unknown or too old, 409 already used by another process, 410 the
            registration is gone.
    """
    runner = state.runners_by_secret.get(secret)
    if runner is None:
        raise runner_refused(401, "unknown-jit-config", "This JIT config is not known here.")
    if not nonce or len(nonce) > NONCE_MAX:
        raise runner_refused(400, "bad-request", "nonce must be a text of 1 to 64 characters.")
    if runner.used and runner.nonce != nonce:
        state.violation(now_s, "JIT config started twice", f"runner {runner.name}")
        raise runner_refused(
            409, "jit-config-already-used", f"A runner {runner.name} was already started with it."
        )
    again = runner.used
    runner.used = True
    runner.nonce = nonce
    state.started_names[(runner.tenant_id, runner.name.casefold())] = now_s
    _refuse_gone(runner)
    if again and runner.session_id:
        return runner
    if now_s - runner.registered_s > state.options.jit_life_s:
        raise runner_refused(401, "jit-config-expired", "This JIT config is too old to be used.")
    runner.session_id = new_uuid(state.random)
    runner.connected_s = runner.last_seen_s = now_s
    state.runners_by_session[runner.session_id] = runner
    state.emit(now_s, "runner", runner=runner.name, id=runner.id, state="online")
    return runner


def authenticate(state: State, session_id: str, secret: str) -> Runner:
    """The connected runner of that session.

    Raises:
        Refused: 401, or 410 when it said good-bye.
    """
    runner = state.runners_by_session.get(session_id)
    if runner is None or not same_secret(secret, runner.secret):
        raise runner_refused(401, "unknown-session", "This runner session is not known here.")
    if runner.closed:
        raise runner_refused(410, "session-closed", "This runner session has been closed.")
    return runner


def begin_poll(state: State, now_s: float, runner: Runner) -> None:
    """The runner waits for a job: it may be given one from now on."""
    runner.polls_held += 1
    runner.last_seen_s = now_s
    scale_set = state.scale_sets.get(runner.scale_set_id)
    if scale_set is None or runner.job_id or runner.forgotten or runner.jobs_taken:
        return
    scale_set.idle_polling[runner.id] = None
    state.settle_later(scale_set.id)


def end_poll(state: State, now_s: float, runner: Runner) -> None:
    """The runner's poll was answered or broke off."""
    runner.polls_held -= 1
    runner.last_seen_s = now_s
    scale_set = state.scale_sets.get(runner.scale_set_id)
    if scale_set is not None and runner.polls_held == 0:
        scale_set.idle_polling.pop(runner.id, None)


def offered_job(state: State, runner: Runner) -> Job | None:
    """The job that was handed to the runner; asking again gives the same one.

    Raises:
        Refused: 410 when the registration is gone.
    """
    _refuse_gone(runner)
    return state.jobs.get(runner.job_id) if runner.job_id else None


def confirm(state: State, now_s: float, runner: Runner, job_id: str) -> Job:
    """The runner takes its job: this starts it; repeating the call changes nothing.

    Raises:
        Refused: 409 when the job is not, or no longer, this runner's.
    """
    job = _own_job(state, now_s, runner, job_id)
    if job.state is JobState.HANDED:
        jobs.start(state, now_s, job, runner)
    elif job.state is not JobState.RUNNING:
        raise runner_refused(409, "job-not-yours", "This job has already ended.")
    return job


def report(
    state: State,
    now_s: float,
    runner: Runner,
    job_id: str,
    *,
    offset: int,
    text: bytes,
    current_step: str = "",
) -> bool:
    """Log text from `offset` on, and a sign of life; true: the job shall be canceled.

    Text that came before, because its answer was lost, is not stored twice.
    """
    job = _own_job(state, now_s, runner, job_id)
    if job.state is JobState.COMPLETED:
        return job.cancel_asked
    fresh = text[max(0, job.log_bytes - offset) :] if offset <= job.log_bytes else text
    job.log += fresh
    job.log_bytes += len(fresh)
    surplus = len(job.log) - state.options.log_max_bytes
    if surplus > 0:
        del job.log[:surplus]
    job.current_step = current_step
    return job.cancel_asked


def finish(
    state: State,
    now_s: float,
    runner: Runner,
    job_id: str,
    *,
    result: str,
    steps: list[dict[str, object]],
) -> None:
    """The runner's job has ended; repeating the call changes nothing."""
    ended = RESULTS.get(result)
    if ended is None:
        raise runner_refused(400, "bad-request", f"result must be one of {', '.join(RESULTS)}.")
    job = _own_job(state, now_s, runner, job_id)
    if job.state is JobState.COMPLETED:
        return
    job.steps = steps[:STEP_REPORTS_MAX]
    job.current_step = ""
    jobs.complete(state, now_s, job, ended)


def disconnect(state: State, now_s: float, runner: Runner) -> None:
    """The process says good-bye; the registration stays, offline, until somebody removes it."""
    runner.closed = True
    job = state.jobs.get(runner.job_id)
    if job is not None and job.state is JobState.HANDED:
        jobs.take_back(state, now_s, job)
    scale_set = state.scale_sets.get(runner.scale_set_id)
    if scale_set is not None:
        scale_set.idle_polling.pop(runner.id, None)
    state.emit(now_s, "runner", runner=runner.name, id=runner.id, state="offline")


def make_ghost(state: State, now_s: float, runner: Runner) -> bool:
    """Fault: the registration vanishes, the process keeps waiting and never gets a job."""
    if runner.job_id or runner.forgotten:
        return False
    runner.ghost = True
    forget(state, now_s, runner, "fault: ghost")
    return True


def runner_state(state: State, runner: Runner, now_s: float) -> str:
    """One word for the control API."""
    if runner.job_id:
        return "busy"
    return "idle" if online(state, runner, now_s) else "offline"


def _refuse_gone(runner: Runner) -> None:
    if runner.forgotten and not runner.ghost:
        raise registration_gone(runner)


def registration_gone(runner: Runner) -> Refused:
    """What a runner hears whose registration was removed."""
    return runner_refused(
        410, "registration-gone", f"The registration of runner {runner.name} has been deleted."
    )


def _own_job(state: State, now_s: float, runner: Runner, job_id: str) -> Job:
    job = state.jobs.get(job_id)
    if job is None or job.runner_id != runner.id:
        raise runner_refused(409, "job-not-yours", "This job was not given to this runner.")
    runner.last_seen_s = now_s
    if job.disowned:
        raise runner_refused(410, "job-disowned", "This job was ended without its runner.")
    return job
