"""The embedded API server as a real process, for tests that kill it or talk to it with kubectl.

Run as a module it is that process: `python -m tests.system.api_process DATA_DIR PORT CRDS...`.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from runnerscale.apiserver.credentials import IdentityRequest
from runnerscale.apiserver.server import ApiServerOptions, run_api_server
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.core.secret import SecretText

ROOT = Path(__file__).resolve().parents[2]
NODE_TOKEN = "token-of-the-node"
START_TIMEOUT_S = 30.0


class ApiProcess:
    """One server in a folder, on one port over its restarts."""

    def __init__(self, folder: Path, crds: Sequence[Path] = ()) -> None:
        self.folder = folder
        self.port = 0
        self._crds = crds
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """Of the admin."""
        return self.folder / "kubeconfigs" / "admin.yaml"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """Of the admin."""
        tokens: dict[str, str] = yaml.safe_load((self.folder / "tokens.json").read_text())
        return tokens["admin"]

    def start(self) -> None:
        """Start and wait until it listens."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.system.api_process",
                    str(self.folder),
                    str(self.port),
                    *map(str, self._crds),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
                stdout=log,
                stderr=log,
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError((self.folder / "log").read_text()[-4000:])
            time.sleep(0.02)
        self.port = int(ready.read_text())

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()


async def serve(folder: Path, port: int, crds: list[Any]) -> None:
    """The process itself."""

    def ready(serving: Any) -> None:
        temporary = folder / "ready.new"
        temporary.write_text(str(serving.port))
        temporary.replace(folder / "ready")

    options = ApiServerOptions(
        data_dir=folder,
        port=port,
        crds=crds,
        identities=(IdentityRequest("admin", ("system:masters",)), IdentityRequest("bob")),
        node_token=SecretText(NODE_TOKEN),
        on_ready=ready,
    )
    running = asyncio.ensure_future(
        run_api_server(options, clock=SystemClock(), random=system_random())
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        return


if __name__ == "__main__":
    documents = [
        d for path in sys.argv[3:] for d in yaml.safe_load_all(Path(path).read_text()) if d
    ]
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), documents))
