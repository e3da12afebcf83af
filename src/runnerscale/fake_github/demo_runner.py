"""The runner side: takes one JIT config, runs one job's steps with a shell, and ends.

Stands in for GitHub's runner in pods of the demo and of tests. It is started hundreds of
times on small machines, so it and its neighbours (`demo_runner_job.py`, `demo_runner_files.py`,
`demo_runner_http.py`, `core/tree_removal.py`) need nothing but the standard library. What it
says to the server is described in docs/fake-github.md and decided, on the other side, in
`runner_sessions.py`.

Exit codes: 0 a job was run, or asked to stop; 1 the registration was refused or is gone;
7 the runner's version is refused and ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1
(without it 0, as the real runner's start script does).
"""

# pathlib is slow to load, and this is loaded hundreds of times:
# ruff: noqa: PTH100, PTH102, PTH103, PTH117, PTH118

from __future__ import annotations

import binascii
import json
import os
import signal
import sys
import time

from runnerscale.core.tree_removal import remove_tree
from runnerscale.fake_github.demo_runner_http import VERSION, Refused, Server, Unavailable
from runnerscale.fake_github.demo_runner_job import FOLDER_VARIABLE, LOG_CHUNK, Job, Shell, in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"
DEPRECATED_VARIABLE = "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"
EXIT_REFUSED = 1
EXIT_DEPRECATED = 7

CONNECT_FOR_S = 300.0
FINISH_FOR_S = 600.0
CALL_TIMEOUT_S = 15.0
RETRY_FIRST_S, RETRY_CAP_S = 0.25, 5.0


class Stopped(BaseException):
    """SIGTERM while nothing was running."""


class Runner:
    """One process, one registration, at most one job."""

    def __init__(self, config: str) -> None:
        files = json.loads(binascii.a2b_base64(config, strict_mode=True))
        settings, keys = (
            json.loads(binascii.a2b_base64(files[name]))
            for name in (".runner", ".credentials_rsaparams")
        )
        self.name = str(settings["agentName"])
        self.folder = str(settings.get("workFolder", ""))
        self.server = Server(str(settings["serverUrl"]), str(keys["d"]))
        self.secrets = [config.encode(), str(keys["d"]).encode()]
        self.session = ""
        self.poll_s = self.report_s = 5.0
        self.shell = Shell()
        self.busy = False
        self.stop_asked = False

    def call(
        self, path: str, body: object, method: str = "POST", timeout_s: float = CALL_TIMEOUT_S
    ) -> dict[str, object]:
        """A call of this session."""
        return self.server.call(method, f"/runner/sessions/{self.session}/{path}", body, timeout_s)

    def on_signal(self, _number: int, _frame: object) -> None:
        """SIGTERM or SIGINT: end now if idle, else cancel the job."""
        self.stop_asked = True
        if not self.busy:
            raise Stopped

    def run(self) -> int:
        """Connect, wait for the job, run it; the exit code."""
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)
        signal.set_wakeup_fd(self.shell.wake_write, warn_on_full_buffer=False)
        try:
            self.connect()
            say(f"demo runner {VERSION} is connected")
            say(f"{stamp()}: waiting for a job")
            told = self.wait_for_job()
        except Stopped:
            self.say_goodbye()
            say("Exiting...")
            return 0
        return self.run_job(told)

    def connect(self) -> None:
        """Start the session; the nonce makes a repeated call harmless."""
        hello = {"nonce": os.urandom(16).hex(), "version": VERSION}
        answer = persist(
            lambda: self.server.call("POST", "/runner/sessions", hello, CALL_TIMEOUT_S),
            CONNECT_FOR_S,
        )
        self.session = str(answer["sessionId"])
        self.poll_s = float(str(answer["pollSeconds"]))
        self.report_s = float(str(answer["reportSeconds"]))

    def wait_for_job(self) -> dict[str, object]:
        """Until a job was given and confirmed."""
        attempt = 0
        while True:
            try:
                offer = self.call("job", None, "GET", self.poll_s + CALL_TIMEOUT_S)
                attempt = 0
                if "jobId" in offer:
                    self.busy = True
                    return self.call(f"jobs/{offer['jobId']}/start", {})
            except Unavailable:
                attempt = pause(attempt)
            except Refused as problem:
                if problem.code != "job-not-yours":
                    raise
            self.busy = False
            if self.stop_asked:
                raise Stopped

    def run_job(self, told: dict[str, object]) -> int:
        """The job from its first step to the report of its result."""
        say(f"{stamp()}: job {told['name']} begins")
        folder = ""
        job = None
        try:
            try:
                folder = fresh_folder(self.folder)
                job = Job(self, told, folder)
                result = job.run()
                self.shell.clean_up()
                self.send_log(job)
            except Refused:
                raise
            except Exception as problem:  # noqa: BLE001 - a job that has begun ends with a word
                said = f"##[error]The runner cannot run this job: {in_words(problem)}\n"
                result = "failed"
                body = failed_early(said) if job is None else ending(job, result, said)
            else:
                body = ending(job, result)
            persist(lambda: self.call(f"jobs/{told['jobId']}/finish", body), FINISH_FOR_S)
        except Refused as problem:  # it was ended without us
            say(f"{stamp()}: {problem}")
            return 0
        finally:
            self.shell.clean_up()
            if folder:
                remove_folder(folder)
        say(f"{stamp()}: Job {told['name']} completed with result: {result.capitalize()}")
        return 0

    def send_log(self, job: Job) -> None:
        """All but what goes with the end."""
        while len(job.log) > LOG_CHUNK:
            held = len(job.log)
            job.report(now=True)
            if len(job.log) >= held:
                job.log = job.log[-LOG_CHUNK:]

    def say_goodbye(self) -> None:
        """The registration stays; it is shown offline at once."""
        if self.session:
            try:
                self.server.close()
                self.server.call("DELETE", f"/runner/sessions/{self.session}", None, 2.0)
            except (Refused, Unavailable):
                pass


def ending(job: Job, result: str, said: str = "") -> dict[str, object]:
    """The report of a job's end, with the last of its log."""
    job.write(said)
    job.log = job.log[-LOG_CHUNK:]
    return {
        "result": result,
        "steps": job.reports,
        "offset": job.offset,
        "text": job.take_log(True),
    }


def failed_early(said: str) -> dict[str, object]:
    """The same for a job of which nothing could be begun."""
    text = binascii.b2a_base64(said.encode(errors="replace"), newline=False).decode()
    return {"result": "failed", "steps": [], "offset": 0, "text": text}


def persist(call: Callable[[], dict[str, object]], for_s: float) -> dict[str, object]:
    """Repeat a call while the server cannot be reached, up to `for_s` seconds."""
    ends_s = time.monotonic() + for_s
    attempt = 0
    while True:
        try:
            return call()
        except Unavailable as problem:
            if time.monotonic() > ends_s:
                raise Refused(
                    0, "unreachable", f"the server cannot be reached: {problem}"
                ) from None
            attempt = pause(attempt)


def pause(attempt: int) -> int:
    """Wait longer each time, and not in step with others."""
    full_s = min(RETRY_CAP_S, RETRY_FIRST_S * 2**attempt)
    time.sleep(full_s * (0.5 + os.urandom(1)[0] / 512))
    return min(attempt + 1, 10)


def fresh_folder(wanted: str) -> str:
    """A new folder nobody else can read: in `wanted` if that is absolute, else where the
    environment says that this runner's folders belong, else in TMPDIR.

    Raises OSError: there is none.
    """
    parents = [wanted] if os.path.isabs(wanted) else []
    if os.environ.get(FOLDER_VARIABLE):
        parents.append(os.path.abspath(os.environ[FOLDER_VARIABLE]))
    for parent in [*parents, os.environ.get("TMPDIR") or "/tmp"]:  # noqa: S108 - mode 0700 below
        path = os.path.join(parent, f"runner-{os.urandom(8).hex()}")
        try:
            os.makedirs(parent, exist_ok=True)
            os.mkdir(path, 0o700)
        except OSError:
            continue
        return path
    raise OSError("there is no folder to work in; set TMPDIR to a writable one")


def remove_folder(path: str) -> None:
    """With all that is in it, whatever its steps have done to it."""
    if not remove_tree(path):
        say(f"{stamp()}: something is left in {path}")


def stamp() -> str:
    """UTC, as the real runner writes it."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())


def say(text: str) -> None:
    """One line for `kubectl logs`; nobody may be reading any more."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        pass


def main() -> None:
    """Entry point `runnerscale-demo-runner`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code for these arguments and this environment."""
    if arguments == ["--version"]:
        say(VERSION)
        return 0
    config = os.environ.get(CONFIG_VARIABLE, "")
    if len(arguments) == 2 and arguments[0] == "--jitconfig":
        config = arguments[1]
    if not config:
        say(f"There is no JIT config: set {CONFIG_VARIABLE} to one.")
        return EXIT_REFUSED
    try:
        runner = Runner(config)
    except (ValueError, KeyError, TypeError, AttributeError):
        say(f"The JIT config in {CONFIG_VARIABLE} cannot be read: ask for a new one.")
        return EXIT_REFUSED
    try:
        return runner.run()
    except Refused as problem:
        say(f"An error occurred: {problem}")
        if problem.code == "runner-version-deprecated":
            return EXIT_DEPRECATED if os.environ.get(DEPRECATED_VARIABLE) == "1" else 0
        return EXIT_REFUSED


if __name__ == "__main__":
    main()
