"""What the chart adds to ARC's objects: each behind its switch, and the user's word first."""

from typing import Any

import pytest

from runnerscale.cli.controller_command import controller_options
from tests.charts.pod_security import violations
from tests.charts.render import CONTROLLER, render_notes
from tests.plan.autoscaling_listener.world import World

from .chart import (
    ARGS,
    GHA,
    LABELS,
    NAME,
    NAMESPACE,
    RELEASE,
    SELECTOR,
    comparable,
    kinds,
    named,
    objects,
    refusal,
    rule,
    with_additions,
)

EVENTS = rule("", "events", ["create", "patch"])
METRICS = {
    "metrics": {
        "controllerManagerAddr": ":8080",
        "listenerAddr": ":8081",
        "listenerEndpoint": "/listener-metrics",
    }
}


def only(*names: str) -> dict[str, Any]:
    """Values with these additions on and the others off."""
    return {"additions": {**dict.fromkeys(ALL, False), **dict.fromkeys(names, True)}}


ALL = (
    *("labels", "events", "restrictedSecurity", "resources", "probes", "podDisruptionBudget"),
    *("topologySpread", "listenerSecurity", "listenerResources", "unknownValueNotes"),
)


def spec_with(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """The pod's spec with these additions."""
    one = named(with_additions({**only(*names), **values}), "Deployment", NAME)
    spec: dict[str, Any] = one["spec"]["template"]["spec"]
    return spec


def manager_with(values: dict[str, Any], *names: str) -> dict[str, Any]:
    (container,) = spec_with(values, *names)["containers"]
    return dict(container)


def test_labels_are_all_that_the_objects_for_rights_gain() -> None:
    values: dict[str, Any] = {"replicaCount": 2, "labels": {"team": "ci"}}
    labelled = with_additions({**only("labels"), **values})
    granting = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    for one in labelled:
        if one["kind"] in granting:
            assert one["metadata"].pop("labels") == {**LABELS, "team": "ci"}
    assert comparable(labelled) == comparable(objects(values))


@pytest.mark.parametrize("watched", ["", "demo"])
def test_events_are_one_rule_more_wherever_the_controller_has_rules(watched: str) -> None:
    values = {"flags": {"watchSingleNamespace": watched or None}}
    names = (
        [("Role", f"{NAME}-single-namespace"), ("Role", f"{NAME}-single-namespace-watch")]
        if watched
        else [("ClusterRole", NAME)]
    )
    with_events = with_additions({**only("events"), **values})
    for kind, name in names:
        rules = named(with_events, kind, name)["rules"]
        assert rules[-1] == EVENTS
        assert rules[:-1] == named(objects(values), kind, name)["rules"]
    untouched = {d.name for d in with_events} - {name for _, name in names}
    assert f"{NAME}-listener" in untouched


def test_the_security_contexts_are_those_of_the_level_restricted() -> None:
    spec = spec_with({}, "restrictedSecurity")
    assert violations(spec) == []
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "tmp", "emptyDir": {}} in spec["volumes"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


@pytest.mark.parametrize("values", [{}, {"replicaCount": 3}, METRICS])
def test_what_a_user_gets_by_default_passes_the_level_restricted(values: dict[str, Any]) -> None:
    one = named(with_additions(values), "Deployment", NAME)
    assert violations(one["spec"]["template"]["spec"]) == []


def test_the_checker_finds_what_arcs_pod_lacks() -> None:
    one = named(objects(), "Deployment", NAME)
    assert violations(one["spec"]["template"]["spec"]) == [
        "manager: allowPrivilegeEscalation is not false",
        "manager: capabilities are not dropped",
        "manager: runAsNonRoot is not true",
        "manager: seccompProfile",
    ]


def test_a_users_context_stands_and_the_rest_is_filled_in() -> None:
    values = {
        "podSecurityContext": {"runAsNonRoot": False, "fsGroup": 1000, "runAsUser": 1000650000},
        "securityContext": {
            "readOnlyRootFilesystem": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"]},
            "seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"},
        },
    }
    spec = spec_with(values, "restrictedSecurity")
    assert spec["securityContext"] == {
        **values["podSecurityContext"],
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert spec["containers"][0]["securityContext"] == {
        "readOnlyRootFilesystem": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        "seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"},
    }


@pytest.mark.parametrize("where", ["podSecurityContext", "securityContext"])
def test_who_asks_for_root_gets_it(where: str) -> None:
    # With runAsNonRoot beside it no kubelet would start the pod.
    spec = spec_with({where: {"runAsUser": 0}}, "restrictedSecurity")
    assert "runAsNonRoot" not in spec["securityContext"]
    assert "runAsNonRoot" not in spec["containers"][0]["securityContext"]


@pytest.mark.parametrize("asked", [{"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}])
def test_who_asks_for_everything_gets_it(asked: dict[str, Any]) -> None:
    # The API server refuses allowPrivilegeEscalation false beside either.
    spec = spec_with({"securityContext": asked}, "restrictedSecurity")
    assert "allowPrivilegeEscalation" not in spec["containers"][0]["securityContext"]


def test_requests_are_added_only_where_the_user_has_no_resources() -> None:
    assert manager_with({}, "resources")["resources"] == {
        "requests": {"cpu": "50m", "memory": "128Mi"}
    }
    mine = {"limits": {"memory": "64Mi"}}
    assert manager_with({"resources": mine}, "resources")["resources"] == mine


def test_probes_are_turned_on_by_the_flag() -> None:
    container = manager_with({}, "probes")
    assert container["args"] == [*ARGS, "--health-probe-bind-address=:8081"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": 8081}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 8081}


@pytest.mark.parametrize(
    ("metrics", "pprof", "port"),
    [(":8080", ":6060", 8081), (":8081", ":6060", 8082), (":8081", ":8082", 8083), ("0", "", 8081)],
)
def test_probes_take_a_port_that_is_free(metrics: str, pprof: str, port: int) -> None:
    values = {"metrics": {"controllerManagerAddr": metrics}, "pprof": {"addr": pprof}}
    container = manager_with(values, "probes")
    assert container["args"][-1] == f"--health-probe-bind-address=:{port}"
    assert container["livenessProbe"]["httpGet"]["port"] == port


def test_an_address_of_the_users_comes_before_the_addition() -> None:
    container = manager_with({"flags": {"healthProbeBindAddress": ":9000"}}, "probes")
    assert container["args"][-1] == "--health-probe-bind-address=:9000"
    assert container["readinessProbe"]["httpGet"]["port"] == 9000


def test_a_budget_exists_only_where_pods_stand_by() -> None:
    assert kinds(with_additions(only("podDisruptionBudget"))) == kinds(objects())
    values: dict[str, Any] = {"replicaCount": 2, **only("podDisruptionBudget")}
    budget = named(with_additions(values), "PodDisruptionBudget", NAME)
    assert budget["metadata"] == {"name": NAME, "namespace": NAMESPACE, "labels": LABELS}
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}}


def test_pods_that_stand_by_are_spread_unless_the_user_spreads_them() -> None:
    assert "topologySpreadConstraints" not in spec_with({}, "topologySpread")
    assert spec_with({"replicaCount": 2}, "topologySpread")["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": SELECTOR},
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]
    mine = [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]
    values = {"replicaCount": 2, "topologySpreadConstraints": mine}
    assert spec_with(values, "topologySpread")["topologySpreadConstraints"] == mine


async def test_what_the_chart_says_about_listeners_reaches_their_pods() -> None:
    container = manager_with({}, "listenerSecurity", "listenerResources")
    environ = {one["name"]: one.get("value", "arc-systems") for one in container["env"]}
    options = controller_options(container["args"], environ)
    world = World()
    world.start(restricted=options.listener_restricted, resources=options.listener_resources)
    await world.settle()
    assert violations(world.pod["spec"]) == []
    (listener,) = world.pod["spec"]["containers"]
    assert listener["resources"] == {"requests": {"cpu": "20m", "memory": "64Mi"}}


def test_what_is_only_ours_goes_by_the_environment_and_never_by_a_flag() -> None:
    # ARC's image ends at once on a flag that it does not know.
    concurrency = {
        "autoscalingRunnerSetMaxConcurrentReconciles": 9,
        "autoscalingListenerMaxConcurrentReconciles": 10,
        "ephemeralRunnerSetMaxConcurrentReconciles": 11,
        "ephemeralRunnerMaxConcurrentReconciles": 1000000,
    }
    mine = {"name": "MINE", "value": "1"}
    values = {"flags": concurrency, "env": [mine]}
    container = manager_with(values, "listenerSecurity", "listenerResources")
    assert container["args"] == ARGS
    assert container["env"][2:] == [
        {"name": "RUNNERSCALE_LISTENER_SECURITY", "value": "restricted"},
        {
            "name": "RUNNERSCALE_LISTENER_RESOURCES",
            "value": '{"requests":{"cpu":"20m","memory":"64Mi"}}',
        },
        *(
            {"name": f"RUNNERSCALE_{name}_MAX_CONCURRENT_RECONCILES", "value": value}
            for name, value in (
                ("AUTOSCALING_RUNNER_SET", "9"),
                ("AUTOSCALING_LISTENER", "10"),
                ("EPHEMERAL_RUNNER_SET", "11"),
                ("EPHEMERAL_RUNNER", "1000000"),
            )
        ),
        mine,
    ]
    environ = {one["name"]: one.get("value", "arc-systems") for one in container["env"]}
    options = controller_options(container["args"], environ)
    assert (options.runner_set_workers, options.listener_workers) == (9, 10)
    assert (options.set_workers, options.runner_workers) == (11, 1000)


def test_unknown_values_are_named_in_the_notes_unless_switched_off() -> None:
    values = {"flags": {"logLevl": "info"}}
    told = render_notes(CONTROLLER, values, release=RELEASE)
    assert "flags.logLevl (did you mean flags.logLevel?)" in told
    silent = render_notes(CONTROLLER, {**values, "additions": None}, release=RELEASE)
    assert "logLevl" not in silent


def test_the_notes_say_what_comes_next() -> None:
    told = render_notes(CONTROLLER, release=RELEASE)
    assert f"gha-runner-scale-set-controller 0.14.2 is installed as {RELEASE}" in told
    assert f"--set controllerServiceAccount.name={NAME}" in told
    assert "--server-side" not in told
    assert "--server-side" in render_notes(CONTROLLER, release=RELEASE, upgrade=True)


def test_by_default_there_is_no_object_that_arcs_chart_has_not() -> None:
    assert kinds(with_additions(METRICS)) == kinds(objects())


# --- optional objects ------------------------------------------------------------------------


def test_network_policies_let_in_what_reads_metrics_and_probes_and_out_what_is_needed() -> None:
    prometheus = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    proxy = {"ports": [{"port": 3128, "protocol": "TCP"}]}
    values = {
        **METRICS,
        "networkPolicy": {"enabled": True, "metricsFrom": prometheus, "extraEgress": [proxy]},
    }
    found = with_additions(values)
    controller = named(found, "NetworkPolicy", NAME)["spec"]
    listeners = named(found, "NetworkPolicy", f"{NAME}-listeners")["spec"]
    egress = [
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
        {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]},
        proxy,
    ]
    assert controller == {
        "podSelector": {"matchLabels": SELECTOR},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"ports": [{"port": 8080, "protocol": "TCP"}], "from": prometheus},
            {"ports": [{"port": 8081, "protocol": "TCP"}]},  # the kubelet's address is not known
        ],
        "egress": egress,
    }
    assert listeners == {
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/part-of": "gha-runner-scale-set",
                "app.kubernetes.io/component": "runner-scale-set-listener",
            }
        },
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": 8081, "protocol": "TCP"}], "from": prometheus}],
        "egress": egress,
    }


def test_a_network_policy_without_metrics_and_probes_lets_nothing_in() -> None:
    mine = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]
    found = objects({"networkPolicy": {"enabled": True, "egress": mine}})
    for name in (NAME, f"{NAME}-listeners"):
        spec = named(found, "NetworkPolicy", name)["spec"]
        assert (spec["ingress"], spec["egress"]) == ([], mine)


def test_pod_monitors_read_the_controller_and_the_listeners() -> None:
    values = {
        **METRICS,
        "podMonitor": {
            "enabled": True,
            "labels": {"release": "prometheus", "app.kubernetes.io/name": "mine"},
            "interval": "30s",
            "scrapeTimeout": "10s",
            "relabelings": [{"action": "labeldrop", "regex": "pod"}],
            "metricRelabelings": [{"action": "drop", "regex": "x"}],
        },
    }
    found = with_additions(values)
    scraping = {
        "port": "metrics",
        "honorLabels": True,
        "interval": "30s",
        "scrapeTimeout": "10s",
        "relabelings": [{"action": "labeldrop", "regex": "pod"}],
        "metricRelabelings": [{"action": "drop", "regex": "x"}],
    }
    controller = named(found, "PodMonitor", NAME)
    assert controller["metadata"]["labels"] == {**LABELS, "release": "prometheus"}
    assert controller["spec"] == {
        "selector": {"matchLabels": SELECTOR},
        "podMetricsEndpoints": [{**scraping, "path": "/metrics"}],
    }
    listeners = named(found, "PodMonitor", f"{NAME}-listeners")["spec"]
    assert listeners["podTargetLabels"] == [
        "actions.github.com/scale-set-name",
        "actions.github.com/scale-set-namespace",
    ]
    assert listeners["podMetricsEndpoints"] == [{**scraping, "path": "/listener-metrics"}]
    assert listeners["selector"]["matchLabels"]["app.kubernetes.io/component"] == (
        "runner-scale-set-listener"
    )


@pytest.mark.parametrize(
    ("metrics", "wanted"),
    [
        ({"controllerManagerAddr": ":8080"}, [NAME]),
        (
            {"controllerManagerAddr": ":8080", "listenerAddr": ":8080"},
            [NAME],
        ),  # no path: not served
        (
            {
                "controllerManagerAddr": "0",
                "listenerAddr": ":8080",
                "listenerEndpoint": "/metrics",
            },
            [f"{NAME}-listeners"],
        ),
    ],
)
def test_a_pod_monitor_is_made_only_for_what_is_served(
    metrics: dict[str, Any], wanted: list[str]
) -> None:
    found = with_additions({"metrics": metrics, "podMonitor": {"enabled": True}})
    assert [d.name for d in found if d["kind"] == "PodMonitor"] == wanted


def test_two_controllers_in_one_namespace_do_not_read_each_others_listeners() -> None:
    # Read twice, a listener would count twice in every sum.
    optional = {"podMonitor": {"enabled": True}, "networkPolicy": {"enabled": True}}
    values = {**METRICS, **optional, "flags": {"watchSingleNamespace": "demo"}}
    found = with_additions(values)
    monitor = named(found, "PodMonitor", f"{NAME}-listeners")
    policy = named(found, "NetworkPolicy", f"{NAME}-listeners")
    for labels in (
        monitor["spec"]["selector"]["matchLabels"],
        policy["spec"]["podSelector"]["matchLabels"],
    ):
        assert labels[f"{GHA}/scale-set-namespace"] == "demo"


def test_a_service_monitor_has_a_service_of_its_own() -> None:
    values = {**METRICS, "serviceMonitor": {"enabled": True, "interval": "1m"}}
    found = with_additions(values)
    service = named(found, "Service", f"{NAME}-metrics")
    monitor = named(found, "ServiceMonitor", NAME)
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": SELECTOR,
        "ports": [{"name": "metrics", "port": 8080, "targetPort": "metrics", "protocol": "TCP"}],
    }
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"] == [
        {"port": "metrics", "path": "/metrics", "honorLabels": True, "interval": "1m"}
    ]


def test_a_services_name_stays_a_host_name() -> None:
    found = with_additions({**METRICS, "serviceMonitor": {"enabled": True}}, release="a" * 53)
    (service,) = (d for d in found if d["kind"] == "Service")
    assert len(service.name) <= 63
    assert service.name.endswith("-metrics")


def test_alert_rules_are_the_charts_file_as_it_is() -> None:
    found = with_additions({"prometheusRule": {"enabled": True, "labels": {"release": "p"}}})
    rule_object = named(found, "PrometheusRule", NAME)
    assert rule_object["metadata"]["labels"] == {**LABELS, "release": "p"}
    groups = rule_object["spec"]["groups"]
    assert groups
    assert all(group["name"] and group["rules"] for group in groups)
    text = (CONTROLLER / "files" / "alerts.yaml").read_text()
    annotations = [r["annotations"] for g in groups for r in g["rules"] if "alert" in r]
    braces = [str(value) for one in annotations for value in one.values() if "{{" in str(value)]
    assert braces  # not taken for a template of Helm's
    assert all(value.split("{{")[1].split("}}")[0] in text for value in braces)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"podMonitor": {"enabled": True}}, "podMonitor.enabled is true, but no metrics"),
        ({"serviceMonitor": {"enabled": True}}, "serviceMonitor.enabled is true, but the contr"),
        (
            {"serviceMonitor": {"enabled": True}, "metrics": {"controllerManagerAddr": "0"}},
            "Set metrics.controllerManagerAddr",
        ),
    ],
)
def test_a_monitor_of_nothing_is_refused(values: dict[str, Any], words: str) -> None:
    assert words in refusal(values)


def test_the_discovery_labels_are_on_the_deployment_alone() -> None:
    values = {"replicaCount": 2, "networkPolicy": {"enabled": True}}
    key = f"{GHA}/controller-service-account-name"
    found = with_additions(values)
    assert [d["kind"] for d in found if key in d["metadata"].get("labels", {})] == ["Deployment"]
