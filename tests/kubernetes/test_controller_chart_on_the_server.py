"""Real helm renders and installs the controller's chart, and the real API server accepts it all.

Acceptance is a creation with server-side dry run and strict field validation: types, defaults,
unknown fields and RBAC names are judged by the server. The other chart has a file of its own.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.render import CONTROLLER, render
from tests.charts.values_corpus import CONTROLLER_FILES
from tests.kubernetes.cluster import Cluster, CommandFailed
from tests.kubernetes.processes import Deadline
from tests.plan.autoscaling_listener.world import World as ListenerWorld

CRDS = CONTROLLER / "crds"
RESTRICTED = "pod-security.kubernetes.io/enforce"
WAIT_S = 60.0
# What the Prometheus operator would have brought along; it judges nothing, and takes everything.
OPERATOR_KINDS = {"PodMonitor": "podmonitors", "ServiceMonitor": "servicemonitors"}
OPERATOR_KINDS["PrometheusRule"] = "prometheusrules"


@pytest.fixture(scope="module")
def furnished(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The cluster with our CRDs and stand-ins for those of the Prometheus operator."""
    cluster.apply_crds(CRDS)
    folder = tmp_path_factory.mktemp("operator")
    for kind, plural in OPERATOR_KINDS.items():
        (folder / f"{plural}.yaml").write_text(yaml.safe_dump(operator_crd(kind, plural)))
    cluster.apply_crds(folder)
    return cluster


def operator_crd(kind: str, plural: str) -> dict[str, Any]:
    group = "monitoring.coreos.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def rendered(cluster: Cluster, chart: Path, *args: str, namespace: str) -> list[dict[str, Any]]:
    """What real helm makes of the chart."""
    done = cluster.helm("template", "arc-test", str(chart), "--namespace", namespace, *args)
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def accepted(cluster: Cluster, objects: list[dict[str, Any]], *, namespace: str) -> list[str]:
    """What the server would create; `CommandFailed` if it refuses one."""
    for name in {namespace, *(one["metadata"].get("namespace", namespace) for one in objects)}:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        code, answer = cluster.api("POST", "/api/v1/namespaces", body)
        assert code in {201, 409}, answer
    text = "\n---\n".join(json.dumps(one) for one in objects)
    done = cluster.kubectl(
        *("create", "--dry-run=server", "--validate=strict", "--output=name"),
        "--filename=-",
        stdin=text,
    )
    return done.stdout.split()


@pytest.mark.parametrize("file", CONTROLLER_FILES, ids=lambda file: file.stem)
def test_the_server_accepts_every_object_of_the_controller(furnished: Cluster, file: Path) -> None:
    objects = rendered(furnished, CONTROLLER, "--values", str(file), namespace="arc-systems")
    names = accepted(furnished, objects, namespace="arc-systems")
    assert len(names) == len(objects) >= 4


@pytest.mark.parametrize("file", CONTROLLER_FILES, ids=lambda file: file.stem)
def test_helm_finds_nothing_to_say_about_the_controllers_chart(
    furnished: Cluster, file: Path
) -> None:
    said = furnished.helm("lint", "--strict", str(CONTROLLER), "--values", str(file)).stdout
    assert "[WARNING]" not in said
    assert "1 chart(s) linted, 0 chart(s) failed" in said


@pytest.mark.parametrize("file", CONTROLLER_FILES, ids=lambda file: file.stem)
def test_real_helm_renders_what_the_other_tests_see(furnished: Cluster, file: Path) -> None:
    theirs = rendered(furnished, CONTROLLER, "--values", str(file), namespace="arc-systems")
    ours = render(CONTROLLER, [file], release="arc-test", namespace="arc-systems")
    plain = [json.dumps(one, sort_keys=True) for one in theirs]
    assert sorted(plain) == sorted(json.dumps(one, sort_keys=True) for one in ours)


def test_integers_keep_their_digits_however_helm_has_read_them(
    furnished: Cluster, tmp_path: Path
) -> None:
    # From a file they are floats, from --set int64, from --set-string text.
    flag = "flags.k8sClientRateLimiterQPS"
    file = tmp_path / "values.yaml"
    file.write_text("flags: {k8sClientRateLimiterQPS: 1000000}\n")
    ways = (
        ("--values", str(file)),
        ("--set", f"{flag}=1000000"),
        ("--set-string", f"{flag}=1000000"),
        ("--set-json", f"{flag}=1000000"),
    )
    for way in ways:
        objects = rendered(furnished, CONTROLLER, *way, namespace="arc-systems")
        (one,) = (found for found in objects if found["kind"] == "Deployment")
        args = one["spec"]["template"]["spec"]["containers"][0]["args"]
        assert "--k8s-client-rate-limiter-qps=1000000" in args, way


@pytest.mark.parametrize("more", [(), ("--skip-schema-validation",)])
def test_a_refusal_is_the_first_thing_that_helm_says(
    furnished: Cluster, more: tuple[str, ...]
) -> None:
    # Templates that would trip over the value come later: templates/values_checked.yaml.
    chart = str(CONTROLLER)
    with pytest.raises(CommandFailed) as caught:
        furnished.helm("template", "arc", chart, "--set", "flags=x,env.a=b", *more)
    said = str(caught.value)
    assert ("at '/env': got object" in said) if not more else ("is a map and must be" in said)


# --- installed -------------------------------------------------------------------------------


@contextmanager
def installed(cluster: Cluster, namespace: str, *args: str) -> Iterator[str]:
    """The controller's release; it is gone afterwards."""
    release = f"arc-{namespace[-6:]}"
    cluster.helm("install", release, str(CONTROLLER), "--namespace", namespace, *args)
    try:
        yield release
    finally:
        cluster.helm("uninstall", release, "--namespace", namespace, "--wait", check=False)


def until(what: Callable[[], Any]) -> Any:
    """What is asked, once it is there; None after a while."""
    deadline = Deadline(WAIT_S)
    while not deadline.passed():
        found = what()
        if found:
            return found
        time.sleep(0.1)
    return None


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    code, answer = cluster.api("GET", f"/api/v1/namespaces/{namespace}/pods")
    assert code == 200
    return list(answer["items"])


def refusals(cluster: Cluster, namespace: str) -> list[str]:
    """What the Deployment's ReplicaSet could not create, in the server's words."""
    _, answer = cluster.api("GET", f"/api/v1/namespaces/{namespace}/events")
    return [event["message"] for event in answer["items"] if event["reason"] == "FailedCreate"]


@pytest.fixture
def restricted_namespace(furnished: Cluster) -> str:
    """A namespace in which Pod Security admits `restricted` and nothing else."""
    namespace = furnished.namespace("restricted")
    furnished.kubectl("label", "namespace", namespace, f"{RESTRICTED}=restricted")
    return namespace


def test_the_controllers_pod_is_let_into_a_restricted_namespace(
    furnished: Cluster, restricted_namespace: str
) -> None:
    with installed(furnished, restricted_namespace):
        found = until(lambda: pods(furnished, restricted_namespace))
        assert found, refusals(furnished, restricted_namespace)


def test_without_the_addition_it_is_kept_out(furnished: Cluster, restricted_namespace: str) -> None:
    # Or the test above would prove nothing.
    with installed(furnished, restricted_namespace, "--set", "additions.restrictedSecurity=false"):
        said = until(lambda: refusals(furnished, restricted_namespace))
        assert said
        assert 'violates PodSecurity "restricted:' in said[0]
        assert pods(furnished, restricted_namespace) == []


@pytest.mark.parametrize("told", [True, False])
async def test_a_listeners_pod_is_let_in_when_the_chart_has_said_so(
    furnished: Cluster, restricted_namespace: str, told: bool
) -> None:
    world = ListenerWorld()
    world.start(restricted=told)
    await world.settle()
    pod = {"apiVersion": "v1", "kind": "Pod", **world.pod}
    pod["metadata"] = {"name": "listener"}
    pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}
    path = f"/api/v1/namespaces/{restricted_namespace}/pods?dryRun=All"
    code, answer = furnished.api("POST", path, pod)
    if told:
        assert code == 201, answer
    else:
        assert code == 403
        assert 'violates PodSecurity "restricted:' in answer["message"]


def test_an_installation_of_arcs_objects_becomes_ours_and_again_theirs(
    furnished: Cluster,
) -> None:
    """Additions change nothing that cannot be changed: selectors, names, role references."""
    namespace = furnished.namespace("upgrade")
    with installed(furnished, namespace, "--set", "additions=null") as release:
        upgrade = ("upgrade", release, str(CONTROLLER), "--namespace", namespace)
        before = deployment_of(furnished, namespace)
        furnished.helm(*upgrade, "--reset-values", "--set", "replicaCount=2")
        ours = deployment_of(furnished, namespace)
        furnished.helm(*upgrade, "--reset-values", "--set", "additions=null")
        after = deployment_of(furnished, namespace)
        budgets = furnished.kubectl("get", "pdb", "--namespace", namespace, "--output=name")
    assert before["metadata"]["uid"] == ours["metadata"]["uid"] == after["metadata"]["uid"]
    assert ours["spec"]["template"] != before["spec"]["template"] == after["spec"]["template"]
    assert budgets.stdout == ""


def deployment_of(cluster: Cluster, namespace: str) -> dict[str, Any]:
    code, answer = cluster.api("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments")
    assert code == 200
    (one,) = answer["items"]
    return dict(one)


def test_uninstalling_leaves_nothing_but_the_definitions(furnished: Cluster) -> None:
    namespace = furnished.namespace("gone")
    values = CONTROLLER_FILES[0].parent / "controller-monitoring.yaml"
    with installed(furnished, namespace, "--values", str(values), "--set", "replicaCount=2"):
        pass
    kinds = "deploy,rs,sa,role,rolebinding,pdb,svc,netpol,podmonitors,servicemonitors"
    left = furnished.kubectl("get", kinds, "--namespace", namespace, "--output=name").stdout
    assert [n for n in left.split() if n != "serviceaccount/default"] == []
    roles = furnished.kubectl("get", "clusterrole,clusterrolebinding", "--output=name").stdout
    assert f"arc-{namespace[-6:]}" not in roles
    assert "ephemeralrunners.actions.github.com" in furnished.kubectl("get", "crd").stdout
