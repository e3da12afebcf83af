"""Every error that the scale-set client raises.

    ScaleSetError
    ├── InvalidConfigUrl       the config URL names no enterprise, organization or repository
    ├── InvalidCredentials     a key that cannot be read; found before anything is sent
    ├── InvalidCertificate     extra root certificates that are none
    ├── InvalidProxy           a proxy URL that cannot be used
    ├── Unavailable            no usable answer in time; the call may have taken effect
    │   ├── RateLimited        429, or 403 with rate-limit headers, past what we wait for
    │   └── ProxyDenied        403 or 407 of the proxy itself: GitHub was not asked
    ├── BadAnswer              a success status with a body that cannot be used; as Unavailable
    └── Refused                no for good: 4xx other than 429; trying again is useless
        ├── CredentialsRefused 401 or 403 that survived one refresh
        ├── RunnerExists       the runner name is taken, possibly by our own lost call
        ├── RunnerNotFound     GitHub does not know the runner
        ├── JobStillRunning    the runner has a job; GitHub's word is final
        ├── ScaleSetNotFound   the scale set is gone
        ├── ScaleSetAmbiguous  a lookup by name found several scale sets
        ├── RunnerGroupNotFound
        ├── SessionConflict    somebody (perhaps our dead predecessor) holds the session
        ├── SessionLost        the session expired or is not ours
        └── QueueTokenExpired  401 of the queue that survived one refresh

All carry what GitHub said: status, activity id, request id, exception name, attempts, body
(cut to 4 KiB, secrets never in it because none is ever sent back). Which answer becomes
which error is `failures.py`.
Source: contract github-service-and-listener 2.1, W9, W23-W25.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back with an error; all empty when nothing came back."""

    status: int = 0
    reason: str = ""
    activity_id: str = ""
    request_id: str = ""
    exception_name: str = ""
    exception_message: str = ""
    body: str = ""
    attempts: int = 0
    retry_after_s: float | None = None


class ScaleSetError(Exception):
    """Anything the scale-set client raises."""

    def __init__(self, message: str, answer: Answer | None = None) -> None:
        """`message`: for people; `answer`: what GitHub said."""
        super().__init__(message)
        self.answer = answer or Answer()


class InvalidConfigUrl(ScaleSetError):
    """The config URL names no enterprise, organization or repository."""


class InvalidCredentials(ScaleSetError):
    """A private key or id that cannot be used."""


class InvalidCertificate(ScaleSetError):
    """Extra root certificates that are none."""


class InvalidProxy(ScaleSetError):
    """A proxy URL that cannot be used; the text never contains its user info."""


class Unavailable(ScaleSetError):
    """No usable answer in time; the call may have taken effect, unless `sent` is False."""

    def __init__(self, message: str, answer: Answer | None = None, *, sent: bool = True) -> None:
        """`sent`: False only when no attempt got as far as the other side."""
        super().__init__(message, answer)
        self.sent = sent


class RateLimited(Unavailable):
    """GitHub asks to wait longer than this call may; `answer.retry_after_s` says how long."""


class ProxyDenied(Unavailable):
    """The proxy did not let us through; GitHub was not asked."""


class BadAnswer(ScaleSetError):
    """A success status with a body that cannot be used; the call may have taken effect."""


class Refused(ScaleSetError):
    """No for good; trying again is useless."""


class CredentialsRefused(Refused):
    """401 or 403 that survived one refresh."""


class RunnerExists(Refused):
    """The runner name is taken."""


class RunnerNotFound(Refused):
    """GitHub does not know the runner."""


class JobStillRunning(Refused):
    """The runner has a job."""


class ScaleSetNotFound(Refused):
    """The scale set is gone."""


class ScaleSetAmbiguous(Refused):
    """A lookup by name found several scale sets."""


class RunnerGroupNotFound(Refused):
    """No runner group, or more than one, has that name."""


class SessionConflict(Refused):
    """Somebody holds the scale set's one session."""


class SessionLost(Refused):
    """The session expired or is not ours."""


class QueueTokenExpired(Refused):
    """The queue's 401 survived one refresh."""
