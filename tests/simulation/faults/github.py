"""GitHub's own troubles: the presets of the pretended GitHub, and answers that no preset gives.

What happens at GitHub itself (a scale set deleted, a runner forgotten) is `github_acts.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from runnerscale.fake_github.faults import Action, Match, Rule
from runnerscale.fake_github.presets import (
    CLIENT_OPERATIONS,
    PRESETS,
    QUEUE_OPERATIONS,
    REST_OPERATIONS,
    Ask,
    preset,
)
from runnerscale.fake_github.twists import BEFORE, Spoilt
from tests.simulation.faults.fault import (
    VICTIM_WAIT_S,
    WORK_AFTER_S,
    WORK_S,
    Fault,
    set_names,
    victim,
)
from tests.simulation.scenario import PlannedFault
from tests.simulation.users import queue_job
from tests.simulation.world import World

PRESET_STRIKES = 2
HOUR_S = 3_600.0
TICK_S = 0.001  # less than this is no wait
# Rules about the runner's own protocol, which has no network here, and acts that need a person.
BY_ACT = {
    "runner-version-refused",
    "scale-set-deleted",
    "credentials-revoked",
    "runner-ghost",
    "job-completed-early",
}
RUNTIME = "GitHub.Actions.Runtime.WebApi"
TASKS = "GitHub.DistributedTask.WebApi"


async def stand(world: World, rules: Sequence[Rule], seconds: float) -> bool:
    """Let the rules stand: those that last for `seconds`, those that strike until they did.

    Whether any of them was felt. Where none is, a user gives the system something to do.
    """
    added = [world.hub.faults.add(rule) for rule in rules]
    lasting = any(rule.until_s is not None for rule in added)
    until_s = world.clock.monotonic_s() + (seconds if lasting else VICTIM_WAIT_S)
    busy_s = world.clock.monotonic_s() + WORK_AFTER_S
    worked = False
    while (left_s := until_s - world.clock.monotonic_s()) > TICK_S:
        if not lasting and not any(rule.id in world.hub.faults.rules for rule in added):
            break
        if not worked and world.clock.monotonic_s() >= busy_s and not _felt(added):
            worked = True
            for name in set_names(world)[:1]:
                queue_job(world, name, WORK_S)
        await world.clock.sleep(min(left_s, 1.0))
    for rule in added:
        world.hub.faults.remove(rule.id)
    return _felt(added)


def _felt(rules: Sequence[Rule]) -> bool:
    return any(rule.fired > 0 for rule in rules)


def _served(world: World) -> bool:
    """Whether there is anything at GitHub that a twist could strike."""
    return any(s.session is not None for s in world.github.state.scale_sets.values())


def _github(name: str) -> Fault:
    known = preset(name)

    async def fault(world: World, planned: PlannedFault) -> bool:
        hub = world.hub
        struck = False
        if known.twist:
            if await victim(world, lambda: [1] if _served(world) else [], 0.0) is None:
                return False
            spoilt = Spoilt(0, "", "", b"", known.value or str(planned.seconds), {})
            hub.run(BEFORE[known.twist], spoilt)
            struck = not known.rules(_ask(world, planned, known.value))
        rules = []
        for rule in known.rules(_ask(world, planned, known.value)):
            lasting = rule.until_s is not None
            rules.append(replace(rule, name=name, times=None if lasting else rule.times))
        if rules:
            return await stand(world, rules, planned.seconds)
        return struck

    return fault


def _ask(world: World, planned: PlannedFault, value: str) -> Ask:
    return Ask(now_s=world.hub.now_s(), seconds=planned.seconds, times=PRESET_STRIKES, value=value)


def _answers(
    operations: tuple[str, ...],
    status: int,
    body: str,
    *,
    lasting: bool = False,
    content_type: str = "application/json; charset=utf-8",
    headers: Callable[[float], tuple[tuple[str, str], ...]] = lambda _seconds: (),
) -> Fault:
    """Canned answers of the error tables of contract C2."""

    async def fault(world: World, planned: PlannedFault) -> bool:
        action = Action(
            status=status,
            body=body,
            content_type=content_type,
            headers=headers(planned.seconds),
        )
        rule = Rule(
            Match(operations=operations),
            action,
            times=None if lasting else PRESET_STRIKES,
            until_s=world.hub.now_s() + planned.seconds if lasting else None,
        )
        return await stand(world, [rule], planned.seconds)

    return fault


def _exception(assembly: str, name: str, message: str) -> str:
    return f'{{"typeName":"{assembly}.{name}, {assembly}","message":"{message}"}}'


async def hour_outage(world: World, fault: PlannedFault) -> bool:
    """GitHub is away for an hour: a scenario of its own, with few jobs."""
    name = ("github-down", "github-unreachable", "black-hole", "rate-limited-403")[
        int(fault.draw * 4)
    ]
    ask = Ask(now_s=world.hub.now_s(), seconds=HOUR_S, times=None, value="")
    rules = [replace(rule, times=None) for rule in preset(name).rules(ask)]
    return await stand(world, rules, HOUR_S)


SESSION = ("open-session",)
EMPTY_ENVELOPE = '{"messageId":0,"messageType":"RunnerScaleSetJobMessages","body":"[]"}'

FAULTS: dict[str, Fault] = {
    **{
        f"github-{name}".replace("github-github", "github"): _github(name)
        for name in PRESETS
        if name not in BY_ACT
    },
    "github-rate-limited-secondary": _answers(
        CLIENT_OPERATIONS,
        403,
        '{"message":"You have exceeded a secondary rate limit."}',
        lasting=True,
        headers=lambda seconds: (("Retry-After", str(max(1, int(seconds)))),),
    ),
    "github-not-implemented": _answers(CLIENT_OPERATIONS, 501, "", lasting=True),
    "github-exception": _answers(
        CLIENT_OPERATIONS,
        500,
        _exception("System", "InvalidOperationException", "could not do something"),
        lasting=True,
    ),
    "github-registration-refused": _answers(
        REST_OPERATIONS, 403, '{"message":"Resource not accessible by personal access token"}'
    ),
    "github-registration-unknown": _answers(REST_OPERATIONS, 404, '{"message":"Not Found"}'),
    "github-queue-unauthorized": _answers(
        QUEUE_OPERATIONS,
        401,
        _exception("GitHub.Services.Common", "VssUnauthorizedException", "The token is expired."),
    ),
    "github-queue-gone": _answers(QUEUE_OPERATIONS, 410, ""),
    "github-queue-unknown": _answers(QUEUE_OPERATIONS, 404, ""),
    "github-session-expired": _answers(
        ("poll", "refresh-session"),
        400,
        _exception(RUNTIME, "RunnerScaleSetSessionExpiredException", "The session has expired."),
    ),
    "github-session-refused": _answers(
        SESSION, 400, _exception("System", "ArgumentException", "ownerName is not valid")
    ),
    "github-session-without-statistics": _answers(
        SESSION,
        200,
        '{"sessionId":"7a3a1c56-0000-4000-8000-000000000001","ownerName":"x","statistics":null,'
        '"messageQueueUrl":"","messageQueueAccessToken":""}',
    ),
    "github-envelope-without-statistics": _answers(("poll",), 200, EMPTY_ENVELOPE),
    "github-acknowledged-otherwise": _answers(("acknowledge",), 200, "null"),
    "github-acknowledge-refused": _answers(
        ("acknowledge",), 400, _exception("System", "ArgumentException", "messageId is not valid")
    ),
    "github-jit-refused": _answers(
        ("jit-config",), 400, _exception("System", "ArgumentException", "name is not valid")
    ),
    "github-jit-empty": _answers(("jit-config",), 200, '{"runner":null,"encodedJITConfig":""}'),
    "github-runner-twice": _answers(
        ("find-runner",),
        200,
        '{"count":2,"value":[{"id":900001,"name":"x","runnerScaleSetId":1},'
        '{"id":900002,"name":"x","runnerScaleSetId":1}]}',
    ),
    "github-runner-unknown": _answers(
        ("remove-runner",), 404, _exception(TASKS, "TaskAgentNotFoundException", "No runner found.")
    ),
    "github-scale-set-unknown": _answers(
        ("get-scale-set", "open-session", "jit-config", "update-scale-set"),
        404,
        _exception(RUNTIME, "RunnerScaleSetNotFoundException", "No runner scale set found."),
    ),
    "github-scale-set-exists": _answers(
        ("create-scale-set", "update-scale-set"),
        409,
        _exception(RUNTIME, "RunnerScaleSetExistsException", "It already exists."),
    ),
}
APART: dict[str, Fault] = {"github-hour-outage": hour_outage}
