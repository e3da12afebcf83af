"""Registrations: made by a JIT config, used by one process, for one job, and then forgotten.

A JIT config's secret is remembered after the registration went, so that a second start with
it is told from a stranger's guess, refused, and counted. What a connected runner says about
its job is in `runner_sessions.py`. Contract C2 2.12, 2.13.
"""

from runnerscale.fake_github.ids import new_token
from runnerscale.fake_github.model import Runner, ScaleSet
from runnerscale.fake_github.refusals import (
    bad_argument,
    job_still_running,
    runner_exists,
    runner_not_found,
)
from runnerscale.fake_github.state import State, queue_topic, runner_topic
from runnerscale.fake_github.timers import Due

NAME_MAX = 128
NAME_FORBIDDEN = frozenset('"/:<>\\|*?')


def register(state: State, now_s: float, scale_set: ScaleSet, name: str) -> Runner:
    """A new registration with its own secret.

    Raises:
        Refused: 409 AgentExists when the name is taken in the tenant; 400 for a bad name.
    """
    if not name or len(name) > NAME_MAX or any(c in NAME_FORBIDDEN or c < " " for c in name):
        raise bad_argument(f"The runner name {name[:NAME_MAX]!r} is not valid.")
    key = (scale_set.tenant_id, name.casefold())
    if key in state.runner_names:
        raise runner_exists(name)
    if key in state.started_names:
        state.violation(now_s, "name used again", f"runner {name} had already been started once")
    runner = Runner(
        id=state.next_number("runner"),
        name=name,
        tenant_id=scale_set.tenant_id,
        scale_set_id=scale_set.id,
        secret=new_token(state.random, "jit_", bits=256),
        registered_s=now_s,
    )
    state.runners[runner.id] = runner
    state.runner_names[key] = runner.id
    state.runners_by_secret.put(runner.secret, runner)
    scale_set.runners.add(runner.id)
    state.counters["runners registered"] += 1
    state.peak_runners = max(state.peak_runners, len(state.runners))
    state.timers.at(now_s + state.options.offline_runner_life_s, Due.RUNNER, runner.id)
    news(state, scale_set)
    state.emit(now_s, "runner", runner=name, id=runner.id, state="registered")
    return runner


def online(state: State, runner: Runner, now_s: float) -> bool:
    """Connected, and heard of lately."""
    if not runner.session_id or runner.closed or runner.forgotten:
        return False
    silent_s = now_s - runner.last_seen_s
    return runner.polls_held > 0 or silent_s <= state.options.runner_offline_after_s


def get(state: State, tenant_id: str, runner_id: int) -> Runner:
    """The registration with that id.

    Raises:
        Refused: 404 AgentNotFound.
    """
    runner = state.runners.get(runner_id)
    if runner is None or runner.tenant_id != tenant_id:
        raise runner_not_found(runner_id)
    return runner


def find(state: State, tenant_id: str, name: str) -> Runner | None:
    """The registration with that name."""
    runner_id = state.runner_names.get((tenant_id, name.casefold()))
    return state.runners.get(runner_id) if runner_id is not None else None


def remove(state: State, now_s: float, tenant_id: str, runner_id: int) -> None:
    """Forget a registration, unless it has a job; that nobody knows it is fine by default.

    Raises:
        Refused: JobStillRunning; AgentNotFound where the options ask for it.
    """
    runner = state.runners.get(runner_id)
    if runner is None or runner.tenant_id != tenant_id:
        if state.options.unknown_runner_removal_status == 404:
            raise runner_not_found(runner_id)
        return
    if runner.job_id:
        state.counters["removals refused: job still running"] += 1
        raise job_still_running(runner.name)
    forget(state, now_s, runner, "removed")


def forget(state: State, now_s: float, runner: Runner, why: str) -> None:
    """The registration is gone; its process, if any, hears of it on its next word."""
    if runner.forgotten:
        return
    runner.forgotten = True
    state.runners.pop(runner.id, None)
    state.runner_names.pop((runner.tenant_id, runner.name.casefold()), None)
    scale_set = state.scale_sets.get(runner.scale_set_id)
    if scale_set is not None:
        scale_set.runners.discard(runner.id)
        scale_set.idle_polling.pop(runner.id, None)
        news(state, scale_set)
    if runner.session_id:
        state.touch(runner_topic(runner.session_id))
    state.emit(now_s, "runner", runner=runner.name, id=runner.id, state="forgotten", why=why)


def forget_later(state: State, now_s: float, runner: Runner) -> None:
    """An ephemeral runner's one job has ended: the registration goes by itself."""
    if state.options.agent_forget_delay_s <= 0:
        forget(state, now_s, runner, "job done")
    else:
        state.timers.at(now_s + state.options.agent_forget_delay_s, Due.FORGET, runner.id)


def release(state: State, runner: Runner) -> None:
    """The runner has no job any more; held polls have to look again."""
    runner.job_id = ""
    if runner.session_id:
        state.touch(runner_topic(runner.session_id))


def news(state: State, scale_set: ScaleSet) -> None:
    """Runner counts changed: only worth an envelope where the options ask for it."""
    if state.options.statistics_only_envelopes:
        scale_set.queue.add_news()
        state.touch(queue_topic(scale_set.id))
