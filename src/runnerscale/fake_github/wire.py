"""How the service's values look as JSON: field names, times, lists (contract C2 2.6-2.13, 4)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from runnerscale.fake_github.model import Job, Runner, RunnerGroup, ScaleSet, Session

ZERO_TIME = "0001-01-01T00:00:00Z"  # the service's word for "never"

Json = dict[str, object]


def encode(value: object) -> bytes:
    """JSON."""
    return msgspec.json.encode(value)


def time_text(seconds: float) -> str:
    """RFC 3339 with seven digits of fraction, as .NET writes it; 0 is the zero time."""
    if seconds <= 0:
        return ZERO_TIME
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"


def rest_time_text(seconds: float) -> str:
    """RFC 3339 in whole seconds, as GitHub's REST answers have it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def list_json(values: Sequence[object]) -> Json:
    """`{"count": n, "value": [...]}`."""
    return {"count": len(values), "value": list(values)}


def group_json(group: RunnerGroup, size: int) -> Json:
    """A runner group (C2 2.6)."""
    return {
        "id": group.id,
        "name": group.name,
        "size": size,
        "isDefaultGroup": group.is_default,
    }


def statistics_json(scale_set: ScaleSet) -> Json:
    """The truth about a scale set now (C2 4.4)."""
    registered = len(scale_set.runners)
    busy = min(registered, len(scale_set.running))  # a runner with a job cannot be removed
    return {
        "totalAvailableJobs": len(scale_set.available),
        "totalAcquiredJobs": 0,  # what is claimed is assigned in the same instant
        "totalAssignedJobs": len(scale_set.waiting) + len(scale_set.running),
        "totalRunningJobs": len(scale_set.running),
        "totalRegisteredRunners": registered,
        "totalBusyRunners": busy,
        "totalIdleRunners": registered - busy,
    }


def scale_set_json(
    scale_set: ScaleSet, group_name: str, statistics: Mapping[str, object], *, jit_url: str
) -> Json:
    """A scale set (C2 2.7)."""
    return {
        "id": scale_set.id,
        "name": scale_set.name,
        "runnerGroupId": scale_set.group_id,
        "runnerGroupName": group_name,
        "labels": [{"type": kind, "name": name} for kind, name in scale_set.labels],
        "runnerSetting": {"disableUpdate": scale_set.disable_update},
        "createdOn": time_text(scale_set.created_s),
        "runnerJitConfigUrl": jit_url,
        "statistics": dict(statistics),
    }


def session_json(
    session: Session, queue_url: str, scale_set: Mapping[str, object], statistics: Json
) -> Json:
    """A session (C2 2.8)."""
    return {
        "sessionId": session.id,
        "ownerName": session.owner,
        "runnerScaleSet": dict(scale_set),
        "messageQueueUrl": queue_url,
        "messageQueueAccessToken": session.token,
        "statistics": statistics,
    }


def runner_json(runner: Runner, *, online: bool) -> Json:
    """A runner reference (C2 2.13); `status` is what the live service adds."""
    return {
        "id": runner.id,
        "name": runner.name,
        "runnerScaleSetId": runner.scale_set_id,
        "status": "online" if online else "offline",
        "createdOn": time_text(runner.registered_s),
    }


def envelope_json(message_id: int, messages: Sequence[Json], statistics: Json) -> Json:
    """A 200 of the poll (C2 4.1); the job messages are a string holding an array."""
    return {
        "messageId": message_id,
        "messageType": "RunnerScaleSetJobMessages",
        "body": encode(messages).decode() if messages else "",
        "statistics": statistics,
    }


def job_message(kind: str, job: Job, *, request_id: int, finished_s: float = 0.0) -> Json:
    """One job message with the common fields (C2 4.2) and those of its kind (4.3)."""
    request = job.request
    message: Json = {
        "messageType": kind,
        "runnerRequestId": request_id,
        "repositoryName": request.repository,
        "ownerName": request.owner,
        "jobId": job.id,
        "jobWorkflowRef": request.workflow_ref,
        "jobDisplayName": request.display_name,
        "workflowRunId": request.run_id,
        "eventName": request.event_name,
        "requestLabels": list(request.labels),
        "queueTime": time_text(job.queued_s),
        "scaleSetAssignTime": time_text(job.assigned_s),
        "runnerAssignTime": time_text(job.handed_s),
        "finishTime": time_text(finished_s),
    }
    if kind in ("JobStarted", "JobCompleted"):
        message |= {"runnerId": job.runner_id, "runnerName": job.runner_name}
    if kind == "JobCompleted":
        message["result"] = job.result.value if job.result else "canceled"
    return message


def error_json(type_name: str, message: str) -> Json:
    """The exception body of the Actions service (C2 2.1)."""
    name = type_name.split(",")[0].rpartition(".")[2]
    return {
        "$id": "1",
        "innerException": None,
        "message": message,
        "typeName": type_name,
        "typeKey": name,
        "errorCode": 0,
        "eventId": 3000,
    }


def rest_error_json(message: str) -> Json:
    """The error body of GitHub's REST API."""
    return {
        "message": message,
        "documentation_url": "https://docs.github.com/rest",
    }
