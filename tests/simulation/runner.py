"""GitHub's runner, as this world has it: registers once, takes one job, ends.

Not production code: it stands for the program in the runner's image. It speaks to the pretended
GitHub without a network, so that what is under test is our side alone.
"""

import binascii
import json
import math
import signal
from collections.abc import Callable, Mapping

from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.fake_github import runner_sessions
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.model import Job, JobState, Runner
from runnerscale.fake_github.refusals import Refused
from runnerscale.fake_github.state import runner_topic
from runnerscale.node.processes import ProcessSpec
from tests.simulation.loop import Component

SECONDS = "SIMULATED_SECONDS"  # how long a job takes, in its environment
CONFIG_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"
POLL_S = 20.0
REPORT_S = 15.0
FINDS_OUT_AFTER_S = 200.0
BOOT_MAX_S = 2.0
VERSION_REFUSED = 7  # the exit code of a runner whose version GitHub does not take any more


class RunnerProgram:
    """The program of every runner container."""

    def __init__(self, hub: Hub, *, clock: Clock, random: Random) -> None:
        self._hub = hub
        self._clock = clock
        self._random = random
        self.released = False  # jobs without an end of their own end from now on
        self.crash_rate = 0.0  # of runners that end with code 1 before they have a job
        self.crash_at_work = False  # those that have just been given a job end with code 1
        self.at_work: list[Callable[[], None]] = []  # called as the next job begins
        self.too_old = False  # GitHub refuses the version of those that start
        self.refused = 0  # for that reason
        self.started: list[str] = []  # secrets of the JIT configs that reached a container

    async def __call__(
        self, component: Component, environ: Mapping[str, str], spec: ProcessSpec
    ) -> int:
        """The life of one container; its exit code."""
        secret = _secret(environ.get(CONFIG_VARIABLE, ""))
        self.started.append(secret)
        await self._clock.sleep(self._random.random() * BOOT_MAX_S)
        if self._random.random() < self.crash_rate:
            return 1
        if self.too_old:
            self.refused += 1
            return VERSION_REFUSED
        nonce = f"{spec.pod.uid[:50]}-{spec.earlier}"
        try:
            runner = self._hub.run(runner_sessions.connect, secret=secret, nonce=nonce)
        except Refused:
            return 1
        return await self._serve(component, runner)

    async def _serve(self, component: Component, runner: Runner) -> int:
        asked_to_stop = False

        def stop() -> None:
            nonlocal asked_to_stop
            asked_to_stop = True

        component.signals[signal.SIGTERM] = (stop, ())
        hub = self._hub
        topic = runner_topic(runner.session_id)
        hub.run(runner_sessions.begin_poll, runner)
        hang_up = _once(lambda: hub.run(runner_sessions.end_poll, runner))
        component.on_kill.append(hang_up)
        try:
            while (job := runner_sessions.offered_job(hub.state, runner)) is None:
                if asked_to_stop:
                    hang_up()
                    hub.run(runner_sessions.disconnect, runner)
                    return 0
                await hub.wait(topic, 1.0)
                runner.last_seen_s = hub.now_s()
            hang_up()
            hub.run(runner_sessions.confirm, runner, job.id)
            while self.at_work:
                self.at_work.pop()()
        except Refused:
            hang_up()
            return 1
        return 1 if self.crash_at_work else await self._work(runner, job)

    def _finds_out(self, job: Job) -> bool:
        """GitHub has ended the job, and nobody has ended the runner.

        Real ones find out when they renew their job. Who is told of the end gives the runner two
        minutes; but the message may be unreadable, or the queue gone with its scale set, and the
        controller asks about a busy runner once an hour only (`deadlines.py`).
        """
        since_s = self._hub.now_s() - job.finished_s
        return job.state is JobState.COMPLETED and since_s >= FINDS_OUT_AFTER_S

    async def _work(self, runner: Runner, job: Job) -> int:
        hub = self._hub
        ends_s = self._clock.monotonic_s() + float(dict(job.request.env)[SECONDS])
        result = "succeeded"
        try:
            while (left_s := ends_s - self._clock.monotonic_s()) > 1e-6:
                if math.isinf(left_s) and (self.released or self._finds_out(job)):
                    break
                await self._clock.sleep(min(left_s, REPORT_S))
                cancel = hub.run(
                    runner_sessions.report, runner, job.id, offset=0, text=b"", current_step="work"
                )
                if cancel:
                    result = "canceled"
                    break
            hub.run(runner_sessions.finish, runner, job_id=job.id, result=result, steps=[])
        except Refused:
            return 1
        return 0


def _secret(config: str) -> str:
    files = json.loads(binascii.a2b_base64(config))
    return str(json.loads(binascii.a2b_base64(files[".credentials_rsaparams"]))["d"])


def _once(call: Callable[[], object]) -> Callable[[], None]:
    """`call`, however often it is called."""
    done = False

    def run() -> None:
        nonlocal done
        if not done:
            done = True
            call()

    return run
