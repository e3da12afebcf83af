"""A live installation, object by object, as ARC's controllers wrote it.

What Go does on the way is in it: quantities spelled anew, zeros left out, empty structs written,
hashes that nobody but ARC can make. Contract: resources-and-controllers 2 and 3.
"""

import base64
import copy
import json
from dataclasses import dataclass, field
from typing import Any

from runnerscale.api.names import listener_name

Body = dict[str, Any]

API = "actions.github.com/v1alpha1"
LISTENER_IMAGE = "ghcr.io/actions/gha-runner-scale-set-controller:0.14.2"

# What a user writes, in the spellings that people use, and what ARC makes of it.
TEMPLATE: Body = {
    "spec": {
        "restartPolicy": "Never",
        "serviceAccountName": "set-gha-rs-no-permission",
        "containers": [
            {
                "name": "runner",
                "image": "ghcr.io/actions/actions-runner:latest",
                "command": ["/home/runner/run.sh"],
                "env": [{"name": "EMPTY", "value": ""}],
                "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
                "volumeMounts": [{"name": "work", "mountPath": "/work", "readOnly": False}],
            }
        ],
        "initContainers": [
            {
                "name": "dind",
                "image": "docker:dind",
                "restartPolicy": "Always",
                "securityContext": {"privileged": True},
                "startupProbe": {
                    "exec": {"command": ["docker", "info"]},
                    "initialDelaySeconds": 0,
                    "failureThreshold": 24,
                    "periodSeconds": 5,
                },
            }
        ],
        "volumes": [{"name": "work", "emptyDir": {}}],
    }
}
GIVEN_BACK: Body = {
    "metadata": {},
    "spec": {
        "restartPolicy": "Never",
        "serviceAccountName": "set-gha-rs-no-permission",
        "containers": [
            {
                "name": "runner",
                "image": "ghcr.io/actions/actions-runner:latest",
                "command": ["/home/runner/run.sh"],
                "env": [{"name": "EMPTY"}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                "volumeMounts": [{"name": "work", "mountPath": "/work"}],
            }
        ],
        "initContainers": [
            {
                "name": "dind",
                "image": "docker:dind",
                "restartPolicy": "Always",
                "resources": {},
                "securityContext": {"privileged": True},
                "startupProbe": {
                    "exec": {"command": ["docker", "info"]},
                    "failureThreshold": 24,
                    "periodSeconds": 5,
                },
            }
        ],
        "volumes": [{"name": "work", "emptyDir": {}}],
    },
}


@dataclass(frozen=True)
class Arc:
    """One scale set of an installation."""

    name: str = "set"
    namespace: str = "arc-runners"
    home: str = "arc-systems"
    url: str = "https://github.com/octo-org/octo-repo"
    secret: str = "set-gha-rs-github-secret"
    scale_set_id: int = 7
    group: str = "Default"
    version: str = "0.14.2"
    minimum: int = 0
    maximum: int | None = None
    template: Body = field(default_factory=lambda: TEMPLATE)
    given_back: Body = field(default_factory=lambda: GIVEN_BACK)
    listener_image: str = LISTENER_IMAGE
    # Any values of the form that ARC's hashes have (C1 2.7).
    set_hash: str = "7c8d45f6b9"
    listener_hash: str = "66f4b5c8d7"

    # --- names --------------------------------------------------------------------------------

    @property
    def listener(self) -> str:
        """Of the AutoscalingListener and most of what belongs to it."""
        return listener_name(
            namespace=self.namespace, runner_set=self.name, runner_group="", config_url=self.url
        )

    @property
    def manager(self) -> str:
        """Of the Role and binding that give the controller its rights beside the runners."""
        return f"{self.name}-gha-rs-manager"

    @property
    def _url_labels(self) -> dict[str, str]:
        _, _, path = self.url.partition("://")
        parts = path.split("/")[1:]
        names = ("actions.github.com/organization", "actions.github.com/repository")
        return dict(zip(names, parts, strict=False))

    @property
    def _scale_set_labels(self) -> dict[str, str]:
        return {
            "actions.github.com/scale-set-name": self.name,
            "actions.github.com/scale-set-namespace": self.namespace,
        }

    @property
    def chart_labels(self) -> dict[str, str]:
        """What the chart writes on the runner set (C3 2.4)."""
        return {
            "helm.sh/chart": f"gha-rs-{self.version}",
            "app.kubernetes.io/name": self.name,
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/version": self.version,
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/part-of": "gha-rs",
            "app.kubernetes.io/component": "autoscaling-runner-set",
            **self._scale_set_labels,
        }

    def _labels(self, component: str) -> dict[str, str]:
        return {
            **self.chart_labels,
            **self._url_labels,
            "app.kubernetes.io/part-of": "gha-runner-scale-set",
            "app.kubernetes.io/component": component,
        }

    # --- the four kinds -----------------------------------------------------------------------

    def runner_set(self) -> Body:
        """The AutoscalingRunnerSet, registered and settled."""
        spec: Body = {
            "githubConfigUrl": self.url,
            "githubConfigSecret": self.secret,
            "runnerScaleSetName": self.name,
            "template": copy.deepcopy(self.template),
        }
        if self.minimum:
            spec["minRunners"] = self.minimum
        if self.maximum is not None:
            spec["maxRunners"] = self.maximum
        return {
            "apiVersion": API,
            "kind": "AutoscalingRunnerSet",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {**self.chart_labels, **self._url_labels},
                "annotations": {
                    "actions.github.com/values-hash": "0" * 63,
                    "actions.github.com/cleanup-github-secret-name": self.secret,
                    "actions.github.com/cleanup-manager-role-binding": self.manager,
                    "actions.github.com/cleanup-manager-role-name": self.manager,
                    "runner-scale-set-id": str(self.scale_set_id),
                    "actions.github.com/runner-scale-set-name": self.name,
                    "actions.github.com/runner-group-name": self.group,
                    "actions.github.com/integrity-hash": "5d6b7c8f4b",
                },
                "finalizers": ["autoscalingrunnerset.actions.github.com/finalizer"],
            },
            "spec": spec,
        }

    def runner_spec(self) -> Body:
        """What an EphemeralRunnerSet says of its runners (C1 3.10)."""
        return {
            "githubConfigUrl": self.url,
            "githubConfigSecret": self.secret,
            "runnerScaleSetId": self.scale_set_id,
            **copy.deepcopy(self.given_back),
        }

    def ephemeral_runner_set(
        self, owner_uid: str, *, replicas: int = 0, patch_id: int = 0, name: str = ""
    ) -> Body:
        """The EphemeralRunnerSet as its last patch left it."""
        spec: Body = {"patchID": patch_id, "ephemeralRunnerSpec": self.runner_spec()}
        if replicas:  # a zero is dropped on write
            spec["replicas"] = replicas
        return {
            "apiVersion": API,
            "kind": "EphemeralRunnerSet",
            "metadata": {
                "name": name or self.name,
                "namespace": self.namespace,
                "labels": self._labels("runner-set"),
                "annotations": self._set_annotations(),
                "finalizers": ["ephemeralrunnerset.actions.github.com/finalizer"],
                "ownerReferences": [_owner("AutoscalingRunnerSet", self.name, owner_uid)],
            },
            "spec": spec,
        }

    def _set_annotations(self) -> dict[str, str]:
        return {
            "actions.github.com/runner-group-name": self.group,
            "actions.github.com/runner-scale-set-name": self.name,
            "actions.github.com/integrity-hash": self.set_hash,
        }

    def ephemeral_runner(self, name: str, owner_uid: str, *, patch_id: int = 0) -> Body:
        """An EphemeralRunner; its status goes through the subresource."""
        return {
            "apiVersion": API,
            "kind": "EphemeralRunner",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "generateName": f"{self.name}-runner-",
                "labels": self._labels("runner"),
                "annotations": {
                    **self._set_annotations(),
                    "actions.github.com/patch-id": str(patch_id),
                },
                "finalizers": [
                    "ephemeralrunner.actions.github.com/finalizer",
                    "ephemeralrunner.actions.github.com/runner-registration-finalizer",
                ],
                "ownerReferences": [_owner("EphemeralRunnerSet", self.name, owner_uid)],
            },
            "spec": self.runner_spec(),
        }

    def autoscaling_listener(self) -> Body:
        """The AutoscalingListener; a zero minimum is dropped on write."""
        spec: Body = {
            "githubConfigUrl": self.url,
            "githubConfigSecret": self.secret,
            "runnerScaleSetId": self.scale_set_id,
            "autoscalingRunnerSetNamespace": self.namespace,
            "autoscalingRunnerSetName": self.name,
            "ephemeralRunnerSetName": self.name,
            "maxRunners": 2147483647 if self.maximum is None else self.maximum,
            "image": self.listener_image,
        }
        if self.minimum:
            spec["minRunners"] = self.minimum
        return {
            "apiVersion": API,
            "kind": "AutoscalingListener",
            "metadata": {
                "name": self.listener,
                "namespace": self.home,
                "labels": self._labels("runner-scale-set-listener"),
                "annotations": {"actions.github.com/integrity-hash": self.listener_hash},
                "finalizers": ["autoscalinglistener.actions.github.com/finalizer"],
            },
            "spec": spec,
        }

    # --- what belongs to the listener ---------------------------------------------------------

    def service_account(self, owner_uid: str) -> Body:
        """C1 3.2."""
        return {
            "metadata": {
                "name": self.listener,
                "namespace": self.home,
                "labels": self._labels("runner-scale-set-listener"),
                "annotations": {"actions.github.com/integrity-hash": "766b77d4ff"},
                "ownerReferences": [_owner("AutoscalingListener", self.listener, owner_uid)],
            }
        }

    def role(self, *, may_get: bool = True) -> Body:
        """C1 3.3; `may_get` False: as before the listener owned `Running`."""
        group = ["actions.github.com"]
        rules: list[Body] = [
            {
                "apiGroups": group,
                "resources": ["ephemeralrunnersets"],
                "resourceNames": [self.name],
                "verbs": ["patch"],
            }
        ]
        if may_get:
            rules += [
                {"apiGroups": group, "resources": ["ephemeralrunners"], "verbs": ["get", "patch"]},
                {"apiGroups": group, "resources": ["ephemeralrunners/status"], "verbs": ["patch"]},
            ]
        else:
            both = ["ephemeralrunners", "ephemeralrunners/status"]
            rules.append({"apiGroups": group, "resources": both, "verbs": ["patch"]})
        return {"metadata": self._mapped("7f4d5c6b88"), "rules": rules}

    def role_binding(self) -> Body:
        """C1 3.4."""
        return {
            "metadata": self._mapped("5c8d7b6f99"),
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": self.listener,
            },
            "subjects": [{"kind": "ServiceAccount", "name": self.listener, "namespace": self.home}],
        }

    def _mapped(self, stamp: str) -> Body:
        return {
            "name": self.listener,
            "namespace": self.namespace,
            "labels": {
                **self._labels("runner-scale-set-listener"),
                "auto-scaling-listener-namespace": self.home,
                "auto-scaling-listener-name": self.listener,
            },
            "annotations": {"actions.github.com/integrity-hash": stamp},
        }

    def config(self, **members: Any) -> bytes:
        """config.json, byte for byte (C1 3.5); `members` over its own."""
        content: Body = {
            "configure_url": self.url,
            "vault_type": "",
            "vault_lookup_key": "",
            "github_app_id": "",
            "github_app_installation_id": 0,
            "github_app_private_key": "",
            "github_token": "github-token",
            "ephemeral_runner_set_namespace": self.namespace,
            "ephemeral_runner_set_name": self.name,
            "max_runners": 2147483647 if self.maximum is None else self.maximum,
            "min_runners": self.minimum,
            "runner_scale_set_id": self.scale_set_id,
            "runner_scale_set_name": self.name,
            "server_root_ca": "",
            "log_level": "debug",
            "log_format": "text",
            "metrics_addr": "",
            "metrics_endpoint": "",
            "metrics": None,
        }
        text = json.dumps(content | members, separators=(",", ":"), ensure_ascii=False)
        for char in "<>&":
            text = text.replace(char, f"\\u00{ord(char):x}")
        return text.encode() + b"\n"

    def config_secret(self, owner_uid: str, **members: Any) -> Body:
        """The Secret that it lies in."""
        data = base64.b64encode(self.config(**members)).decode()
        return {
            "metadata": {
                "name": f"{self.listener}-config",
                "namespace": self.home,
                "annotations": {"actions.github.com/integrity-hash": "8b9c4d5f66"},
                "ownerReferences": [_owner("AutoscalingListener", self.listener, owner_uid)],
            },
            "type": "Opaque",
            "data": {"config.json": data},
        }

    def listener_pod(self, owner_uid: str) -> Body:
        """C1 3.8, without a template."""
        return {
            "metadata": {
                "name": self.listener,
                "namespace": self.home,
                "labels": self._labels("runner-scale-set-listener"),
                "annotations": {"actions.github.com/integrity-hash": "9d4c5b6f77"},
                "ownerReferences": [_owner("AutoscalingListener", self.listener, owner_uid)],
            },
            "spec": {
                "serviceAccountName": self.listener,
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 60,
                "containers": [
                    {
                        "name": "listener",
                        "image": self.listener_image,
                        "command": ["/ghalistener"],
                        "env": [
                            {
                                "name": "LISTENER_CONFIG_PATH",
                                "value": "/etc/gha-listener/config.json",
                            }
                        ],
                        "volumeMounts": [
                            {
                                "name": "listener-config",
                                "mountPath": "/etc/gha-listener",
                                "readOnly": True,
                            }
                        ],
                    }
                ],
                "volumes": [
                    {
                        "name": "listener-config",
                        "secret": {"secretName": f"{self.listener}-config"},
                    }
                ],
            },
        }

    # --- what belongs to a runner -------------------------------------------------------------

    def jit_secret(self, name: str, owner_uid: str, *, runner_id: int, jit: str) -> Body:
        """C1 3.12."""
        data = {
            "jitToken": jit,
            "runnerName": name,
            "runnerId": str(runner_id),
            "scaleSetId": str(self.scale_set_id),
        }
        return {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "ownerReferences": [_owner("EphemeralRunner", name, owner_uid)],
            },
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
        }

    def runner_pod(self, name: str, owner_uid: str, *, patch_id: int = 0) -> Body:
        """C1 3.13."""
        spec = copy.deepcopy(self.given_back["spec"])
        secret = {"secretKeyRef": {"name": name, "key": "jitToken"}}
        for container in spec["containers"]:
            if container["name"] == "runner":
                container["env"] = [
                    *container.get("env", ()),
                    {"name": "ACTIONS_RUNNER_INPUT_JITCONFIG", "valueFrom": secret},
                    {
                        "name": "GITHUB_ACTIONS_RUNNER_EXTRA_USER_AGENT",
                        "value": f"actions-runner-controller/{self.version}",
                    },
                    {
                        "name": "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE",
                        "value": "1",
                    },
                ]
        runner = self.ephemeral_runner(name, "", patch_id=patch_id)["metadata"]
        return {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {
                    **runner["labels"],
                    "actions-ephemeral-runner": "True",
                    "pod-template-hash": "cd755dd46",
                },
                "annotations": runner["annotations"],
                "ownerReferences": [_owner("EphemeralRunner", name, owner_uid)],
            },
            "spec": spec,
        }


def _owner(kind: str, name: str, uid: str) -> Body:
    return {
        "apiVersion": API,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
