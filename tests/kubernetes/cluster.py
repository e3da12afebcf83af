"""A real Kubernetes control plane on loopback ports: etcd, API server, controller manager.

There is no kubelet and no scheduler: a test that wants pods to run starts our own node agent.
RBAC is on, every request is in the audit log, and what the binaries are is `tools/kube.py`'s
business. All methods block and have a bound; an async test calls them through
`asyncio.to_thread`. `python -m tests.kubernetes.cluster` starts one for a person.
"""

import base64
import http.client
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from tools import kube

from tests.kubernetes.audit import AuditEvent, AuditLog
from tests.kubernetes.certificates import Authority
from tests.kubernetes.processes import Child, Deadline, free_ports

Json = dict[str, Any]

START_TIMEOUT_S = 90.0  # three seconds on an idle machine; this one may be building something
API_STOP_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 180.0
ATTEMPTS_MAX = 3  # a port that was free a moment ago may be taken now
TOKEN_LIFETIME_S = 24 * 3600
SERVICE_RANGE = "10.0.0.0/24"
SERVICE_ADDRESS = "10.0.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
ADMIN = "admin"
BOB = "bob"  # a user without any right of his own
GROUPS = {ADMIN: ("system:masters",), BOB: ("devs",)}

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ClusterFailed(Exception):
    """The cluster is not there, with what its processes said last."""


class CommandFailed(Exception):
    """helm or kubectl ended with an error, with what it said."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    api: int
    controllers: int


class Cluster:
    """Started by `with Cluster() as cluster:` or by `start()` and `close()`."""

    def __init__(self, *, keep: bool = False) -> None:
        self._keep = keep
        self.folder = Path(tempfile.mkdtemp(prefix="runnerscale-cluster-"))
        self._authority = Authority(self.folder / "pki")
        self._tokens = {user: secrets.token_hex(16) for user in GROUPS}
        self._signing_key = self._authority.signing_key()
        self._server_pair = self._authority.server(
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"],
            ["127.0.0.1", SERVICE_ADDRESS],
        )
        self._children: dict[str, Child] = {}
        self._kubeconfigs: dict[str, Path] = {}
        self._ports = Ports(0, 0, 0, 0)
        self.audit_log = AuditLog(self.folder / "audit.log")
        self.started_in_s = 0.0

    # -- life ------------------------------------------------------------------------------

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Up and ready for requests, or `ClusterFailed`."""
        lacking = [program.name for program in kube.missing()]
        if lacking:
            trouble = kube.no_toolchain()
            build = f"; {trouble}" if trouble else ""
            raise ClusterFailed(f"run `make kube` first: no {', '.join(lacking)}{build}")
        began_s = time.monotonic()
        for attempt in range(1, ATTEMPTS_MAX + 1):
            self._ports = Ports(*free_ports(4))
            try:
                self._start_etcd()
                self.start_api()
                break
            except ClusterFailed as error:
                self._stop_all()
                shutil.rmtree(self.folder / "etcd", ignore_errors=True)
                if attempt == ATTEMPTS_MAX or "address already in use" not in str(error):
                    raise
        self.start_controllers()
        self.started_in_s = time.monotonic() - began_s

    def close(self) -> None:
        """All processes ended, all files gone."""
        self._stop_all()
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _stop_all(self) -> None:
        # The store last: the others would spend their last second on complaints about it.
        for name in ("controllers", "api", "etcd"):
            child = self._children.pop(name, None)
            if child is not None:
                # Nothing here is worth a graceful end: the data goes with the folder.
                child.kill()

    # -- the parts -------------------------------------------------------------------------

    def _spawn(self, name: str, program: str, flags: Sequence[str]) -> Child:
        # An address space of a whole machine's proxies is not for loopback.
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        log = self.folder / f"{name}.log"
        child = Child(name, [str(kube.bin_dir() / program), *flags], log=log, env=env)
        self._children[name] = child
        return child

    def _start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self._ports.etcd}"
        peer = f"http://127.0.0.1:{self._ports.etcd_peer}"
        child = self._spawn(
            "etcd",
            "etcd",
            (
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",  # the data need not outlive the machine
            ),
        )
        self._wait("etcd answers", self._etcd_is_healthy, child)

    def _etcd_is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports.etcd, timeout=2)
        try:
            connection.request("GET", "/health")
            answer = json.loads(connection.getresponse().read())
            return str(answer.get("health")) == "true"
        finally:
            connection.close()

    def start_api(self) -> None:
        """Start the API server, again on the same port and with the same data."""
        certificate, key = self._server_pair
        policy = self._write("audit-policy.yaml", yaml.safe_dump(AUDIT_POLICY))
        tokens = "".join(
            f'{self._tokens[user]},{user},,"{",".join(groups)}"\n'
            for user, groups in GROUPS.items()
        )
        child = self._spawn(
            "api",
            "kube-apiserver",
            (
                f"--etcd-servers=http://127.0.0.1:{self._ports.etcd}",
                f"--secure-port={self._ports.api}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={key}",
                f"--client-ca-file={self._authority.certificate}",
                f"--token-auth-file={self._write('tokens.csv', tokens)}",
                "--authorization-mode=RBAC",
                f"--service-account-issuer={ISSUER}",
                f"--service-account-key-file={self._signing_key}",
                f"--service-account-signing-key-file={self._signing_key}",
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                "--allow-privileged=true",
                f"--audit-policy-file={policy}",
                f"--audit-log-path={self.audit_log.path}",
                "--audit-log-maxsize=0",  # one file: what was counted may not rotate away
                "--endpoint-reconciler-type=none",  # a loopback address is no endpoint
                "--profiling=false",
            ),
        )
        self._wait("the API server is ready", lambda: self.api("GET", "/readyz")[0] == 200, child)

    def start_controllers(self) -> None:
        """Start the controller manager, and wait for its first deeds."""
        kubeconfig = self.kubeconfig("system:kube-controller-manager")
        child = self._spawn(
            "controllers",
            "kube-controller-manager",
            (
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                f"--controllers={','.join(CONTROLLERS)}",
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={self._signing_key}",
                f"--root-ca-file={self._authority.certificate}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._ports.controllers}",
                f"--cert-dir={self.folder / 'pki' / 'controllers'}",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                "--profiling=false",
            ),
        )
        self._wait("the controllers work", self._default_namespace_is_furnished, child)

    def _default_namespace_is_furnished(self) -> bool:
        prefix = "/api/v1/namespaces/default"
        wanted = (f"{prefix}/serviceaccounts/default", f"{prefix}/configmaps/kube-root-ca.crt")
        return all(self.api("GET", path)[0] == 200 for path in wanted)

    def stop_api(self) -> None:
        """End the API server in order; the store keeps everything.

        Its port is closed at once, but it waits for the watches of others, and they for it.
        """
        self._children.pop("api").stop(timeout_s=API_STOP_TIMEOUT_S)

    def kill_api(self) -> None:
        """End the API server by SIGKILL."""
        self._children.pop("api").kill()

    def stop_controllers(self) -> None:
        """End the controller manager."""
        self._children.pop("controllers").stop()

    def pids(self) -> list[int]:
        """The processes of all parts."""
        return [child.pid for child in self._children.values()]

    def rss_mib(self) -> dict[str, float]:
        """Resident memory of each part."""
        return {name: child.rss_mib() for name, child in self._children.items()}

    def log(self, name: str) -> Path:
        """The log file of `etcd`, `api` or `controllers`."""
        return self.folder / f"{name}.log"

    def _wait(self, what: str, ready: Callable[[], bool], child: Child) -> None:
        deadline = Deadline(START_TIMEOUT_S)
        trouble = ""
        while child.running() and not deadline.passed():
            try:
                if ready():
                    return
                trouble = "not yet"
            except (OSError, http.client.HTTPException, ValueError) as error:
                trouble = str(error) or type(error).__name__
            deadline.pause()
        ended = "it ended" if not child.running() else f"not within {START_TIMEOUT_S:.0f} s"
        raise ClusterFailed(f"{what}: {ended} ({trouble}); {child.name} said:\n{child.tail()}")

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    # -- who may come in -------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Of the API server; the same for the cluster's whole life."""
        return f"https://127.0.0.1:{self._ports.api}"

    @property
    def ca_path(self) -> Path:
        """The authority's certificate."""
        return self._authority.certificate

    @property
    def ca_pem(self) -> str:
        """The authority's certificate."""
        return self._authority.certificate.read_text()

    def token(self, user: str) -> str:
        """The bearer token of `admin` (may do everything) or `bob` (may do nothing)."""
        return self._tokens[user]

    def kubeconfig(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig with a certificate of that user; `admin` is of system:masters."""
        if user not in self._kubeconfigs:
            certificate, key = self._authority.client(user, groups or GROUPS.get(user, ()))
            self._kubeconfigs[user] = self._kubeconfig(
                user,
                {
                    "client-certificate-data": _base64(certificate.read_bytes()),
                    "client-key-data": _base64(key.read_bytes()),
                },
            )
        return self._kubeconfigs[user]

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a fresh token of that account."""
        token = self.service_account_token(namespace, name)
        return self._kubeconfig(f"{namespace}-{name}", {"token": token}, namespace=namespace)

    def service_account_token(self, namespace: str, name: str) -> str:
        """A fresh token of that account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_LIFETIME_S},
        }
        code, answer = self.api("POST", path, request)
        if code != 201:
            raise ClusterFailed(f"no token for {namespace}/{name}: {answer}")
        return str(answer["status"]["token"])

    def _kubeconfig(self, name: str, user: Json, *, namespace: str = "default") -> Path:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority-data": _base64(self.ca_pem.encode()),
                    },
                }
            ],
            "users": [{"name": name, "user": user}],
            "contexts": [
                {
                    "name": "test",
                    "context": {"cluster": "test", "user": name, "namespace": namespace},
                }
            ],
            "current-context": "test",
        }
        file_name = "".join(c if c.isalnum() else "-" for c in name)
        return self._write(f"kubeconfig-{file_name}.yaml", yaml.safe_dump(document))

    # -- what a test asks of it ------------------------------------------------------------

    def api(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
        timeout_s: float = 30.0,
    ) -> tuple[int, Any]:
        """One request, as admin or with a token; the status code and the JSON (or text)."""
        context = ssl.create_default_context(cafile=str(self.ca_path))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._ports.api, timeout=timeout_s, context=context
        )
        headers = {"Authorization": f"Bearer {token or self._tokens[ADMIN]}"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, body=data, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            is_json = "json" in answer.getheader("Content-Type", "")
            return answer.status, json.loads(text) if is_json else text
        finally:
            connection.close()

    def compact(self) -> None:
        """Forget the history in the store, as it happens every five minutes anyway."""
        answer = self._etcd("/v3/kv/range", {"key": _base64(b"\0"), "limit": "1"})
        revision = answer["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def _etcd(self, path: str, body: Json) -> Json:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports.etcd, timeout=10)
        try:
            connection.request("POST", path, body=json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise ClusterFailed(f"etcd refused {path}: {text.decode(errors='replace')}")
            decoded: Json = json.loads(text)
            return decoded
        finally:
            connection.close()

    def audit(self, *, since: int = 0) -> list[AuditEvent]:
        """Every request answered so far, from `since` (see `audit_mark`)."""
        return self.audit_log.events(since=since)

    def audit_mark(self) -> int:
        """Where the audit log ends now."""
        return self.audit_log.mark()

    def kubectl(
        self,
        *args: str,
        check: bool = True,
        user: str = ADMIN,
        kubeconfig: Path | None = None,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; with `check`, `CommandFailed` says what went wrong."""
        program = Path(sys.executable).parent / "kubectl"
        config = kubeconfig or self.kubeconfig(user)
        return self._command([str(program), *args], config, check, stdin, timeout_s)

    def helm(
        self,
        *args: str,
        check: bool = True,
        user: str = ADMIN,
        kubeconfig: Path | None = None,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run helm; with `check`, `CommandFailed` says what went wrong."""
        config = kubeconfig or self.kubeconfig(user)
        program = str(kube.bin_dir() / "helm")
        return self._command([program, *args], config, check, stdin, timeout_s)

    def _command(
        self, argv: list[str], config: Path, check: bool, stdin: str | None, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        # Nothing of the person's own: no plugins, no repositories, no caches, no defaults.
        env |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "KUBECONFIG": str(config)}
        env |= {"XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "data")}
        try:
            done = subprocess.run(
                argv,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                env=env,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said = "".join(map(str, filter(None, (error.stdout, error.stderr))))
            raise CommandFailed(f"{argv}: not ended after {timeout_s:.0f} s:\n{said}") from error
        if check and done.returncode != 0:
            raise CommandFailed(
                f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done

    def apply_crds(self, folder: Path) -> None:
        """Apply the CRDs of a folder, and wait until they are served."""
        done = self.kubectl(
            "apply", "--server-side", "--force-conflicts", "-o", "name", "-f", str(folder)
        )
        names = done.stdout.split()
        self.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)

    def namespace(self, prefix: str = "test") -> str:
        """A new namespace, with its default service account; the name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        code, answer = self.api("POST", "/api/v1/namespaces", body)
        if code != 201:
            raise ClusterFailed(f"namespace {name} was not created: {answer}")
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        controllers = self._children["controllers"]
        self._wait(f"{name} is furnished", lambda: self.api("GET", path)[0] == 200, controllers)
        return name


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def main() -> None:
    """A cluster for a person: prints how to reach it, and waits for Ctrl-C."""
    # Also where it runs in the background (a shell has SIGINT ignored there): nothing is left.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with Cluster() as cluster:
        print(f"up in {cluster.started_in_s:.1f} s; logs in {cluster.folder}", flush=True)
        print(f"export KUBECONFIG={cluster.kubeconfig()}", flush=True)
        print(f"export PATH={kube.bin_dir()}:$PATH", flush=True)
        print("Ctrl-C ends it", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("ending")


if __name__ == "__main__":
    main()
