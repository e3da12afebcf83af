"""AutoscalingListener (AL): the one process that listens to GitHub for a runner set.

Fields only; written by `controllers/autoscaling_runner_set/`, made real by
`controllers/autoscaling_listener/`. Contract: resources-and-controllers 1.4.
"""

from typing import Annotated

import msgspec

from runnerscale.api.values import (
    CONDITIONS,
    GROUP,
    VERSION,
    LocalObjectReference,
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


class AutoscalingListenerSpec(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What the listener needs to know; derived from the AutoscalingRunnerSet."""

    github_config_url: Annotated[
        str, doc("URL of the enterprise, organization or repository that the runners serve.")
    ] = ""
    github_config_secret: Annotated[
        str,
        doc("Name of the Secret with the credentials, or of the vault item if vaultConfig is set."),
    ] = ""
    runner_scale_set_id: Annotated[int, doc("GitHub's id of the scale set.")] = 0
    autoscaling_runner_set_namespace: Annotated[
        str, doc("Namespace of the AutoscalingRunnerSet.")
    ] = ""
    autoscaling_runner_set_name: Annotated[str, doc("Name of the AutoscalingRunnerSet.")] = ""
    ephemeral_runner_set_name: Annotated[
        str, doc("Name of the EphemeralRunnerSet that the listener scales.")
    ] = ""
    max_runners: Annotated[int, doc("Never more runners than this.", minimum=0)] = 0
    min_runners: Annotated[int, doc("Idle runners to keep on top of demand.", minimum=0)] = 0
    image: Annotated[str, doc("Image of the listener's container.")] = ""
    image_pull_secrets: Annotated[
        list[LocalObjectReference] | None, doc("Secrets for pulling the image.")
    ] = None
    proxy: Annotated[ProxyConfig | None, doc("Proxies on the way to GitHub.")] = None
    github_server_tls: Annotated[
        TLSConfig | None, doc("Extra root certificates for GitHub's server.")
    ] = msgspec.field(name="githubServerTLS", default=None)
    vault_config: Annotated[VaultConfig | None, doc("Credentials from a vault.")] = None
    metrics: Annotated[MetricsConfig | None, doc("Metrics that the listener publishes.")] = None
    template: Annotated[
        PodTemplate | None, doc("Changes to the listener's pod; its container is named listener.")
    ] = None
    config_secret_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the config Secret.")
    ] = None
    service_account_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the ServiceAccount.")
    ] = None
    role_metadata: Annotated[ResourceMeta | None, doc("Labels and annotations for the Role.")] = (
        None
    )
    role_binding_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the RoleBinding.")
    ] = None


class AutoscalingListenerStatus(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What the AutoscalingListener controller says of it."""

    restarts: Annotated[int, doc("How often in a row the listener ended soon after its start.")] = 0
    last_termination: Annotated[
        str, doc("When, how and with which exit code the listener ended last.")
    ] = ""
    reason: Annotated[str, doc("What is wrong, as a word of the documentation; else empty.")] = ""
    message: Annotated[str, doc("What is wrong and what can be done about it.")] = ""
    conditions: Annotated[list[Condition] | None, CONDITIONS] = None


class AutoscalingListener(KubeObject, gc=False):
    """The listener of one AutoscalingRunnerSet; made and changed by the controller."""

    spec: AutoscalingListenerSpec = msgspec.field(default_factory=AutoscalingListenerSpec)
    status: AutoscalingListenerStatus = msgspec.field(default_factory=AutoscalingListenerStatus)


AUTOSCALING_LISTENERS = Resource(
    GROUP, VERSION, "autoscalinglisteners", "AutoscalingListener", AutoscalingListener
)
