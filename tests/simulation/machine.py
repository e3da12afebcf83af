"""The machine under the node agent: containers are components of the simulated world.

It outlives the agent, as a machine does. A container of the listener's image runs the
production listener; a container of the runner's image behaves like GitHub's runner, towards
the pretended GitHub. What a runner does with its job is drawn by the seed in `runner.py`.
"""

import asyncio
import contextvars
import signal
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from runnerscale.core.clock import Clock
from runnerscale.node.processes import PodRef, Process, ProcessSpec, VolumeFile
from tests.simulation.loop import COMPONENT, Component
from tests.unit.node.scripted_processes import ScriptedProcess, ScriptedProcesses

# The body of a container: given its component, environment and specification, its exit code.
Program = Callable[[Component, Mapping[str, str], ProcessSpec], Coroutine[Any, Any, int]]

SLOW_START_S = 0.3


class ContainerProcess(ScriptedProcess):
    """A container whose program is a coroutine of this world."""

    def __init__(self, spec: ProcessSpec, clock: Clock, component: Component) -> None:
        super().__init__(spec, clock, heeds_term=False)
        self.component = component

    def terminate(self) -> None:
        """SIGTERM: what the program registered for it; without a handler it ends."""
        if self.exit is not None:
            return
        self.terminated_s = self._clock.now_s()
        handler = self.component.signals.get(signal.SIGTERM)
        if handler is None:
            self.component.kill()
            self.end(143, signal=15)
            return
        call, arguments = handler
        context = contextvars.copy_context()
        context.run(COMPONENT.set, self.component)
        asyncio.get_running_loop().call_soon(call, *arguments, context=context)

    def kill(self, *, reason: str = "") -> None:
        """SIGKILL."""
        if self.exit is None:
            self.component.kill()
            self.end(137, signal=9, reason=reason)


class Machine(ScriptedProcesses):
    """Starts programs by the first word of their command."""

    def __init__(self, clock: Clock, folder: Path, programs: Mapping[str, Program]) -> None:
        super().__init__(clock)
        self._folder = folder
        self._programs = programs
        self.components: list[Component] = []
        self.started: list[ContainerProcess] = []
        self.draw_start_s: Callable[[], float] = lambda: SLOW_START_S

    def running(self, program: str) -> list[ContainerProcess]:
        """The containers of a program that have not ended."""
        return [p for p in self.started if p.exit is None and p.spec.argv[0] == program]

    async def write_volume(
        self, pod: PodRef, volume: str, files: Mapping[str, VolumeFile] | None
    ) -> None:
        """Keep the files, and write them where programs can read them."""
        await super().write_volume(pod, volume, files)
        for path, file in (files or {}).items():
            target = self._path(pod, volume) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(target.name + ".new")
            new.write_bytes(file.content)
            new.replace(target)

    def _path(self, pod: PodRef, volume: str) -> Path:
        return self._folder / pod.uid / volume

    async def start(self, spec: ProcessSpec) -> Process:
        """Start the program, as the machine's own doing and not as the agent's."""
        problem = self.refuse(spec)
        if problem is not None:
            raise problem
        attempts = self.pods[spec.pod.uid].attempts.setdefault(spec.container, [])
        assert all(attempt.exit is not None for attempt in attempts), "started while it runs"
        assert len(attempts) == spec.earlier, "the agent has lost count"
        component = Component(f"{spec.pod.name}/{spec.container}")
        self.components.append(component)
        process = ContainerProcess(spec, self._clock, component)
        attempts.append(process)
        self.started.append(process)
        context = contextvars.copy_context()
        context.run(COMPONENT.set, component)
        asyncio.get_running_loop().create_task(self._run(process), context=context)
        await self._clock.sleep(self.draw_start_s())
        return process

    async def _run(self, process: ContainerProcess) -> None:
        spec = process.spec
        program = self._programs.get(spec.argv[0])
        if program is None:
            process.end(127)
            return
        process.end(await program(process.component, self._environ(spec), spec))

    def _environ(self, spec: ProcessSpec) -> dict[str, str]:
        """Values that begin with a mount path point to the files of this world."""
        environ = dict(spec.env)
        for mount in spec.mounts:
            real = str(self._path(spec.pod, mount.volume))
            for name, value in environ.items():
                if value == mount.path or value.startswith(mount.path + "/"):
                    environ[name] = real + value[len(mount.path) :]
        return environ
