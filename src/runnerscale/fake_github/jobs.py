"""A job's life from queued to completed, and what the queue says about each step.

Which scale set and which runner a job gets is decided in `assignment.py`; this file carries
it out, so that a state never changes without its message, its event and its timer.
Contract C2 4.3, 4.4.
"""

from collections import deque

from runnerscale.fake_github.model import Job, JobRequest, JobState, Result, Runner, ScaleSet
from runnerscale.fake_github.options import AssignmentMode
from runnerscale.fake_github.runners import forget_later, release
from runnerscale.fake_github.state import State, job_key, queue_topic, runner_topic
from runnerscale.fake_github.timers import Due
from runnerscale.fake_github.wire import job_message

TIMEOUT_SLACK_S = 60.0  # a runner enforces its job's timeout itself; we step in this much later


def queue_job(state: State, now_s: float, request: JobRequest) -> Job:
    """A new job, waiting for a scale set that fits."""
    number = state.next_number("job")
    job = Job(id=state.new_uuid(), number=number, request=request, queued_s=now_s)
    state.jobs[job.id] = job
    state.jobs_by_number[number] = job
    tell(state, now_s, job)
    make_ready_later(state, job, now_s + state.options.assign_delay_s, now_s)
    return job


def make_ready_later(state: State, job: Job, ready_s: float, now_s: float) -> None:
    """Let the job be assigned from `ready_s` on."""
    if ready_s > now_s:
        state.timers.at(ready_s, Due.DELAYED_JOB, job.id)
    else:
        make_ready(state, job)


def make_ready(state: State, job: Job) -> None:
    """Let the job be assigned now."""
    if job.state is not JobState.QUEUED:
        return
    state.ready.setdefault(job_key(job.request), deque()).append(job.id)
    state.unsettled.update(state.scale_sets)


def offer(state: State, now_s: float, job: Job, scale_set: ScaleSet) -> None:
    """Acquire mode: tell the scale set that it may claim the job; also to tell it again."""
    job.state = JobState.AVAILABLE
    job.scale_set_id = scale_set.id
    job.offered_s = now_s
    scale_set.available[job.id] = None
    state.timers.at(now_s + state.options.offer_repeat_s, Due.OFFER, job.id)
    _send(state, scale_set, "JobAvailable", job)
    tell(state, now_s, job)


def withdraw_offer(state: State, now_s: float, job: Job) -> None:
    """Nobody claimed it and the scale set cannot any more: queued again."""
    scale_set = state.scale_sets.get(job.scale_set_id)
    if scale_set is not None:
        scale_set.available.pop(job.id, None)
    job.state = JobState.QUEUED
    job.scale_set_id = 0
    tell(state, now_s, job)
    make_ready(state, job)


def assign(state: State, now_s: float, job: Job, scale_set: ScaleSet) -> None:
    """The job now belongs to the scale set and waits for one of its runners."""
    scale_set.available.pop(job.id, None)
    job.state = JobState.ASSIGNED
    job.scale_set_id = scale_set.id
    job.assigned_s = now_s
    scale_set.waiting[job.id] = None
    state.timers.at(now_s + state.options.assignment_timeout_s, Due.ASSIGNMENT, job.id)
    _send(state, scale_set, "JobAssigned", job)
    tell(state, now_s, job)
    state.settle_later(scale_set.id)


def hand(state: State, now_s: float, job: Job, scale_set: ScaleSet, runner: Runner) -> None:
    """Give the job to an idle runner; it counts as running until the runner has declined."""
    scale_set.waiting.pop(job.id, None)
    scale_set.running.add(job.id)
    job.state = JobState.HANDED
    job.handed_s = now_s
    job.runner_id = runner.id
    job.runner_name = runner.name
    runner.job_id = job.id
    state.timers.at(now_s + state.options.handover_timeout_s, Due.HANDOVER, job.id)
    state.touch(runner_topic(runner.session_id))
    tell(state, now_s, job)


def start(state: State, now_s: float, job: Job, runner: Runner) -> None:
    """The runner confirmed: the job has started, for the first and only time."""
    job.state = JobState.RUNNING
    job.started_s = now_s
    job.starts += 1
    state.running_now += 1
    state.peak_running = max(state.peak_running, state.running_now)
    runner.jobs_taken += 1
    if job.starts > 1:
        state.violation(now_s, "job started twice", f"job {job.id} on runner {runner.name}")
    if runner.jobs_taken > 1:
        state.violation(now_s, "runner took two jobs", f"runner {runner.name}")
    state.timers.at(now_s + state.options.runner_lost_s, Due.RUNNING_JOB, job.id)
    scale_set = state.scale_sets.get(job.scale_set_id)
    if scale_set is not None:
        _send(state, scale_set, "JobStarted", job)
    tell(state, now_s, job)


def take_back(state: State, now_s: float, job: Job) -> None:
    """The runner never confirmed: the job waits for another one of its scale set."""
    runner = state.runners.get(job.runner_id)
    scale_set = state.scale_sets.get(job.scale_set_id)
    if runner is not None:
        release(state, runner)
    job.state = JobState.ASSIGNED
    job.handed_s = 0.0
    job.runner_id = 0
    job.runner_name = ""
    if scale_set is None or scale_set.deleted:
        return_to_queue(state, now_s, job)
        return
    scale_set.running.discard(job.id)
    scale_set.waiting[job.id] = None
    due_s = max(now_s, job.assigned_s + state.options.assignment_timeout_s)
    state.timers.at(due_s, Due.ASSIGNMENT, job.id)
    tell(state, now_s, job)
    state.settle_later(scale_set.id)


def withdraw_assignment(state: State, now_s: float, job: Job) -> None:
    """No runner took it in time: the pair of C2 4.3, then again later, a few times."""
    delays_s = state.options.requeue_delays_s
    if job.requeues >= len(delays_s):
        complete(state, now_s, job, Result.CANCELED)
        return
    scale_set = state.scale_sets[job.scale_set_id]
    scale_set.waiting.pop(job.id, None)
    _send(state, scale_set, "JobCompleted", job, finished_s=now_s)
    delay_s = delays_s[job.requeues]
    job.requeues += 1
    _forget_assignment(job)
    tell(state, now_s, job)
    make_ready_later(state, job, now_s + delay_s, now_s)
    state.settle_later(scale_set.id)


def return_to_queue(state: State, now_s: float, job: Job) -> None:
    """Its scale set is gone: it waits for another one, as if never assigned."""
    _forget_assignment(job)
    tell(state, now_s, job)
    make_ready(state, job)


def complete(state: State, now_s: float, job: Job, result: Result) -> None:
    """The job has ended, wherever it was; completing twice does nothing."""
    if job.state is JobState.COMPLETED:
        return
    before = job.state
    state.running_now -= before is JobState.RUNNING
    job.state = JobState.COMPLETED
    job.result = result
    job.finished_s = now_s
    scale_set = state.scale_sets.get(job.scale_set_id)
    if scale_set is not None:
        scale_set.available.pop(job.id, None)
        scale_set.waiting.pop(job.id, None)
        scale_set.running.discard(job.id)
        if before is JobState.AVAILABLE:
            scale_set.queue.add_news()
            state.touch(queue_topic(scale_set.id))
        elif before is not JobState.QUEUED:
            _send(state, scale_set, "JobCompleted", job, finished_s=now_s)
        state.settle_later(scale_set.id)
    runner = state.runners.get(job.runner_id)
    if runner is not None and runner.job_id == job.id:
        release(state, runner)
        if before is JobState.RUNNING:
            forget_later(state, now_s, runner)
    _remember_ended(state, job)
    tell(state, now_s, job)


def cancel(state: State, now_s: float, job: Job) -> None:
    """Somebody canceled it: at once while nobody runs it, else its runner is told."""
    if job.state is JobState.COMPLETED or job.cancel_asked:
        return
    job.cancel_asked = True
    if job.state is not JobState.RUNNING:
        complete(state, now_s, job, Result.CANCELED)
        return
    state.timers.at(now_s + state.options.cancel_grace_s, Due.CANCEL, job.id)
    tell(state, now_s, job)


def disown(state: State, now_s: float, job: Job, result: Result, why: str) -> None:
    """End a running job without its runner, which is told so if it ever speaks again."""
    job.disowned = True
    state.counters[f"jobs disowned: {why}"] += 1
    complete(state, now_s, job, result)


def tell(state: State, now_s: float, job: Job) -> None:
    """One line of the live table."""
    wait_s = job.started_s - job.queued_s if job.started_s else None
    state.emit(
        now_s,
        "job",
        job=job.id,
        number=job.number,
        name=job.request.display_name,
        run=job.request.run_id,
        state=job.state.value,
        result=job.result.value if job.result else "",
        runner=job.runner_name,
        scale_set=job.scale_set_id,
        queued_s=round(job.queued_s, 3),
        queue_to_start_s=round(wait_s, 3) if wait_s is not None else None,
        cancel_asked=job.cancel_asked,
    )


def _send(
    state: State, scale_set: ScaleSet, kind: str, job: Job, *, finished_s: float = 0.0
) -> None:
    acquired = state.options.assignment is AssignmentMode.ACQUIRE
    request_id = job.number if acquired else 0  # live push mode knows no request ids
    message = job_message(kind, job, request_id=request_id, finished_s=finished_s)
    scale_set.queue.add(message)
    state.touch(queue_topic(scale_set.id))


def _forget_assignment(job: Job) -> None:
    job.state = JobState.QUEUED
    job.scale_set_id = 0
    job.assigned_s = 0.0


def _remember_ended(state: State, job: Job) -> None:
    state.ended.append(job.id)
    state.finished.append(job.id)
    while len(state.finished) > state.options.finished_jobs_max:
        old = state.jobs.pop(state.finished.popleft(), None)
        if old is not None:
            state.jobs_by_number.pop(old.number, None)
