"""From a pod and one of its containers to a process that can be started: reads, never decides.

What is read (Secrets, ConfigMaps, tokens) comes from the API server itself and not from a cache:
a container must never start with content older than its pod. The rules are `image.py`,
`environment.py`, `volumes.py`; the answer is a process, or why there is none yet.
"""

import asyncio
import base64
import binascii
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import structlog

from runnerscale.core.bounded import Gate
from runnerscale.core.clock import Clock
from runnerscale.kube.builtin import CONFIG_MAPS, SECRETS
from runnerscale.kube.errors import KubeError, NotFound
from runnerscale.node.config import NodeConfig
from runnerscale.node.environment import (
    Contents,
    EnvironmentProblem,
    Known,
    ObjectRef,
    build_environment,
    expand_all,
    referenced_objects,
)
from runnerscale.node.image import Command, ImageProblem, command_beside, find_command
from runnerscale.node.node_client import NodeClient
from runnerscale.node.pod_spec import Container, NodePod, Volume, uid_of
from runnerscale.node.pod_view import Waiting
from runnerscale.node.processes import (
    CommandResult,
    PodRef,
    Process,
    ProcessSpec,
    ProcessStarter,
    StartFailed,
)
from runnerscale.node.tokens import Tokens
from runnerscale.node.volumes import (
    ACCOUNT_DIR,
    ACCOUNT_VOLUME,
    Sources,
    TokenRef,
    VolumeProblem,
    account_files,
    account_token,
    mount_requests,
    needs_of,
    pod_volumes,
    pod_wants_account,
    volume_files,
)

log = structlog.get_logger(__name__)

FOREVER_S = float("inf")


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Why a container does not run, and whether (and how) trying again makes sense."""

    waiting: Waiting
    kind: str  # "pull", "config" or "never": which backoff
    event: str = ""  # reason of the Event about it; empty: none


def ref_of(pod: NodePod) -> PodRef:
    """The machine's name of a pod."""
    return PodRef(pod.metadata.namespace or "", pod.metadata.name or "", uid_of(pod))


class Unavailable:
    """Patterns of images that cannot be had for now: an injected fault."""

    def __init__(self) -> None:
        """None."""
        self.patterns: tuple[str, ...] = ()


class Preparation:
    """Shared by all pods of the node."""

    def __init__(
        self,
        client: NodeClient,
        processes: ProcessStarter,
        *,
        config: NodeConfig,
        unavailable: Unavailable,
        clock: Clock,
        environ: Mapping[str, str],
    ) -> None:
        """`environ`: the agent's own environment, of which a few names are passed on."""
        self._client = client
        self._processes = processes
        self._config = config
        self._unavailable = unavailable
        self._clock = clock
        self._tokens = Tokens(client, clock)
        self._starts = Gate(config.starts_max)
        self._inherited = {name: environ[name] for name in config.inherit_env if name in environ}
        self._machine = {"cpu": Decimal(os.cpu_count() or 1), "memory": Decimal(memory_bytes())}

    # --- volumes ---------------------------------------------------------------------------

    async def write_volumes(self, pod: NodePod) -> float:
        """Bring every volume up to date; the answer is when to do so again (seconds, epoch).

        Raises:
            VolumeProblem: something a volume is made of is missing.
            KubeError: it could not be read.
            StartFailed: this machine cannot store it.
        """
        ref = ref_of(pod)
        renew_at_s = FOREVER_S
        for volume in pod_volumes(pod):
            sources, at_s = await self._sources(pod, volume)
            files = volume_files(volume, sources, token_lifetime_s=self._config.token_lifetime_s)
            await self._processes.write_volume(ref, volume.name, files)
            renew_at_s = min(renew_at_s, at_s)
        if pod_wants_account(pod.spec):
            renew_at_s = min(renew_at_s, await self._write_account(pod, ref))
        return renew_at_s

    async def _sources(self, pod: NodePod, volume: Volume) -> tuple[Sources, float]:
        lifetime_s = self._config.token_lifetime_s
        needs = needs_of(volume, pod, token_lifetime_s=lifetime_s)
        objects = await self._read(pod, needs.objects)
        tokens: dict[TokenRef, str] = {}
        renew_at_s = FOREVER_S
        for wanted in needs.tokens:
            token = await self._tokens.get(
                pod.metadata.namespace or "", wanted.account, wanted.lifetime_s
            )
            tokens[wanted] = token.text.reveal()
            renew_at_s = min(renew_at_s, token.renew_at_s)
        sources = Sources(
            Known(pod, objects, self._machine),
            tokens,
            ca_pem=self._config.api_ca_pem,
            max_bytes=self._config.volume_max_bytes,
        )
        return sources, renew_at_s

    async def _write_account(self, pod: NodePod, ref: PodRef) -> float:
        wanted = account_token(pod.spec, self._config.token_lifetime_s)
        try:
            token = await self._tokens.get(ref.namespace, wanted.account, wanted.lifetime_s)
        except NotFound as error:
            raise VolumeProblem(f"failed to fetch token: {error.message}") from error
        files = account_files(pod, token.text.reveal(), self._config.api_ca_pem)
        await self._processes.write_volume(ref, ACCOUNT_VOLUME, files)
        return token.renew_at_s

    # --- containers ------------------------------------------------------------------------

    async def start(
        self, pod: NodePod, container: Container, *, earlier: int, urgency: int
    ) -> Process | NotStarted:
        """Start one container; volumes were written before."""
        command = find_command(
            self._config,
            image=container.image or "",
            command=container.command or (),
            args=container.args or (),
            pull_policy=container.image_pull_policy or "",
            unavailable=self._unavailable.patterns,
        )
        if isinstance(command, ImageProblem):
            waiting = Waiting(command.reason, command.message)
            return NotStarted(waiting, "pull" if command.retry else "never", event="Failed")
        async with self._starts.enter(urgency):
            try:
                spec = await self.process_spec(pod, container, command, earlier=earlier)
                return await self._processes.start(spec)
            except (EnvironmentProblem, VolumeProblem) as problem:
                waiting = Waiting("CreateContainerConfigError", str(problem))
                return NotStarted(waiting, "config", event="Failed")
            except StartFailed as problem:
                waiting = Waiting(problem.reason, problem.message)
                return NotStarted(waiting, "config", event="Failed")

    async def process_spec(
        self, pod: NodePod, container: Container, command: Command, *, earlier: int = 0
    ) -> ProcessSpec:
        """Everything about one container's process.

        Raises:
            EnvironmentProblem: a reference in its environment leads nowhere.
            VolumeProblem: a mount cannot be made sense of.
            KubeError: something could not be read.
        """
        objects = await self._read(pod, referenced_objects(container))
        env = build_environment(
            container,
            Known(pod, objects, self._machine),
            base=self._base_environment(pod, command),
        )
        return ProcessSpec(
            pod=ref_of(pod),
            container=container.name,
            argv=expand_all(command.argv, env),
            env=env,
            working_dir=container.working_dir or command.working_dir,
            mounts=mount_requests(pod, container, env),
            earlier=earlier,
        )

    async def run_beside(
        self, pod: NodePod, container: Container, command: Sequence[str], *, timeout_s: float
    ) -> CommandResult:
        """Run a command as the container would.

        Raises:
            StartFailed: it could not be run, or did not end in time.
        """
        beside = command_beside(self._config, image=container.image or "", command=command)
        try:
            spec = await self.process_spec(pod, container, beside)
        except (EnvironmentProblem, VolumeProblem, KubeError) as problem:
            raise StartFailed("ExecFailed", str(problem)) from problem
        return await self._processes.run_beside(spec, spec.argv, timeout_s=timeout_s)

    def _base_environment(self, pod: NodePod, command: Command) -> dict[str, str]:
        config = self._config
        base = {**self._inherited, **config.env, **command.env}
        base["HOSTNAME"] = pod.spec.hostname or pod.metadata.name or ""
        if config.api_host:
            base["KUBERNETES_SERVICE_HOST"] = config.api_host
            base["KUBERNETES_SERVICE_PORT"] = str(config.api_port)
            base["RUNNERSCALE_SERVICE_ACCOUNT_DIR"] = ACCOUNT_DIR
        return base

    async def _read(
        self, pod: NodePod, refs: Iterable[ObjectRef]
    ) -> dict[ObjectRef, Contents | None]:
        found: dict[ObjectRef, Contents | None] = {}
        for ref in sorted(refs, key=lambda ref: (ref.kind, ref.name)):
            try:
                found[ref] = await self._contents(pod.metadata.namespace or "", ref)
            except NotFound:
                found[ref] = None
        return found

    async def _contents(self, namespace: str, ref: ObjectRef) -> Contents:
        if ref.kind == "Secret":
            secret = await self._client.get(SECRETS, namespace, ref.name)
            return {key: _decoded(value) for key, value in (secret.data or {}).items()}
        config_map = await self._client.get(CONFIG_MAPS, namespace, ref.name)
        contents = {key: value.encode() for key, value in (config_map.data or {}).items()}
        for key, value in (config_map.binary_data or {}).items():
            contents[key] = _decoded(value)
        return contents


class PodVolumes:
    """The volumes of one pod: written before its first container, then kept up to date."""

    def __init__(self, preparation: Preparation, pod: NodePod, clock: Clock) -> None:
        """Nothing is written yet."""
        self._preparation = preparation
        self._pod = pod
        self._clock = clock
        self._lock = asyncio.Lock()
        self._written = False
        self.renew_at_s = FOREVER_S
        self.refs = mounted_objects(pod)

    async def ensure(self) -> None:
        """Written once, by whoever comes first.

        Raises:
            VolumeProblem, KubeError, StartFailed: see `Preparation.write_volumes`.
        """
        async with self._lock:
            if not self._written:
                self.renew_at_s = await self._preparation.write_volumes(self._pod)
                self._written = True

    def adopt(self) -> None:
        """An earlier agent wrote them; look at them soon."""
        self._written = True
        self.renew_at_s = self._clock.now_s()

    async def refresh(self, *, retry_s: float) -> None:
        """Written again; what is missing now leaves the old files in place."""
        async with self._lock:
            if not self._written:
                return
            try:
                self.renew_at_s = await self._preparation.write_volumes(self._pod)
            except (VolumeProblem, KubeError, StartFailed) as error:
                log.warning("volumes not refreshed", pod=self._pod.metadata.name, why=str(error))
                self.renew_at_s = self._clock.now_s() + retry_s


def mounted_objects(pod: NodePod) -> frozenset[ObjectRef]:
    """The Secrets and ConfigMaps whose changes the pod shall see in its files."""
    needs = (needs_of(volume, pod, token_lifetime_s=0) for volume in pod_volumes(pod))
    return frozenset(ref for need in needs for ref in need.objects)


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
