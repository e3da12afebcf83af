"""The Deployment as ARC's chart has it: C3 1.4, 1.5 and #10-#27, #32, #33, #206, #207."""

from typing import Any

import pytest

from .chart import (
    ARGS,
    ENV,
    GHA,
    IMAGE,
    LABELS,
    NAME,
    NAMESPACE,
    POD_LABELS,
    SELECTOR,
    K,
    args,
    deployment,
    manager,
    pod,
)

# C3 #10-#14 and #26 are about the same objects, cluster-wide and for one namespace.
PLACES = pytest.mark.parametrize("watched", ["", "demo"])
CUSTOMISED: dict[str, Any] = {
    "labels": {
        "foo": "bar",
        "github": "actions",
        "team": "GitHub Team",
        "teamMail": "team@github.com",
    },
    "nameOverride": "gha-rs-controller-override",
    "fullnameOverride": "gha-rs-controller-fullname-override",
    "image": {"pullPolicy": "Always", "tag": "dev"},
    "imagePullSecrets": [{"name": "dockerhub"}],
    "serviceAccount": {"name": "gha-rs-controller-sa"},
    "podAnnotations": {"foo": "bar"},
    "podSecurityContext": {"fsGroup": 1000},
    "securityContext": {"runAsUser": 1000, "runAsNonRoot": True},
    "resources": {"limits": {"cpu": "500m"}},
    "nodeSelector": {"foo": "bar"},
    "tolerations": [{"key": "foo", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar"]}]}
                ]
            }
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "foo", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "volumes": [{"name": "customMount", "configMap": {"name": "my-configmap"}}],
    "volumeMounts": [{"name": "customMount", "mountPath": "/my/mount/path"}],
    "priorityClassName": "test-priority-class",
    "flags": {"logLevel": "info", "logFormat": "json"},
    "env": [{"name": "ENV_VAR", "value": "value"}],
}


def dev(watched: str) -> dict[str, Any]:
    return {"image": {"tag": "dev"}, "flags": {"watchSingleNamespace": watched or None}}


@PLACES
@pytest.mark.behaviour("C3 T10", "C3 T26")
def test_its_labels_are_how_others_find_the_controller(watched: str) -> None:
    one = deployment(dev(watched))
    assert (one.name, one["metadata"]["namespace"]) == (NAME, NAMESPACE)
    wanted = {
        **LABELS,
        f"{GHA}/controller-service-account-namespace": NAMESPACE,
        f"{GHA}/controller-service-account-name": NAME,
    }
    if watched:
        wanted[f"{GHA}/controller-watch-single-namespace"] = "demo"
    assert one["metadata"]["labels"] == wanted


@PLACES
@pytest.mark.behaviour("C3 T11", "C3 T26")
def test_it_selects_its_pods_by_name_instance_and_namespace(watched: str) -> None:
    spec = deployment(dev(watched))["spec"]
    assert spec["replicas"] == 1
    assert spec["selector"] == {"matchLabels": SELECTOR}
    assert spec["template"]["metadata"] == {
        "labels": POD_LABELS,
        "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
    }
    assert SELECTOR.items() <= POD_LABELS.items()
    assert spec["template"]["spec"]["serviceAccountName"] == NAME


@PLACES
@pytest.mark.behaviour("C3 T12", "C3 T26")
def test_it_runs_one_container_with_the_manager(watched: str) -> None:
    container = manager(dev(watched))
    assert container["name"] == "manager"
    assert container["image"] == "ghcr.io/runnerscale/runnerscale:dev"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["command"] == ["/manager"]


@PLACES
@pytest.mark.behaviour("C3 T13", "C3 T26")
def test_the_command_line_without_values(watched: str) -> None:
    extra = ["--watch-single-namespace=demo"] if watched else []
    assert args(dev(watched)) == [*ARGS[:3], *extra, *ARGS[3:]]


@PLACES
@pytest.mark.behaviour("C3 T14", "C3 T26")
def test_the_pod_without_values_has_little(watched: str) -> None:
    spec = pod(dev(watched))
    (container,) = spec["containers"]
    image = {"name": ENV[0]["name"], "value": "ghcr.io/runnerscale/runnerscale:dev"}
    assert container["env"] == [image, ENV[1]]
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    assert container.keys() == {
        *("name", "image", "imagePullPolicy", "command", "args", "env", "volumeMounts")
    }
    # No pull secrets, selectors, affinity, tolerations, priority class, constraints, contexts.
    assert {key: value for key, value in spec.items() if key != "containers"} == {
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 10,
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }


@pytest.mark.behaviour("C3 T15")
def test_labels_keep_their_blanks() -> None:
    labels = deployment(CUSTOMISED)["metadata"]["labels"]
    assert CUSTOMISED["labels"].items() <= labels.items()


@pytest.mark.behaviour("C3 T16")
def test_names_can_be_chosen() -> None:
    one = deployment(CUSTOMISED)
    assert one.name == "gha-rs-controller-fullname-override"
    assert one["metadata"]["labels"][K + "name"] == "gha-rs-controller-override"
    assert one["metadata"]["labels"][K + "part-of"] == "gha-rs-controller"
    assert one["metadata"]["labels"]["helm.sh/chart"] == "gha-rs-controller-0.14.2"


@pytest.mark.behaviour("C3 T17")
def test_what_is_customised_lands_in_its_field() -> None:
    one = deployment(CUSTOMISED)
    spec = one["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert one["spec"]["template"]["metadata"]["annotations"] == {
        "foo": "bar",
        "kubectl.kubernetes.io/default-container": "manager",
    }
    assert container["imagePullPolicy"] == "Always"
    assert container["securityContext"] == {"runAsUser": 1000, "runAsNonRoot": True}
    assert container["resources"] == {"limits": {"cpu": "500m"}}
    assert spec["imagePullSecrets"] == [{"name": "dockerhub"}]
    assert spec["securityContext"] == {"fsGroup": 1000}
    for key in (
        *("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"),
        "priorityClassName",
    ):
        assert spec[key] == CUSTOMISED[key]


@pytest.mark.behaviour("C3 T18")
def test_the_account_is_named_in_pod_and_label() -> None:
    one = deployment(CUSTOMISED)
    assert one["spec"]["template"]["spec"]["serviceAccountName"] == "gha-rs-controller-sa"
    label = f"{GHA}/controller-service-account-name"
    assert one["metadata"]["labels"][label] == "gha-rs-controller-sa"


@pytest.mark.behaviour("C3 T19")
def test_log_level_and_format_and_the_pull_secret_are_arguments() -> None:
    assert args(CUSTOMISED) == [
        "--auto-scaling-runner-set-only",
        "--auto-scaler-image-pull-secrets=dockerhub",
        "--log-level=info",
        "--log-format=json",
        *ARGS[3:],
    ]


@pytest.mark.behaviour("C3 T20")
def test_volumes_come_after_tmp() -> None:
    spec = pod(CUSTOMISED)
    assert spec["volumes"] == [{"name": "tmp", "emptyDir": {}}, *CUSTOMISED["volumes"]]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "tmp", "mountPath": "/tmp"},
        *CUSTOMISED["volumeMounts"],
    ]


@pytest.mark.behaviour("C3 T21")
def test_env_comes_after_the_two_that_are_always_there() -> None:
    env = manager(CUSTOMISED)["env"]
    assert [one["name"] for one in env] == [
        "CONTROLLER_MANAGER_CONTAINER_IMAGE",
        "CONTROLLER_MANAGER_POD_NAMESPACE",
        "ENV_VAR",
    ]
    assert env[2] == {"name": "ENV_VAR", "value": "value"}


@pytest.mark.behaviour("C3 T24")
def test_two_replicas_elect_a_leader() -> None:
    values = {"replicaCount": 2, "image": {"tag": "dev"}}
    assert deployment(values)["spec"]["replicas"] == 2
    assert args(values) == [
        ARGS[0],
        "--enable-leader-election",
        f"--leader-election-id={NAME}",
        *ARGS[1:],
    ]


@pytest.mark.behaviour("C3 T25")
def test_pull_secrets_are_handed_on_in_order() -> None:
    secrets = [{"name": "dockerhub"}, {"name": "ghcr"}]
    values = {"imagePullSecrets": secrets}
    assert pod(values)["imagePullSecrets"] == secrets
    assert args(values) == [
        ARGS[0],
        "--auto-scaler-image-pull-secrets=dockerhub",
        "--auto-scaler-image-pull-secrets=ghcr",
        *ARGS[1:],
    ]


@pytest.mark.behaviour("C3 T27")
def test_env_is_passed_through_as_written() -> None:
    env = [
        {"name": "ENV_VAR_NAME_1", "value": "ENV_VAR_VALUE_1"},
        {
            "name": "ENV_VAR_NAME_2",
            "valueFrom": {
                "secretKeyRef": {"key": "ENV_VAR_NAME_2", "name": "secret", "optional": True}
            },
        },
        {"name": "ENV_VAR_NAME_3", "value": ""},
        {"name": "odd", "valueFrom": {"SecretKeyRef": {"Key": "K", "Name": "n"}}},
    ]
    found = manager({"env": env})["env"]
    assert found == [*ENV, *env]
    assert len(found) == 6


@pytest.mark.behaviour("C3 T32")
def test_metrics_are_one_port_and_three_arguments() -> None:
    values = {
        "metrics": {
            "controllerManagerAddr": ":8080",
            "listenerAddr": ":8081",
            "listenerEndpoint": "/metrics",
        }
    }
    container = manager(values)
    assert container["ports"] == [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}]
    assert container["args"] == [
        *ARGS[:4],
        "--listener-metrics-addr=:8081",
        "--listener-metrics-endpoint=/metrics",
        "--metrics-addr=:8080",
    ]


@pytest.mark.parametrize(
    ("metrics", "addr", "port"),
    [
        ({"controllerManagerAddr": ":8080"}, ":8080", 8080),
        ({"controllerManagerAddr": "127.0.0.1:9090", "listenerAddr": None}, "127.0.0.1:9090", 9090),
        ({"controllerManagerAddr": "[::1]:9090", "listenerEndpoint": ""}, "[::1]:9090", 9090),
        ({"controllerManagerAddr": "0"}, "0", None),  # nowhere, as the flag means it
    ],
)
def test_what_metrics_leave_out_is_empty(
    metrics: dict[str, Any], addr: str, port: int | None
) -> None:
    container = manager({"metrics": metrics})
    assert container["args"][-3:] == [
        "--listener-metrics-addr=",
        "--listener-metrics-endpoint=",
        f"--metrics-addr={addr}",
    ]
    assert [one["containerPort"] for one in container.get("ports", ())] == ([port] if port else [])


@pytest.mark.behaviour("C3 T33")
def test_each_excluded_prefix_is_an_argument() -> None:
    prefixes = ["prefix.com/", "complete.io/label"]
    assert args({"flags": {"excludeLabelPropagationPrefixes": prefixes}}) == [
        *ARGS,
        "--exclude-label-propagation-prefix=prefix.com/",
        "--exclude-label-propagation-prefix=complete.io/label",
    ]


@pytest.mark.behaviour("C3 T206")
def test_an_address_for_probes_brings_both_probes() -> None:
    container = manager({"flags": {"healthProbeBindAddress": ":8081"}})
    assert container["args"] == [*ARGS, "--health-probe-bind-address=:8081"]
    assert container["livenessProbe"] == {
        "httpGet": {"path": "/healthz", "port": 8081},
        "initialDelaySeconds": 15,
        "periodSeconds": 20,
    }
    assert container["readinessProbe"] == {
        "httpGet": {"path": "/readyz", "port": 8081},
        "initialDelaySeconds": 5,
        "periodSeconds": 10,
    }
    assert "ports" not in container


def test_probes_that_are_nowhere_are_none() -> None:
    container = manager({"flags": {"healthProbeBindAddress": "0"}})
    assert container["args"] == [*ARGS, "--health-probe-bind-address=0"]
    assert "livenessProbe" not in container


@pytest.mark.behaviour("C3 T207")
def test_an_address_for_profiles_is_an_argument_and_a_port() -> None:
    container = manager({"pprof": {"addr": ":6060"}})
    assert container["args"] == [*ARGS, "--pprof-addr=:6060"]
    assert container["ports"] == [{"name": "pprof", "containerPort": 6060, "protocol": "TCP"}]


def test_the_whole_command_line_has_one_order() -> None:
    # C3 1.4, rows 1 to 12.
    values: dict[str, Any] = {
        "replicaCount": 3,
        "imagePullSecrets": [{"name": "a"}],
        "metrics": {
            "controllerManagerAddr": ":1",
            "listenerAddr": ":2",
            "listenerEndpoint": "/m",
        },
        "pprof": {"addr": ":3"},
        "flags": {
            "watchSingleNamespace": "demo",
            "runnerMaxConcurrentReconciles": 7,
            "excludeLabelPropagationPrefixes": ["x/"],
            "rateLimiter": {"name": "typed_rate_limiter"},
            "healthProbeBindAddress": ":4",
            "k8sClientRateLimiterQPS": 5,
            "k8sClientRateLimiterBurst": 6,
            "updateStrategy": "eventual",  # of charts up to 0.14.2: accepted, never passed on
        },
    }
    container = manager(values)
    assert container["args"] == [
        "--auto-scaling-runner-set-only",
        "--enable-leader-election",
        f"--leader-election-id={NAME}",
        "--auto-scaler-image-pull-secrets=a",
        "--log-level=debug",
        "--log-format=text",
        "--watch-single-namespace=demo",
        "--runner-max-concurrent-reconciles=7",
        "--listener-metrics-addr=:2",
        "--listener-metrics-endpoint=/m",
        "--metrics-addr=:1",
        "--pprof-addr=:3",
        "--exclude-label-propagation-prefix=x/",
        "--k8s-client-rate-limiter-qps=5",
        "--k8s-client-rate-limiter-burst=6",
        "--workqueue-rate-limiter=typed_rate_limiter",
        "--health-probe-bind-address=:4",
    ]
    assert [port["name"] for port in container["ports"]] == ["metrics", "pprof"]


def test_an_empty_tag_is_the_charts_app_version() -> None:
    assert manager()["image"] == IMAGE
    assert manager({"image": {"repository": "r.example/x", "tag": None}})["image"] == (
        "r.example/x:0.14.2"
    )


@pytest.mark.parametrize("values", [{"flags": {"logLevel": "", "logFormat": ""}}])
def test_an_empty_level_and_format_are_left_to_the_manager(values: dict[str, Any]) -> None:
    assert args(values) == [ARGS[0], *ARGS[3:]]


@pytest.mark.parametrize("zero", [0, None, "0", ""])
def test_zero_workers_is_no_argument(zero: Any) -> None:
    found = args({"flags": {"runnerMaxConcurrentReconciles": zero}})
    assert found == [arg for arg in ARGS if "reconciles" not in arg]


@pytest.mark.parametrize("none", [0, None, "0"])
def test_no_replicas_are_one(none: Any) -> None:
    assert deployment({"replicaCount": none})["spec"]["replicas"] == 1
