"""From an error of the layers below to the `Trouble` that a person reads.

One mapping for all reconcilers, so that the same refusal has the same reason on every kind.
What follows from it (waiting, giving up) is each reconciler's own rule. Pure.
"""

import re

from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.credentials.place import PlaceTrouble
from runnerscale.kube.errors import ApiError, Forbidden, KubeError
from runnerscale.scaleset import errors
from runnerscale.scaleset.failures import what_happened

# How the API server words its refusals; a 403 may also come from a webhook or Pod Security.
QUOTA_WORDS = "exceeded quota"
RBAC_WORDS = re.compile(r"cannot \w+ resource")

_GITHUB = (  # the first class that fits; the tree is in scaleset/errors.py
    (errors.InvalidConfigUrl, Reason.CONFIG_URL_INVALID),
    (errors.InvalidCredentials, Reason.CREDENTIALS_INVALID),
    (errors.InvalidCertificate, Reason.CERTIFICATE_INVALID),
    (errors.InvalidProxy, Reason.PROXY_INVALID),
    (errors.CredentialsRefused, Reason.CREDENTIALS_REFUSED),
    (errors.ProxyDenied, Reason.PROXY_REFUSED),
    (errors.RateLimited, Reason.GITHUB_RATE_LIMITED),
    (errors.RunnerGroupNotFound, Reason.RUNNER_GROUP_NOT_FOUND),
    (errors.ScaleSetAmbiguous, Reason.SCALE_SET_AMBIGUOUS),
    (errors.ScaleSetNotFound, Reason.SCALE_SET_GONE),
    (errors.JobStillRunning, Reason.JOB_STILL_RUNNING),
    (errors.RunnerExists, Reason.RUNNER_NAME_TAKEN),
    (errors.RunnerNotFound, Reason.REGISTRATION_LOST),
    (errors.SessionConflict, Reason.SESSION_HELD_ELSEWHERE),
    (errors.SessionLost, Reason.SESSION_LOST),
    (errors.QueueTokenExpired, Reason.SESSION_LOST),
    (errors.Refused, Reason.GITHUB_REFUSED),
)


def github_trouble(error: errors.ScaleSetError | PlaceTrouble, *, about: str) -> Trouble:
    """Why a call to GitHub, or the way there, failed. `about`: kind namespace/name."""
    if isinstance(error, PlaceTrouble):
        return Trouble(Reason(error.reason), about, error.happened, error.remedy)  # type: ignore[call-arg]
    reason = next((word for kind, word in _GITHUB if isinstance(error, kind)), None)
    happened = what_happened(error)
    if error.answer.activity_id and error.answer.activity_id not in happened:
        happened = f"{happened.rstrip('.')} (activity id {error.answer.activity_id})"
    return trouble(reason or Reason.GITHUB_UNAVAILABLE, about=about, happened=happened)


def kube_trouble(error: KubeError, *, about: str, doing: str) -> Trouble:
    """Why the API server did not do it. `doing`: what was tried, such as `create its Role`."""
    said = error.message if isinstance(error, ApiError) else str(error)
    reason = Reason.API_SERVER_REFUSED
    if isinstance(error, Forbidden) and QUOTA_WORDS in said:
        reason = Reason.QUOTA_EXCEEDED
    elif isinstance(error, Forbidden) and RBAC_WORDS.search(said):
        reason = Reason.RIGHTS_MISSING
    return trouble(reason, about=about, happened=f"could not {doing}: {said}")
