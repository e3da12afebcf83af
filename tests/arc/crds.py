"""ARC's four CRDs, closed: what is not in the contract's tables is pruned (C1 1.1 to 1.6).

No conditions, no reasons on sets, no fields of ours, nothing but what its controllers write. Pod
specs are open here where ARC spells out every field of Kubernetes: what they prune is newer than
either of us.
"""

from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
STRINGS: Schema = {"type": "array", "items": STRING}
MAP: Schema = {"type": "object", "additionalProperties": STRING}


def closed(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """An object of exactly these."""
    schema: Schema = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


META = closed(labels=MAP, annotations=MAP)
SERVER = closed(url=STRING, credentialSecretRef=STRING)
PROXY = closed(http=SERVER, https=SERVER, noProxy=STRINGS)
KEY_REFERENCE = closed(
    ("key",), name={"type": "string", "default": ""}, key=STRING, optional={"type": "boolean"}
)
TLS = closed(certificateFrom=closed(configMapKeyRef=KEY_REFERENCE))
AZURE_FIELDS = ("certificatePath", "clientId", "tenantId", "url")
AZURE = closed(AZURE_FIELDS, **dict.fromkeys(AZURE_FIELDS, STRING))
VAULT = closed(type=STRING, azureKeyVault=AZURE, proxy=PROXY)
SERIES: Schema = {"type": "object", "additionalProperties": closed(("labels",), labels=STRINGS)}
HISTOGRAMS: Schema = {
    "type": "object",
    "additionalProperties": closed(
        ("labels",), labels=STRINGS, buckets={"type": "array", "items": {"type": "number"}}
    ),
}
METRICS = closed(counters=SERIES, gauges=SERIES, histograms=HISTOGRAMS)
PORT: Schema = {
    "type": "object",
    "properties": {"protocol": {"type": "string", "default": "TCP"}},
    "x-kubernetes-preserve-unknown-fields": True,
}
CONTAINER: Schema = {
    "type": "object",
    "properties": {"name": STRING, "ports": {"type": "array", "items": PORT}},
    "required": ["name"],
    "x-kubernetes-preserve-unknown-fields": True,
}
POD_SPEC: Schema = {
    "type": "object",
    "required": ["containers"],
    "properties": {"containers": {"type": "array", "items": CONTAINER}},
    "x-kubernetes-preserve-unknown-fields": True,
}
POD_META = closed(labels=MAP, annotations=MAP, finalizers=STRINGS, name=STRING, namespace=STRING)
POD = closed(metadata=POD_META, spec=POD_SPEC)
COUNTER: Schema = {"type": "integer", "minimum": 0}

RUNNER_SPEC = closed(
    ("githubConfigSecret", "githubConfigUrl", "runnerScaleSetId"),
    githubConfigUrl=STRING,
    githubConfigSecret=STRING,
    githubServerTLS=TLS,
    runnerScaleSetId=INTEGER,
    proxy=PROXY,
    proxySecretRef=STRING,
    vaultConfig=VAULT,
    ephemeralRunnerConfigSecretMetadata=META,
    metadata=POD_META,
    spec=POD_SPEC,
)
COUNTS = {
    "pendingEphemeralRunners": INTEGER,
    "runningEphemeralRunners": INTEGER,
    "failedEphemeralRunners": INTEGER,
    "phase": STRING,
}

KINDS: dict[str, tuple[str, Schema, Schema]] = {
    "autoscalingrunnersets": (
        "AutoscalingRunnerSet",
        closed(
            githubConfigUrl=STRING,
            githubConfigSecret=STRING,
            runnerGroup=STRING,
            runnerScaleSetName=STRING,
            runnerScaleSetLabels=STRINGS,
            proxy=PROXY,
            githubServerTLS=TLS,
            vaultConfig=VAULT,
            template=POD,
            autoscalingListener=META,
            listenerMetrics=METRICS,
            listenerTemplate=POD,
            listenerServiceAccountMetadata=META,
            listenerRoleMetadata=META,
            listenerRoleBindingMetadata=META,
            listenerConfigSecretMetadata=META,
            ephemeralRunnerSetMetadata=META,
            ephemeralRunnerMetadata=META,
            ephemeralRunnerConfigSecretMetadata=META,
            maxRunners=COUNTER,
            minRunners=COUNTER,
        ),
        closed(currentRunners=INTEGER, **COUNTS),
    ),
    "autoscalinglisteners": (
        "AutoscalingListener",
        closed(
            githubConfigUrl=STRING,
            githubConfigSecret=STRING,
            runnerScaleSetId=INTEGER,
            autoscalingRunnerSetNamespace=STRING,
            autoscalingRunnerSetName=STRING,
            ephemeralRunnerSetName=STRING,
            maxRunners=COUNTER,
            minRunners=COUNTER,
            image=STRING,
            imagePullSecrets={
                "type": "array",
                "items": closed(name={"type": "string", "default": ""}),
            },
            proxy=PROXY,
            githubServerTLS=TLS,
            vaultConfig=VAULT,
            metrics=METRICS,
            template=POD,
            configSecretMetadata=META,
            serviceAccountMetadata=META,
            roleMetadata=META,
            roleBindingMetadata=META,
        ),
        {"type": "object"},
    ),
    "ephemeralrunnersets": (
        "EphemeralRunnerSet",
        closed(
            ("patchID",),
            replicas=INTEGER,
            patchID=INTEGER,
            ephemeralRunnerSpec=RUNNER_SPEC,
            ephemeralRunnerMetadata=META,
        ),
        closed(("currentReplicas",), currentReplicas=INTEGER, **COUNTS),
    ),
    "ephemeralrunners": (
        "EphemeralRunner",
        RUNNER_SPEC,
        closed(
            ready={"type": "boolean"},
            phase=STRING,
            reason=STRING,
            message=STRING,
            runnerId=INTEGER,
            runnerName=STRING,
            failures={
                "type": "object",
                "additionalProperties": {"type": "string", "format": "date-time"},
            },
            jobRequestId={"type": "integer", "format": "int64"},
            jobId=STRING,
            jobRepositoryName=STRING,
            jobWorkflowRef=STRING,
            workflowRunId={"type": "integer", "format": "int64"},
            jobDisplayName=STRING,
        ),
    ),
}


def crd(plural: str) -> Schema:
    """One of the four."""
    kind, spec, status = KINDS[plural]
    root = closed(
        apiVersion=STRING, kind=STRING, metadata={"type": "object"}, spec=spec, status=status
    )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.actions.github.com",
            "annotations": {"controller-gen.kubebuilder.io/version": "v0.20.1"},
        },
        "spec": {
            "group": "actions.github.com",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


def write_crds(folder: Path) -> Path:
    """All four as files, for kubectl."""
    folder.mkdir(parents=True, exist_ok=True)
    for plural in KINDS:
        (folder / f"{plural}.yaml").write_text(yaml.safe_dump(crd(plural)))
    return folder
