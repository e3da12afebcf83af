"""One job on the demo runner: its steps in order, their output, and how they are stopped.

Standard library only, as its neighbours. A step is a shell in a process group of its own;
whether it runs at all was decided beforehand, for each way the job may stand, by `runs.py` on
the other side. What a step leaves in its files is read by `demo_runner_files.py`; talking to the
server is left to `demo_runner.py`.
"""

# pathlib is slow to load, and this is loaded hundreds of times:
# ruff: noqa: PTH102, PTH118

from __future__ import annotations

import binascii
import os
import select
import signal
import subprocess
import time

from runnerscale.fake_github import demo_runner_files as files
from runnerscale.fake_github.demo_runner_http import Refused, Unavailable

LOG_EVERY_S = 1.0
LOG_CHUNK = 128 * 1024  # of one report
LOG_HELD_MAX = 4 << 20  # output that cannot be reported, or not as fast, is dropped beyond this
LOG_KEPT = 1 << 20  # of it
FOLDER_VARIABLE = "DEMO_RUNNER_FOLDER"  # where work folders are made; not for the steps
KILL_AFTER_S = 2.0  # from SIGTERM to SIGKILL
DRAIN_S = 0.2  # for output that arrives after the shell has ended
CANCEL_S = 60.0  # for the `if: always()` steps of a job whose time is over
SHELLS = {
    "": (["bash", "-e", "{0}"], ".sh"),
    "bash": (["bash", "--noprofile", "--norc", "-eo", "pipefail", "{0}"], ".sh"),
    "sh": (["sh", "-e", "{0}"], ".sh"),
    "python": (["python3", "{0}"], ".py"),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from runnerscale.fake_github.demo_runner import Runner


class Shell:
    """Runs one step at a time, each in a process group of its own."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)

    def start(self, arguments: list[str], folder: str, env: dict[str, str]) -> None:
        """Start the step's process."""
        process = subprocess.Popen(  # noqa: S603 - running the job's commands is the purpose
            arguments,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self.processes.append(process)

    def signal(self, number: int) -> None:
        """To the running step and everything it started."""
        try:
            os.killpg(self.processes[-1].pid, number)
        except OSError:
            pass

    def exit_code(self) -> int | None:
        """Of the running step, None while it runs. It stays unreaped: its group id must not
        be given to somebody else before `clean_up`."""
        pid = self.processes[-1].pid
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if state is None:
            return None
        return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status

    def wait(self, timeout_s: float) -> tuple[bytes, bool]:
        """Output that came within the time, and whether the output has ended."""
        output = self.processes[-1].stdout
        assert output is not None
        if output.closed:
            select.select([self.wake_read], [], [], min(timeout_s, 0.05))
            return b"", True
        ready, _, _ = select.select([output.fileno(), self.wake_read], [], [], min(timeout_s, 0.5))
        if self.wake_read in ready:
            os.read(self.wake_read, 4096)
        data = output.read(LOG_CHUNK) if output.fileno() in ready else None
        if data == b"":
            output.close()
            return b"", True
        return data or b"", False

    def clean_up(self) -> None:
        """Kill whatever the steps left running, then reap them."""
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.processes.clear()


class Job:
    """One job: its steps in order, its log, its end."""

    def __init__(self, runner: Runner, told: dict[str, object], folder: str) -> None:
        self.runner = runner
        self.id = str(told["jobId"])
        self.name = str(told["name"])
        self.steps: list[dict[str, object]] = list(told["steps"])  # type: ignore[call-overload]
        self.folder = folder
        self.work = os.path.join(folder, "work")
        self.files = {name: os.path.join(folder, name.lower()) for name in files.NAMES}
        self.env = self._first_env(dict(told["env"]))  # type: ignore[call-overload]
        self.ends_s = time.monotonic() + float(str(told["timeoutSeconds"]))
        self.shell = runner.shell
        self.status = "success"
        self.cancelled = False
        self.log = b""
        self.offset = 0
        self.reported_s = 0.0
        self.reports: list[dict[str, object]] = []
        self.step = ""

    def _first_env(self, of_job: dict[str, str]) -> dict[str, str]:
        ours = ("ACTIONS_RUNNER_INPUT_", FOLDER_VARIABLE)
        own = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        temporary = os.path.join(self.folder, "temp")
        os.mkdir(self.work)
        os.mkdir(temporary)
        place = {
            "GITHUB_WORKSPACE": self.work,
            "RUNNER_TEMP": temporary,
            "HOME": own.get("HOME", "/"),
        }
        runner = {"RUNNER_NAME": self.runner.name, "RUNNER_OS": "Linux"}
        return {**own, **place, **runner, **self.files, **of_job}

    def run(self) -> str:
        """All steps; the result in the service's words."""
        for number, step in enumerate(self.steps, start=1):
            self._look_at_cancel()
            self.step = str(step["name"])
            when = step["runWhen"]
            assert isinstance(when, dict)
            if not when[self.status]:
                self._ended(number, "skipped", 0.0)
                continue
            began_s = time.monotonic()
            conclusion = self._run_step_to_an_end(number, step)
            self._ended(number, conclusion, time.monotonic() - began_s)
            if conclusion != "success" and self.status == "success":
                self.status = conclusion
        self._look_at_cancel()
        if self.cancelled:
            return "canceled"
        return "succeeded" if self.status == "success" else "failed"

    def _run_step_to_an_end(self, number: int, step: dict[str, object]) -> str:
        try:
            return self._run_step(number, step)
        except Refused:  # the job is not ours any more
            raise
        except Exception as problem:  # noqa: BLE001 - whatever it is, the job ends with a word
            self.shell.clean_up()
            self.write(f"##[error]The runner failed at this step: {in_words(problem)}\n")
            return "failure"

    def _ended(self, number: int, conclusion: str, seconds: float) -> None:
        self.reports.append(
            {
                "number": number,
                "name": self.step,
                "conclusion": conclusion,
                "seconds": round(seconds, 3),
            }
        )

    def _look_at_cancel(self) -> None:
        if self.runner.stop_asked and not self.cancelled:
            self.cancelled = True
            self.write("##[error]The runner has received a shutdown signal.\n")
        if self.cancelled and self.status != "cancelled":
            self.status = "cancelled"

    def _run_step(self, number: int, step: dict[str, object]) -> str:
        self.write(f"##[group]{self.step}\n{step['run']}\n##[endgroup]\n")
        command, ending = SHELLS.get(str(step["shell"]), SHELLS["sh"])
        script = os.path.join(self.folder, f"step-{number}{ending}")
        folder = os.path.join(self.work, str(step["workingDirectory"]))
        env = {**self.env, **step["env"]}  # type: ignore[dict-item]
        try:  # an earlier step may have done anything to these files
            files.write_fresh(script, str(step["run"]))
            for path in self.files.values():
                files.write_fresh(path)
            self.shell.start([part.replace("{0}", script) for part in command], folder, env)
        except (OSError, ValueError) as problem:  # the second: a name or value no process can have
            self.write(f"##[error]The step cannot be started: {problem}\n")
            return "failure"
        limit_s = float(str(step["timeoutSeconds"]))
        ends_s = min(self.ends_s, time.monotonic() + limit_s) if limit_s else self.ends_s
        conclusion = self._watch(ends_s)
        try:
            self._take_over_env()
        except files.BadFile as problem:
            self.write(f"##[error]{problem}. Nothing of it holds for the steps after it.\n")
            return "failure" if conclusion == "success" else conclusion
        return conclusion

    def _watch(self, ends_s: float) -> str:
        """Until the step has ended, or was killed because of time or a cancel."""
        why = ""
        kill_s = exited_s = 0.0
        already_cancelled = self.cancelled
        while True:
            now_s = time.monotonic()
            output, ended = self.shell.wait(max(0.01, min(ends_s - now_s, LOG_EVERY_S)))
            self._take_output(output)
            code = self.shell.exit_code()
            if code is not None:
                exited_s = exited_s or now_s
                if ended or (not output and now_s - exited_s > DRAIN_S):
                    return self._conclusion(code, why)
                continue
            self.report()
            if not why and (self.cancelled or self.runner.stop_asked) and not already_cancelled:
                why = "cancelled"
            elif not why and now_s >= ends_s:
                why = "timeout"
            if why and not kill_s:
                self.shell.signal(signal.SIGTERM)
                kill_s = now_s + KILL_AFTER_S
            elif why and now_s >= kill_s:
                self.shell.signal(signal.SIGKILL)

    def _conclusion(self, code: int, why: str) -> str:
        if why == "cancelled":
            self._look_at_cancel()
            self.write("##[error]The operation was canceled.\n")
            return "cancelled"
        if why == "timeout":
            self.write("##[error]The action has timed out.\n")
            if time.monotonic() >= self.ends_s:
                self.cancelled = True  # the whole job ran out of time
                self.ends_s = time.monotonic() + CANCEL_S
                return "cancelled"
            return "failure"
        if code != 0:
            self.write(f"##[error]Process completed with exit code {code}.\n")
        return "success" if code == 0 else "failure"

    def _take_output(self, output: bytes) -> None:
        self.log += output
        if len(self.log) > LOG_HELD_MAX:
            dropped = len(self.log) - LOG_KEPT
            self.log = self.log[dropped:]
            self.log = f"##[warning]{dropped} bytes of output are left out\n".encode() + self.log

    def write(self, text: str) -> None:
        """Add to the log."""
        self.log += text.encode(errors="replace")

    def take_log(self, everything: bool) -> str:
        """The next part of the log, whole lines where possible, own secrets starred out."""
        text = self.log[:LOG_CHUNK]
        if not everything and b"\n" in text:
            text = text[: text.rindex(b"\n") + 1]
        self.log = self.log[len(text) :]
        for secret in self.runner.secrets:
            text = text.replace(secret, b"***")
        return binascii.b2a_base64(text, newline=False).decode()

    def report(self, *, now: bool = False) -> None:
        """Send log and a sign of life, if it is time; a failure is made good by the next."""
        moment_s = time.monotonic()
        wait_s = min(LOG_EVERY_S, self.runner.report_s) if self.log else self.runner.report_s
        if not now and moment_s - self.reported_s < wait_s:
            return
        self.reported_s = moment_s
        before = self.log
        text = self.take_log(now)
        body = {"offset": self.offset, "text": text, "step": self.step}
        try:
            answer = self.runner.call(f"jobs/{self.id}/log", body)
        except Unavailable:
            self.log = before[-LOG_HELD_MAX:]
            return
        self.offset += len(binascii.a2b_base64(text))
        if answer.get("cancel"):
            self.cancelled = True

    def _take_over_env(self) -> None:
        """What the step wrote to GITHUB_ENV and GITHUB_PATH holds for the steps after it.

        Raises BadFile: one of them cannot be used; then nothing does.
        """
        pairs = files.read_env(self.files[files.ENV])
        added = files.read_path(self.files[files.PATH])
        self.env.update(pairs)
        if added:
            self.env["PATH"] = ":".join([*reversed(added), self.env.get("PATH", "")])


def in_words(problem: Exception) -> str:
    """For the job's log."""
    return f"{type(problem).__name__}: {problem}"[:500]
