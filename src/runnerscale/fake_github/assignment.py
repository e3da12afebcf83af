"""Which scale set gets which job, and which of its runners.

Push mode: a queued job goes to a scale set that fits, has a session, and has room under the
capacity its listener polled with. Acquire mode: it is offered, and assigned when claimed.
Then each waiting job goes to the runner that has been idle and connected longest.
Contract C2 2.11, 2.15 item 10, 4.3, Annex A.
"""

from collections.abc import Iterable

from runnerscale.fake_github import jobs
from runnerscale.fake_github.model import Job, JobState, ScaleSet
from runnerscale.fake_github.options import AssignmentMode
from runnerscale.fake_github.state import JobKey, State

ACQUIRE_MAX = 1_000  # request ids in one acquirejobs call


def settle(state: State, now_s: float) -> None:
    """Assign and hand out whatever can be, for the scale sets where something changed."""
    while state.unsettled:
        for scale_set_id in sorted(state.unsettled):
            state.unsettled.discard(scale_set_id)
            scale_set = state.scale_sets.get(scale_set_id)
            if scale_set is not None:
                _take_from_queue(state, now_s, scale_set)
                _hand_out(state, now_s, scale_set)


def fits(state: State, key: JobKey, scale_set: ScaleSet) -> bool:
    """Whether jobs with that key may run on the scale set: labels, group, repository."""
    owner, repository, labels, group = key
    tenant = state.tenants_by_id[scale_set.tenant_id]
    if group and tenant.groups[scale_set.group_id].name.casefold() != group:
        return False
    return labels <= scale_set.label_names and tenant.covers(owner, repository)


def room(scale_set: ScaleSet) -> float:
    """How many more jobs its listener has said it can take; none without a session."""
    if scale_set.session is None:
        return 0
    if scale_set.capacity is None:
        return float("inf")
    return scale_set.capacity - len(scale_set.waiting) - len(scale_set.running)


def acquire(
    state: State, now_s: float, scale_set: ScaleSet, request_ids: Iterable[int]
) -> list[int]:
    """Claim offered jobs; the ids that are the scale set's now. Claiming twice is no error."""
    taken: list[int] = []
    for request_id in request_ids:
        job = state.jobs_by_number.get(request_id)
        if job is None or job.scale_set_id != scale_set.id:
            continue
        if job.state is JobState.AVAILABLE:
            jobs.assign(state, now_s, job, scale_set)
        if job.state in (JobState.ASSIGNED, JobState.HANDED, JobState.RUNNING):
            taken.append(request_id)
    return taken


def waiting_reason(state: State, job: Job) -> str:
    """Why a queued job is not assigned, for people."""
    request = job.request
    labels = frozenset(label.casefold() for label in request.labels)
    key = (request.owner.casefold(), request.repository.casefold(), labels, request.group)
    fitting = [s for s in state.scale_sets.values() if fits(state, key, s)]
    if not fitting:
        repository = f"{request.owner}/{request.repository}"
        return f"no scale set has the labels {', '.join(request.labels)} for {repository}"
    if all(s.session is None for s in fitting):
        return "no listener is connected to a scale set that fits"
    return "the scale sets that fit are at their capacity"


def _take_from_queue(state: State, now_s: float, scale_set: ScaleSet) -> None:
    if scale_set.session is None:
        return
    push = state.options.assignment is AssignmentMode.PUSH
    for key in [key for key in state.ready if fits(state, key, scale_set)]:
        queued = state.ready[key]
        while queued and (not push or room(scale_set) > 0):
            job = state.jobs.get(queued.popleft())
            if job is None or job.state is not JobState.QUEUED:
                continue  # it ended while it waited
            if push:
                jobs.assign(state, now_s, job, scale_set)
            else:
                jobs.offer(state, now_s, job, scale_set)
        if not queued:
            del state.ready[key]


def _hand_out(state: State, now_s: float, scale_set: ScaleSet) -> None:
    while scale_set.waiting and scale_set.idle_polling:
        runner_id = next(iter(scale_set.idle_polling))
        del scale_set.idle_polling[runner_id]
        runner = state.runners.get(runner_id)
        if runner is None or runner.job_id or runner.polls_held == 0:
            continue
        job = state.jobs[next(iter(scale_set.waiting))]
        jobs.hand(state, now_s, job, scale_set, runner)
