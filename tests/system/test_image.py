"""The image, built and started as far as that goes without a container engine.

Both entry points run chrooted in what the Dockerfile makes, as uid 65532, with a root in which
nothing can be written and nothing else is installed (`image_root.py`).
"""

import base64
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.system import image_root
from tests.system.api_process import ApiProcess
from tests.system.image_root import Image
from tests.unit.image.dockerfile import ROOT

READY_WITHIN_S = 30.0
CRDS = sorted((ROOT / "charts" / "gha-runner-scale-set-controller" / "crds").glob("*.yaml"))
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
PYTHON = "/usr/bin/python3"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a chroot needs root"),
    pytest.mark.timeout(300),  # the first test builds the image
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    for parent in folder.parents:  # another user is to find its way in
        if parent == Path("/tmp") or parent.stat().st_uid != os.getuid():
            break
        parent.chmod(parent.stat().st_mode | 0o011)
    return image_root.build(folder, COMMIT_SHA="0123abc")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiProcess]:
    server = ApiProcess(tmp_path / "api", CRDS)
    server.start()
    try:
        yield server
    finally:
        server.stop()


# --- what is in it ------------------------------------------------------------------------------


def test_the_image_has_two_entry_points_and_one_folder(image: Image) -> None:
    made = {path.name for path in image.root.iterdir()} - {"usr", "lib", "lib64", "etc", "dev"}
    assert made <= {"manager", "ghalistener", "opt", "var", "config"}
    assert image.entrypoint == ["/manager"]
    assert image.user == "65532:65532"
    assert image.environment == {"RUNNERSCALE_COMMIT": "0123abc"}
    for name in ("manager", "ghalistener"):
        assert (image.root / name).stat().st_mode & 0o777 == 0o555


def test_nothing_in_it_can_be_changed_by_its_user_and_everything_is_readable(image: Image) -> None:
    paths = list((image.root / "opt").rglob("*"))
    assert len(paths) > 1000
    assert [path for path in paths if path.stat().st_mode & 0o022] == []
    assert [path for path in paths if not path.stat().st_mode & 0o004] == []


def test_every_module_is_compiled_for_the_base_and_none_is_left_out(image: Image) -> None:
    tag = "cpython-311" if image_root.stands_for_the_base() else None
    missing = []
    for path in (image.root / "opt").rglob("*.py"):
        cached = list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))
        if not cached or (tag and tag not in cached[0].name):
            missing.append(path)
    assert missing == []


def test_neither_tools_nor_the_embedded_servers_are_in_it(image: Image) -> None:
    site = image.root / "opt" / "runnerscale"
    names = {path.name for path in site.iterdir()}
    assert not names & {"pip", "setuptools", "rich", "cyclopts", "cel", "bin", "hatchling"}
    rooms = {path.name for path in (site / "runnerscale").iterdir()}
    assert {"app", "cli", "controllers", "listener"} <= rooms
    assert not rooms & {"apiserver", "fake_github", "node"}


# --- the entry points without what they need ----------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["/manager"], 1, "CONTROLLER_MANAGER_POD_NAMESPACE is not set"),
        (["/manager", "--nonsense"], 2, "unknown flag --nonsense"),
        (["/manager", "--log-levle=info"], 2, "Did you mean --log-level?"),
        (["/ghalistener"], 2, "LISTENER_CONFIG_PATH is not set"),
        (["/ghalistener", "-x"], 2, "unknown flag"),
    ],
)
def test_what_is_missing_is_told_in_one_line(
    image: Image, argv: list[str], code: int, words: str
) -> None:
    ran = image.run(argv)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.error
    assert ran.error.count("\n") == 1


def test_help_is_shown(image: Image) -> None:
    ran = image.run(["/manager", "--help"])
    assert (ran.code, ran.error) == (0, "")
    assert "--auto-scaling-runner-set-only" in ran.out
    print(f"/manager --help: {ran.took_s:.2f} s")


def test_commands_for_people_are_not_in_it_and_say_so(image: Image) -> None:
    program = (
        "import sys; sys.path.insert(0, '/opt/runnerscale'); sys.argv = ['runnerscale', 'demo']"
    )
    ran = image.run([PYTHON, "-c", f"{program}; from runnerscale.cli.main import main; main()"])
    assert ran.code == 1
    assert "need the extra [cli]" in ran.error


def test_a_process_is_nobody_special_and_can_write_nowhere(image: Image) -> None:
    lines = [
        "import os, tempfile",
        "print(os.getuid(), os.getgid(), os.getgroups())",
        "found = [d for d in (chr(47), chr(47) + 'opt') if os.access(d, os.W_OK)]",
        "print(found)",
    ]
    ran = image.run([PYTHON, "-c", "\n".join(lines)])
    assert (ran.out, ran.error) == ("65532 65532 []\n[]\n", "")


def test_a_vault_can_be_read_from_it(image: Image) -> None:
    modules = "azure.identity.aio, azure.keyvault.secrets.aio, runnerscale.credentials.vault"
    program = f'import sys; sys.path.insert(0, "/opt/runnerscale"); import {modules}'
    ran = image.run([PYTHON, "-I", "-c", program])
    assert (ran.code, ran.error) == (0, "")


# --- the entry points at work -------------------------------------------------------------------


def test_the_manager_gets_ready_with_the_arguments_of_arcs_deployment(
    image: Image, api: ApiProcess, tmp_path: Path
) -> None:
    probes, metrics = _free_port(), _free_port()
    # Every row of C3 1.4, in its order and spelling.
    arguments = [
        "--auto-scaling-runner-set-only",
        "--enable-leader-election",
        "--leader-election-id=arc-gha-rs-controller",
        "--auto-scaler-image-pull-secrets=first",
        "--auto-scaler-image-pull-secrets=second",
        "--log-level=debug",
        "--log-format=text",
        "--runner-max-concurrent-reconciles=2",
        "--update-strategy=immediate",
        "--listener-metrics-addr=0",
        "--listener-metrics-endpoint=",
        f"--metrics-addr=:{metrics}",
        "--pprof-addr=:6060",
        "--exclude-label-propagation-prefix=argocd.argoproj.io/",
        "--k8s-client-rate-limiter-qps=20",
        "--k8s-client-rate-limiter-burst=30",
        "--workqueue-rate-limiter=bucket_rate_limiter",
        f"--health-probe-bind-address=:{probes}",
    ]
    environment = {
        "CONTROLLER_MANAGER_CONTAINER_IMAGE": "ghcr.io/runnerscale/runnerscale:0.14.2",
        "CONTROLLER_MANAGER_POD_NAMESPACE": "arc-systems",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(api.port),
    }
    image.mounts = [(_account(api, tmp_path / "account"), ACCOUNT_FOLDER)]
    log = tmp_path / "manager.log"
    began_s = time.monotonic()
    process = image.start(["/manager", *arguments], environment, log)
    try:
        _until(lambda: _answers(f"http://127.0.0.1:{probes}/readyz"), process, log)
        took_s = time.monotonic() - began_s
        assert _answers(f"http://127.0.0.1:{probes}/healthz")
        assert _answers(f"http://127.0.0.1:{metrics}/metrics")
        print(f"/manager: ready after {took_s:.2f} s, {_rss_mib(process.pid):.0f} MiB")
    finally:
        code = _ended(process)
    assert code == 0, log.read_text()[-2000:]
    assert "Traceback" not in log.read_text()


def test_the_listener_waits_for_github_and_goes_when_it_is_told(
    image: Image, api: ApiProcess, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.mkdir(mode=0o755)
    address = f"http://127.0.0.1:{_free_port()}/org"
    (config / "config.json").write_text(
        f'{{"configure_url":"{address}","vault_type":"","vault_lookup_key":"",'
        '"github_app_id":"","github_app_installation_id":0,"github_app_private_key":"",'
        '"github_token":"t","ephemeral_runner_set_namespace":"runners",'
        '"ephemeral_runner_set_name":"set","max_runners":2147483647,"min_runners":0,'
        '"runner_scale_set_id":7,"runner_scale_set_name":"set","server_root_ca":"",'
        '"log_level":"debug","log_format":"text","metrics_addr":"","metrics_endpoint":"",'
        '"metrics":null}\n'
    )
    image.mounts = [
        (_account(api, tmp_path / "account"), ACCOUNT_FOLDER),
        (config, "/etc/gha-listener"),
    ]
    environment = {
        "LISTENER_CONFIG_PATH": "/etc/gha-listener/config.json",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(api.port),
    }
    log = tmp_path / "listener.log"
    began_s = time.monotonic()
    process = image.start(["/ghalistener"], environment, log)
    try:
        _until(lambda: "registration-token" in log.read_text(), process, log)
        took_s = time.monotonic() - began_s
        print(
            f"/ghalistener: at GitHub's door after {took_s:.2f} s, {_rss_mib(process.pid):.0f} MiB"
        )
    finally:
        code = _ended(process)
    assert code == 0, log.read_text()[-2000:]
    assert "Traceback" not in log.read_text()


# --- small parts --------------------------------------------------------------------------------


def _account(api: ApiProcess, folder: Path) -> Path:
    """What the kubelet mounts into a pod."""
    folder.mkdir(mode=0o755)
    cluster = yaml.safe_load(api.kubeconfig.read_text())["clusters"][0]["cluster"]
    ca = base64.b64decode(cluster["certificate-authority-data"])
    (folder / "ca.crt").write_bytes(ca)
    (folder / "token").write_text(api.token)
    (folder / "namespace").write_text("arc-systems")
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder


def _free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        port: int = each.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2, context=ssl.create_default_context()) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _until(check: object, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline_s = time.monotonic() + READY_WITHIN_S
    while not check():  # type: ignore[operator]
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise AssertionError(f"exit {process.returncode}: {log.read_text()[-3000:]}")
        time.sleep(0.05)


def _rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def _ended(process: "subprocess.Popen[bytes]") -> int:
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return -1
