"""Answers of the error tables of contract C2 that no preset of the pretended GitHub gives."""

from collections.abc import Callable

from runnerscale.fake_github.faults import Action, Match, Rule
from runnerscale.fake_github.presets import CLIENT_OPERATIONS, QUEUE_OPERATIONS, REST_OPERATIONS
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.standing import stand
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

STRIKES = 2
RUNTIME = "GitHub.Actions.Runtime.WebApi"
TASKS = "GitHub.DistributedTask.WebApi"
SESSION = ("open-session",)
EMPTY_ENVELOPE = '{"messageId":0,"messageType":"RunnerScaleSetJobMessages","body":"[]"}'


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
            times=None if lasting else STRIKES,
        )
        return await stand(world, [rule], planned, lasting=lasting)

    return fault


def _exception(assembly: str, name: str, message: str) -> str:
    return f'{{"typeName":"{assembly}.{name}, {assembly}","message":"{message}"}}'


FAULTS: dict[str, Fault] = {
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
