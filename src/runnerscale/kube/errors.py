"""Every error that a call to the Kubernetes API can end with.

    KubeError                    anything below
    ├── Unreachable              no answer (refused, reset, deadline); may have taken effect
    ├── BadAnswer                an answer that cannot be understood (it may have taken effect)
    ├── ConfigError              kubeconfig, token or authority missing, unreadable, wrong
    └── ApiError                 the server said no, with a Status
        ├── BadRequest           400
        ├── Unauthorized         401
        ├── Forbidden            403 (RBAC, quota, Pod Security, webhooks)
        ├── NotFound             404
        ├── Conflict             409, reason Conflict: resourceVersion or uid did not match
        ├── AlreadyExists        409, reason AlreadyExists
        ├── Gone                 410: the version asked for is too old, list again
        ├── Invalid              422
        ├── TooManyRequests      429 that outlived our own waits
        └── ServerFault          5xx that outlived our own repeats

Only these leave `kube/`; the HTTP library's own errors are mapped in one place
(`transport.py`), Status bodies in another (`status.py`). `tests/unit/kube/test_errors.py`
holds the tree and the mapping.
"""

from dataclasses import dataclass, field


class KubeError(Exception):
    """Anything a call to the Kubernetes API can end with."""


class Unreachable(KubeError):
    """No answer in time; the request may or may not have taken effect.

    `sent` is False when it certainly had none: no connection came about.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        """`message`: what went wrong, without secrets."""
        super().__init__(message)
        self.sent = sent


class BadAnswer(KubeError):
    """An answer that cannot be understood; the request may have taken effect."""


class ConfigError(KubeError):
    """Where and how to reach the API server could not be found out, or turned out to be wrong.

    `lasting`: waiting does not change it, somebody must correct something.
    """

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        """`message`: which file or command, and what is wrong with it; without secrets."""
        super().__init__(message)
        self.lasting = lasting


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One line of a Status: which field, why."""

    field: str
    reason: str
    message: str


@dataclass(eq=False)
class ApiError(KubeError):
    """The server's Status. `message` is in its own words."""

    code: int
    reason: str
    message: str
    method: str = ""
    path: str = ""
    retry_after_s: float | None = None
    causes: tuple[StatusCause, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.code} {self.reason}: {self.message}"


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403: RBAC, quota, Pod Security or a webhook."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409 because of a resourceVersion or uid that no longer holds."""


class AlreadyExists(ApiError):
    """409 because the name is taken."""


class Gone(ApiError):
    """410: the resourceVersion asked for is too old."""


class Invalid(ApiError):
    """422."""


class TooManyRequests(ApiError):
    """429 that outlived our waits."""


class ServerFault(ApiError):
    """5xx that outlived our retries."""
