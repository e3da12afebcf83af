"""The demo: real jobs through the real controllers, listener and runners, then a summary.

The parts are started by `single_machine.py`; what is seen of them is `demo_watch.py`, what may be
broken `demo_faults.py`, how it is shown `cli/demo_view.py`. Here is only the order of things.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import structlog

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.app.demo_faults import (
    GOOD_TOKEN,
    RUNNER_SET,
    Breaker,
    Fault,
    FaultAt,
)
from runnerscale.app.demo_reasons import Shown
from runnerscale.app.demo_state import (
    DemoState,
    DemoView,
    JobRow,
    Leftovers,
    Summary,
)
from runnerscale.app.demo_watch import Eyes
from runnerscale.app.github_control import GitHubControl
from runnerscale.app.logs import Style, configure_logging
from runnerscale.app.manifests import github_secret, runner_set
from runnerscale.app.problem import Problem, UsageProblem
from runnerscale.app.process import run_process
from runnerscale.app.single_machine import NAMESPACE, Machine, free_ports
from runnerscale.app.supervisor import Supervisor
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.core.clock import Clock, SystemClock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random, seeded, system_random
from runnerscale.fake_github.workflow import parse_workflow
from runnerscale.fake_github.workflow_yaml import WorkflowError
from runnerscale.kube.errors import KubeError, NotFound

log = structlog.get_logger(__name__)

JOBS_MAX = 5000
JOB_SECONDS_MAX = 3600
LOOK_EVERY_S = 0.25
WEIGH_EVERY = 4  # looks
# How long without any job starting or ending until the demo calls itself stuck.
STUCK_AFTER_S = 300.0
GONE_WITHIN_S = 90.0
QUOTED_JOBS_MAX = 3
QUOTED_LINES_MAX = 8
STRIKE_TRIES_MAX = 40
STRIKE_AGAIN_S = 0.5
STRIKE_MEAN_S = 2.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What was asked for."""

    workflow: Path | None = None
    jobs: int | None = None
    job_seconds: float = 1.0
    min_runners: int = 0
    max_runners: int = 10
    faults: tuple[FaultAt, ...] = ()
    keep: bool = False
    seed: int | None = None

    def checked(self) -> "DemoOptions":
        """The same, if it can work.

        Raises:
            UsageProblem: names the option.
        """
        if self.jobs is not None and self.workflow is not None:
            raise UsageProblem("--jobs and --workflow are both given", "Choose one of them")
        if self.jobs is not None and not 1 <= self.jobs <= JOBS_MAX:
            raise UsageProblem(f"--jobs is {self.jobs}", f"Choose 1 to {JOBS_MAX}")
        if not 0 <= self.job_seconds <= JOB_SECONDS_MAX:
            raise UsageProblem(
                f"--job-seconds is {self.job_seconds:g}", f"Choose 0 to {JOB_SECONDS_MAX}"
            )
        low, high = self.min_runners, self.max_runners
        if low < 0 or high < 1 or low > high:
            raise UsageProblem(
                f"--min is {low} and --max is {high}",
                "Choose 0 or more for --min, and --max at least 1 and not below --min",
            )
        return self


def run_demo(options: DemoOptions, view: DemoView) -> Summary:
    """The whole demo; the summary also when it went wrong.

    Raises:
        Problem: the workflow cannot be read, or a part does not start.
        KeyboardInterrupt: stopped by Ctrl-C; everything started has been ended.
    """
    workflow = read_workflow(options)
    clock = SystemClock()
    random = system_random() if options.seed is None else seeded(options.seed)
    summaries: list[Summary] = []
    with demo_folder() as folder, (folder / "demo.log").open("w") as sink:
        configure_logging("info", "text", style=Style.CONTROLLER, clock=clock, stream=sink)

        async def work() -> int:
            demo = Demo(options, workflow, folder, view=view, clock=clock, random=random)
            await demo.run(summaries.append)
            return 0

        run_process(work)
        if not summaries:
            raise KeyboardInterrupt
        if not summaries[0].went_well:
            kept = Path(tempfile.mkdtemp(prefix="runnerscale-demo-logs-"))
            shutil.copytree(folder / "logs", kept, dirs_exist_ok=True)
            shutil.copy(folder / "demo.log", kept)
            view.say(f"The logs of all parts are kept in {kept}")
    return summaries[0]


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """A workflow to run."""

    name: str
    content: str


def read_workflow(options: DemoOptions) -> WorkflowFile | None:
    """The workflow asked for, or the one that comes with us; None: synthetic jobs.

    Raises:
        Problem: the file cannot be read, or holds what the pretended GitHub does not support.
    """
    if options.jobs is not None:
        return None
    if options.workflow is None:
        example = resources.files("runnerscale.app").joinpath("example_workflow.yml")
        return WorkflowFile("the example workflow", example.read_text())
    name = str(options.workflow)
    try:
        content = options.workflow.read_text()
        parse_workflow(content, name)  # told now, not after all parts were started
        return WorkflowFile(name, content)
    except WorkflowError as error:
        raise Problem(
            str(error).rstrip("."), "docs/fake-github.md lists what may stand there"
        ) from error
    except OSError as error:
        raise Problem(
            f"the workflow file {options.workflow} cannot be read: {error.strerror}",
            "Check the path after --workflow",
        ) from error
    except UnicodeDecodeError as error:
        raise Problem(
            f"the workflow file {options.workflow} is not UTF-8 text", "Save it as UTF-8"
        ) from error


@contextlib.contextmanager
def demo_folder() -> Iterator[Path]:
    """A folder of its own, removed at the end: without its parts it is of no use."""
    folder = Path(tempfile.mkdtemp(prefix="runnerscale-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Demo:
    """One run."""

    def __init__(
        self,
        options: DemoOptions,
        workflow: WorkflowFile | None,
        folder: Path,
        *,
        view: DemoView,
        clock: Clock,
        random: Random,
    ) -> None:
        """Nothing is started before `run`."""
        self._options = options
        self._workflow = workflow
        self._view = view
        self._clock = clock
        self._random = random
        self._machine = Machine(folder, free_ports(), Supervisor(clock), clock, random)
        self._run_id: int | None = None
        self._notes: list[str] = []
        self._shown = Shown(self._machine)

    async def run(self, tell: Any) -> None:
        """Start, run the jobs, sum up (`tell` gets the summary), end everything."""
        began_s = self._clock.monotonic_s()
        self._view.say("Starting API server, node agent, stand-in for GitHub and controller.")
        try:
            await self._machine.start()
            ready_s = self._clock.monotonic_s() - began_s
            self._view.say(f"All parts are up after {ready_s:.1f} s.")
            async with GitHubControl(self._machine.github_url) as github:
                eyes = Eyes(self._machine)
                following = asyncio.get_running_loop().create_task(eyes.runners.run())
                try:
                    tell(await self._with_eyes(github, eyes, ready_s, began_s))
                    if self._options.keep:
                        await self._hold()
                finally:
                    following.cancel()
                    await asyncio.wait([following])
        finally:
            self._view.close()
            await self._machine.stop()

    async def _with_eyes(
        self, github: GitHubControl, eyes: Eyes, ready_s: float, began_s: float
    ) -> Summary:
        await eyes.runners.wait_synced()
        await self._machine.apply([github_secret(NAMESPACE, GOOD_TOKEN), self._runner_set()])
        await self._queue(github)
        queued_s = self._clock.now_s()
        breaking = asyncio.get_running_loop().create_task(self._break(github))
        try:
            jobs = await self._until_done(github, eyes)
        finally:
            breaking.cancel()
            await asyncio.wait([breaking])
        await github.clear_faults()
        await self._quote(github, [job for job in jobs if job.state == "failed"])
        wall_s = self._clock.monotonic_s() - began_s
        if self._options.faults:
            self._shown.read_logs()
        writes, reads = await eyes.requests()
        eyes.weigh()
        leftovers = await self._leave(github, eyes)
        state = await github.state()
        started = [job.started_s for job in jobs if job.started_s]
        count = max(1, len(jobs))
        return Summary(
            jobs=jobs,
            wall_s=wall_s,
            ready_s=ready_s,
            first_job_s=max(0.0, min(started) - queued_s) if started else 0.0,
            peak_runners=eyes.peak_runners,
            leftovers=leftovers,
            violations=tuple(f"{v['kind']}: {v['detail']}" for v in state["violations"]),
            kubernetes_writes=writes / count,
            kubernetes_reads=reads / count,
            github_calls=controller_calls(state) / count,
            rss_mib=eyes.rss_mib,
            notes=tuple(self._notes),
            shown=self._shown.by_reason(),
        )

    def _runner_set(self) -> Any:
        options = self._options
        return runner_set(
            NAMESPACE,
            RUNNER_SET,
            config_url=f"{self._machine.github_url}/demo-org/demo",
            min_runners=options.min_runners,
            max_runners=options.max_runners,
            version=COMPATIBLE_VERSION,
        )

    async def _queue(self, github: GitHubControl) -> None:
        options = self._options
        if self._workflow is not None:
            self._run_id = await github.start_workflow(
                self._workflow.content, self._workflow.name, label=RUNNER_SET
            )
            self._view.say(f"Queued the jobs of {self._workflow.name}.")
        else:
            jobs = options.jobs or 1
            await github.queue_jobs(jobs, seconds=options.job_seconds, label=RUNNER_SET)
            self._view.say(f"Queued {jobs} jobs of {options.job_seconds:g} s.")

    async def _until_done(self, github: GitHubControl, eyes: Eyes) -> tuple[JobRow, ...]:
        began_s = self._clock.monotonic_s()
        moved: tuple[object, ...] = ()
        moved_s = began_s
        jobs: tuple[JobRow, ...] = ()
        looks = 0
        while True:
            jobs = await github.jobs(self._run_id)
            troubles = await eyes.troubles() if looks % WEIGH_EVERY == 0 else ()
            now_s = self._clock.monotonic_s()
            state = DemoState(now_s - began_s, jobs, eyes.rows(), troubles)
            self._view.show(state)
            if looks % WEIGH_EVERY == 0:
                eyes.weigh()
                await self._look(troubles)
            if state.done == len(jobs):
                return jobs
            counts = (state.done, state.count("running"), state.count("queued"))
            if counts != moved:
                moved, moved_s = counts, now_s
            if now_s - moved_s > STUCK_AFTER_S:
                self._notes.append(f"nothing moved for {STUCK_AFTER_S:.0f} s; given up")
                return jobs
            looks += 1
            await self._clock.sleep(LOOK_EVERY_S)

    async def _quote(self, github: GitHubControl, failed: Sequence[JobRow]) -> None:
        """The last lines of the first jobs that failed: whose workflow it is wants to see them."""
        for job in failed[:QUOTED_JOBS_MAX]:
            lines = (await github.job_log(job.id)).splitlines()
            if lines:
                self._view.say(f"The log of {job.name} ends with:")
            for line in lines[-QUOTED_LINES_MAX:]:
                self._view.say(f"  | {line}")

    async def _look(self, troubles: Sequence[str]) -> None:
        """Where troubles are shown; only worth the calls when something is broken on purpose."""
        if self._options.faults:
            self._shown.note("condition", (text.partition(":")[0] for text in troubles))
            await self._shown.look()

    async def _break(self, github: GitHubControl) -> None:
        breaker = Breaker(self._machine, github)
        async with asyncio.TaskGroup() as group:
            for planned in self._options.faults:
                work = self._strike_often if planned.count else self._strike_once
                group.create_task(work(breaker, planned))

    async def _strike_once(self, breaker: Breaker, planned: FaultAt) -> None:
        fault = planned.fault
        await self._clock.sleep(planned.at_s)
        for _ in range(STRIKE_TRIES_MAX):
            if await self._strike(breaker, fault):
                break
            await self._clock.sleep(STRIKE_AGAIN_S)
        if fault.heal is not None:
            await self._clock.sleep(fault.heal_after_s)
            await fault.heal(breaker)
            self._view.say(f"fault    {fault.name} is healed")

    async def _strike_often(self, breaker: Breaker, planned: FaultAt) -> None:
        """At random instants, each after the thing struck has had time to come back."""
        done = 0
        note = len(self._notes)
        while done < planned.count:
            await self._clock.sleep(self._random.uniform(STRIKE_AGAIN_S, 2 * STRIKE_MEAN_S))
            if await self._strike(breaker, planned.fault):
                done += 1
                self._notes[note:] = [f"{planned.fault.name} struck {done} times"]

    async def _strike(self, breaker: Breaker, fault: Fault) -> bool:
        try:
            await fault.strike(breaker)
        except (Problem, KubeError) as error:
            log.info("fault cannot strike now", fault=fault.name, error=str(error))
            return False
        self._view.say(f"fault    {fault.name} strikes: {fault.what}")
        return True

    async def _leave(self, github: GitHubControl, eyes: Eyes) -> Leftovers:
        """Delete the set; what is still there when it is gone, or when waiting ends."""
        admin = self._machine.admin
        if self._options.keep:
            return await self._settled(github, eyes)
        with contextlib.suppress(NotFound):
            await admin.delete(AUTOSCALING_RUNNER_SETS, NAMESPACE, RUNNER_SET)
        deadline = Deadline.after(self._clock, GONE_WITHIN_S)
        while not deadline.passed:
            left = await eyes.leftovers(await github.state())
            sets = await admin.list(AUTOSCALING_RUNNER_SETS, NAMESPACE)
            if left.total == 0 and not sets.items:
                return left
            await self._clock.sleep(LOOK_EVERY_S)
        self._notes.append(f"not everything was gone {GONE_WITHIN_S:.0f} s after the deletion")
        return await eyes.leftovers(await github.state())

    async def _settled(self, github: GitHubControl, eyes: Eyes) -> Leftovers:
        """The set stays: wait until only its minimum of idle runners is left, count the rest."""
        deadline = Deadline.after(self._clock, GONE_WITHIN_S)
        spare = self._options.min_runners
        while True:
            left = await eyes.leftovers(await github.state())
            over = Leftovers(
                runners=max(0, left.runners - spare),
                pods=max(0, left.pods - spare),
                secrets=max(0, left.secrets - spare),
                registrations=max(0, left.registrations - spare),
            )
            if over.total == 0 or deadline.passed:
                return over
            await self._clock.sleep(LOOK_EVERY_S)

    async def _hold(self) -> None:
        machine = self._machine
        ports = machine.ports
        self._view.close()
        self._view.say(f"export KUBECONFIG={machine.kubeconfig}")
        self._view.say(f"export GITHUB={machine.github_url}")
        self._view.say(f"controller metrics: http://127.0.0.1:{ports.metrics}/metrics")
        self._view.say(f"listener metrics:   http://127.0.0.1:{ports.listener_metrics}/metrics")
        self._view.say(f"GitHub's state:     {machine.github_url}/control/state")
        self._view.say(f"logs of all parts:  {machine.folder / 'logs'}")
        self._view.say("Everything goes on until Ctrl-C; then all of it ends and is removed.")
        await asyncio.Event().wait()


def controller_calls(state: dict[str, Any]) -> int:
    """Calls of the controller so far, from GitHub's own count."""
    by_client = state["calls"]["by_client"]
    return sum(
        count
        for client, names in by_client.items()
        if "controller" in client
        for count in names.values()
    )
