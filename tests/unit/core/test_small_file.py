"""A pipe, a folder, a device or a file without end is an error at once, and nobody waits for it."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from runnerscale.apiserver.certificates import UnusableFile, ensure_certificates
from runnerscale.apiserver.credentials import ensure_identities, ensure_signing_key
from runnerscale.apiserver.server import ApiServerOptions, CannotServe, run_api_server
from runnerscale.apiserver.sqlite_journal import open_sqlite_store
from runnerscale.app.api_server import ensure_token
from runnerscale.app.problem import Problem
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.small_file import UnfitFile, open_regular, read_small, read_small_text
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.server import FakeGitHubFailed, serve_fake_github
from runnerscale.kube.credentials import TokenFile
from runnerscale.kube.errors import ConfigError
from runnerscale.kube.in_cluster import in_cluster_config
from runnerscale.kube.kubeconfig import read_kubeconfig
from runnerscale.listener.config import ConfigError as ListenerConfigError
from runnerscale.listener.config_file import read_file
from runnerscale.node.attempt_files import RunningRecord, read_record
from runnerscale.node.config import NodeConfigError, read_config

SOURCE = Path(__file__).resolve().parents[3] / "src" / "runnerscale"
IT_IS_A_PIPE = "it is a pipe, not a file"


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_what_is_no_file_is_refused_at_once(pipe: Path, tmp_path: Path) -> None:
    for path, why in ((pipe, "a pipe"), (tmp_path, "a folder"), (Path("/dev/zero"), "a device")):
        for read in (open_regular, read_small, read_small_text):
            with pytest.raises(UnfitFile) as caught:
                read(path)
            assert caught.value.strerror == f"it is {why}, not a file"
            assert caught.value.filename == str(path)


def test_a_file_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_small(path, 5) == b"12345"
    assert read_small_text(path) == "12345"
    with pytest.raises(UnfitFile, match="it is larger than 4 bytes") as caught:
        read_small(path, 4)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "none")


def test_no_handle_is_left_open(pipe: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        with pytest.raises(UnfitFile):
            read_small(pipe)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


READERS: dict[str, tuple[Callable[[Path], Any], type[Exception]]] = {
    "tokens": (lambda path: ensure_identities(path, ()), UnfitFile),
    "signing key": (ensure_signing_key, UnfitFile),
    "node token": (ensure_token, Problem),
    "kubeconfig": (lambda path: read_kubeconfig([path]), ConfigError),
    "configuration of the listener": (read_file, ListenerConfigError),
    "configuration of the node": (read_config, NodeConfigError),
}


@pytest.mark.parametrize("name", sorted(READERS))
def test_nobody_who_starts_waits_for_a_pipe(name: str, pipe: Path) -> None:
    read, error = READERS[name]
    with pytest.raises(error, match=IT_IS_A_PIPE):
        read(pipe)


def test_neither_do_pods_nor_the_node(pipe: Path, tmp_path: Path) -> None:
    assert read_record(pipe, RunningRecord) is None
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").symlink_to(pipe)
    environ = {
        "KUBERNETES_SERVICE_HOST": "h",
        "KUBERNETES_SERVICE_PORT": "1",
        "RUNNERSCALE_SERVICE_ACCOUNT_DIR": str(tmp_path),
    }
    with pytest.raises(ConfigError, match=IT_IS_A_PIPE):
        in_cluster_config(environ)


async def test_nor_a_token_that_is_read_again(pipe: Path) -> None:
    with pytest.raises(ConfigError, match=IT_IS_A_PIPE):
        await TokenFile(pipe, clock=SystemClock()).authorization()


async def test_nor_the_stand_in_for_github(pipe: Path) -> None:
    options = Options(certificate_file=str(pipe), key_file=str(pipe))
    with pytest.raises(FakeGitHubFailed, match=IT_IS_A_PIPE):
        async with serve_fake_github(options, clock=SystemClock(), random=seeded(1)):
            pass


@pytest.mark.parametrize("name", ["tokens.json", "service-account.key", "certificates/ca.key"])
async def test_the_api_server_names_the_file_and_the_remedy(name: str, tmp_path: Path) -> None:
    await open_sqlite_store(tmp_path / "objects.sqlite").close()
    ensure_certificates(tmp_path / "certificates", now_s=SystemClock().now_s())
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    options = ApiServerOptions(data_dir=tmp_path, metrics=CollectorRegistry())
    with pytest.raises(CannotServe, match=rf"{name} cannot be read .*{IT_IS_A_PIPE}.*restore it"):
        await run_api_server(options, clock=SystemClock(), random=seeded(1))


def test_a_pipe_where_a_new_file_is_begun_gives_way(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ca.key.new")
    os.mkfifo(tmp_path / "server.crt")
    made = ensure_certificates(tmp_path, now_s=SystemClock().now_s())
    assert "BEGIN CERTIFICATE" in made.certificate.read_text()
    (tmp_path / "ca.crt").write_text("x")
    with pytest.raises(UnusableFile):
        ensure_certificates(tmp_path, now_s=SystemClock().now_s())


# Who may read a file otherwise, and why.
OTHERWISE = {
    "core/small_file.py": "it is here",
    "chart_values/known.py": "part of the package",
    "apiserver/builtin_types.py": "part of the package",
    "apiserver/protobuf.py": "part of the package",
    "node/process_identity.py": "/proc",
    "app/single_machine.py": "/proc",
    "app/supervisor.py": "a log of its own child, and written to",
    "app/demo_reasons.py": "a log of the demo's own child",
    "app/demo.py": "--workflow may be a pipe: somebody waits at the terminal",
    "cli/values_command.py": "values may come from a pipe: somebody waits at the terminal",
    "node/shim.py": "starts without our package",
    "fake_github/demo_runner_job.py": "runs without our package",
}
READS = re.compile(r"\.read_text\(|\.read_bytes\(|(?<![\w.])(?<!def )open\(|\w\.open\(\"rb?\"")


def test_every_file_is_read_that_way() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if READS.search(path.read_text())
    }
    assert found - set(OTHERWISE) == set()
