"""Carrying out the actions of a plan: one call each, and its answer as a value.

Nothing is decided here. Every call has a deadline; what can go wrong is one of the answers of
`actions.py`, and only a bug is raised. The JIT config is put into this process's memory the
moment it arrives, because GitHub gives it out only once.
"""

from collections.abc import Callable
from typing import TypeVar, assert_never

import structlog

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.api.labels import HOOK_RUNNER_POD
from runnerscale.api.reasons import Trouble, trouble
from runnerscale.controllers.conditions import as_body
from runnerscale.controllers.ephemeral_runner import learning
from runnerscale.controllers.ephemeral_runner.actions import (
    Action,
    Answer,
    AskRunner,
    CheckPod,
    CheckSecret,
    ConfirmView,
    CreatePod,
    CreateSecret,
    DeleteLeftovers,
    DeletePod,
    DeleteRunner,
    DeleteSecret,
    Done,
    FindRunner,
    Found,
    GenerateJit,
    GitHubAction,
    GitHubFailed,
    Known,
    KubeAction,
    NoAnswer,
    PatchStatus,
    Refused,
    Registered,
    RemoveRunner,
    Said,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.identity import Jit, Ref
from runnerscale.controllers.ephemeral_runner.jit_secret import JIT_TOKEN, jit_secret
from runnerscale.controllers.ephemeral_runner.memory import Memory
from runnerscale.controllers.ephemeral_runner.observe import is_its_pod
from runnerscale.controllers.ephemeral_runner.pod_view import pod_view
from runnerscale.controllers.ephemeral_runner.runner_pod import (
    NoRunnerContainer,
    runner_pod,
    work_folder,
)
from runnerscale.controllers.places import place_of
from runnerscale.controllers.troubles import github_trouble
from runnerscale.core.bounded import run_bounded
from runnerscale.core.clock import Clock, format_time
from runnerscale.credentials.place import Clients, PlaceTrouble
from runnerscale.kube.builtin import PODS, SECRETS, Pod, Secret
from runnerscale.kube.client import Client
from runnerscale.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
)
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import Body, controller_of, is_deleting
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.resource import Resource
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.errors import (
    BadAnswer,
    JobStillRunning,
    RunnerExists,
    RunnerNotFound,
    ScaleSetError,
    Unavailable,
)
from runnerscale.scaleset.model import RunnerReference

log = structlog.get_logger(__name__)

L = TypeVar("L", Pod, Secret)

GITHUB_TIMEOUT_S = 30.0  # one call, retries included; a pass must end within its own deadline
KUBE_TIMEOUT_S = 15.0
LEFTOVERS_AT_ONCE = 8  # deletions of what the hooks made


class Hands:
    """All that a plan of this folder can touch."""

    def __init__(
        self,
        *,
        client: Client,
        clients: Clients,
        runners: Informer[EphemeralRunner],
        pods: Informer[Pod],
        memory: Memory,
        own_writes: OwnWrites,
        clock: Clock,
        build_version: str,
        deletes: Callable[[EphemeralRunner], None],
        excluded_labels: tuple[str, ...] = (),
    ) -> None:
        """`build_version`: what runners report; `excluded_labels`: prefixes never copied.

        `deletes`: told of a runner just before it is deleted here.
        """
        self._client = client
        self._clients = clients
        self._runners = runners
        self._pods = pods
        self._memory = memory
        self._own_writes = own_writes
        self._clock = clock
        self._build_version = build_version
        self._deletes = deletes
        self._excluded_labels = excluded_labels

    async def apply(self, action: Action) -> Answer:
        """Carry out one action."""
        item = self._runners.store.get(action.of.key)
        if item is None or item.metadata.uid != action.of.uid:
            return Said.ABSENT  # gone since the plan was made; its namesake is not ours to touch
        match action:
            case GenerateJit() | FindRunner() | AskRunner() | RemoveRunner():
                return await self._at_github(action, item)
            case _:
                return await self._at_kube(action, item)

    # --- GitHub -------------------------------------------------------------------------------

    async def _at_github(self, action: GitHubAction, item: EphemeralRunner) -> Answer:
        about = f"EphemeralRunner {action.of.key}"
        try:
            place = place_of(item.spec, namespace=action.of.namespace)
            github = await self._clients.client_for(place)
        except (PlaceTrouble, ScaleSetError) as error:
            return GitHubFailed(_github_trouble(error, about))
        try:
            return await self._call(action, item, github)
        except RunnerExists:
            return Said.NAME_TAKEN
        except RunnerNotFound:
            return Said.ABSENT
        except JobStillRunning:
            return Said.JOB_RUNNING
        except ScaleSetError as error:
            return GitHubFailed(
                _github_trouble(error, about),
                maybe_done=_maybe_done(error),
                retry_after_s=error.answer.retry_after_s,
            )

    async def _call(
        self, action: GitHubAction, item: EphemeralRunner, github: ScaleSetClient
    ) -> Answer:
        name = action.of.name
        match action:
            case GenerateJit():
                made = await github.generate_jit_config(
                    item.spec.runner_scale_set_id,
                    name,
                    work_folder=work_folder(item.spec),
                    timeout_s=GITHUB_TIMEOUT_S,
                )
                runner = made.runner
                jit = Jit(runner.id, runner.name or name, runner.scale_set_id, made.encoded)
                hand = learning.registered(jit, at_s=self._clock.now_s())
                self._memory.keep(action.of.uid, hand)
                log.info("runner registered", runner=name, runner_id=runner.id)
                return Registered(jit)
            case FindRunner():
                found = await github.find_runner(name, timeout_s=GITHUB_TIMEOUT_S)
                return Said.ABSENT if found is None else _known(found)
            case AskRunner(runner_id=runner_id):
                return _known(await github.get_runner(runner_id, timeout_s=GITHUB_TIMEOUT_S))
            case RemoveRunner(runner_id=runner_id):
                await github.remove_runner(runner_id, timeout_s=GITHUB_TIMEOUT_S)
                log.info("runner deregistered", runner=name, runner_id=runner_id)
                return Said.FORGOTTEN
        assert_never(action)

    # --- Kubernetes ---------------------------------------------------------------------------

    async def _at_kube(self, action: KubeAction, item: EphemeralRunner) -> Answer:
        try:
            return await self._write(action, item)
        except AlreadyExists:
            return Said.EXISTS
        except Conflict:
            return Said.CONFLICT
        except NotFound as error:
            creates = isinstance(action, CreateSecret | CreatePod)
            return NoAnswer(error.message) if creates else Said.ABSENT
        except (Forbidden, Invalid, BadRequest) as error:
            return Refused(error.code, error.message)
        except KubeError as error:
            return NoAnswer(error.message if isinstance(error, ApiError) else str(error))

    async def _write(self, action: KubeAction, item: EphemeralRunner) -> Answer:
        of = action.of
        match action:
            case ConfirmView(resource_version=version):
                return await self._confirm_view(of, version)
            case CreateSecret(jit=jit):
                body = jit_secret(item, jit, excluded_labels=self._excluded_labels)
                await self._client.create(SECRETS, of.namespace, body, timeout_s=KUBE_TIMEOUT_S)
                return Done()
            case DeleteSecret():
                return await self._delete_secret(of)
            case CheckSecret():
                return await self._check_secret(of)
            case CreatePod(template_hash=template_hash):
                return await self._create_pod(item, of, template_hash)
            case CheckPod():
                pod = await self._client.get(PODS, of.namespace, of.name, timeout_s=KUBE_TIMEOUT_S)
                return Found(pod_view(pod)) if is_its_pod(item, pod) else Said.ABSENT
            case DeletePod():
                return await self._delete_pod(action)
            case DeleteLeftovers():
                return await self._delete_leftovers(of)
            case PatchStatus():
                body = status_body(action, now_s=self._clock.now_s())
                return await self._patch_runner(of, body, subresource="status")
            case SetFinalizers(finalizers=finalizers, resource_version=version):
                meta = {"resourceVersion": version, "finalizers": [*finalizers]}
                return await self._patch_runner(of, {"metadata": meta})
            case DeleteRunner():
                return await self._delete_runner(action, item)
        assert_never(action)

    async def _confirm_view(self, of: Ref, version: str) -> Answer:
        item = await self._client.get(
            EPHEMERAL_RUNNERS, of.namespace, of.name, timeout_s=KUBE_TIMEOUT_S
        )
        if item.metadata.uid != of.uid:
            return Said.ABSENT
        same = item.metadata.resource_version == version
        return Done(version) if same else Said.CONFLICT

    async def _create_pod(self, item: EphemeralRunner, of: Ref, template_hash: str) -> Answer:
        try:
            body = runner_pod(item, build_version=self._build_version, template_hash=template_hash)
        except NoRunnerContainer as error:
            return Refused(422, str(error))
        try:
            pod = await self._client.create(PODS, of.namespace, body, timeout_s=KUBE_TIMEOUT_S)
        except AlreadyExists:
            pod = await self._client.get(PODS, of.namespace, of.name, timeout_s=KUBE_TIMEOUT_S)
            if not is_its_pod(item, pod):
                return Said.EXISTS
        version = pod.metadata.resource_version or ""
        self._own_writes.wrote(of.key, self._pods, of.key, version)
        log.info("runner pod made", runner=of.name)
        return Done(version, uid=pod.metadata.uid or "")

    async def _delete_secret(self, of: Ref) -> Answer:
        """Ours only: somebody else's Secret may have the name."""
        secret = await self._client.get(SECRETS, of.namespace, of.name, timeout_s=KUBE_TIMEOUT_S)
        owner = controller_of(secret)
        if owner is None or owner.uid != of.uid:
            return Said.EXISTS
        await self._client.delete(
            SECRETS,
            of.namespace,
            of.name,
            uid=secret.metadata.uid,
            timeout_s=KUBE_TIMEOUT_S,
        )
        return Said.GONE

    async def _check_secret(self, of: Ref) -> Answer:
        """Whoever made it: what counts is what the pod finds there."""
        secret = await self._client.get(SECRETS, of.namespace, of.name, timeout_s=KUBE_TIMEOUT_S)
        return Done() if JIT_TOKEN in (secret.data or {}) else Said.ABSENT

    async def _delete_pod(self, action: DeletePod) -> Answer:
        of = action.of
        try:
            left = await self._client.delete(
                PODS,
                of.namespace,
                of.name,
                uid=action.uid,
                resource_version=action.resource_version or None,
                grace_period_s=action.grace_s,
                timeout_s=KUBE_TIMEOUT_S,
            )
        except Conflict:
            # Another pod has the name by now, or this one is not as it was any more.
            return Said.CONFLICT if action.resource_version else Said.GONE
        self._own_writes.deleted(of.key, self._pods, of.key, action.uid)
        held = left is not None and (action.grace_s != 0 or bool(left.metadata.finalizers))
        return Done() if held else Said.GONE

    async def _patch_runner(self, of: Ref, body: Body, *, subresource: str = "") -> Answer:
        item = await self._client.patch(
            EPHEMERAL_RUNNERS,
            of.namespace,
            of.name,
            body,
            subresource=subresource,
            timeout_s=KUBE_TIMEOUT_S,
        )
        self._own_writes.answered(of.key, self._runners, of.key, item)
        if is_deleting(item) and not item.metadata.finalizers:
            log.info("runner gone", runner=of.name)
        return Done(item.metadata.resource_version or "")

    async def _delete_runner(self, action: DeleteRunner, item: EphemeralRunner) -> Answer:
        of = action.of
        self._deletes(item)  # before the call: the watch may be faster than the answer
        left = await self._client.delete(
            EPHEMERAL_RUNNERS,
            of.namespace,
            of.name,
            uid=of.uid,
            resource_version=action.resource_version or None,
            timeout_s=KUBE_TIMEOUT_S,
        )
        self._own_writes.deleted(of.key, self._runners, of.key, of.uid)
        if left is None or not left.metadata.finalizers:
            return Said.GONE
        return Done(left.metadata.resource_version or "")

    async def _delete_leftovers(self, of: Ref) -> Answer:
        """Both kinds are tried, whatever becomes of one."""
        errors = [
            *await self._delete_linked(PODS, of),
            *await self._delete_linked(SECRETS, of),
        ]
        if not errors:
            return Done()
        raise errors[0]

    async def _delete_linked(self, resource: Resource[L], of: Ref) -> list[KubeError]:
        errors: list[KubeError] = []
        try:
            found = await self._client.list(
                resource,
                of.namespace,
                label_selector=f"{HOOK_RUNNER_POD}={of.name}",
                timeout_s=KUBE_TIMEOUT_S,
            )
        except KubeError as error:
            return [error]

        async def delete(item: L) -> None:
            name, uid = item.metadata.name or "", item.metadata.uid
            try:
                await self._client.delete(
                    resource, of.namespace, name, uid=uid, timeout_s=KUBE_TIMEOUT_S
                )
            except Conflict:
                return  # another object has the name by now: not ours to delete
            except KubeError as error:
                errors.append(error)

        left = [item for item in found.items if not is_deleting(item)]
        await run_bounded(left, delete, limit=LEFTOVERS_AT_ONCE)
        return errors


def status_body(action: PatchStatus, *, now_s: float) -> Body:
    """The merge patch: only what changes, and the version it was decided on."""
    status: Body = {}
    plain = {
        "phase": action.phase,
        "runnerId": action.runner_id,
        "runnerName": action.runner_name,
        "ready": action.ready,
    }
    status |= {key: value for key, value in plain.items() if value is not None}
    texts = {"reason": action.reason, "message": action.message}
    status |= {key: value or None for key, value in texts.items() if value is not None}
    if action.failed_pod:
        status["failures"] = {action.failed_pod: format_time(now_s)}
    if action.conditions:
        status["conditions"] = as_body(action.conditions)
    return {"metadata": {"resourceVersion": action.resource_version}, "status": status}


def _known(runner: RunnerReference) -> Known:
    return Known(runner.id, runner.scale_set_id, runner.status)


def _maybe_done(error: ScaleSetError) -> bool:
    """A call whose answer was lost, in one of its attempts at least; not one never sent."""
    return isinstance(error, BadAnswer) or (isinstance(error, Unavailable) and error.sent)


def _github_trouble(error: ScaleSetError | PlaceTrouble, about: str) -> Trouble:
    """As everywhere, but in words that stay the same from try to try (no activity id)."""
    found = github_trouble(error, about=about)
    if isinstance(error, PlaceTrouble) or not error.answer.status:
        return found
    answer = error.answer
    said = answer.exception_message or answer.exception_name or answer.reason
    happened = f"GitHub answered {answer.status}" + (f": {said}" if said else "")
    return trouble(found.reason, about=about, happened=happened)
