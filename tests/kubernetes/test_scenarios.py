"""Upstream's own end-to-end scenarios (contract: charts-and-operations 8), each under its name.

Our fake GitHub is GitHub, our node agent is the kubelet; the API server, helm, our charts and
the rights that they grant are real. Single-namespace-setup is `test_own_controllers.py`.
"""

from typing import Any

import pytest

from tests.kubernetes.github import HOST_NAME, OWNER
from tests.kubernetes.proxy import Proxy
from tests.kubernetes.world import (
    ScaleSet,
    World,
    condition,
    is_ready,
    labels_of,
    name_of,
    until,
)

pytestmark = pytest.mark.timeout(300)
Json = dict[str, Any]
MIN_RUNNERS_WITHIN_S = 30.0  # upstream's own bound
MARKER_WITHIN_S = 300.0
LABEL_WITHIN_S = 60.0


def runner_template(**container: Any) -> Json:
    """A template with one runner container."""
    image = "ghcr.io/actions/actions-runner:latest"
    runner = {"name": "runner", "image": image, "command": ["/home/runner/run.sh"], **container}
    return {"spec": {"containers": [runner]}}


def test_default_setup(world: World) -> None:
    """A job runs, and everything is gone after the uninstall."""
    world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace())
    scale_set.wait_listener()
    scale_set.run_jobs(3)
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()


def test_dind_mode_setup(world: World) -> None:
    """The API server takes the dind pod; the job runs beside its sidecar, which ends with it."""
    world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace(), containerMode={"type": "dind"})
    scale_set.wait_listener()
    job = world.github.workflow("[ -e /var/run/docker.sock ] && sleep 1", scale_set.name)
    pod = until("its pod is there", scale_set.runner_pods)[0]
    spec = pod["spec"]
    inits = {each["name"]: each for each in spec["initContainers"]}
    assert list(inits) == ["init-dind-externals", "dind"]
    assert inits["dind"]["restartPolicy"] == "Always"
    assert inits["dind"]["securityContext"]["privileged"] is True
    assert inits["dind"]["startupProbe"]["exec"]["command"] == ["docker", "info"]
    assert {volume["name"] for volume in spec["volumes"]} >= {"dind-sock", "dind-externals", "work"}
    env = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    assert env["DOCKER_HOST"] == "unix:///var/run/docker.sock"
    scale_set.wait_jobs([job])
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()


def test_kubernetes_mode_setup(world: World) -> None:
    """The runner has its claim and the rights to make pods for its steps."""
    world.cluster_wide_controller()
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "openebs-hostpath",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    mode = {"type": "kubernetes", "kubernetesModeWorkVolumeClaim": claim}
    namespace = world.namespace()
    scale_set = world.install_set(namespace, containerMode=mode)
    scale_set.wait_listener()
    job = world.github.workflow("echo $ACTIONS_RUNNER_POD_NAME; sleep 1", scale_set.name)
    pod = until("its pod is there", scale_set.runner_pods)[0]
    work = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == "work")
    template = work["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert {key: template[key] for key in claim} == claim
    account = pod["spec"]["serviceAccountName"]
    assert account == f"{scale_set.name}-gha-rs-kube-mode"
    for verb, sub in (("create", ""), ("create", "exec"), ("watch", "log")):
        words = ("auth", "can-i", verb, "pods", f"--subresource={sub}", "-n", namespace)
        who = f"--as=system:serviceaccount:{namespace}:{account}"
        assert world.cluster.kubectl(*words, who, check=False).stdout.strip() == "yes"
    scale_set.wait_jobs([job])
    assert name_of(pod) in world.github.log(job)
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()


def trusted(world: World, namespace: str, **more: Any) -> Json:
    """githubServerTLS for the authority that nobody trusts by itself, from a ConfigMap."""
    name, key = "ca-cert", "ca-cert.crt"
    body = {"metadata": {"name": name}, "data": {key: world.authority.ca_pem}}
    world.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    reference = {"configMapKeyRef": {"name": name, "key": key}}
    mount = {"runnerMountPath": "/usr/local/share/ca-certificates/"}
    return {"githubServerTLS": {"certificateFrom": reference, **mount}, **more}


def behind(world: World, proxy: Proxy, **more: Any) -> Json:
    """Values of a scale set that reaches GitHub only through a proxy; the API server without."""
    api = world.cluster.url.removeprefix("https://")
    return {
        "githubConfigUrl": f"https://{HOST_NAME}/{OWNER}",
        "proxy": {"https": {"url": proxy.url, **more}, "noProxy": [api]},
    }


def targets(world: World) -> dict[str, int]:
    """Where the proxy leads: the name of GitHub, and the address that runners are given."""
    port = world.tls_github.port
    return {f"{HOST_NAME}:443": port, f"127.0.0.1:{port}": port}


def went_through(proxy: Proxy, world: World) -> None:
    """Controller and listener asked for the name; the runner for the address it was given."""
    assert f"{HOST_NAME}:443" in proxy.tunnels
    assert f"127.0.0.1:{world.tls_github.port}" in proxy.tunnels
    assert proxy.strangers == []  # the API server was reached without it


def test_anonymous_proxy_setup(world: World) -> None:
    """GitHub's name leads nowhere but through the proxy: jobs run, so all three went that way."""
    world.cluster_wide_controller()
    with Proxy(targets(world)) as proxy:
        namespace = world.namespace()
        values = trusted(world, namespace, **behind(world, proxy))
        scale_set = world.install_set(namespace, **values)
        scale_set.wait_listener()
        scale_set.run_jobs(github=world.tls_github)
        went_through(proxy, world)
        scale_set.wait_idle()
        scale_set.uninstall_cleanly(github=world.tls_github)


def test_auth_proxy_setup(world: World) -> None:
    """A password that is wrong is told on the object, and put right it works."""
    world.cluster_wide_controller()
    with Proxy(targets(world), user="github", password="actions") as proxy:
        namespace = world.namespace()
        world.secret(namespace, "proxy-auth", username="github", password="wrong")
        values = behind(world, proxy, credentialSecretRef="proxy-auth")
        scale_set = world.install_set(namespace, **trusted(world, namespace, **values))

        def told() -> Json | None:
            found = condition(scale_set.runner_set(), "Registered")
            return found if found.get("status") == "False" else None

        found = until("the refusal is told", told, within_s=60)
        assert (found["reason"], "407" in found["message"]) == ("ProxyRefused", True), found
        assert "wrong" not in str(found["message"])
        assert proxy.refused > 0
        assert proxy.tunnels == []
        right = {"stringData": {"password": "actions"}}
        world.patch(f"/api/v1/namespaces/{namespace}/secrets/proxy-auth", right)
        scale_set.wait_listener()
        scale_set.run_jobs(github=world.tls_github)
        went_through(proxy, world)
        scale_set.wait_idle()
        scale_set.uninstall_cleanly(github=world.tls_github)


def test_self_signed_ca_setup(world: World) -> None:
    """An authority from a ConfigMap: for the controller, the listener, and mounted for the job."""
    world.cluster_wide_controller()
    namespace = world.namespace()
    url = f"{world.tls_github.url}/{OWNER}"
    values = trusted(world, namespace, githubConfigUrl=url)
    scale_set = world.install_set(namespace, **values)
    scale_set.wait_listener()
    job = world.tls_github.workflow("cat $NODE_EXTRA_CA_CERTS; sleep 1", scale_set.name)
    pod = until("its pod is there", scale_set.runner_pods)[0]
    env = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert env["NODE_EXTRA_CA_CERTS"] == "/usr/local/share/ca-certificates/ca-cert.crt"
    assert env["RUNNER_UPDATE_CA_CERTS"] == "1"
    scale_set.wait_jobs([job], github=world.tls_github)
    assert world.authority.ca_pem.split()[3] in world.tls_github.log(job)
    scale_set.wait_idle()
    scale_set.uninstall_cleanly(github=world.tls_github)


def test_init_with_min_runners(world: World) -> None:
    """Exactly five, within 30 seconds, and they stay five."""
    world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace(), minRunners=5)

    def ready() -> bool:
        pods = scale_set.runner_pods()
        assert len(pods) <= 5, [name_of(pod) for pod in pods]
        return len([pod for pod in pods if is_ready(pod)]) == 5

    until("five runners are ready", ready, within_s=MIN_RUNNERS_WITHIN_S)
    scale_set_id = world.github.scale_sets(scale_set.name)[0]["id"]
    until(
        "five are online at GitHub",
        lambda: [r["state"] for r in world.github.runners(scale_set_id)] == ["idle"] * 5,
    )
    assert len(scale_set.runners()) == 5
    scale_set.uninstall_cleanly()


def test_custom_label_setup(world: World) -> None:
    """Jobs find the scale set by a label of their own."""
    world.cluster_wide_controller()
    label = world.fresh("custom")
    scale_set = world.install_set(world.namespace(), scaleSetLabels=[label])
    assert scale_set.runner_set()["spec"]["runnerScaleSetLabels"] == [label]
    scale_set.wait_listener()
    scale_set.run_jobs(label=label, within_s=LABEL_WITHIN_S)
    scale_set.wait_idle()
    scale_set.uninstall_cleanly()


def test_update_gha_runner_scale_set(world: World) -> None:
    """The template changes while jobs run: none is lost, and new runners are of the new kind."""
    world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace(), minRunners=1, maxRunners=5)
    scale_set.wait_listener()
    running = world.github.queue(scale_set.name, 3, seconds=8)
    until(
        "three jobs run",
        lambda: all(job["state"] == "running" for job in world.github.jobs(running)),
        within_s=60,
    )
    before = {name_of(pod) for pod in scale_set.runner_pods()}
    template = runner_template(env=[{"name": "TEST", "value": "E2E TESTS"}])
    template["metadata"] = {"labels": {"e2e.arc/upgrade-marker": "yes"}}
    scale_set.helm("upgrade", {"minRunners": 1, "maxRunners": 5, "template": template})

    def marked() -> list[Json]:
        pods = scale_set.runner_pods()
        return [pod for pod in pods if "e2e.arc/upgrade-marker" in labels_of(pod)]

    pod = until("a pod of the new kind", marked, within_s=MARKER_WITHIN_S)[0]
    assert name_of(pod) not in before
    assert {"name": "TEST", "value": "E2E TESTS"} in pod["spec"]["containers"][0]["env"]
    scale_set.wait_jobs(running)
    job = world.github.workflow("echo test is $TEST", scale_set.name)
    scale_set.wait_jobs([job])
    assert "test is E2E TESTS" in world.github.log(job)
    only_idle(scale_set)
    scale_set.uninstall_cleanly()


def only_idle(scale_set: ScaleSet) -> None:
    """What is left is the one idle runner, of the new kind."""
    scale_set.wait_idle(1)
    assert "e2e.arc/upgrade-marker" in labels_of(scale_set.runner_pods()[0])
