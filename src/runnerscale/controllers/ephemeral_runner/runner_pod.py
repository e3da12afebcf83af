"""The runner's pod, made from the template in the EphemeralRunner. Pure.

The template's spec is taken as it is; only containers named `runner` get more environment
variables, behind the user's own. What the template leaves open is the API server's to fill in, but
for `restartPolicy`: the API's own default starts a runner that has ended again, with a spent JIT
config, and tells of each in a Warning. Contract: resources-and-controllers 3.13; design section 3.
"""

from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EphemeralRunner, EphemeralRunnerSpec
from runnerscale.api.values import read
from runnerscale.controllers.ephemeral_runner.jit_secret import JIT_TOKEN, owner_reference
from runnerscale.controllers.ephemeral_runner.pod_view import RUNNER_CONTAINER
from runnerscale.controllers.metadata import merge_annotations, merge_labels
from runnerscale.kube.objects import Body

ENV_JIT_CONFIG = "ACTIONS_RUNNER_INPUT_JITCONFIG"
ENV_USER_AGENT = "GITHUB_ACTIONS_RUNNER_EXTRA_USER_AGENT"
ENV_EXIT_CODE = "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"
ENV_HOOKS = "ACTIONS_RUNNER_CONTAINER_HOOKS"
# The runner reports it to GitHub, which knows this name: not ours to change.
USER_AGENT = "actions-runner-controller/"


class NoRunnerContainer(Exception):
    """The template has no container named `runner`."""


def runner_pod(runner: EphemeralRunner, *, build_version: str, template_hash: str) -> Body:
    """The body to create.

    Raises:
        NoRunnerContainer: nothing would ever run a job.
    """
    spec = read(runner.spec.spec)
    containers = _containers(spec)
    if not any(item.get("name") == RUNNER_CONTAINER for item in containers):
        raise NoRunnerContainer(
            f"spec.containers has no container named {RUNNER_CONTAINER!r}: name the one that "
            "runs the GitHub runner so"
        )
    extra = _environment(runner, build_version)
    spec["containers"] = [_with_environment(item, extra) for item in containers]
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Never"
    template = read(runner.spec.metadata)
    fixed = {
        keys.EPHEMERAL_RUNNER: keys.EPHEMERAL_RUNNER_VALUE,
        keys.POD_TEMPLATE_HASH: template_hash,
    }
    labels = merge_labels(runner.metadata.labels, _pairs(template.get("labels")))
    annotations = merge_annotations(
        runner.metadata.annotations, _pairs(template.get("annotations"))
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": runner.metadata.name,
            "namespace": runner.metadata.namespace,
            "labels": {**labels, **fixed},
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_reference(runner)],
        },
        "spec": spec,
    }


def work_folder(spec: EphemeralRunnerSpec) -> str:
    """The runner container's working directory, as the JIT config wants to know it."""
    for item in _containers(read(spec.spec)):
        if item.get("name") == RUNNER_CONTAINER:
            folder = item.get("workingDir")
            return folder if isinstance(folder, str) else ""
    return ""


def uses_hooks(spec: EphemeralRunnerSpec) -> bool:
    """Whether the runner makes pods and Secrets of its own, which nobody else deletes."""
    return any(
        isinstance(variable, dict) and variable.get("name") == ENV_HOOKS
        for item in _containers(read(spec.spec))
        if item.get("name") == RUNNER_CONTAINER
        for variable in item.get("env") or ()
    )


def _pairs(found: Any) -> dict[str, str] | None:
    return found if isinstance(found, dict) else None


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found = spec.get("containers")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _with_environment(container: dict[str, Any], extra: list[Body]) -> dict[str, Any]:
    if container.get("name") != RUNNER_CONTAINER:
        return container
    return {**container, "env": [*(container.get("env") or ()), *extra]}


def _environment(runner: EphemeralRunner, build_version: str) -> list[Body]:
    name = runner.metadata.name or ""
    extra: list[Body] = [
        _from_secret(ENV_JIT_CONFIG, secret=name, key=JIT_TOKEN),
        {"name": ENV_USER_AGENT, "value": USER_AGENT + build_version},
        {"name": ENV_EXIT_CODE, "value": "1"},
    ]
    proxy, proxies = runner.spec.proxy, runner.spec.proxy_secret_ref
    if proxies and proxy is not None:
        parts = {
            "http_proxy": proxy.http is not None,
            "https_proxy": proxy.https is not None,
            "no_proxy": bool(proxy.no_proxy),
        }
        extra += [
            _from_secret(key, secret=proxies, key=key) for key, is_set in parts.items() if is_set
        ]
    return extra


def _from_secret(variable: str, *, secret: str, key: str) -> Body:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
