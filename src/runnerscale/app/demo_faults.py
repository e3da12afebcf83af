"""What the demo can break, and the reason that must then be shown.

`--fault NAME@SECONDS` strikes once, so many seconds after the jobs were queued; `NAME@xN` at N
random instants while jobs run. Three kinds: a process is killed, the pretended GitHub or the node
misbehaves (their own controls), or somebody edits objects. Reasons are those of `api/reasons.py`.
"""

import base64
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.reasons import Reason
from runnerscale.app.github_control import GitHubControl
from runnerscale.app.manifests import GITHUB_SECRET, SYSTEM_NAMESPACE
from runnerscale.app.problem import Problem, UsageProblem
from runnerscale.app.single_machine import (
    API_SERVER,
    MANAGER,
    NAMESPACE,
    NODE_AGENT,
    Machine,
)
from runnerscale.core.whole_number import whole_number
from runnerscale.kube.builtin import SECRETS
from runnerscale.kube.errors import Invalid, NotFound
from runnerscale.kube.objects import AnyObject
from runnerscale.kube.resource import Resource

RUNNER_SET = "demo"
LISTENER_LABELS = {"app.kubernetes.io/component": "runner-scale-set-listener"}
RUNNER_LABELS = {"actions-ephemeral-runner": "True"}
FAULT_SECONDS = 15.0
# Our calls are tried again for some seconds before anything counts as stuck, and credentials are
# read anew within a minute: shorter than this and nobody need notice.
GITHUB_SECONDS = 45.0
SECRET_SECONDS = 75.0
TIMEOUT_S = 5.0
INSTANTS_MAX = 100
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", AnyObject)
Strike = Callable[["Breaker"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to break. `reason` empty: nothing is stuck, so nothing need be said."""

    name: str
    what: str
    reason: Reason | None
    strike: Strike
    heal: Strike | None = None
    heal_after_s: float = FAULT_SECONDS


@dataclass(frozen=True, slots=True)
class FaultAt:
    """When. `count` > 0: so many random instants instead of `at_s`."""

    fault: Fault
    at_s: float
    count: int = 0


class Breaker:
    """The hands that break things."""

    def __init__(self, machine: Machine, github: GitHubControl) -> None:
        """Only what the machine started is touched."""
        self.machine = machine
        self.github = github
        self._kept: dict[str, Any] = {}

    async def node(self, body: dict[str, Any]) -> None:
        """Have the node agent suffer something."""
        url = f"http://127.0.0.1:{self.machine.ports.node}/faults"
        headers = {"Authorization": f"Bearer {self.machine.node_token.reveal()}"}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(url, json=body, headers=headers) as answer,
            ):
                if answer.status >= 400:
                    raise Problem(f"the node refuses {body['fault']}: {await answer.text()}", "")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Problem(f"the node agent gives no answer: {error}", "") from error

    async def patch_set(self, spec: dict[str, Any]) -> None:
        """Edit the runner set, as with kubectl."""
        admin = self.machine.admin
        await admin.patch(AUTOSCALING_RUNNER_SETS, NAMESPACE, RUNNER_SET, {"spec": spec})

    async def set_token(self, token: str | None) -> None:
        """Replace the token in the secret, or delete the secret."""
        admin = self.machine.admin
        if token is None:
            await admin.delete(SECRETS, NAMESPACE, GITHUB_SECRET)
            return
        data = {"github_token": base64.b64encode(token.encode()).decode()}
        try:
            await admin.patch(SECRETS, NAMESPACE, GITHUB_SECRET, {"data": data})
        except NotFound:
            body = {"metadata": {"name": GITHUB_SECRET}, "data": data}
            await admin.create(SECRETS, NAMESPACE, body)

    async def set_template(self, **container: Any) -> None:
        """Change the runner's container; remembered so that it can be put back."""
        admin = self.machine.admin
        current = await admin.get_raw(AUTOSCALING_RUNNER_SETS.path(NAMESPACE, RUNNER_SET))
        template = current["spec"]["template"]
        self._kept.setdefault("template", template)
        spec = dict(template["spec"])
        spec["containers"] = [{**spec["containers"][0], **container}, *spec["containers"][1:]]
        await self.patch_set({"template": {"spec": spec}})

    async def restore_template(self) -> None:
        """As it was."""
        template = self._kept.pop("template", None)
        if template is not None:
            await self.patch_set({"template": template})

    async def set_quota(self, pods: int | None) -> None:
        """At most so many pods in the namespace; None: no quota."""
        admin = self.machine.admin
        if pods is None:
            await admin.delete(RESOURCE_QUOTAS, NAMESPACE, "demo")
            return
        body = {"metadata": {"name": "demo"}, "spec": {"hard": {"pods": str(pods)}}}
        await admin.create(RESOURCE_QUOTAS, NAMESPACE, body)


def _kill(name: str) -> Strike:
    async def strike(breaker: Breaker) -> None:
        if not breaker.machine.supervisor.kill(name):
            raise Problem(f"{name} is not running just now", "")

    return strike


def _preset(name: str, value: str = "", seconds: float = FAULT_SECONDS) -> Strike:
    async def strike(breaker: Breaker) -> None:
        await breaker.github.add_fault(name, seconds=seconds, value=value)

    return strike


def _node(**body: Any) -> Strike:
    async def strike(breaker: Breaker) -> None:
        await breaker.node(body)

    return strike


def _edit(**spec: Any) -> Strike:
    async def strike(breaker: Breaker) -> None:
        await breaker.patch_set(spec)

    return strike


def _token(token: str | None) -> Strike:
    async def strike(breaker: Breaker) -> None:
        await breaker.set_token(token)

    return strike


def _template(**container: Any) -> Strike:
    async def strike(breaker: Breaker) -> None:
        await breaker.set_template(**container)

    return strike


async def _template_back(breaker: Breaker) -> None:
    await breaker.restore_template()


async def _min_above_max(breaker: Breaker) -> None:
    # The rule in the CRD must refuse it: the last good wish stays.
    with contextlib.suppress(Invalid):
        await breaker.patch_set({"minRunners": 100_000})
        raise Problem("the API server accepted minRunners above maxRunners", "Report it")


async def _quota(breaker: Breaker) -> None:
    await breaker.set_quota(1)


async def _no_quota(breaker: Breaker) -> None:
    await breaker.set_quota(None)


_LISTENER_POD = {"namespace": SYSTEM_NAMESPACE, "labels": LISTENER_LABELS}
_RUNNER_POD = {"namespace": NAMESPACE, "labels": RUNNER_LABELS}
GOOD_TOKEN = "demo-token"  # noqa: S105 - the pretended GitHub takes any

FAULTS: tuple[Fault, ...] = (
    Fault("kill-controller", "kill -9 of the controller", None, _kill(MANAGER)),
    Fault("kill-listener", "kill -9 of the listener", None, _node(fault="kill", **_LISTENER_POD)),
    Fault("kill-api-server", "kill -9 of the API server", None, _kill(API_SERVER)),
    Fault("kill-node", "kill -9 of the node agent; runners go on", None, _kill(NODE_AGENT)),
    Fault(
        "github-down",
        "GitHub answers 503 for 45 s",
        Reason.GITHUB_UNAVAILABLE,
        _preset("github-down", seconds=GITHUB_SECONDS),
    ),
    Fault(
        "rate-limited",
        "GitHub answers 429 for 45 s",
        Reason.GITHUB_RATE_LIMITED,
        _preset("rate-limited", seconds=GITHUB_SECONDS),
    ),
    Fault(
        "credentials-revoked",
        "GitHub refuses the credentials for 45 s",
        Reason.CREDENTIALS_REFUSED,
        _preset("credentials-revoked", seconds=GITHUB_SECONDS),
    ),
    Fault(
        "secret-deleted",
        "the Secret with the credentials is deleted; back after 75 s",
        Reason.CREDENTIALS_MISSING,
        _token(None),
        _token(GOOD_TOKEN),
        heal_after_s=SECRET_SECONDS,
    ),
    Fault(
        "scale-set-deleted",
        "somebody deletes the scale set at GitHub",
        Reason.SCALE_SET_GONE,
        _preset("scale-set-deleted"),
    ),
    Fault(
        "session-lost", "GitHub forgets the session", Reason.SESSION_LOST, _preset("session-lost")
    ),
    Fault(
        "session-held",
        "another listener holds the session for 30 s",
        Reason.SESSION_HELD_ELSEWHERE,
        _preset("session-held", value="30"),
    ),
    Fault(
        "malformed-message",
        "a message that cannot be read",
        Reason.MESSAGE_QUARANTINED,
        _preset("malformed-message"),
    ),
    Fault(
        "runner-version-refused",
        "GitHub calls the runners too old for 15 s",
        Reason.OUTDATED,
        _preset("runner-version-refused"),
        _template(env=[{"name": "DEMO_NEWER_RUNNER", "value": "1"}]),
    ),
    Fault("evict", "a runner pod is evicted", Reason.EVICTED, _node(fault="evict", **_RUNNER_POD)),
    Fault(
        "oom-kill",
        "a runner is killed for its memory",
        Reason.OUT_OF_MEMORY,
        _node(fault="oom-kill", **_RUNNER_POD),
    ),
    Fault(
        "no-room",
        "nothing is placed for 15 s",
        None,
        _node(fault="no-room", seconds=FAULT_SECONDS),
    ),
    Fault(
        "bad-image",
        "the template's image name is invalid for 15 s",
        Reason.IMAGE_INVALID,
        _template(image="not a valid image"),
        _template_back,
    ),
    Fault(
        "quota",
        "a quota of one pod for 15 s",
        Reason.QUOTA_EXCEEDED,
        _quota,
        _no_quota,
    ),
    Fault(
        "priority-class",
        "the template names a PriorityClass that does not exist, for 15 s",
        Reason.TEMPLATE_REFUSED,
        _edit(template={"spec": {"priorityClassName": "nowhere"}}),
        _edit(template={"spec": {"priorityClassName": None}}),
    ),
    Fault(
        "min-above-max",
        "somebody asks for more idle runners than the maximum (the API server refuses it)",
        None,
        _min_above_max,
    ),
)
_BY_NAME = {fault.name: fault for fault in FAULTS}


def parse_faults(texts: Sequence[str]) -> tuple[FaultAt, ...]:
    """`NAME@SECONDS` or `NAME@xN` of the command line.

    Raises:
        UsageProblem: no such fault, or no such time.
    """
    return tuple(_parse(text) for text in texts if text != "list")


def _parse(text: str) -> FaultAt:
    name, at, time = text.partition("@")
    see = "Write NAME@SECONDS or NAME@xN; 'runnerscale demo --fault list' tells the names"
    if name not in _BY_NAME:
        raise UsageProblem(f"--fault {text}: there is no fault {name!r}", see)
    if not at:
        raise UsageProblem(f"--fault {text}: it does not say when", see)
    instants = (whole_number(time[1:]) or 0) if time.startswith("x") else 0
    if 1 <= instants <= INSTANTS_MAX:
        return FaultAt(_BY_NAME[name], 0.0, instants)
    try:
        at_s = float(time)
    except ValueError:
        at_s = -1.0
    if not 0 <= at_s < 3600:
        raise UsageProblem(f"--fault {text}: {time!r} is no time", see)
    return FaultAt(_BY_NAME[name], at_s)


def fault_lines() -> list[str]:
    """The list for people."""
    width = max(len(fault.name) for fault in FAULTS) + 2
    return [
        f"{fault.name:<{width}}{fault.what}" + (f" [{fault.reason}]" if fault.reason else "")
        for fault in FAULTS
    ]
