"""Every value of ARC's charts does here what it does there: one row for each path of C3 1.2, 2.2.

A row is a value, and the place in the rendered objects that it changes. Nothing is left out: the
last tests hold the rows to the lists of paths, and the schemas' other paths to a list of what is
ours. Finer points of each value are in `controller/` and `scale_set/`.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from runnerscale.chart_values.known import charts, ignored

from .render import CONTROLLER, SCALE_SET, Document, RenderError, render

ABSENT = object()  # the place, or the whole object, is not there
GHA = "actions.github.com/"


@dataclass(frozen=True)
class Row:
    """`path` set to `value`, on top of `base`, makes `place` of the object `kind` be `wanted`."""

    path: str
    value: Any
    kind: str  # a kind, or kind/name
    place: str  # keys and indexes, with dots
    wanted: Any
    base: dict[str, Any] = field(default_factory=dict)


POD = "spec.template.spec"
MAIN = f"{POD}.containers.0"
TOLERATION = {"key": "a", "operator": "Exists"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
VARIABLE = {"name": "A", "value": "b"}
VOLUME = {"name": "mine", "emptyDir": {}}
MOUNT = {"name": "mine", "mountPath": "/mine"}
METRICS = {"metrics": {"controllerManagerAddr": ":8080"}}


def has(*arguments: str) -> Callable[[Any], bool]:
    """A list with these items among others."""
    return lambda found: set(arguments) <= set(found)


CONTROLLER_ROWS = [
    Row("labels", {"team": "a b"}, "Deployment", "metadata.labels.team", "a b"),
    Row("labels", {"team": "a b"}, "ServiceAccount", "metadata.labels.team", "a b"),
    Row("replicaCount", 2, "Deployment", "spec.replicas", 2),
    Row("image.repository", "r.example/x", "Deployment", f"{MAIN}.image", "r.example/x:0.14.2"),
    Row("image.pullPolicy", "Always", "Deployment", f"{MAIN}.imagePullPolicy", "Always"),
    Row("image.tag", "dev", "Deployment", f"{MAIN}.image", "ghcr.io/runnerscale/runnerscale:dev"),
    Row("imagePullSecrets", [{"name": "a"}], "Deployment", f"{POD}.imagePullSecrets.0.name", "a"),
    Row(
        "imagePullSecrets",
        [{"name": "a"}, {"name": "b"}],
        "Deployment",
        f"{MAIN}.args",
        has("--auto-scaler-image-pull-secrets=a", "--auto-scaler-image-pull-secrets=b"),
    ),
    Row("nameOverride", "n", "Deployment", "metadata.name", "rel-n"),
    Row("fullnameOverride", "full", "Deployment", "metadata.name", "full"),
    Row("env", [VARIABLE], "Deployment", f"{MAIN}.env", lambda env: env[-1] == VARIABLE),
    Row(
        "serviceAccount.create",
        False,
        "ServiceAccount",
        "",
        ABSENT,
        {"serviceAccount": {"name": "of-others"}},
    ),
    Row("serviceAccount.annotations", {"a": "b"}, "ServiceAccount", "metadata.annotations.a", "b"),
    Row("serviceAccount.name", "mine", "ServiceAccount", "metadata.name", "mine"),
    Row("serviceAccount.name", "mine", "Deployment", f"{POD}.serviceAccountName", "mine"),
    Row("podAnnotations", {"a": "b"}, "Deployment", "spec.template.metadata.annotations.a", "b"),
    Row("podLabels", {"a": "b"}, "Deployment", "spec.template.metadata.labels.a", "b"),
    Row("podSecurityContext", {"fsGroup": 7}, "Deployment", f"{POD}.securityContext.fsGroup", 7),
    Row("securityContext", {"runAsUser": 7}, "Deployment", f"{MAIN}.securityContext.runAsUser", 7),
    Row("resources", {"limits": {"cpu": "2"}}, "Deployment", f"{MAIN}.resources.limits.cpu", "2"),
    Row("nodeSelector", {"a": "b"}, "Deployment", f"{POD}.nodeSelector.a", "b"),
    Row("tolerations", [TOLERATION], "Deployment", f"{POD}.tolerations", [TOLERATION]),
    Row("affinity", {"podAffinity": {}}, "Deployment", f"{POD}.affinity", {"podAffinity": {}}),
    Row(
        "topologySpreadConstraints",
        [SPREAD],
        "Deployment",
        f"{POD}.topologySpreadConstraints",
        [SPREAD],
    ),
    Row("volumes", [VOLUME], "Deployment", f"{POD}.volumes.1", VOLUME),
    Row("volumeMounts", [MOUNT], "Deployment", f"{MAIN}.volumeMounts.1", MOUNT),
    Row("priorityClassName", "high", "Deployment", f"{POD}.priorityClassName", "high"),
    Row(
        "metrics.controllerManagerAddr",
        ":8080",
        "Deployment",
        f"{MAIN}.args",
        has("--metrics-addr=:8080"),
    ),
    Row(
        "metrics.listenerAddr",
        ":8081",
        "Deployment",
        f"{MAIN}.args",
        has("--listener-metrics-addr=:8081"),
        METRICS,
    ),
    Row(
        "metrics.listenerEndpoint",
        "/m",
        "Deployment",
        f"{MAIN}.args",
        has("--listener-metrics-endpoint=/m"),
        METRICS,
    ),
    Row("pprof.addr", ":6060", "Deployment", f"{MAIN}.args", has("--pprof-addr=:6060")),
    Row("namespaceOverride", "elsewhere", "Deployment", "metadata.namespace", "elsewhere"),
    *(
        Row(f"flags.{key}", value, "Deployment", f"{MAIN}.args", has(*arguments))
        for key, value, *arguments in (
            ("logLevel", "info", "--log-level=info"),
            ("logFormat", "json", "--log-format=json"),
            ("watchSingleNamespace", "demo", "--watch-single-namespace=demo"),
            ("runnerMaxConcurrentReconciles", 9, "--runner-max-concurrent-reconciles=9"),
            (
                "excludeLabelPropagationPrefixes",
                ["a/", "b/"],
                "--exclude-label-propagation-prefix=a/",
                "--exclude-label-propagation-prefix=b/",
            ),
            (
                "rateLimiter.name",
                "typed_rate_limiter",
                "--workqueue-rate-limiter=typed_rate_limiter",
            ),
            ("healthProbeBindAddress", ":8090", "--health-probe-bind-address=:8090"),
            ("k8sClientRateLimiterQPS", 1000000, "--k8s-client-rate-limiter-qps=1000000"),
            ("k8sClientRateLimiterBurst", 2000000, "--k8s-client-rate-limiter-burst=2000000"),
        )
    ),
]

ARS = "AutoscalingRunnerSet"
RUNNER = "spec.template.spec.containers.0"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WITH_CLAIM = {"containerMode": {"type": "kubernetes", "kubernetesModeWorkVolumeClaim": CLAIM}}
TOKEN = {"githubConfigSecret": {"github_token": "t"}}
RULE = {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}
CERTIFICATE = {"configMapKeyRef": {"name": "map", "key": "ca.crt"}}
VAULT = {
    "type": "azure_key_vault",
    "azureKeyVault": {"url": "u", "tenantId": "t", "clientId": "c", "certificatePath": "/p"},
}
LISTENER = {"spec": {"containers": [{"name": "listener", "image": "x"}]}}
META = {"labels": {"my-label": "a"}, "annotations": {"my-note": "b"}}


def vault_row(key: str) -> Row:
    place = f"spec.vaultConfig.azureKeyVault.{key}"
    return Row(f"keyVault.azureKeyVault.{key}", "/new", ARS, place, "/new", {"keyVault": VAULT})


def meta_rows() -> list[Row]:
    """The 16 keys of C3 2.5, both halves each."""
    of_chart = {
        "autoscalingRunnerSet": (ARS, {}),
        "githubConfigSecret": ("Secret", TOKEN),
        "kubernetesModeRole": ("Role/rel-gha-rs-kube-mode", WITH_CLAIM),
        "kubernetesModeRoleBinding": ("RoleBinding/rel-gha-rs-kube-mode", WITH_CLAIM),
        "kubernetesModeServiceAccount": ("ServiceAccount", WITH_CLAIM),
        "managerRole": ("Role/rel-gha-rs-manager", {}),
        "managerRoleBinding": ("RoleBinding/rel-gha-rs-manager", {}),
        "noPermissionServiceAccount": ("ServiceAccount", {}),
    }
    of_spec = {
        "autoscalingListener": "autoscalingListener",
        "listenerServiceAccount": "listenerServiceAccountMetadata",
        "listenerRole": "listenerRoleMetadata",
        "listenerRoleBinding": "listenerRoleBindingMetadata",
        "listenerConfigSecret": "listenerConfigSecretMetadata",
        "ephemeralRunnerSet": "ephemeralRunnerSetMetadata",
        "ephemeralRunner": "ephemeralRunnerMetadata",
        "ephemeralRunnerConfigSecret": "ephemeralRunnerConfigSecretMetadata",
    }
    places = {key: (kind, "metadata", base) for key, (kind, base) in of_chart.items()}
    places |= {key: (ARS, f"spec.{name}", {}) for key, name in of_spec.items()}
    rows = []
    for key, (kind, place, base) in places.items():
        for half, name in (("labels", "my-label"), ("annotations", "my-note")):
            value = META[half]
            path = f"resourceMeta.{key}.{half}"
            rows.append(Row(path, value, kind, f"{place}.{half}.{name}", value[name], base))
    return rows


SCALE_SET_ROWS = [
    Row(
        "githubConfigUrl",
        "https://g.example/o/",
        ARS,
        "spec.githubConfigUrl",
        "https://g.example/o",
    ),
    Row("githubConfigSecret", "other", ARS, "spec.githubConfigSecret", "other"),
    Row("githubConfigSecret", {"github_token": "t"}, "Secret", "data.github_token", "dA=="),
    *(
        Row(
            f"githubConfigSecret.{key}",
            value,
            "Secret",
            f"data.{key}",
            encoded,
            {"githubConfigSecret": base},
        )
        for key, value, encoded, base in (
            ("github_token", "t", "dA==", {}),
            (
                "github_app_id",
                98765432,
                "OTg3NjU0MzI=",
                {"github_app_installation_id": "1", "github_app_private_key": "k"},
            ),
            (
                "github_app_installation_id",
                98765432,
                "OTg3NjU0MzI=",
                {"github_app_id": "1", "github_app_private_key": "k"},
            ),
            (
                "github_app_private_key",
                "k",
                "aw==",
                {"github_app_id": "1", "github_app_installation_id": "1"},
            ),
        )
    ),
    Row("scaleSetLabels", ["linux", "x64"], ARS, "spec.runnerScaleSetLabels", ["linux", "x64"]),
    Row("runnerGroup", "mine", ARS, "spec.runnerGroup", "mine"),
    Row("runnerScaleSetName", "my_set", ARS, "metadata.name", "my-set"),
    Row("runnerScaleSetName", "my_set", ARS, "spec.runnerScaleSetName", "my_set"),
    Row("minRunners", 3, ARS, "spec.minRunners", 3),
    Row("maxRunners", 3, ARS, "spec.maxRunners", 3),
    *(
        Row(
            f"proxy.{side}.{key}",
            "x",
            ARS,
            f"spec.proxy.{side}.{key}",
            "x",
            {"proxy": {side: base}},
        )
        for side in ("http", "https")
        for key, base in (("url", {}), ("credentialSecretRef", {"url": "u"}))
    ),
    Row("proxy.noProxy", ["a", "b"], ARS, "spec.proxy.noProxy", ["a", "b"]),
    Row(
        "githubServerTLS.certificateFrom",
        CERTIFICATE,
        ARS,
        "spec.githubServerTLS.certificateFrom",
        CERTIFICATE,
    ),
    *(
        Row(
            f"githubServerTLS.certificateFrom.configMapKeyRef.{key}",
            "new",
            ARS,
            f"spec.githubServerTLS.certificateFrom.configMapKeyRef.{key}",
            "new",
            {"githubServerTLS": {"certificateFrom": CERTIFICATE}},
        )
        for key in ("name", "key")
    ),
    Row(
        "githubServerTLS.runnerMountPath",
        "/certs",
        ARS,
        f"{RUNNER}.volumeMounts.0.mountPath",
        "/certs/ca.crt",
        {"githubServerTLS": {"certificateFrom": CERTIFICATE}},
    ),
    Row("keyVault", VAULT, ARS, "spec.vaultConfig.type", "azure_key_vault"),
    Row(
        "keyVault.type",
        "azure_key_vault",
        ARS,
        "spec.vaultConfig.azureKeyVault.url",
        "u",
        {"keyVault": {"azureKeyVault": VAULT["azureKeyVault"]}},
    ),
    Row(
        "keyVault.proxy",
        {"http": {"url": "x"}},
        ARS,
        "spec.vaultConfig.proxy.http.url",
        "x",
        {"keyVault": VAULT},
    ),
    *map(vault_row, ("url", "tenantId", "clientId", "certificatePath")),
    Row("containerMode.type", "dind", ARS, "spec.template.spec.volumes.0.name", "dind-sock"),
    Row(
        "containerMode.type",
        "kubernetes",
        ARS,
        "spec.template.spec.serviceAccountName",
        "rel-gha-rs-kube-mode",
        {"containerMode": {"kubernetesModeWorkVolumeClaim": CLAIM}},
    ),
    Row(
        "containerMode.type",
        "kubernetes-novolume",
        ARS,
        f"{RUNNER}.env.0.value",
        "/home/runner/k8s-novolume/index.js",
    ),
    Row(
        "containerMode.kubernetesModeWorkVolumeClaim",
        {**CLAIM, "storageClassName": "new"},
        ARS,
        "spec.template.spec.volumes.0.ephemeral.volumeClaimTemplate.spec.storageClassName",
        "new",
        WITH_CLAIM,
    ),
    Row(
        "containerMode.kubernetesModeAdditionalRoleRules",
        [RULE],
        "Role/rel-gha-rs-kube-mode",
        "rules.5",
        RULE,
        WITH_CLAIM,
    ),
    Row("listenerTemplate", LISTENER, ARS, "spec.listenerTemplate", LISTENER),
    *(
        Row(
            f"listenerMetrics.{kind}",
            {name: {"labels": ["name"]}},
            ARS,
            f"spec.listenerMetrics.{kind}.{name}.labels",
            ["name"],
        )
        for kind, name in (
            ("counters", "gha_started_jobs_total"),
            ("gauges", "gha_idle_runners"),
            ("histograms", "gha_job_startup_duration_seconds"),
        )
    ),
    Row("template.metadata.labels", {"a": "b"}, ARS, "spec.template.metadata.labels.a", "b"),
    Row(
        "template.metadata.annotations",
        {"a": "b"},
        ARS,
        "spec.template.metadata.annotations.a",
        "b",
    ),
    Row("template.spec", {"dnsPolicy": "Default"}, ARS, "spec.template.spec.dnsPolicy", "Default"),
    Row(
        "controllerServiceAccount.name",
        "new",
        "RoleBinding",
        "subjects.0.name",
        "new",
    ),
    Row(
        "controllerServiceAccount.namespace",
        "new",
        "RoleBinding",
        "subjects.0.namespace",
        "new",
    ),
    Row("namespaceOverride", "elsewhere", ARS, "metadata.namespace", "elsewhere"),
    Row("labels", {"a": "b"}, "Role", "metadata.labels.a", "b"),
    Row("annotations", {"a": "b"}, "Role", "metadata.annotations.a", "b"),
    *meta_rows(),
]

NEEDED = {
    "githubConfigUrl": "https://github.com/my-org",
    "githubConfigSecret": "credentials",
    "controllerServiceAccount": {"name": "arc", "namespace": "arc-systems"},
}


def with_value(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    result = deepcopy(values)
    *parents, last = path.split(".")
    place = result
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return result


def found_at(documents: list[Document], row: Row) -> Any:
    kind, _, name = row.kind.partition("/")
    objects = [d for d in documents if d["kind"] == kind and name in ("", d.name)]
    if not objects:
        return ABSENT
    place: Any = objects[0]
    for step in filter(None, row.place.split(".")):
        try:
            place = place[int(step)] if step.isdigit() else place[step]
        except (LookupError, TypeError):
            return ABSENT
    return place


def fits(row: Row, found: Any) -> bool:
    if callable(row.wanted):
        return found is not ABSENT and bool(row.wanted(found))
    return bool(found is row.wanted or found == row.wanted)


ROWS = [("controller", row) for row in CONTROLLER_ROWS] + [
    ("scale-set", row) for row in SCALE_SET_ROWS
]


@pytest.mark.parametrize(
    ("short", "row"), ROWS, ids=lambda part: f"{part.path}" if isinstance(part, Row) else part
)
def test_a_value_changes_the_objects_where_the_contract_says(short: str, row: Row) -> None:
    chart, needed = (CONTROLLER, {}) if short == "controller" else (SCALE_SET, NEEDED)
    base = {**needed, **row.base}
    after = render(chart, with_value(base, row.path, row.value), release="rel")
    assert fits(row, found_at(after, row)), found_at(after, row)
    try:
        before = render(chart, base, release="rel")
    except RenderError:  # without the value it is refused: no change could be greater
        return
    assert not fits(row, found_at(before, row)), "the place is the same without the value"


def test_the_update_strategy_is_accepted_and_reaches_no_manager() -> None:
    plain = render(CONTROLLER, release="rel")
    for strategy in ("immediate", "eventual"):
        assert render(CONTROLLER, {"flags": {"updateStrategy": strategy}}, release="rel") == plain


def test_names_of_the_scale_set_chart_have_no_effect_as_ever() -> None:
    plain = render(SCALE_SET, NEEDED, release="rel")
    override = {"nameOverride": "x", "fullnameOverride": "y"}
    changed = render(SCALE_SET, {**NEEDED, **override}, release="rel")
    for one, other in zip(plain, changed, strict=True):
        # The hash is over all values, whatever they do (C3 2.4).
        one["metadata"].get("annotations", {}).pop(f"{GHA}values-hash", None)
        other["metadata"].get("annotations", {}).pop(f"{GHA}values-hash", None)
        assert one == other


# C3 1.2 and 2.2, each path as it is written there or, for a map with a section of its own, as
# that section names its parts.
OF_ARC = {
    "controller": """
        labels replicaCount image.repository image.pullPolicy image.tag imagePullSecrets
        nameOverride fullnameOverride env serviceAccount.create serviceAccount.annotations
        serviceAccount.name podAnnotations podLabels podSecurityContext securityContext resources
        nodeSelector tolerations affinity topologySpreadConstraints volumes volumeMounts
        priorityClassName metrics.controllerManagerAddr metrics.listenerAddr
        metrics.listenerEndpoint pprof.addr flags.logLevel flags.logFormat
        flags.watchSingleNamespace flags.runnerMaxConcurrentReconciles
        flags.excludeLabelPropagationPrefixes flags.rateLimiter.name flags.healthProbeBindAddress
        flags.k8sClientRateLimiterQPS flags.k8sClientRateLimiterBurst namespaceOverride
    """,
    "scale-set": """
        githubConfigUrl githubConfigSecret githubConfigSecret.github_token
        githubConfigSecret.github_app_id githubConfigSecret.github_app_installation_id
        githubConfigSecret.github_app_private_key scaleSetLabels runnerGroup runnerScaleSetName
        minRunners maxRunners proxy.http.url proxy.http.credentialSecretRef proxy.https.url
        proxy.https.credentialSecretRef proxy.noProxy githubServerTLS.certificateFrom
        githubServerTLS.certificateFrom.configMapKeyRef.name
        githubServerTLS.certificateFrom.configMapKeyRef.key githubServerTLS.runnerMountPath
        keyVault keyVault.type keyVault.proxy keyVault.azureKeyVault.url
        keyVault.azureKeyVault.tenantId keyVault.azureKeyVault.clientId
        keyVault.azureKeyVault.certificatePath containerMode.type
        containerMode.kubernetesModeWorkVolumeClaim containerMode.kubernetesModeAdditionalRoleRules
        listenerTemplate listenerMetrics.counters listenerMetrics.gauges
        listenerMetrics.histograms template.metadata.labels template.metadata.annotations
        template.spec controllerServiceAccount.name controllerServiceAccount.namespace
        namespaceOverride labels annotations
    """,
}
RESOURCE_META = """
    autoscalingRunnerSet githubConfigSecret kubernetesModeRole kubernetesModeRoleBinding
    kubernetesModeServiceAccount managerRole managerRoleBinding noPermissionServiceAccount
    autoscalingListener listenerServiceAccount listenerRole listenerRoleBinding
    listenerConfigSecret ephemeralRunnerSet ephemeralRunner ephemeralRunnerConfigSecret
"""
# Accepted and without effect: `flags.updateStrategy` and `nameOverride`, `fullnameOverride` (the
# tests above), and `keyVault.azureKeyVault.secretKey`, which the resource does not know (W-S10).
IGNORED = {
    "controller": {"flags.updateStrategy"},
    "scale-set": {
        "nameOverride",
        "fullnameOverride",
        "keyVault.azureKeyVault.secretKey",
        "keyVault.azureKeyVault.secret_key",
        "keyVault.azure_key_vault.secretKey",
        "keyVault.azure_key_vault.secret_key",
    },
}
# What the schemas know beyond C3: values of ours, ARC's later ones (C3 5.4), the other spelling
# of the vault (W-S10), and the parts of maps whose form is told once.
OURS = {
    "controller": r"(additions|networkPolicy|podMonitor|serviceMonitor|prometheusRule)(\..*)?"
    r"|global|flags\.\w+MaxConcurrentReconciles",
    "scale-set": r"additions(\..*)?|global|keyVault\.azure_key_vault(\..*)?"
    r"|keyVault\.azureKeyVault\.[a-z]+_[a-z]+|keyVault\.proxy\..*|listenerMetrics\.\w+\.\w+(\.\w+)?",
}


def paths_of_arc(short: str) -> set[str]:
    paths = set(OF_ARC[short].split())
    if short == "scale-set":
        halves = ("labels", "annotations")
        paths |= {f"resourceMeta.{key}.{half}" for key in RESOURCE_META.split() for half in halves}
    return paths


@pytest.mark.parametrize("short", ["controller", "scale-set"])
def test_no_value_of_arc_is_unsupported(short: str) -> None:
    proven = {row.path for where, row in ROWS if where == short}
    assert sorted(paths_of_arc(short) - proven) == []
    assert sorted(proven - paths_of_arc(short)) == []


@pytest.mark.parametrize("short", ["controller", "scale-set"])
def test_every_other_known_value_is_said_to_be_ours(short: str) -> None:
    arc = paths_of_arc(short)
    nodes = {".".join(path): node for path, node in charts()[short].paths()}
    assert {path for path, node in nodes.items() if ignored(node)} == IGNORED[short]
    parents = {path[: dot.start()] for path in arc for dot in re.finditer(r"\.", path)}
    others = set(nodes) - arc - parents - IGNORED[short]
    assert sorted(path for path in others if not re.fullmatch(OURS[short], path)) == []
    # The keys of githubConfigSecret stand in a map that takes any key.
    free = {path for path in arc if path.startswith("githubConfigSecret.")}
    assert sorted(arc - free - set(nodes)) == []
