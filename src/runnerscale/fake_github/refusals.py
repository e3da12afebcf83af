"""What the service says no with: status, exception name, message.

One function per exception, so that a name or status is written once. The names are
assembly-qualified, as live answers are: a client must match by substring (contract C2 2.1,
Annex A). Statuses that nobody has established (Annex C 5) are our choice.
"""

RUNTIME = "GitHub.Actions.Runtime.WebApi"
TASK = "GitHub.DistributedTask.WebApi"


class Refused(Exception):
    """A request that is answered with an error body."""

    def __init__(
        self,
        status: int,
        type_name: str,
        message: str,
        *,
        code: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`type_name` empty: GitHub REST style; `code`: what the demo runner looks at."""
        super().__init__(message)
        self.status = status
        self.type_name = type_name
        self.message = message
        self.code = code
        self.headers = headers

    def __str__(self) -> str:
        return f"{self.status} {self.type_name or self.code}: {self.message}"


def _runtime(status: int, name: str, message: str) -> Refused:
    return Refused(status, f"{RUNTIME}.{name}, {RUNTIME}", message)


def _task(status: int, name: str, message: str) -> Refused:
    return Refused(status, f"{TASK}.{name}, {TASK}", message)


def scale_set_not_found(scale_set_id: int) -> Refused:
    """No scale set with that id in this tenant."""
    return _runtime(
        404, "RunnerScaleSetNotFoundException", f"No runner scale set found with id {scale_set_id}."
    )


def scale_set_exists(name: str) -> Refused:
    """The name is taken in its group."""
    return _runtime(
        409, "RunnerScaleSetExistsException", f"A runner scale set named {name} already exists."
    )


def group_not_found(group_id: int) -> Refused:
    """No runner group with that id."""
    return _runtime(
        404, "RunnerGroupNotFoundException", f"No runner group found with id {group_id}."
    )


def session_conflict(owner: str) -> Refused:
    """Somebody holds the one session."""
    return _runtime(
        409,
        "RunnerScaleSetSessionConflictException",
        f"The runner scale set already has an active session for owner {owner}.",
    )


def session_expired(session_id: str) -> Refused:
    """The session ended or never was."""
    return _runtime(
        400,
        "RunnerScaleSetSessionExpiredException",
        f"The session {session_id} is unknown or has expired.",
    )


def runner_exists(name: str) -> Refused:
    """The runner name is taken in this tenant."""
    return _task(
        409,
        "TaskAgentExistsException",
        f"Already exists - A runner exists with the same name {name}.",
    )


def runner_not_found(runner_id: int) -> Refused:
    """No such registration."""
    return _task(404, "TaskAgentNotFoundException", f"No runner found with id {runner_id}.")


def job_still_running(name: str) -> Refused:
    """The runner has a job; its registration stays."""
    return _task(
        409,
        "TaskAgentJobStillRunningException",
        f"Runner {name} is still running a job and cannot be removed.",
    )


def bad_argument(message: str) -> Refused:
    """A body or parameter the service cannot use."""
    return Refused(400, "System.ArgumentException, mscorlib", message)


def unauthorized(message: str = "The token is missing, unknown or expired.") -> Refused:
    """401 of the Actions service and of the queue."""
    return Refused(
        401,
        "GitHub.Services.Common.VssUnauthorizedException, GitHub.Services.Common",
        message,
        headers=(("WWW-Authenticate", "Bearer"),),
    )


def rest(status: int, message: str, **headers: str) -> Refused:
    """GitHub REST style: no exception name."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Refused(status, "", message, headers=named)


def runner_refused(status: int, code: str, message: str) -> Refused:
    """Our own runner protocol."""
    return Refused(status, "", message, code=code)
