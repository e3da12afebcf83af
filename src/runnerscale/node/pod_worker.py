"""The life of one pod on this node: observe, plan, apply, tell, until it is over and gone.

The shell around `pod_plan.py` and `pod_status.py`: no rule about pods is here. One worker per
pod uid; it is the only writer of that pod's status, and the only one that touches its processes.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from runnerscale.core.backoff import Backoff
from runnerscale.core.bounded import Gate
from runnerscale.core.clock import Clock, parse_time
from runnerscale.core.randomness import Random
from runnerscale.kube.builtin import PodCondition
from runnerscale.kube.errors import Conflict, KubeError, NotFound
from runnerscale.kube.events import EventRecorder, EventType
from runnerscale.kube.objects import reference_to
from runnerscale.node.config import NodeConfig
from runnerscale.node.container_run import ContainerRun
from runnerscale.node.metrics import NodeMetrics
from runnerscale.node.node_client import NodeClient
from runnerscale.node.pod_plan import Action, Kill, PodPlan, Start, Terminate, plan
from runnerscale.node.pod_spec import (
    NODE_PODS,
    NodePod,
    grace_s,
    is_sidecar,
    is_terminal,
)
from runnerscale.node.pod_status import OURS, build_status, refused_status
from runnerscale.node.pod_view import Kind, PodOver, PodView, Waiting
from runnerscale.node.preparation import NotStarted, PodVolumes, Preparation, ref_of
from runnerscale.node.presence import Presence
from runnerscale.node.prober import Prober
from runnerscale.node.processes import Process, ProcessStarter, RecoveredPod, StartFailed
from runnerscale.node.questions import Questions
from runnerscale.node.restart import comes_back, restart_delay_s
from runnerscale.node.status_writer import StatusWriter
from runnerscale.node.volumes import VolumeProblem

log = structlog.get_logger(__name__)

FAREWELL = Backoff(first_s=0.2, cap_s=10.0)
REFRESH_RETRY_S = 10.0
MESSAGE_LINES, MESSAGE_BYTES = 80, 2048  # kubelet's bounds of FallbackToLogsOnError
START, CLEAN_UP = 0, 1  # urgency
WAIT_MIN_S = 0.001  # wall clock and loop differ by a little: no turn for a microsecond


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all workers of a node share."""

    client: NodeClient
    processes: ProcessStarter
    preparation: Preparation
    questions: Questions
    events: EventRecorder
    metrics: NodeMetrics
    presence: Presence
    calls: Gate
    config: NodeConfig
    clock: Clock
    random: Random


class PodWorker:
    """`run` until the pod is gone; everything else is called from outside to tell it something."""

    def __init__(
        self, pod: NodePod, around: Surroundings, *, recovered: RecoveredPod | None = None
    ) -> None:
        """`recovered`: what an earlier agent left of it."""
        self.ref = ref_of(pod)
        self.pod = pod
        self._around = around
        self._clock = around.clock
        self._woken = asyncio.Event()
        self._gone = False  # the API server no longer has it
        self._leaving = False  # the agent ends, and its containers with it
        # Over for good already: it is only waited for its deletion.
        self._sealed = is_terminal(pod)
        self._over: PodOver | None = None
        self._refused = False
        self._stopping_since_s: float | None = None
        self._finished = False
        self._admitted = False  # it has a folder
        self._refresh_due = False
        self._told: tuple[PodCondition, ...] = ()
        self._started_s = _start_time(pod, self._clock.now_s())
        self._volumes = PodVolumes(around.preparation, pod, self._clock)
        self._writer = StatusWriter(
            around.client,
            self.ref,
            gate=around.calls,
            presence=around.presence,
            delay_s=around.config.status_delay_s,
            clock=around.clock,
            random=around.random,
        )
        self._runs = {run.spec.name: run for run in _runs_of(pod)}
        self._recover(recovered)
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- told from outside -----------------------------------------------------------------

    @property
    def volumes(self) -> PodVolumes:
        """Its volumes."""
        return self._volumes

    @property
    def finished(self) -> bool:
        """Nothing of it runs or will."""
        return self._finished

    @property
    def is_gone(self) -> bool:
        """The API server no longer has it."""
        return self._gone

    def running(self) -> list[str]:
        """The containers with a process now, main ones first."""
        live = [r for r in self._runs.values() if r.process is not None and r.exit is None]
        live.sort(key=lambda run: run.kind is not Kind.MAIN)
        return [run.spec.name for run in live]

    def update(self, pod: NodePod) -> None:
        """The API server has a newer version of it."""
        self.pod = pod
        self._woken.set()

    def gone(self) -> None:
        """The API server no longer has it."""
        self._gone = True
        self._woken.set()

    def refuse(self, over: PodOver) -> None:
        """The node does not take it: over before anything was made."""
        self._refused = True
        self.end(over)

    def end(self, over: PodOver) -> None:
        """End the pod as a whole, with a reason: eviction."""
        if self._over is None:
            self._over = over
            self._woken.set()

    def leave(self) -> None:
        """End its containers because the agent ends; the pod stays in the API server."""
        self._leaving = True
        self._woken.set()

    def refresh_volumes(self) -> None:
        """Something that it mounts has changed."""
        self._refresh_due = True
        self._woken.set()

    def kill_container(self, name: str, *, reason: str) -> bool:
        """Kill one container from outside the plan (a fault); False: it does not run."""
        run = self._runs.get(name)
        if run is None or run.process is None or run.exit is not None:
            return False
        run.process.kill(reason=reason)
        return True

    def run_of(self, container: str) -> ContainerRun | None:
        """What is held of a container."""
        return self._runs.get(container)

    # --- the loop --------------------------------------------------------------------------

    async def run(self) -> None:
        """From admission to the end."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._spawn(self._writer.run())
            self._follow_recovered()
            await self._live()
            await self._farewell()
            for task in list(self._tasks):
                task.cancel()

    async def _live(self) -> None:
        while True:
            self._woken.clear()
            await self._around.presence.wait()
            self._collect_exits()
            step = plan(self._view())
            self._note(step)
            for action in step.actions:
                self._apply(action)
            self._refresh_if_due()
            self._tell()
            going = self._gone or bool(self.pod.metadata.deletion_timestamp)
            if step.finished and going:
                return
            await self._wait(step)

    async def _wait(self, step: PodPlan) -> None:
        now_s = self._clock.now_s()
        flips = [run.told_again_s(now_s) for run in self._runs.values()]
        times = [at_s - now_s for at_s in flips if at_s is not None]
        if step.again_s is not None:
            times.append(step.again_s)
        if self._volumes.renew_at_s != float("inf") and not self._finished:
            times.append(self._volumes.renew_at_s - now_s)
        if not times:
            await self._woken.wait()
            return
        try:
            async with asyncio.timeout(max(WAIT_MIN_S, min(times))):
                await self._woken.wait()
        except TimeoutError:
            return

    def _note(self, step: PodPlan) -> None:
        if step.over and self._over is None:
            self._over = step.over
        if step.over and not self._finished and self._stopping_since_s is None:
            self._record("Warning", step.over.reason, step.over.message)
        if not step.stopping:
            self._stopping_since_s = None
        elif self._stopping_since_s is None:
            self._stopping_since_s = self._clock.now_s()
        self._finished = step.finished

    def _apply(self, action: Action) -> None:
        run = self._runs[action.container]
        match action:
            case Start():
                run.starting = True
                self._spawn(self._start(run))
            case Terminate() if run.process:
                run.term_sent_s = self._clock.now_s()
                run.process.terminate()
            case Kill() if run.process:
                run.kill_sent = True
                run.process.kill()

    def _view(self) -> PodView:
        now_s = self._clock.now_s()
        spec, meta = self.pod.spec, self.pod.metadata
        deleting = bool(meta.deletion_timestamp)
        return PodView(
            namespace=self.ref.namespace,
            name=self.ref.name,
            uid=self.ref.uid,
            containers=tuple(run.view(now_s) for run in self._runs.values()),
            now_s=now_s,
            started_s=self._started_s,
            restart_policy=spec.restart_policy or "Always",
            deadline_s=spec.active_deadline_seconds,
            grace_s=0 if self._gone else grace_s(self.pod),
            deleting=deleting or self._gone or self._leaving or self._sealed,
            stopping_since_s=self._stopping_since_s,
            over=self._over,
        )

    # --- containers ------------------------------------------------------------------------

    async def _start(self, run: ContainerRun) -> None:
        began_s = self._clock.monotonic_s()
        answer = await self._try_start(run)
        if answer is None:
            run.starting = False
        elif isinstance(answer, NotStarted):
            run.refused(answer, self._clock.now_s())
            self._around.metrics.starts.labels(answer.waiting.reason).inc()
            if answer.event:
                self._record("Warning", answer.event, f"Error: {answer.waiting.message}")
        else:
            run.took(answer)
            self._around.metrics.starts.labels("started").inc()
            self._around.metrics.start_s.observe(self._clock.monotonic_s() - began_s)
            log.info("container started", pod=str(self.ref), container=run.spec.name)
            self._follow(run, answer)
        self._woken.set()

    async def _try_start(self, run: ContainerRun) -> Process | NotStarted | None:
        """None: the pod is being ended meanwhile."""
        after_inits = run.kind is Kind.MAIN and bool(self.pod.spec.init_containers)
        creating = Waiting("PodInitializing" if after_inits else "ContainerCreating")
        try:
            await self._admit()
            await self._volumes.ensure()
            if self._stopping_since_s is not None or self._gone:
                return None
            return await self._around.preparation.start(
                self.pod, run.spec, earlier=run.attempts, urgency=START
            )
        except VolumeProblem as problem:
            waiting = replace(creating, message=f"MountVolume.SetUp failed: {problem}")
            return NotStarted(waiting, "config", event="FailedMount")
        except StartFailed as problem:
            waiting = Waiting(problem.reason, problem.message)
            return NotStarted(waiting, "config", event="Failed")
        except KubeError as error:
            log.warning("container not started yet", pod=str(self.ref), why=str(error))
            return NotStarted(creating, "config")

    async def _admit(self) -> None:
        if not self._admitted:
            await self._around.processes.admit(self.ref, grace_s=grace_s(self.pod))
            self._admitted = True

    def _follow(self, run: ContainerRun, process: Process) -> None:
        prober = Prober(
            run.spec,
            lambda container, probe, timeout_s: self._around.questions.ask(
                self.pod, container, probe, timeout_s=timeout_s
            ),
            clock=self._clock,
            changed=self._woken.set,
            complain=lambda kind, message: self._record(
                "Warning", "Unhealthy", f"{kind} probe failed: {message}"
            ),
        )
        run.health = prober.health
        task = self._spawn(prober.run()) if prober.has_work and process.exit is None else None

        def over() -> None:
            if task is not None:
                task.cancel()
            self._woken.set()

        process.on_exit(over)

    def _collect_exits(self) -> None:
        for run in self._runs.values():
            process = run.process
            if process is None or run.exit is not None or process.exit is None:
                continue
            run.ended(self._last_words(run, process))
            ended = run.exit or process.exit
            reason = ended.reason or ("Error" if ended.code else "Completed")
            self._around.metrics.exits.labels(reason).inc()
            log.info(
                "container ended",
                pod=str(self.ref),
                container=run.spec.name,
                exit_code=ended.code,
                reason=reason,
            )
            self._complain_of_loop(run)

    def _last_words(self, run: ContainerRun, process: Process) -> str:
        failed = process.exit is not None and process.exit.code != 0
        if not failed or run.spec.termination_message_policy != "FallbackToLogsOnError":
            return ""
        return self._around.processes.log_tail(
            self.ref, run.spec.name, lines=MESSAGE_LINES, max_bytes=MESSAGE_BYTES
        )

    def _complain_of_loop(self, run: ContainerRun) -> None:
        view = run.view(self._clock.now_s())
        policy = self.pod.spec.restart_policy or "Always"
        if comes_back(view, policy) and restart_delay_s(view) > 0:
            message = f"Back-off restarting failed container {run.spec.name} in pod {self.ref.name}"
            self._record("Warning", "BackOff", message)

    # --- volumes ---------------------------------------------------------------------------

    def _refresh_if_due(self) -> None:
        due = self._refresh_due or self._clock.now_s() >= self._volumes.renew_at_s
        if not due or self._finished:
            return
        self._refresh_due = False
        self._volumes.renew_at_s = float("inf")  # the refresh says when the next one is due
        self._spawn(self._refresh())

    async def _refresh(self) -> None:
        await self._volumes.refresh(retry_s=REFRESH_RETRY_S)
        self._woken.set()

    # --- telling ---------------------------------------------------------------------------

    def _tell(self) -> None:
        if self._sealed or self._gone:
            return
        view = self._view()
        existing = self._known_conditions()
        build = refused_status if self._refused else build_status
        status = build(view, existing)
        self._told = tuple(
            PodCondition(
                type=condition["type"],
                status=condition["status"],
                last_transition_time=condition["lastTransitionTime"],
            )
            for condition in status["conditions"]
            if condition["type"] in OURS
        )
        over = status["phase"] in ("Succeeded", "Failed")
        self._writer.offer(status, urgent=over or bool(self.pod.metadata.deletion_timestamp))

    def _known_conditions(self) -> Sequence[PodCondition]:
        """What we said last, and what others say; the API server may not show ours yet."""
        stored = (self.pod.status.conditions if self.pod.status else None) or []
        own = {condition.type for condition in self._told}
        return [*self._told, *(c for c in stored if c.type not in own)]

    def _record(self, kind: EventType, reason: str, message: str) -> None:
        about = reference_to(self.pod)
        self._around.events.record(about, type=kind, reason=reason, message=message)

    # --- the end ---------------------------------------------------------------------------

    async def _farewell(self) -> None:
        """Tell how it ended, let the API server drop it, remove its folder."""
        if not self._gone:
            await self._writer.flush()
        failures = 0
        while not (self._gone or self._writer.stranger):
            await self._around.presence.wait()
            if await self._drop():
                break
            await self._clock.sleep(FAREWELL.delay_s(failures, self._around.random))
            failures += 1
        await self._around.processes.remove(self.ref)
        log.info("pod gone", pod=str(self.ref))

    async def _drop(self) -> bool:
        try:
            async with self._around.calls.enter(CLEAN_UP):
                await self._around.client.delete(
                    NODE_PODS,
                    self.ref.namespace,
                    self.ref.name,
                    uid=self.ref.uid,  # a namesake born later is not ours to delete
                    grace_period_s=0,
                )
        except (Conflict, NotFound):
            return True
        except KubeError as error:
            log.warning("pod not dropped", pod=str(self.ref), error=str(error))
            return False
        return True

    # --- before the loop -------------------------------------------------------------------

    def _recover(self, recovered: RecoveredPod | None) -> None:
        found = recovered.containers if recovered else {}
        status = self.pod.status
        told = {
            item.name: item
            for item in (
                *((status.init_container_statuses if status else None) or ()),
                *((status.container_statuses if status else None) or ()),
            )
        }
        for name, run in self._runs.items():
            if name in found:
                run.recover(found[name])
            elif name in told and (self._sealed or not found):
                run.believe(told[name])

    def _follow_recovered(self) -> None:
        for run in self._runs.values():
            if run.process is not None:
                if run.process.exit is None:
                    self._volumes.adopt()
                self._follow(run, run.process)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._group is not None
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _runs_of(pod: NodePod) -> list[ContainerRun]:
    inits = [
        ContainerRun(c, Kind.SIDECAR if is_sidecar(c) else Kind.INIT)
        for c in pod.spec.init_containers or ()
    ]
    return [*inits, *(ContainerRun(c, Kind.MAIN) for c in pod.spec.containers)]


def _start_time(pod: NodePod, now_s: float) -> float:
    if pod.status and pod.status.start_time:
        try:
            return parse_time(pod.status.start_time)
        except ValueError:
            return now_s
    return now_s
