"""The demo runner as a real process against the real server: jobs, kills, exit codes, refusals."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.fake_github import runners, scale_sets, sessions
from runnerscale.fake_github.jit_config import encode_jit_config
from runnerscale.fake_github.model import Job, JobState, Runner
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.server import FakeGitHub, serve_fake_github

DEPRECATED = {"ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1"}


@dataclass(slots=True)
class Stage:
    """A server with a scale set that takes everything, and the runners of one test."""

    fake: FakeGitHub
    scale_set: scale_sets.ScaleSet
    folder: Path
    processes: list[asyncio.subprocess.Process]

    def register(self, name: str = "r-1", *, work_folder: str = "") -> tuple[Runner, str]:
        runner = self.fake.hub.run(runners.register, self.scale_set, name)
        config = encode_jit_config(
            runner, server_url=self.fake.base_url, github_url="x", work_folder=work_folder
        )
        return runner, config

    async def start(self, config: str, **env: str) -> asyncio.subprocess.Process:
        clean = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "runnerscale.fake_github.demo_runner",
            env={
                **clean,
                "TMPDIR": str(self.folder),
                "ACTIONS_RUNNER_INPUT_JITCONFIG": config,
                **env,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.processes.append(process)
        return process

    async def workflow(self, steps: str, **more: Any) -> Job:
        """Queue a job with these steps (YAML, indented by six)."""
        content = f"jobs:\n  job:\n    runs-on: demo\n    steps:\n{steps}"
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{self.fake.base_url}/control/workflows", json={"content": content, **more}
            ) as answer,
        ):
            run = await answer.json()
            assert answer.status == 201, run
        return self.fake.state.jobs[run["jobs"][0]["id"]]

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while True:
                if condition():
                    return
                await asyncio.sleep(0.02)

    async def run_job(self, steps: str, **env: str) -> tuple[Job, str]:
        """A job from queued to completed; the runner's own output."""
        _, config = self.register()
        process = await self.start(config, **env)
        job = await self.workflow(steps)
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, output
        assert job.state is JobState.COMPLETED
        assert list(self.folder.iterdir()) == []  # its work folder is gone
        return job, output.decode()


@asynccontextmanager
async def stage(folder: Path, **options: Any) -> AsyncIterator[Stage]:
    wanted = replace(Options(repository="my-org/app"), **options)
    async with serve_fake_github(wanted, clock=SystemClock(), random=seeded(5)) as fake:
        tenant = fake.state.tenant("my-org")
        made = fake.hub.run(scale_sets.create, tenant, scale_sets.Wanted(name="demo"))
        session = fake.hub.run(sessions.open_session, made, "test")
        fake.hub.run(sessions.begin_poll, session.token, 100)
        found = Stage(fake, made, folder, [])
        try:
            yield found
        finally:
            for process in found.processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()


def log_of(job: Job) -> str:
    return bytes(job.log).decode()


async def test_a_job_runs_its_steps_in_order_with_its_environment(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        job, output = await s.run_job("""\
      - name: First
        run: |
          echo "in $GITHUB_ACTIONS $RUNNER_NAME $GITHUB_RUN_ID of $GITHUB_REPOSITORY"
          echo made > file
          mkdir sub
          echo "LATER=from the step before" >> "$GITHUB_ENV"
          printf 'LONG<<END\\nline 1\\nline 2\\nEND\\n' >> "$GITHUB_ENV"
          mkdir bin && printf '#!/bin/sh\\necho tool' > bin/mytool && chmod +x bin/mytool
          echo "$PWD/bin" >> "$GITHUB_PATH"
      - run: echo "$LATER / $LONG / $(cat ../file) / $OWN"; mytool
        working-directory: sub
        env: { OWN: mine }
        shell: bash
      - run: print("python", 6 * 7)
        shell: python
      - run: test "$(pwd)" = "$GITHUB_WORKSPACE" && echo "in its workspace"
        shell: sh
""")
        assert [step["conclusion"] for step in job.steps] == ["success"] * 4
        log = log_of(job)
        assert f"in true r-1 {job.request.run_id} of my-org/app" in log
        assert "from the step before / line 1\nline 2 / made / mine\ntool\n" in log
        assert "python 42" in log
        assert "in its workspace" in log
        assert "job job begins" in output
        assert "completed with result: Succeeded" in output


async def test_a_failing_step_fails_the_job_and_conditions_decide_what_follows(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as s:
        job, _ = await s.run_job("""\
      - run: false; echo not reached
      - run: echo skipped
      - run: echo because it failed
        if: failure()
      - run: echo in any case
        if: always()
      - run: exit 3
        if: always()
""")
        conclusions = [step["conclusion"] for step in job.steps]
        assert conclusions == ["failure", "skipped", "success", "success", "failure"]
        assert job.result is not None
        assert job.result.value == "failed"
        assert "exit code 1." in log_of(job)
        assert "exit code 3." in log_of(job)
        assert "[endgroup]\nnot reached" not in log_of(job)


async def test_bash_asked_for_by_name_fails_in_the_middle_of_a_pipe(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        job, _ = await s.run_job("""\
      - run: "false | true"
      - run: "false | true"
        shell: bash
""")
        assert [step["conclusion"] for step in job.steps] == ["success", "failure"]


async def test_a_step_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        marker = f"sleep 987{os.getpid()}"
        job, _ = await s.run_job(f"""\
      - run: trap '' TERM; {marker} & {marker}
        timeout-minutes: 0.005
      - run: echo still here
        if: failure()
""")
        assert [step["conclusion"] for step in job.steps] == ["failure", "success"]
        assert "has timed out" in log_of(job)
        assert not any(marker in each for each in command_lines())


async def test_what_a_step_leaves_running_ends_with_the_job(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        marker = f"sleep 988{os.getpid()}"
        job, _ = await s.run_job(f"""\
      - run: {marker} &
      - run: echo next
""")
        assert [step["conclusion"] for step in job.steps] == ["success", "success"]
        assert not any(marker in each for each in command_lines())


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


async def test_the_steps_do_not_see_the_jit_config_and_the_log_stars_it_out(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as s:
        runner, config = s.register()
        process = await s.start(config)
        job = await s.workflow(f"""\
      - run: env | grep -c JITCONFIG || echo "not in the environment"
      - run: echo "leak {config} and {runner.secret} end"
""")
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        log = log_of(job)
        assert "not in the environment" in log
        assert "leak *** and *** end" in log
        assert runner.secret not in log
        assert config not in log + output.decode()
        assert runner.secret not in output.decode()


async def test_a_long_log_arrives_whole(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        job, _ = await s.run_job("""\
      - run: seq 1 60000
""")
        numbers = [line for line in log_of(job).splitlines() if line.isdigit()]
        assert numbers == [str(n) for n in range(1, 60_001)]


async def test_a_log_is_streamed_while_the_job_runs(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, config = s.register()
        await s.start(config)
        job = await s.workflow("""\
      - run: echo early; sleep 30
""")
        await s.until(lambda: "\nearly\n" in log_of(job))
        assert job.state is JobState.RUNNING


async def test_a_second_start_with_the_same_jit_config_is_refused_and_counted(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as s:
        runner, config = s.register()
        await s.start(config)
        await s.until(lambda: runner.polls_held == 1)
        second = await s.start(config)
        output, _ = await asyncio.wait_for(second.communicate(), 20)
        assert second.returncode == 1
        assert "already started" in output.decode()
        assert [v.kind for v in s.fake.state.violations] == ["JIT config started twice"]
        assert runners.online(s.fake.state, runner, s.fake.hub.now_s())  # the first is not hurt


async def test_a_removed_registration_ends_the_runner_with_1(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        runner, config = s.register()
        process = await s.start(config)
        await s.until(lambda: runner.polls_held == 1)
        s.fake.hub.run(runners.remove, runner.tenant_id, runner.id)
        output, _ = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 1
        assert "has been deleted" in output.decode()


@pytest.mark.parametrize(("env", "code"), [(DEPRECATED, 7), ({}, 0)])
async def test_a_refused_version_ends_with_7_where_that_is_asked_for(
    tmp_path: Path, env: dict[str, str], code: int
) -> None:
    async with stage(tmp_path) as s:
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{s.fake.base_url}/control/faults", json={"preset": "runner-version-refused"}
            ) as answer,
        ):
            assert answer.status == 201
        _, config = s.register()
        process = await s.start(config, **env)
        output, _ = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == code
        assert "is deprecated and cannot receive messages" in output.decode()


async def test_sigterm_ends_an_idle_runner_and_shows_it_offline_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        runner, config = s.register()
        process = await s.start(config)
        await s.until(lambda: runner.polls_held == 1)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert not runners.online(s.fake.state, runner, s.fake.hub.now_s())
        assert runner.id in s.fake.state.runners  # the registration is not its own to remove


async def test_sigterm_cancels_the_job_of_a_busy_runner(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, config = s.register()
        process = await s.start(config)
        job = await s.workflow("""\
      - run: echo on; sleep 60
      - run: echo not any more
      - run: echo clean-up
        if: always()
""")
        await s.until(lambda: b"\non\n" in job.log)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert job.result is not None
        assert job.result.value == "canceled"
        assert [step["conclusion"] for step in job.steps] == ["cancelled", "skipped", "success"]


async def test_a_job_cancelled_at_github_ends_cancelled(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, config = s.register()
        process = await s.start(config)
        job = await s.workflow("""\
      - run: sleep 60
""")
        await s.until(lambda: job.state is JobState.RUNNING)
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{s.fake.base_url}/control/jobs/{job.id}/cancel") as answer,
        ):
            assert answer.status == 200
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert job.result is not None
        assert job.result.value == "canceled"
        assert not job.disowned


async def test_kill_9_under_a_job_fails_it_and_nobody_starts_it_again(tmp_path: Path) -> None:
    async with stage(tmp_path, runner_lost_s=1.5) as s:
        _, config = s.register()
        process = await s.start(config)
        job = await s.workflow("""\
      - run: sleep 3
""")
        await s.until(lambda: job.state is JobState.RUNNING)
        process.kill()
        other, second = s.register("r-2")
        await s.start(second)
        await s.until(lambda: job.state is JobState.COMPLETED)
        assert job.result is not None
        assert (job.result.value, job.starts) == ("failed", 1)
        assert other.job_id == ""


async def test_kill_9_of_an_idle_runner_is_noticed_and_its_job_goes_to_another(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as s:
        runner, config = s.register()
        process = await s.start(config)
        await s.until(lambda: runner.polls_held == 1)
        process.kill()
        await s.until(lambda: runner.polls_held == 0)
        job = await s.workflow("""\
      - run: echo hello
""")
        assert job.state is JobState.ASSIGNED
        _, second = s.register("r-2")
        assert await asyncio.wait_for((await s.start(second)).wait(), 20) == 0
        assert (job.runner_name, job.starts) == ("r-2", 1)


async def test_an_outage_of_github_is_waited_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{s.fake.base_url}/control/faults",
                json={"match": {}, "action": {"status": 503, "body": "<html>"}, "seconds": 1.5},
            ) as answer,
        ):
            assert answer.status == 201
        job, _ = await s.run_job("""\
      - run: echo hello
""")
        assert job.result is not None
        assert job.result.value == "succeeded"
        assert list(s.fake.state.violations) == []


async def test_lost_answers_are_made_good(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        operations = ["runner-connect", "runner-confirm", "runner-report", "runner-finish"]
        async with aiohttp.ClientSession() as http:
            for each in operations:
                body = {"match": {"operations": [each]}, "action": {"drop": "after"}, "times": 1}
                async with http.post(f"{s.fake.base_url}/control/faults", json=body) as answer:
                    assert answer.status == 201
        job, _ = await s.run_job("""\
      - run: echo one; sleep 1.2; echo two
""")
        assert log_of(job).count("\none\n") == 1
        assert (job.starts, list(s.fake.state.violations)) == (1, [])


async def test_a_step_that_ruins_its_own_folder_does_not_ruin_the_runner(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        job, _ = await s.run_job("""\
      - run: rm -f "$GITHUB_ENV"; mkdir "$GITHUB_ENV"; printf 'no newline, \\377\\376 not UTF-8'
      - run: echo not started
      - run: echo nor this
        if: always()
        working-directory: nowhere
""")
        assert [step["conclusion"] for step in job.steps] == ["failure", "skipped", "failure"]
        assert "GITHUB_ENV cannot be read: it is not a plain file any more" in log_of_any(job)
        assert "cannot be started" in log_of_any(job)


TRAPS = {
    'rm "$GITHUB_PATH"; ln -s /dev/zero "$GITHUB_PATH"': "GITHUB_PATH cannot be read: is a link",
    'rm "$GITHUB_ENV"; mkfifo "$GITHUB_ENV"': "GITHUB_ENV cannot be read: it is not a plain file",
    'head -c 3000000 /dev/zero >> "$GITHUB_ENV"': "GITHUB_ENV is larger than 1024 KiB",
    'truncate -s 1T "$GITHUB_PATH"': "GITHUB_PATH is larger than 1024 KiB",
    "printf 'A=x\\0y\\n' >> \"$GITHUB_ENV\"": "GITHUB_ENV has a NUL character in line 1",
    "printf '/x\\0y\\n' >> \"$GITHUB_PATH\"": "GITHUB_PATH has a NUL character in line 1",
}


@pytest.mark.parametrize("trap", TRAPS)
async def test_what_a_step_puts_in_place_of_its_files_fails_the_step_and_says_why(
    tmp_path: Path, trap: str
) -> None:
    async with stage(tmp_path) as s:
        pipes = 'for f in "$GITHUB_OUTPUT" "$GITHUB_STEP_SUMMARY"; do rm "$f"; mkfifo "$f"; done'
        script = f"{pipes}; {trap}"
        job, output = await s.run_job(f"""\
      - run: {json.dumps(script)}
      - run: echo not reached
      - run: 'mkfifo "$(dirname "$GITHUB_ENV")/step-4.sh"; echo "A=later" >> "$GITHUB_ENV"'
        if: always()
      - run: 'echo "A is $A"'
        if: always()
""")
        assert [step["conclusion"] for step in job.steps] == [
            "failure",
            "skipped",
            "success",
            "success",
        ]
        assert f"##[error]{TRAPS[trap]}" in log_of(job)
        assert "A is later" in log_of(job)
        assert "completed with result: Failed" in output


async def test_a_variable_that_no_process_can_have_fails_the_step(tmp_path: Path) -> None:
    # The parser refuses it; the runner does not rely on that.
    async with stage(tmp_path) as s:
        _, config = s.register()
        job = await s.workflow("""\
      - run: echo not started
        env: {A: x}
      - run: echo clean-up
        if: always()
""")
        first, *rest = job.request.steps
        spoilt = replace(first, env=(("A", "x\0y"),))
        job.request = replace(job.request, steps=(spoilt, *rest))
        assert await asyncio.wait_for((await s.start(config)).wait(), 20) == 0
        assert [step["conclusion"] for step in job.steps] == ["failure", "success"]
        assert "cannot be started: embedded null byte" in log_of(job)


async def test_a_job_that_cannot_be_begun_fails_with_a_word(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, config = s.register()
        (tmp_path / "file").write_text("")
        process = await s.start(config, TMPDIR=str(tmp_path / "file" / "below"))
        job = await s.workflow("""\
      - run: echo not reached
""")
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert job.result is not None
        assert job.result.value == "failed"
        assert "there is no folder to work in" in log_of(job)


async def test_output_that_comes_too_fast_is_left_out_and_its_end_is_kept(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        job, _ = await s.run_job("""\
      - run: yes | head -c 30000000; echo the end
""")
        assert "the end" in log_of(job)
        assert job.log_bytes < 30_000_000


async def test_its_folder_is_where_the_environment_says(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        pod = tmp_path / "pod"
        _, config = s.register()
        process = await s.start(config, DEMO_RUNNER_FOLDER=str(pod))
        job = await s.workflow("""\
      - run: pwd; env | grep -c DEMO_RUNNER_FOLDER || echo unknown to the step
""")
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert f"{pod}/runner-" in log_of(job)
        assert "unknown to the step" in log_of(job)
        assert list(pod.iterdir()) == []


def log_of_any(job: Job) -> str:
    return bytes(job.log).decode(errors="replace")


@pytest.mark.parametrize(
    "config",
    ["", "!", "eyJ4IjoxfQ==", base64.b64encode(b'{".runner": "e30="}').decode(), "W10="],
)
async def test_a_jit_config_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, config: str
) -> None:
    async with stage(tmp_path) as s:
        process = await s.start(config)
        output, _ = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 1
        (line,) = output.decode().splitlines()
        assert "JIT config" in line
        assert "Traceback" not in line


async def test_it_goes_through_the_proxy_that_its_environment_names(tmp_path: Path) -> None:
    asked: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.splitlines()[0])
        credentials = [line for line in head.splitlines() if "Proxy-Authorization" in line]
        asked.extend(credentials)
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    async with stage(tmp_path) as s, server:
        port = server.sockets[0].getsockname()[1]
        _, config = s.register()
        through = await s.start(config, http_proxy=f"http://me:pw@127.0.0.1:{port}/")
        assert await asyncio.wait_for(through.wait(), 20) == 1  # the proxy's 403
        assert asked == [
            f"POST {s.fake.base_url}/runner/sessions HTTP/1.1",
            f"Proxy-Authorization: Basic {base64.b64encode(b'me:pw').decode()}",
        ]
        _, config = s.register("r-2")
        around = await s.start(config, http_proxy=f"http://127.0.0.1:{port}", no_proxy="127.0.0.1")
        job = await s.workflow("""\
      - run: echo hello
""")
        assert await asyncio.wait_for(around.wait(), 20) == 0
        assert job.state is JobState.COMPLETED
        assert len(asked) == 2


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"])
async def test_it_speaks_https_and_believes_only_a_certificate_it_can_check(
    tmp_path: Path, variable: str
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = tmp_path / "tls"
    files.mkdir()
    certificate.private_key_pem.write_to_path(str(files / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(files / "cert.pem"))
    authority.cert_pem.write_to_path(str(files / "ca.pem"))
    options = {"certificate_file": str(files / "cert.pem"), "key_file": str(files / "key.pem")}
    async with stage(tmp_path, **options) as s:
        assert s.fake.base_url.startswith("https://")
        runner, config = s.register()
        doubting = await s.start(config)
        trusting = await s.start(config, **{variable: str(files / "ca.pem")})
        await s.until(lambda: runner.polls_held == 1)
        assert doubting.returncode is None  # it keeps trying, and gets nowhere
        assert list(s.fake.state.violations) == []
        trusting.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(trusting.wait(), 20) == 0


async def test_it_starts_light() -> None:
    # 200 of them start on two cores; the modules it loads are what its start time is made of.
    code = (
        "import sys, json; import runnerscale.fake_github.demo_runner; "
        "print(json.dumps(sorted(sys.modules)))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    loaded = json.loads(output)
    ours = [name for name in loaded if name.startswith("runnerscale.")]
    assert ours == [
        "runnerscale.core",
        "runnerscale.core.tree_removal",
        "runnerscale.fake_github",
        "runnerscale.fake_github.demo_runner",
        "runnerscale.fake_github.demo_runner_files",
        "runnerscale.fake_github.demo_runner_http",
        "runnerscale.fake_github.demo_runner_job",
    ]
    heavy = {"asyncio", "ssl", "http.client", "urllib.request", "dataclasses", "typing_extensions"}
    assert heavy & set(loaded) == set()
