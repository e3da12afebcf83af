"""AutoscalingRunnerSet (ARS): what a user writes; one scale set at GitHub, one listener.

Fields only. What is done about them is in `controllers/autoscaling_runner_set/`; the CRD is
generated from here by `crds.py`. Contract: resources-and-controllers 1.3.
"""

from typing import Annotated

import msgspec

from runnerscale.api.values import (
    CONDITIONS,
    GROUP,
    VERSION,
    MetricsConfig,
    PodTemplate,
    ProxyConfig,
    ResourceMeta,
    TLSConfig,
    VaultConfig,
    doc,
)
from runnerscale.kube.objects import Condition, KubeObject
from runnerscale.kube.resource import Resource

# An absent maxRunners: as many as the listener can count.
MAX_RUNNERS_UNLIMITED = 2147483647

CONFIG_URL_MAX = 2048  # characters; bounds the cost of the rule below
# Only the shape: scheme, host, one or two parts of a path. What the parts mean, and what else
# can be wrong with them, is the parser's business (`scaleset/config_url.py`).
CONFIG_URL_RULE = {
    "rule": r"self.matches(r'(?i)^/*https?://[^/?#\s]+/+[^/?#\s]+(/+[^/?#\s]+)?/*([?#].*)?$')",
    "message": "githubConfigUrl must be https://HOST/ORG, https://HOST/OWNER/REPO "
    "or https://HOST/enterprises/NAME",
}


class AutoscalingRunnerSetSpec(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What the user wishes."""

    github_config_url: Annotated[
        str,
        doc(
            "URL of the enterprise, organization or repository that the runners serve.",
            maxLength=CONFIG_URL_MAX,
            **{"x-kubernetes-validations": [CONFIG_URL_RULE]},
        ),
    ] = ""
    github_config_secret: Annotated[
        str,
        doc("Name of the Secret with the credentials, or of the vault item if vaultConfig is set."),
    ] = ""
    runner_group: Annotated[str, doc("Runner group at GitHub; empty means the default group.")] = ""
    runner_scale_set_name: Annotated[
        str, doc("Name of the scale set at GitHub; empty means the name of this object.")
    ] = ""
    runner_scale_set_labels: Annotated[
        list[str] | None, doc("Labels for runs-on besides the name of the scale set.")
    ] = None
    proxy: Annotated[ProxyConfig | None, doc("Proxies on the way to GitHub.")] = None
    github_server_tls: Annotated[
        TLSConfig | None, doc("Extra root certificates for GitHub's server.")
    ] = msgspec.field(name="githubServerTLS", default=None)
    vault_config: Annotated[VaultConfig | None, doc("Credentials from a vault.")] = None
    template: Annotated[
        PodTemplate, doc("Pod of a runner; one of its containers must be named runner.")
    ] = msgspec.field(default_factory=PodTemplate)
    autoscaling_listener: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the AutoscalingListener.")
    ] = None
    listener_metrics: Annotated[
        MetricsConfig | None, doc("Metrics that the listener publishes.")
    ] = None
    listener_template: Annotated[
        PodTemplate | None, doc("Changes to the listener's pod; its container is named listener.")
    ] = None
    listener_service_account_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the listener's ServiceAccount.")
    ] = None
    listener_role_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the listener's Role.")
    ] = None
    listener_role_binding_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the listener's RoleBinding.")
    ] = None
    listener_config_secret_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the listener's config Secret.")
    ] = None
    ephemeral_runner_set_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the EphemeralRunnerSet.")
    ] = None
    ephemeral_runner_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for EphemeralRunners made from now on.")
    ] = None
    ephemeral_runner_config_secret_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the Secret of each runner.")
    ] = None
    max_runners: Annotated[
        int | None, doc("Never more runners than this; absent means no limit.", minimum=0)
    ] = None
    min_runners: Annotated[
        int | None, doc("Idle runners to keep on top of demand; absent means 0.", minimum=0)
    ] = None


class AutoscalingRunnerSetStatus(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What the AutoscalingRunnerSet controller says of it."""

    current_runners: Annotated[int, doc("Runners that are pending, running or failed.")] = 0
    phase: Annotated[str, doc("Pending, Running or Outdated.")] = ""
    pending_ephemeral_runners: Annotated[
        int, doc("Runners without a job: still starting, or online and idle.")
    ] = 0
    running_ephemeral_runners: Annotated[int, doc("Runners that have a job.")] = 0
    failed_ephemeral_runners: Annotated[int, doc("Runners that failed, kept as evidence.")] = 0
    finished_ephemeral_runners: Annotated[
        int, doc("Runners whose job is done and whose object is still there.")
    ] = 0
    deleting_ephemeral_runners: Annotated[int, doc("Runners that are being deleted.")] = 0
    reason: Annotated[str, doc("What is wrong, as a word of the documentation; else empty.")] = ""
    message: Annotated[str, doc("What is wrong and what can be done about it.")] = ""
    conditions: Annotated[list[Condition] | None, CONDITIONS] = None


class AutoscalingRunnerSet(KubeObject, gc=False):
    """Scales ephemeral runners for one place at GitHub with the number of queued jobs."""

    spec: AutoscalingRunnerSetSpec = msgspec.field(default_factory=AutoscalingRunnerSetSpec)
    status: AutoscalingRunnerSetStatus = msgspec.field(default_factory=AutoscalingRunnerSetStatus)


AUTOSCALING_RUNNER_SETS = Resource(
    GROUP, VERSION, "autoscalingrunnersets", "AutoscalingRunnerSet", AutoscalingRunnerSet
)
