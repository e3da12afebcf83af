"""The pretended GitHub of a test, as a process: started, asked, and told what to do.

What it pretends is docs/fake-github.md; this is the test's side of its control API.
"""

import http.client
import json
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trustme

from tests.kubernetes.processes import Child, Deadline, free_ports, listening

Json = dict[str, Any]
READY_WITHIN_S = 30.0
# A dead listener's session ends soon, so that its successor need not wait; polls are held long
# enough that an idle system is quiet.
POLL_HOLD_S = 10.0
SESSION_LIFE_S = 5.0
OWNER = "acme"
HOST_NAME = "github.runnerscale.test"  # resolves nowhere: only a proxy leads there


class Authority:
    """A certificate authority that nobody but the test's ConfigMap knows, and GitHub's pair."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        pair = authority.issue_cert(HOST_NAME, "127.0.0.1")
        self.ca_pem = authority.cert_pem.bytes().decode()
        self.certificate, self.key = folder / "github.crt", folder / "github.key"
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in pair.cert_chain_pems))
        self.key.write_bytes(pair.private_key_pem.bytes())


class GitHub:
    """One process on a port of its own."""

    def __init__(self, folder: Path, name: str = "github", authority: Authority | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self._tls = authority
        words = ["--port", f"{self.port}", "--hold-seconds", f"{POLL_HOLD_S:g}"]
        words += ["--session-seconds", f"{SESSION_LIFE_S:g}"]
        if authority:
            words += ["--certificate", str(authority.certificate), "--key", str(authority.key)]
        argv = [sys.executable, "-m", "runnerscale.cli.main", "fake-github", *words]
        self._child = Child(name, argv, log=folder / f"{name}.log")
        deadline = Deadline(READY_WITHIN_S)
        while not listening(self.port):
            if deadline.passed() or not self._child.running():
                raise AssertionError(f"the fake GitHub did not start:\n{self._child.tail()}")
            deadline.pause()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it."""
        self._child.stop()

    def tail(self) -> str:
        """The last lines of its log."""
        return self._child.tail()

    def control(self, method: str, path: str, body: Json | None = None) -> Any:
        """One call of its control API."""
        connection = self._connection()
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/control/{path}", body=data)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status < 400, f"{method} {path}: {answer.status} {text!r}"
        return json.loads(text) if text else None

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        context = ssl.create_default_context(cadata=self._tls.ca_pem)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)

    # -- jobs ------------------------------------------------------------------------------

    def queue(
        self, label: str, count: int = 1, *, seconds: float = 0.1, owner: str = OWNER
    ) -> list[str]:
        """Equal jobs for a label, in a repository of that owner; their ids."""
        body = {"labels": [label], "count": count, "seconds": seconds}
        body["repository"] = f"{owner}/app"
        ids: list[str] = self.control("POST", "jobs", body)["jobs"]
        return ids

    def workflow(self, script: str, label: str) -> str:
        """One job that runs a script; its id."""
        steps = json.dumps([{"run": script}])
        content = f"jobs:\n  job:\n    runs-on: [{label}]\n    steps: {steps}\n"
        asked = {"content": content, "runs_on": [label], "repository": f"{OWNER}/app"}
        run = self.control("POST", "workflows", asked)
        return str(run["jobs"][0]["id"])

    def jobs(self, ids: Sequence[str]) -> list[Json]:
        """The jobs with these ids."""
        wanted = set(ids)
        return [job for job in self.control("GET", "jobs")["jobs"] if job["id"] in wanted]

    def log(self, job: str) -> str:
        """What a job's steps said."""
        connection = self._connection()
        try:
            connection.request("GET", f"/control/jobs/{job}/log")
            return connection.getresponse().read().decode(errors="replace")
        finally:
            connection.close()

    # -- what it knows ---------------------------------------------------------------------

    def scale_sets(self, name: str) -> list[Json]:
        """The scale sets of that name."""
        found = self.control("GET", "state")["scale_sets"]
        return [each for each in found if each["name"] == name]

    def runners(self, scale_set: int) -> list[Json]:
        """The registrations of a scale set."""
        found = self.control("GET", "state")["runners"]
        return [each for each in found if each["scale_set"] == scale_set]

    def violations(self) -> list[Json]:
        """What must never happen and did."""
        found: list[Json] = self.control("GET", "violations")["violations"]
        return found

    def calls(self) -> dict[str, int]:
        """How often each operation was asked for."""
        by_operation = self.control("GET", "calls")["by_operation"]
        return {name: sum(endings.values()) for name, endings in by_operation.items()}
