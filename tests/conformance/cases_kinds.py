"""Our own four kinds: their CRDs as stored, what is refused, how they print, how they change."""

from typing import Any

from tests.conformance.cases_objects import delete, get, patch, post
from tests.conformance.transcript import JSON_PATCH, TABLE, Case, Step

Json = dict[str, Any]

API = "/apis/actions.github.com/v1alpha1/namespaces/{ns}"
SETS = f"{API}/autoscalingrunnersets"
LISTENERS = f"{API}/autoscalinglisteners"
RUNNER_SETS = f"{API}/ephemeralrunnersets"
RUNNERS = f"{API}/ephemeralrunners"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
URL = "https://github.com/acme/widgets"
POD_SPEC: Json = {"containers": [{"name": "runner", "image": "runner:1", "anything": {"x": [1]}}]}
CONDITION: Json = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "reason": "Registered",
    "message": "",
}


def thing(kind: str, name: str, spec: Json, **more: Any) -> Json:
    meta = {"name": name, **more.pop("metadata", {})}
    body = {"apiVersion": "actions.github.com/v1alpha1", "kind": kind, "metadata": meta}
    return {**body, "spec": spec, **more}


def runner_set(name: str = "s", **spec: Any) -> Json:
    given = {"githubConfigUrl": URL, "githubConfigSecret": "secret", **spec}
    return thing("AutoscalingRunnerSet", name, {"template": {"spec": POD_SPEC}, **given})


def listener(**spec: Any) -> Json:
    return thing("AutoscalingListener", "l", {"githubConfigUrl": URL, **spec})


def ephemeral_set(**spec: Any) -> Json:
    return thing("EphemeralRunnerSet", "e", {"patchID": 0, **spec})


def runner(name: str = "r", **spec: Any) -> Json:
    needed = {"githubConfigSecret": "secret", "githubConfigUrl": URL, "runnerScaleSetId": 7}
    return thing("EphemeralRunner", name, {**needed, "spec": POD_SPEC, **spec})


def without(document: Json, *names: str) -> Json:
    spec = {name: value for name, value in document["spec"].items() if name not in names}
    return {**document, "spec": spec}


def status(path: str, **fields: Any) -> Step:
    return patch(f"{path}/status", {"status": fields})


CASES = (
    Case(
        "our_crds_as_stored",
        tuple(
            get(f"{CRDS}/{plural}.actions.github.com")
            for plural in (
                "autoscalinglisteners",
                "autoscalingrunnersets",
                "ephemeralrunners",
                "ephemeralrunnersets",
            )
        ),
    ),
    Case(
        "our_kinds_are_discovered",
        (
            get("/apis/actions.github.com"),
            get("/apis/actions.github.com/v1alpha1"),
            get("/apis/actions.github.com/v1alpha1/ephemeralrunners"),
        ),
    ),
    Case(
        "a_runner_set_of_ours",
        (
            post(SETS, runner_set(minRunners=1, maxRunners=5, unknown={"deep": 1})),
            post(SETS, runner_set("x" * 46)),
            post(SETS, runner_set("no", minRunners=-1)),
            post(SETS, runner_set("no", minRunners=5, maxRunners=1)),
            post(SETS, runner_set("no", maxRunners="many")),
            post(SETS, runner_set("no", githubConfigUrl="ftp://x")),
            post(SETS, runner_set("no", githubConfigUrl="x" * 2049)),
            post(SETS, runner_set("no", template={"spec": {}})),
            post(SETS, runner_set("no", template={"spec": {"containers": [{"image": "x"}]}})),
            post(SETS, runner_set("no", vaultConfig={"azureKeyVault": {"url": "x"}})),
            post(
                SETS,
                runner_set("no", githubServerTLS={"certificateFrom": {"configMapKeyRef": {}}}),
            ),
            post(
                SETS,
                runner_set(
                    "tls", githubServerTLS={"certificateFrom": {"configMapKeyRef": {"key": "c"}}}
                ),
            ),
            patch(f"{SETS}/s", {"spec": {"minRunners": 9}}),
            patch(f"{SETS}/s", {"spec": {"minRunners": 2}}),
            patch(
                f"{SETS}/s",
                {"metadata": {"annotations": {"runner-scale-set-id": "7"}, "finalizers": ["a/b"]}},
            ),
            status(f"{SETS}/s", currentRunners=3, phase="Running", runningEphemeralRunners=2),
            status(f"{SETS}/s", conditions=[CONDITION]),
            status(f"{SETS}/s", conditions=[CONDITION, CONDITION]),
            status(f"{SETS}/s", conditions=[{**CONDITION, "status": "Maybe"}]),
            status(f"{SETS}/s", conditions=[{**CONDITION, "reason": ""}]),
            status(f"{SETS}/s", conditions=[{**CONDITION, "lastTransitionTime": "soon"}]),
            status(f"{SETS}/s", conditions=[{"type": "Ready"}]),
            get(f"{SETS}/s", accept=TABLE),
            get(SETS, accept=TABLE, query={"includeObject": "Object"}),
            delete(f"{SETS}/s", {"propagationPolicy": "Foreground"}),
            patch(f"{SETS}/s", {"metadata": {"finalizers": None}}),
            get(SETS),
        ),
    ),
    Case(
        "a_listener_of_ours",
        (
            post(
                LISTENERS,
                listener(
                    autoscalingRunnerSetName="s",
                    autoscalingRunnerSetNamespace="{ns}",
                    ephemeralRunnerSetName="e",
                    runnerScaleSetId=7,
                    minRunners=0,
                    maxRunners=5,
                    image="listener:1",
                    imagePullSecrets=[{"name": "pull"}, {}],
                    template={"spec": POD_SPEC},
                ),
            ),
            post(LISTENERS, listener(maxRunners=-1)),
            post(LISTENERS, listener(imagePullSecrets="pull")),
            get(f"{LISTENERS}/l", accept=TABLE),
            status(f"{LISTENERS}/l", reason="ListenerFailing", message="why"),
            get(LISTENERS, accept=TABLE),
            delete(f"{LISTENERS}/l"),
        ),
    ),
    Case(
        "an_ephemeral_runner_set_of_ours",
        (
            post(RUNNER_SETS, without(ephemeral_set(), "patchID")),
            post(RUNNER_SETS, ephemeral_set(ephemeralRunnerSpec={"githubConfigUrl": URL})),
            post(RUNNER_SETS, ephemeral_set(replicas=2, ephemeralRunnerSpec=runner()["spec"])),
            # What a listener writes with every decision.
            patch(f"{RUNNER_SETS}/e", {"spec": {"replicas": 4, "patchID": 3}}),
            patch(f"{RUNNER_SETS}/e", {"spec": {"replicas": 4, "patchID": 3}}),
            status(f"{RUNNER_SETS}/e", pendingEphemeralRunners=1),
            status(f"{RUNNER_SETS}/e", currentReplicas=4, pendingEphemeralRunners=1),
            get(f"{RUNNER_SETS}/e", accept=TABLE),
            get(f"{RUNNER_SETS}/e", query={"resourceVersion": "0"}),
        ),
    ),
    Case(
        "an_ephemeral_runner_of_ours",
        (
            post(RUNNERS, without(runner(), "runnerScaleSetId")),
            post(RUNNERS, runner(spec={"containers": [{"name": 5}]})),
            post(RUNNERS, runner(), save={"rv": "metadata.resourceVersion"}),
            # A listener writes what job a runner has, whatever version it has seen.
            status(
                f"{RUNNERS}/r",
                phase="Running",
                jobRequestId=12345678901,
                workflowRunId=98765432101,
                jobRepositoryName="acme/widgets",
                jobDisplayName="build",
                jobId="6e07e0a8-0000-4000-8000-000000000000",
            ),
            patch(
                f"{RUNNERS}/r/status",
                {"metadata": {"resourceVersion": "{rv}"}, "status": {"phase": "Pending"}},
            ),
            status(f"{RUNNERS}/r", jobRequestId="many"),
            status(f"{RUNNERS}/r", failures={"a-uid": True}, ready=True, runnerId=5),
            patch(
                f"{RUNNERS}/r/status",
                [
                    {"op": "test", "path": "/status/phase", "value": "Running"},
                    {"op": "replace", "path": "/status/phase", "value": "Failed"},
                ],
                JSON_PATCH,
            ),
            get(f"{RUNNERS}/r", accept=TABLE),
            get(RUNNERS, query={"labelSelector": "actions.github.com/scale-set-name=s"}),
            delete(f"{RUNNERS}/r", query={"dryRun": "All"}),
            delete(RUNNERS, {"propagationPolicy": "Background"}),
            get(RUNNERS, query={"limit": "500"}),
        ),
    ),
)
