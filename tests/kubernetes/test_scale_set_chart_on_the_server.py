"""Real helm and the real API server on the scale-set chart.

Every values file: what helm renders is created with server-side dry run and strict field
validation, and so is a pod made from its runner template, which the CRD takes unseen. Discovery
of the controller, the version `29+` of managed clusters, and the life of a release (installed,
changed, taken away in the wrong order, cleaned up by hand) are here too, on a cluster of its own:
discovery looks at every Deployment there is.
"""

import base64
import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.render import CONTROLLER, SCALE_SET, render
from tests.charts.scale_set.chart import GHA
from tests.charts.scale_set.test_dind import SIDECAR
from tests.charts.scale_set.test_discovery import HERE, Deployment, deployment
from tests.charts.values_corpus import SCALE_SET_FILES
from tests.kubernetes.cluster import Cluster, CommandFailed

FILES = pytest.mark.parametrize("file", SCALE_SET_FILES, ids=lambda file: file.stem)
README = (SCALE_SET / "README.md").read_text()
REQUIRED = (
    "--set=githubConfigUrl=https://github.com/my-org",
    "--set=githubConfigSecret.github_token=ghp_example",
)
ACCOUNT = (
    "--set=controllerServiceAccount.name=arc,controllerServiceAccount.namespace=arc-systems",
)
HAS_SERVER_SIDE = "--dry-run=server"
VALUES_HASH = GHA + "values-hash"
PODS = "pods"  # a namespace in which the accounts of all files are


@pytest.fixture(scope="module")
def alone() -> Iterator[Cluster]:
    """A cluster in which nobody else installs anything."""
    with Cluster() as started:
        started.apply_crds(CONTROLLER / "crds")
        ensure_namespace(started, HERE)
        yield started


def ensure_namespace(cluster: Cluster, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    code, answer = cluster.api("POST", "/api/v1/namespaces", body)
    assert code in {201, 409}, answer


def rendered(cluster: Cluster, *args: str, namespace: str = HERE) -> list[dict[str, Any]]:
    """What real helm makes of the chart."""
    done = cluster.helm("template", "arc-test", str(SCALE_SET), f"--namespace={namespace}", *args)
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def accepted(cluster: Cluster, objects: list[dict[str, Any]]) -> list[str]:
    """Names of what the server would create."""
    for name in {one["metadata"]["namespace"] for one in objects}:
        ensure_namespace(cluster, name)
    done = cluster.kubectl(
        *("create", "--dry-run=server", "--validate=strict", "--output=name", "--filename=-"),
        stdin="\n---\n".join(json.dumps(one) for one in objects),
    )
    return done.stdout.split()


def runner_set(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in objects if one["kind"] == "AutoscalingRunnerSet"]
    return found


@pytest.fixture(scope="module")
def of_file(alone: Cluster) -> Callable[[Path], list[dict[str, Any]]]:
    """What real helm makes of a values file; asked once."""

    # Without a cluster helm takes the version that it was built for, and our renderer another one.
    @cache
    def asked(file: Path) -> list[dict[str, Any]]:
        return rendered(alone, f"--values={file}", "--kube-version=1.31.0")

    return asked


@FILES
def test_the_server_accepts_every_object_and_a_runner_s_pod(
    alone: Cluster, of_file: Callable[[Path], list[dict[str, Any]]], file: Path
) -> None:
    objects = of_file(file)
    template = runner_set(objects)["spec"]["template"]
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": template["spec"]["serviceAccountName"]},
    }
    ensure_namespace(alone, PODS)
    code, answer = alone.api("POST", f"/api/v1/namespaces/{PODS}/serviceaccounts", account)
    assert code in {201, 409}, answer
    metadata = {**template.get("metadata", {}), "name": "runner-pod", "namespace": PODS}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    names = accepted(alone, [*objects, pod])
    assert len(names) == len(objects) + 1 >= 4
    assert names[-1] == "pod/runner-pod"


@FILES
def test_real_helm_renders_what_the_other_tests_see(
    of_file: Callable[[Path], list[dict[str, Any]]], file: Path
) -> None:
    ours = render(SCALE_SET, [file], release="arc-test", namespace=HERE, kube_version="1.31.0")
    assert sorted(map(comparable, of_file(file))) == sorted(map(comparable, ours))


def comparable(document: dict[str, Any]) -> str:
    """Without the hash: the engines write the values' numbers and nulls differently."""
    metadata = dict(document["metadata"])
    notes = {k: v for k, v in metadata.pop("annotations", {}).items() if k != VALUES_HASH}
    return json.dumps({**document, "metadata": {**metadata, "annotations": notes}}, sort_keys=True)


@FILES
def test_helm_finds_nothing_to_say(alone: Cluster, file: Path) -> None:
    done = alone.helm("lint", "--strict", str(SCALE_SET), f"--values={file}")
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout
    assert "[WARNING]" not in done.stdout
    # Not even that a map is replaced by a text, or a list by null.
    assert "warning" not in done.stderr.lower()


@pytest.mark.parametrize(
    "way",
    [
        ("--set=githubConfigSecret.github_app_id=98765432",),
        ("--set-string=githubConfigSecret.github_app_id=98765432",),
        ("--set-json=githubConfigSecret.github_app_id=98765432",),
    ],
)
def test_digits_survive_however_helm_has_read_them(alone: Cluster, way: tuple[str, ...]) -> None:
    app = "--set=githubConfigSecret.github_app_installation_id=1000000"
    key = "--set=githubConfigSecret.github_app_private_key=key"
    objects = rendered(alone, REQUIRED[0], *ACCOUNT, *way, app, key, "--set=maxRunners=1000000")
    (secret,) = [one for one in objects if one["kind"] == "Secret"]
    data = {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}
    assert data["github_app_id"] == "98765432"
    assert data["github_app_installation_id"] == "1000000"
    assert runner_set(objects)["spec"]["maxRunners"] == 1000000
    accepted(alone, objects)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--set=maxRunners=-1",), "maxRunners is -1, but it must be 0 or more"),
        (("--set=minRunners=2,maxRunners=1",), "maxRunners is 1 and minRunners is 2"),
        (("--set=runnerScaleSetName=" + "a" * 46,), "46 bytes, and 45 are allowed"),
        (("--set=scaleSetLabels={1,2}",), "at '/scaleSetLabels/0': got number, want string"),
        (("--set=containerMode=dind",), "at '/containerMode': got string"),
        (("--set=containerMode.type=kubernetes",), "kubernetesModeWorkVolumeClaim is not set"),
        (("--set=githubConfigSecret=",), "githubConfigSecret is empty"),
        (("--set=githubConfigUrl=null",), "githubConfigUrl is missing"),
    ],
)
def test_real_helm_says_our_sentences(alone: Cluster, args: tuple[str, ...], said: str) -> None:
    done = alone.helm("template", "r", str(SCALE_SET), *REQUIRED, *ACCOUNT, *args, check=False)
    assert done.returncode != 0
    assert said in done.stderr
    assert "<nil>" not in done.stderr


# --- discovery -------------------------------------------------------------------------------


@contextmanager
def controllers(cluster: Cluster, *found: Deployment) -> Iterator[None]:
    """Deployments that look like controllers; their pods are none."""
    paths = []
    try:
        for item in found:
            namespace = item["metadata"]["namespace"]
            ensure_namespace(cluster, namespace)
            containers = [{"name": "c", "image": "i"}]
            pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
            spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
            code, answer = cluster.api("POST", path, {**item, "spec": spec})
            assert code == 201, answer
            paths.append(f"{path}/{item['metadata']['name']}")
        yield
    finally:
        for path in paths:
            cluster.api("DELETE", path)


def discovered(cluster: Cluster, *args: str) -> tuple[str, str]:
    """Whom the rights go to."""
    (binding,) = [
        one
        for one in rendered(cluster, HAS_SERVER_SIDE, *REQUIRED, *args)
        if one["kind"] == "RoleBinding"
    ]
    (subject,) = binding["subjects"]
    return subject["name"], subject["namespace"]


def refused(cluster: Cluster, *args: str) -> str:
    with pytest.raises(CommandFailed) as caught:
        discovered(cluster, *args)
    return str(caught.value)


@pytest.mark.behaviour("C3 T199")
def test_real_discovery_finds_each_row_of_the_table(alone: Cluster) -> None:
    everywhere, second = deployment("arc"), deployment("second")
    here, twin = deployment("here", watches=HERE), deployment("twin", watches=HERE)
    elsewhere = deployment("elsewhere", watches="elsewhere")
    assert "no controller was found" in refused(alone)
    with controllers(alone, everywhere):
        assert discovered(alone) == ("arc-account", "arc-system")
        assert discovered(alone, "--set=controllerServiceAccount.name=x") == ("x", "arc-system")
        with controllers(alone, second):
            assert "more than one controller for the whole cluster" in refused(alone)
        with controllers(alone, here):
            assert "side by side" in refused(alone)
    with controllers(alone, here, elsewhere):
        assert discovered(alone) == ("here-account", "arc-system")
        with controllers(alone, twin):
            assert "more than one controller watches" in refused(alone)
    with controllers(alone, elsewhere):
        assert "no controller watches namespace" in refused(alone)
    unlabelled = deployment("unlabelled")
    del unlabelled["metadata"]["labels"][GHA + "controller-service-account-name"]
    with controllers(alone, unlabelled):
        assert "no label actions.github.com/controller-service-account-name" in refused(alone)


def test_our_own_controller_is_found(alone: Cluster) -> None:
    ensure_namespace(alone, "arc-systems")
    install = ("install", "arc", str(CONTROLLER), "--namespace=arc-systems", "--skip-crds")
    alone.helm(*install)
    try:
        assert discovered(alone) == ("arc-gha-rs-controller", "arc-systems")
    finally:
        alone.helm("uninstall", "arc", "--namespace=arc-systems", "--wait")


def test_with_the_account_said_no_right_to_look_is_needed(alone: Cluster) -> None:
    # Somebody who may do nothing but install into one namespace.
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "bob-is-admin"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{HERE}/rolebindings"
    code, answer = alone.api("POST", path, body)
    assert code in {201, 409}, answer
    install = ("install", "bobs", str(SCALE_SET), f"--namespace={HERE}", HAS_SERVER_SIDE)
    done = alone.helm(*install, *REQUIRED, *ACCOUNT, user="bob")
    assert "kind: AutoscalingRunnerSet" in done.stdout
    done = alone.helm(*install, *REQUIRED, user="bob", check=False)
    assert done.returncode != 0
    assert "deployments.apps is forbidden" in done.stderr


# --- versions of the server ------------------------------------------------------------------


@contextmanager
def server_of_version(minor: str) -> Iterator[str]:
    """A kubeconfig for a server that tells its version and its kinds, and has no objects."""
    kinds: dict[str, list[str]] = {
        "/api/v1": ["Secret", "ServiceAccount"],
        "/apis/rbac.authorization.k8s.io/v1": ["Role", "RoleBinding"],
        "/apis/actions.github.com/v1alpha1": ["AutoscalingRunnerSet"],
    }
    groups = []
    answers: dict[str, dict[str, Any]] = {
        "/version": {"major": "1", "minor": minor, "gitVersion": "v1.29.3-gke.1"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    for path, of_group in kinds.items():
        group_version = path.removeprefix("/apis/").removeprefix("/api/")
        answers[path] = {
            "kind": "APIResourceList",
            "groupVersion": group_version,
            "resources": [
                {"name": f"{kind.lower()}s", "namespaced": True, "kind": kind, "verbs": ["get"]}
                for kind in of_group
            ],
        }
        if path.startswith("/apis/"):
            version = {"groupVersion": group_version, "version": group_version.split("/")[1]}
            group = {"name": group_version.split("/")[0], "versions": [version]}
            groups.append({**group, "preferredVersion": version})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            failure = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
            body = json.dumps(found or failure).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}
        ],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    try:
        yield json.dumps(config)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.behaviour("C3 T200")
@pytest.mark.parametrize(("minor", "sidecar"), [("28+", False), ("29", True), ("29+", True)])
def test_a_server_that_calls_itself_29_plus_gets_the_sidecar(
    alone: Cluster, tmp_path: Path, minor: str, sidecar: bool
) -> None:
    config = tmp_path / "kubeconfig"
    with server_of_version(minor) as text:
        config.write_text(text)
        options = (HAS_SERVER_SIDE, "--disable-openapi-validation", "--set=containerMode.type=dind")
        install = ("install", "r", str(SCALE_SET), "--output=json", *options)
        done = alone.helm(*install, *REQUIRED, *ACCOUNT, kubeconfig=config)
    manifest = json.loads(done.stdout)["manifest"]
    found = runner_set([one for one in yaml.safe_load_all(manifest) if one])
    pod = found["spec"]["template"]["spec"]
    assert (SIDECAR in pod["initContainers"]) == sidecar
    assert [c["name"] for c in pod["containers"]] == ["runner", *([] if sidecar else ["dind"])]


# --- the life of a release -------------------------------------------------------------------


def objects_of(cluster: Cluster, namespace: str, release: str) -> list[str]:
    kinds = "autoscalingrunnersets,secrets,serviceaccounts,roles,rolebindings"
    selector = f"--selector={GHA}scale-set-name={release}"
    done = cluster.kubectl("get", kinds, f"--namespace={namespace}", selector, "--output=name")
    return sorted(done.stdout.split())


def cleanup_command() -> str:
    """The command of the README, as a person would run it."""
    (block,) = re.findall(r"```console\n\$ (kubectl get secret.*?)```", README, re.DOTALL)
    return str(block).replace("\\\n", " ")


def test_a_release_is_changed_in_place_and_can_be_cleaned_up_by_hand(alone: Cluster) -> None:
    namespace = alone.namespace("release")
    release = "runners"
    here = (release, str(SCALE_SET), f"--namespace={namespace}", *REQUIRED, *ACCOUNT)
    said = alone.helm("install", *here).stdout
    assert f"runs-on: {release}" in said
    plain = objects_of(alone, namespace, release)
    assert plain == [
        "autoscalingrunnerset.actions.github.com/runners",
        "role.rbac.authorization.k8s.io/runners-gha-rs-manager",
        "rolebinding.rbac.authorization.k8s.io/runners-gha-rs-manager",
        "secret/runners-gha-rs-github-secret",
        "serviceaccount/runners-gha-rs-no-permission",
    ]
    alone.helm("upgrade", *here, "--set=maxRunners=5,scaleSetLabels={a,b}")
    alone.helm("upgrade", *here, "--set=containerMode.type=kubernetes-novolume")
    assert "serviceaccount/runners-gha-rs-kube-mode" in objects_of(alone, namespace, release)
    alone.helm("upgrade", *here, "--reset-values")
    # Nobody is there to take the finalizers away: what Helm deletes stays until somebody does.
    alone.helm("uninstall", release, f"--namespace={namespace}")
    left = objects_of(alone, namespace, release)
    assert [name for name in left if "runners-gha-rs-github-secret" in name]
    command = cleanup_command().replace("NAMESPACE", namespace).replace("NAME", release)
    for name in run_by_hand(alone, command):
        assert name in left
    assert objects_of(alone, namespace, release) == []


def run_by_hand(cluster: Cluster, command: str) -> list[str]:
    """Run `kubectl get ... | xargs kubectl patch ...`; the names that were handed over."""
    get, patch = command.split("|")
    found = cluster.kubectl(*shlex.split(get)[1:]).stdout.split()
    xargs, kubectl, *words = shlex.split(patch)
    assert (xargs, kubectl) == ("xargs", "kubectl")
    cluster.kubectl(*words, *found)
    return found
