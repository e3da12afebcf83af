"""`runnerscale controller` with a kubeconfig that cannot work: one sentence, and exit or wait.

The real process with the real files and commands. What waiting cannot heal ends it with 1; a
command that fails or hangs, and credentials that the server does not know, are tried again, and
readiness says why. Each row is in the table of docs/troubleshooting.md; one that takes long is in
`slow/test_expired_credential.py`.
"""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from runnerscale.api.crds import crd_documents
from runnerscale.cli.main import run
from tests.system.api_process import ApiProcess

ENVIRONMENT = {
    "CONTROLLER_MANAGER_POD_NAMESPACE": "arc-systems",
    "CONTROLLER_MANAGER_CONTAINER_IMAGE": "img",
}
V1 = "client.authentication.k8s.io/v1"
ENDS = "Correct it, or name another with --kubeconfig."
START_S = 30.0
Json = dict[str, Any]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiProcess]:
    """An API server with all CRDs, as a process."""
    folder = tmp_path_factory.mktemp("api")
    files = []
    for document in crd_documents():
        files.append(folder / f"{document['metadata']['name']}.yaml")
        files[-1].write_text(yaml.safe_dump(document))
    process = ApiProcess(folder / "data", files)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def kubeconfig(folder: Path, api: ApiProcess | None, **parts: Any) -> Path:
    """A whole one, with parts of it exchanged: `cluster`, `user`, `current`."""
    good: Json = {"server": "https://127.0.0.1:1"}
    if api is not None:
        good = yaml.safe_load(api.kubeconfig.read_text())["clusters"][0]["cluster"]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {**good, **parts.get("cluster", {})}}],
        "users": [{"name": "u", "user": parts.get("user", {"token": "t"})}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "current-context": parts.get("current", "here"),
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def plugin(folder: Path, script: str, **more: Any) -> Json:
    """A user whose credentials come from this shell script."""
    command = folder / "get-token"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    said = {"apiVersion": V1, "command": str(command), "interactiveMode": "IfAvailable", **more}
    return {"exec": said}


def printed(version: str = V1, **status: Any) -> str:
    """A script that prints an ExecCredential."""
    document = {"kind": "ExecCredential", "apiVersion": version, "status": status}
    return f"cat <<'END'\n{json.dumps(document)}\nEND"


def arguments(path: Path, *more: str) -> list[str]:
    return ["controller", "--kubeconfig", str(path), "--metrics-addr", "0", *more]


@pytest.fixture
def logging_restored() -> Iterator[None]:
    """The command sets up the logging of its process, which is ours here."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


Make = Callable[[Path], Path]

# What is wrong -> how the file is made, and the sentence on standard error (P: its path).
ENDING: dict[str, tuple[Make, str]] = {
    "no such file": (
        lambda folder: folder / "nowhere",
        "cannot read kubeconfig P: No such file or directory",
    ),
    "a folder": (
        lambda folder: folder,
        "cannot read kubeconfig P: Is a directory",
    ),
    "no YAML": (
        lambda folder: text(folder, "clusters: [\n  - {"),
        "kubeconfig P is not YAML (line 2)",
    ),
    "YAML that is something else": (
        lambda folder: text(folder, "- a list"),
        "kubeconfig P: Expected `object`, got `array`",
    ),
    "a context that is not there": (
        lambda folder: kubeconfig(folder, None, current="production"),
        "kubeconfig P: there is no context 'production' (there is: here)",
    ),
    "no current context": (
        lambda folder: kubeconfig(folder, None, current=""),
        "kubeconfig P: no current-context; name one, or pass a context",
    ),
    "certificate data that is no base64": (
        lambda folder: kubeconfig(folder, None, cluster={"certificate-authority-data": "%%%"}),
        "kubeconfig P: cluster 'c': certificate-authority-data is not base64 of a PEM text",
    ),
    "a certificate file that cannot be read": (
        lambda folder: kubeconfig(folder, None, cluster={"certificate-authority": "ca.pem"}),
        "kubeconfig P: cluster 'c': certificate-authority: cannot read D/ca.pem: "
        "No such file or directory",
    ),
    "a certificate that is none": (
        lambda folder: kubeconfig(
            folder,
            None,
            cluster={"certificate-authority-data": base64.b64encode(b"no PEM").decode()},
        ),
        "kubeconfig P: the certificate authority of https://127.0.0.1:1 is not usable",
    ),
    "a client key without its certificate": (
        lambda folder: kubeconfig(folder, None, user={"client-key-data": "aGk="}),
        "kubeconfig P: user 'u': client-certificate and client-key belong together",
    ),
    "an exec plugin that is not there": (
        lambda folder: kubeconfig(
            folder,
            None,
            user={
                "exec": {
                    "apiVersion": V1,
                    "command": "no-such-command",
                    "installHint": "get it from https://example.com",
                    "interactiveMode": "Never",
                }
            },
        ),
        "exec plugin no-such-command cannot be started: No such file or directory "
        "(get it from https://example.com)",
    ),
    "an exec plugin that may not be run": (
        lambda folder: kubeconfig(
            folder,
            None,
            user={
                "exec": {
                    "apiVersion": V1,
                    "command": text(folder, "x", "not-executable").name and "./not-executable",
                    "interactiveMode": "Never",
                }
            },
        ),
        "exec plugin D/not-executable cannot be started: Permission denied",
    ),
    "an exec plugin that prints something else": (
        lambda folder: kubeconfig(folder, None, user=plugin(folder, "echo please log in")),
        "exec plugin D/get-token printed no ExecCredential",
    ),
    "an exec plugin that answers with another version": (
        lambda folder: kubeconfig(
            folder,
            None,
            user=plugin(folder, printed("client.authentication.k8s.io/v1beta1", token="x")),
        ),
        "exec plugin D/get-token answered with ExecCredential of "
        "client.authentication.k8s.io/v1beta1, the kubeconfig asks for " + V1,
    ),
    "an exec plugin that gives nothing": (
        lambda folder: kubeconfig(folder, None, user=plugin(folder, printed())),
        "exec plugin D/get-token gave neither a token nor a certificate with its key",
    ),
    "an exec plugin of a version that is gone": (
        lambda folder: kubeconfig(
            folder,
            None,
            user=plugin(folder, "true", apiVersion="client.authentication.k8s.io/v1alpha1"),
        ),
        "kubeconfig P: user 'u': exec apiVersion 'client.authentication.k8s.io/v1alpha1' is not "
        "supported; use client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1",
    ),
    "an exec plugin that wants a terminal": (
        lambda folder: kubeconfig(
            folder, None, user=plugin(folder, "true", interactiveMode="Always")
        ),
        "kubeconfig P: user 'u': the exec plugin insists on a terminal, and there is none",
    ),
}


def text(folder: Path, content: str, name: str = "kubeconfig") -> Path:
    path = folder / name
    path.write_text(content)
    return path


@pytest.mark.parametrize("row", ENDING)
def test_what_waiting_cannot_heal_ends_the_process_with_one_sentence(
    row: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    logging_restored: None,
) -> None:
    make, sentence = ENDING[row]
    path = make(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert run("runnerscale", arguments(path)) == 1
    check_sentence(capsys.readouterr().err, sentence, path, tmp_path)


def test_the_real_process_ends_so_too(tmp_path: Path) -> None:
    make, sentence = ENDING["an exec plugin that is not there"]
    path = make(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "runnerscale.cli.main", *arguments(path)],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    check_sentence(done.stderr, sentence, path, tmp_path)


def check_sentence(said: str, sentence: str, path: Path, folder: Path) -> None:
    sentence = re.sub(r"\bP\b", str(path), sentence)
    sentence = re.sub(r"\bD/", f"{folder}/", sentence)
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"runnerscale: the Kubernetes API cannot be used: {sentence}")
    assert last.endswith(ENDS)


@contextmanager
def controller(path: Path, folder: Path) -> Iterator[Callable[[], str]]:
    """A controller that runs; what it gives is what its readiness says ("ok": ready)."""
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "runnerscale.cli.main",
             *arguments(path, "--health-probe-bind-address", f"127.0.0.1:{port}")],
            env={**os.environ, **ENVIRONMENT},
            stdout=log,
            stderr=log,
        )  # fmt: skip

    def readiness() -> str:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            return refused.read().decode()
        except OSError:
            return ""

    try:
        yield readiness
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0, (folder / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def free_port() -> int:
    async def ask() -> int:
        server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        server.close()
        return port

    return asyncio.run(ask())


def until_ready(readiness: Callable[[], str]) -> None:
    deadline_s = time.monotonic() + START_S
    while (said := readiness()) != "ok":
        assert time.monotonic() < deadline_s, said
        time.sleep(0.1)


def until(readiness: Callable[[], str], words: str) -> str:
    deadline_s = time.monotonic() + START_S
    said = ""
    while time.monotonic() < deadline_s:
        said = readiness()
        if words in said:
            return said
        time.sleep(0.1)
    raise AssertionError(f"readiness does not say {words!r} but {said!r}")


def test_a_plugin_that_fails_is_run_again_until_it_works(api: ApiProcess, tmp_path: Path) -> None:
    good = printed(token=api.token)
    script = f"if [ -e {tmp_path}/logged-in ]; then\n{good}\nelse echo log in first >&2; exit 3; fi"
    path = kubeconfig(tmp_path, api, user=plugin(tmp_path, script))
    with controller(path, tmp_path) as readiness:
        said = until(readiness, "ended with code 3: log in first")
        assert said == (
            f"exec plugin {tmp_path}/get-token ended with code 3: log in first. "
            "Run the command by hand, or see whether the file is there"
        )
        (tmp_path / "logged-in").touch()
        until_ready(readiness)


def test_a_token_that_the_server_does_not_know_is_told_and_tried_again(
    api: ApiProcess, tmp_path: Path
) -> None:
    path = kubeconfig(tmp_path, api, user={"token": "nobody's"})
    with controller(path, tmp_path) as readiness:
        until(readiness, "401 Unauthorized")
        time.sleep(2)
        log = (tmp_path / "log").read_text()
        assert log.count("cannot begin yet, trying again") == 1
        assert "nobody's" not in log


def test_a_plugin_that_hangs_does_not_hold_the_process(api: ApiProcess, tmp_path: Path) -> None:
    # That it is given up after a minute, with its name, is a test of the plugin itself.
    path = kubeconfig(tmp_path, api, user=plugin(tmp_path, "exec sleep 600"))
    with controller(path, tmp_path) as readiness:
        assert until(readiness, "has not been asked yet") == (
            "the API server has not been asked yet"
        )


def test_a_server_behind_another_authority_is_told(api: ApiProcess, tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path, api, cluster={"certificate-authority-data": ""}, user={"token": api.token}
    )
    with controller(path, tmp_path) as readiness:
        said = until(readiness, "certificate")
        assert "127.0.0.1" in said
