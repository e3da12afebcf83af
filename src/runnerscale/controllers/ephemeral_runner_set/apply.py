"""Carries out what a plan wants, one call each; what an error means is an answer.

Writes: metadata and status of EphemeralRunnerSets, EphemeralRunner objects (create, delete),
the set's proxy Secret. Never: `spec.replicas`, `patchID` (the listener's), anything in a
runner's status (its own controller's).
"""

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.api.names import runner_name
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner.runner_pod import NoRunnerContainer, runner_pod
from runnerscale.controllers.ephemeral_runner_set import proxy_secret, template_check
from runnerscale.controllers.ephemeral_runner_set import snapshot as snap
from runnerscale.controllers.ephemeral_runner_set.ephemeral_runner import (
    decoded,
    ephemeral_runner,
    is_mine,
)
from runnerscale.controllers.ephemeral_runner_set.memory import Memory
from runnerscale.controllers.ephemeral_runner_set.removals import Removals
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Answer,
    Data,
    Look,
    Refused,
    Said,
    Snapshot,
    Undecided,
)
from runnerscale.controllers.places import place_of
from runnerscale.controllers.troubles import RBAC_WORDS, github_trouble, kube_trouble
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.credentials.place import Clients, PlaceTrouble
from runnerscale.kube.builtin import PODS, SECRETS
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
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.scaleset.errors import ScaleSetError

log = structlog.get_logger(__name__)

CREATE_TRIES_MAX = 3  # of one name; then a later pass goes on with it
NAME_DRAWS_MAX = 3  # a name drawn twice in a row out of fourteen million means a broken source
# The name in a dry run: like a runner's, but none that is ever drawn (it has vowels).
DRY_RUN_SUFFIX = "template-check"
REFUSALS = (BadRequest, Forbidden, Invalid)


class Hands:
    """All that this controller can do."""

    def __init__(
        self,
        *,
        client: Client,
        clients: Clients,
        sets: Informer[EphemeralRunnerSet],
        runners: Informer[EphemeralRunner],
        memory: Memory,
        removals: Removals,
        own_writes: OwnWrites,
        clock: Clock,
        random: Random,
        build_version: str,
        is_view_proven: Callable[[], bool],
    ) -> None:
        """`random`: for names; `build_version`: what runner pods report, for the dry run.

        `is_view_proven`: whether the caches are known not to be of the past.
        """
        self._client = client
        self._clients = clients
        self._sets = sets
        self._runners = runners
        self._memory = memory
        self._removals = removals
        self._own_writes = own_writes
        self._clock = clock
        self._random = random
        self._build_version = build_version
        self._is_view_proven = is_view_proven

    async def apply(self, at: Snapshot, action: snap.Action) -> Answer:
        """One action."""
        match action:
            case snap.PatchSet(body):
                return await self._patch_set(at, body)
            case snap.ConfirmView():
                return await self._confirm_view(at)
            case snap.CreateRunner(name):
                return await self._create_runner(at, name)
            case snap.AskGitHub():
                return self._ask(at, action)
            case snap.DeleteRunner():
                return await self._delete_runner(at, action)
            case snap.CheckTemplate():
                return await self._check_template(at)
            case snap.ResolveProxy():
                return await self._resolve_proxy(at)
            case snap.ReadProxySecret():
                return await self._read_proxy(at)
            case snap.WriteProxySecret(body, create):
                return await self._write_proxy(at, body, create=create)
            case snap.DeleteProxySecret(uid):
                return await self._delete_proxy(at, uid)
            case snap.WriteStatus(body):
                return await self._write_status(at, body)

    # --- the set ------------------------------------------------------------------------------

    async def _patch_set(self, at: Snapshot, body: Mapping[str, Any]) -> Answer:
        namespace, name = at.reference.namespace, at.reference.name
        try:
            # Carries the version: the list of finalizers is exchanged as a whole.
            item = await self._client.patch(EPHEMERAL_RUNNER_SETS, namespace, name, body)
        except NotFound:
            return Said.GONE
        except Conflict:
            return Said.CONFLICT
        except REFUSALS as error:
            return self._refused(at, error, "write its metadata")
        self._own_writes.answered(at.key, self._sets, at.key, item)
        return Said.DONE

    async def _confirm_view(self, at: Snapshot) -> Answer:
        """The set itself says nothing of runners that were made since it was written last."""
        if not self._is_view_proven():
            return Said.CONFLICT
        namespace, name = at.reference.namespace, at.reference.name
        try:
            item = await self._client.get(EPHEMERAL_RUNNER_SETS, namespace, name)
        except NotFound:
            return Said.GONE
        except REFUSALS as error:
            return self._refused(at, error, "read it")
        now, then = item.metadata, at.item.metadata
        same = (now.uid, now.resource_version) == (then.uid, then.resource_version)
        return Said.DONE if same else Said.CONFLICT

    async def _write_status(self, at: Snapshot, body: Mapping[str, Any]) -> Answer:
        namespace, name = at.reference.namespace, at.reference.name
        try:
            # No version: only this controller writes a set's status.
            item = await self._client.patch(
                EPHEMERAL_RUNNER_SETS, namespace, name, {"status": body}, subresource="status"
            )
        except NotFound:
            return Said.GONE
        except REFUSALS as error:
            return self._refused(at, error, "write its status")
        self._own_writes.answered(at.key, self._sets, at.key, item)
        return item

    # --- runners ------------------------------------------------------------------------------

    async def _create_runner(self, at: Snapshot, name: str) -> Answer:
        remembered = self._memory.of(at.key, at.reference.uid)
        for _ in range(NAME_DRAWS_MAX):
            name = name or runner_name(at.reference.name, self._random)
            answer = await self._created(at, name)
            remembered.undecided.pop(name, None)
            if isinstance(answer, Undecided):
                remembered.undecided[name] = self._clock.now_s()
            if answer is not Said.CONFLICT:  # else somebody else has that name
                return answer
            name = ""
        happened = "every name that was drawn for a runner was taken"
        return Refused(trouble(Reason.RUNNER_NAME_TAKEN, about=at.about, happened=happened))

    async def _created(self, at: Snapshot, name: str) -> Answer:
        body = ephemeral_runner(at.item, at.reference, name=name, fingerprint=at.fingerprint)
        last: KubeError | None = None
        for _ in range(CREATE_TRIES_MAX):
            try:
                made = await self._client.create(EPHEMERAL_RUNNERS, at.reference.namespace, body)
            except AlreadyExists:
                return await self._whose(at, name)
            except (*REFUSALS, NotFound) as error:
                return self._refused(at, error, "create a runner")
            except KubeError as error:
                last = error  # it may exist: the same name again finds out
                continue
            self._note_created(at, name, made)
            return Said.DONE
        assert last is not None, "a try that neither succeeded nor was refused has failed"
        return Undecided(name, kube_trouble(last, about=at.about, doing="create a runner"))

    async def _whose(self, at: Snapshot, name: str) -> Answer:
        """A runner of that name exists: ours, by a call whose answer was lost, or foreign."""
        try:
            found = await self._client.get(EPHEMERAL_RUNNERS, at.reference.namespace, name)
        except NotFound:
            return Said.DONE  # it was ours or not, it is gone: the next pass counts again
        except KubeError as error:
            return Undecided(name, kube_trouble(error, about=at.about, doing="read a runner"))
        if not is_mine(found.metadata, at.reference):
            return Said.CONFLICT
        self._note_created(at, name, found)
        return Said.DONE

    def _note_created(self, at: Snapshot, name: str, made: EphemeralRunner) -> None:
        log.info("runner created", set=at.key, runner=name)
        key = f"{at.reference.namespace}/{name}"
        self._own_writes.wrote(at.key, self._runners, key, made.metadata.resource_version)

    def _ask(self, at: Snapshot, action: snap.AskGitHub) -> Answer:
        key = f"{at.reference.namespace}/{action.name}"
        item = self._runners.store.get(key)
        if item is None or item.metadata.uid != action.uid:
            return Said.GONE
        # The runner's own place: the set may name another by now.
        place = place_of(item.spec, namespace=at.reference.namespace)
        self._removals.ask(
            at.key,
            self._memory.of(at.key, at.reference.uid),
            about=f"EphemeralRunner {key}",
            uid=action.uid,
            runner_id=action.runner_id,
            place=place,
        )
        return Said.DONE

    async def _delete_runner(self, at: Snapshot, action: snap.DeleteRunner) -> Answer:
        namespace = at.reference.namespace
        remembered = self._memory.of(at.key, at.reference.uid)
        remembered.note_let_go(action.uid)
        try:
            left = await self._client.delete(
                EPHEMERAL_RUNNERS,
                namespace,
                action.name,
                uid=action.uid,
                resource_version=action.resource_version or None,
            )
        except Conflict:
            remembered.let_go.pop(action.uid, None)
            return Said.CONFLICT
        except REFUSALS as error:
            remembered.let_go.pop(action.uid, None)
            return self._refused(at, error, f"delete runner {action.name}")
        log.info("runner deleted", set=at.key, runner=action.name, why=action.why)
        self._own_writes.deleted(at.key, self._runners, f"{namespace}/{action.name}", action.uid)
        return Said.DONE if left is not None else Said.GONE

    # --- the template -------------------------------------------------------------------------

    async def _check_template(self, at: Snapshot) -> Answer:
        name = f"{at.reference.name}-{DRY_RUN_SUFFIX}"
        body = ephemeral_runner(at.item, at.reference, name=name, fingerprint=at.fingerprint)
        runner = decoded(body, uid=at.reference.uid)
        try:
            pod = runner_pod(runner, build_version=self._build_version, template_hash="check")
        except NoRunnerContainer as error:
            return Refused(_template_trouble(at, Reason.TEMPLATE_REFUSED, str(error)))
        try:
            await self._client.create(PODS, at.reference.namespace, pod, dry_run=True)
        except REFUSALS as error:
            if not template_check.says_something(error.message):
                return Said.PASSED_OVER
            rights = isinstance(error, Forbidden) and RBAC_WORDS.search(error.message)
            reason = Reason.RIGHTS_MISSING if rights else Reason.TEMPLATE_REFUSED
            return Refused(_template_trouble(at, reason, error.message))
        except AlreadyExists:
            return Said.DONE  # it came past every check
        except KubeError as error:
            return Undecided("", kube_trouble(error, about=at.about, doing="try out its template"))
        return Said.DONE

    # --- the proxy Secret -----------------------------------------------------------------------

    async def _resolve_proxy(self, at: Snapshot) -> Answer:
        place = place_of(at.item.spec.ephemeral_runner_spec, namespace=at.reference.namespace)
        try:
            return Data(proxy_secret.data_of(await self._clients.resolve(place)))
        except (PlaceTrouble, ScaleSetError) as error:
            return Refused(github_trouble(error, about=at.about))

    async def _read_proxy(self, at: Snapshot) -> Answer:
        try:
            return await self._client.get(SECRETS, at.reference.namespace, proxy_secret.name_of(at))
        except NotFound:
            return Look.ABSENT
        except REFUSALS as error:
            return self._refused(at, error, "read its proxy Secret")

    async def _write_proxy(self, at: Snapshot, body: Mapping[str, Any], *, create: bool) -> Answer:
        namespace = at.reference.namespace
        try:
            if create:
                return await self._client.create(SECRETS, namespace, body)
            # No version: nobody else writes these keys.
            return await self._client.patch(SECRETS, namespace, proxy_secret.name_of(at), body)
        except (AlreadyExists, NotFound, Conflict):
            return Look.UNKNOWN  # it came or went meanwhile: read it and compare
        except REFUSALS as error:
            return self._refused(at, error, "write its proxy Secret")

    async def _delete_proxy(self, at: Snapshot, uid: str) -> Answer:
        try:
            await self._client.delete(
                SECRETS, at.reference.namespace, proxy_secret.name_of(at), uid=uid
            )
        except Conflict:
            return Look.UNKNOWN
        except REFUSALS as error:
            return self._refused(at, error, "delete its proxy Secret")
        return Look.ABSENT

    def _refused(self, at: Snapshot, error: ApiError, doing: str) -> Refused:
        return Refused(kube_trouble(error, about=at.about, doing=doing))


def _template_trouble(at: Snapshot, reason: Reason, words: str) -> Trouble:
    return trouble(reason, about=at.about, happened=f"the pod of a runner is refused: {words}")
