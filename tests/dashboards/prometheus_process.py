"""A real Prometheus for a test: started with a configuration, asked over its HTTP API, ended."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

READY_WITHIN_S = 30.0
STOP_WITHIN_S = 20.0
CALL_WITHIN_S = 15.0


class Prometheus:
    """One server with data of its own; `stop` it."""

    def __init__(self, program: Path, folder: Path, config: dict[str, Any]) -> None:
        """Start it; below `folder` are its configuration, data and log."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self._log = folder / "prometheus.log"
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        argv = [
            str(program),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(argv, stdout=sink, stderr=subprocess.STDOUT)
        self._until_ready()

    def _until_ready(self) -> None:
        end_s = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end_s and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=CALL_WITHIN_S):
                    return
            except (urllib.error.URLError, TimeoutError):
                time.sleep(0.1)
        self.stop()
        raise AssertionError("Prometheus did not get ready:\n" + self._log.read_text()[-2000:])

    def call(self, path: str, **parameters: Any) -> Any:
        """The `data` of an answer; an error of Prometheus is an AssertionError with its words."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=CALL_WITHIN_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error

    def query(self, expr: str, at_s: float | None = None) -> list[dict[str, Any]]:
        """The series of an instant query, at a time or now."""
        parameters: dict[str, Any] = {"query": expr}
        if at_s is not None:
            parameters["time"] = at_s
        result: list[dict[str, Any]] = self.call("query", **parameters)["result"]
        return result

    def values(self, label: str, match: str, at_s: float) -> list[str]:
        """What Grafana's label_values(match, label) finds."""
        found = self.call(f"label/{label}/values", **{"match[]": match, "end": at_s})
        return [str(value) for value in found]

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
