"""EphemeralRunner (ER): one name, one registration, one job, then gone.

Fields, and the one question everybody asks of them: `has_job`. Who may move which phase is
in `phase.py`; what is done in `controllers/ephemeral_runner/`.
Contract: resources-and-controllers 1.6.
"""

from typing import Annotated, Any

import msgspec

from runnerscale.api.values import (
    CONDITIONS,
    GROUP,
    NOTHING,
    POD_METADATA_SCHEMA,
    POD_SPEC_SCHEMA,
    VERSION,
    ProxyConfig,
    ResourceMeta,
    TLSConfig,
    VaultConfig,
    doc,
)
from runnerscale.kube.objects import Condition, KubeObject
from runnerscale.kube.resource import Resource


class EphemeralRunnerSpec(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Where the runner registers, and the pod it runs in (`metadata` and `spec`, raw)."""

    github_config_url: Annotated[
        str,
        doc(
            "URL of the enterprise, organization or repository that the runner serves.",
            mandatory=True,
        ),
    ] = ""
    github_config_secret: Annotated[
        str,
        doc(
            "Name of the Secret with the credentials, or of the vault item if vaultConfig is set.",
            mandatory=True,
        ),
    ] = ""
    runner_scale_set_id: Annotated[int, doc("GitHub's id of the scale set.", mandatory=True)] = 0
    github_server_tls: Annotated[
        TLSConfig | None, doc("Extra root certificates for GitHub's server.")
    ] = msgspec.field(name="githubServerTLS", default=None)
    proxy: Annotated[ProxyConfig | None, doc("Proxies on the way to GitHub.")] = None
    proxy_secret_ref: Annotated[
        str, doc("Name of the Secret with the proxies ready for use as environment variables.")
    ] = ""
    vault_config: Annotated[VaultConfig | None, doc("Credentials from a vault.")] = None
    ephemeral_runner_config_secret_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for the runner's Secret.")
    ] = None
    metadata: Annotated[
        msgspec.Raw, doc("Metadata of the runner's pod.", **POD_METADATA_SCHEMA)
    ] = NOTHING
    spec: Annotated[
        msgspec.Raw,
        doc("Spec of the runner's pod; one of its containers is named runner.", **POD_SPEC_SCHEMA),
    ] = NOTHING


class EphemeralRunnerStatus(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What controller and listener say of a runner; who writes which field: `phase.py`."""

    ready: Annotated[bool, doc("Whether the pod is ready.")] = False
    phase: Annotated[
        str,
        doc(
            "Pending: no job yet, starting or idle. Running: has a job. Failed, Outdated: ended "
            "without one, kept as evidence."
        ),
    ] = ""
    reason: Annotated[str, doc("What is wrong, as a word of the documentation; else empty.")] = ""
    message: Annotated[str, doc("What is wrong and what can be done about it.")] = ""
    runner_id: Annotated[int, doc("GitHub's id of the runner; 0 before it is registered.")] = 0
    runner_name: Annotated[str, doc("Name of the runner at GitHub.")] = ""
    # Values are times; objects of old releases hold booleans, and must still be readable.
    failures: Annotated[
        dict[str, Any] | None,
        doc(
            "When which pod of this runner failed, by the pod's uid.",
            additionalProperties={"type": "string", "format": "date-time"},
        ),
    ] = None
    job_request_id: Annotated[
        int, doc("GitHub's id of the request for the job.", format="int64")
    ] = 0
    job_id: Annotated[str, doc("GitHub's id of the job.")] = ""
    job_repository_name: Annotated[str, doc("Owner and name of the job's repository.")] = ""
    job_workflow_ref: Annotated[str, doc("The workflow file and its reference.")] = ""
    workflow_run_id: Annotated[int, doc("GitHub's id of the workflow run.", format="int64")] = 0
    job_display_name: Annotated[str, doc("Name of the job as shown at GitHub.")] = ""
    conditions: Annotated[list[Condition] | None, CONDITIONS] = None


class EphemeralRunner(KubeObject, gc=False):
    """One runner for one job; made by its EphemeralRunnerSet."""

    spec: EphemeralRunnerSpec = msgspec.field(default_factory=EphemeralRunnerSpec)
    status: EphemeralRunnerStatus = msgspec.field(default_factory=EphemeralRunnerStatus)


EPHEMERAL_RUNNERS = Resource(GROUP, VERSION, "ephemeralrunners", "EphemeralRunner", EphemeralRunner)


def has_job(status: EphemeralRunnerStatus) -> bool:
    """Whether a job was assigned; this, never the phase, decides what may be deleted."""
    return bool(status.job_id or status.job_request_id or status.workflow_run_id)
