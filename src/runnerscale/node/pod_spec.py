"""A pod as the node agent reads it: every field that decides what a process gets.

`kube.builtin.Pod` is slimmer on purpose (a cache of thousands); the node needs env sources,
volumes and probes as well. Decoding only: what the fields mean is told in `environment.py`,
`volumes.py`, `mounts.py`, `probe_rules.py` and `pod_plan.py`.
"""

import msgspec

from runnerscale.kube.builtin import PodStatus
from runnerscale.kube.objects import KubeObject
from runnerscale.kube.resource import Resource

GRACE_DEFAULT_S = 30  # Kubernetes' own default of terminationGracePeriodSeconds


class Struct(msgspec.Struct, rename="camel", gc=False):
    """Base of the parts: camelCase in JSON."""


class KeySelector(Struct):
    """A key of a Secret or ConfigMap."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class FieldSelector(Struct):
    """A field of the pod itself."""

    field_path: str = ""


class ResourceFieldSelector(Struct):
    """A limit or request of a container."""

    resource: str = ""
    container_name: str | None = None
    divisor: str | int | float | None = None


class EnvVarSource(Struct):
    """Where a value comes from; exactly one is set."""

    secret_key_ref: KeySelector | None = None
    config_map_key_ref: KeySelector | None = None
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None


class EnvVar(Struct):
    """One environment variable."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class ObjectSelector(Struct):
    """A whole Secret or ConfigMap."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(Struct):
    """Every key of a Secret or ConfigMap as a variable."""

    prefix: str | None = None
    secret_ref: ObjectSelector | None = None
    config_map_ref: ObjectSelector | None = None


class VolumeMount(Struct):
    """Where a container sees a volume."""

    name: str
    mount_path: str
    sub_path: str | None = None
    sub_path_expr: str | None = None
    read_only: bool | None = None


class HttpHeader(Struct):
    """One header of a probe."""

    name: str
    value: str = ""


class HttpGetAction(Struct):
    """Healthy when the answer is 200 to 399."""

    port: int | str
    path: str | None = None
    host: str | None = None
    scheme: str | None = None
    http_headers: list[HttpHeader] | None = None


class ExecAction(Struct):
    """Healthy when the command exits with 0."""

    command: list[str] = []


class TcpSocketAction(Struct):
    """Healthy when the port accepts a connection."""

    port: int | str
    host: str | None = None


class Probe(Struct):
    """How to ask whether a container is well."""

    http_get: HttpGetAction | None = None
    exec: ExecAction | None = None
    tcp_socket: TcpSocketAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None


class ContainerPort(Struct):
    """A port that a probe may call by name."""

    container_port: int
    name: str | None = None


class Resources(Struct):
    """Limits and requests: quantities as text or number."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class Container(Struct):
    """One process of a pod."""

    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    volume_mounts: list[VolumeMount] | None = None
    ports: list[ContainerPort] | None = None
    resources: Resources | None = None
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    restart_policy: str | None = None  # "Always" on an init container: a sidecar
    image_pull_policy: str | None = None
    termination_message_policy: str | None = None


class KeyToPath(Struct):
    """Which key becomes which file."""

    key: str
    path: str
    mode: int | None = None


class SecretVolume(Struct):
    """Files from a Secret."""

    secret_name: str = ""
    items: list[KeyToPath] | None = None
    default_mode: int | None = None
    optional: bool | None = None


class ConfigMapVolume(Struct):
    """Files from a ConfigMap."""

    name: str = ""
    items: list[KeyToPath] | None = None
    default_mode: int | None = None
    optional: bool | None = None


class DownwardFile(Struct):
    """One field of the pod as a file."""

    path: str
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardVolume(Struct):
    """Fields of the pod as files."""

    items: list[DownwardFile] | None = None
    default_mode: int | None = None


class SecretProjection(Struct):
    """A Secret as part of a projected volume."""

    name: str = ""
    items: list[KeyToPath] | None = None
    optional: bool | None = None


class TokenProjection(Struct):
    """A service-account token as a file."""

    path: str
    audience: str | None = None
    expiration_seconds: int | None = None


class ProjectedSource(Struct):
    """One part of a projected volume; exactly one is set."""

    secret: SecretProjection | None = None
    config_map: SecretProjection | None = None
    downward_api: DownwardVolume | None = msgspec.field(name="downwardAPI", default=None)
    service_account_token: TokenProjection | None = None


class ProjectedVolume(Struct):
    """Files from several sources."""

    sources: list[ProjectedSource] | None = None
    default_mode: int | None = None


class EmptyDir(Struct):
    """An empty folder that lives as long as the pod."""

    medium: str | None = None


class HostPath(Struct):
    """A folder or file of the machine."""

    path: str
    type: str | None = None


class EphemeralVolume(Struct):
    """A claim that lives as long as the pod; here a folder of that life, whatever it asks for."""


class Volume(Struct):
    """A volume; a kind that this node does not have leaves all of them unset."""

    name: str
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None
    empty_dir: EmptyDir | None = None
    projected: ProjectedVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(name="downwardAPI", default=None)
    host_path: HostPath | None = None
    ephemeral: EphemeralVolume | None = None


class SchedulingGate(Struct):
    """Somebody holds the pod back from being placed."""

    name: str = ""


class PodSpec(Struct):
    """What a pod asks of a node."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None
    hostname: str | None = None


class NodePod(KubeObject, gc=False):
    """A pod with all that the node agent reads."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None


NODE_PODS: Resource[NodePod] = Resource("", "v1", "pods", "Pod", NodePod)

# Changes of these only say *when* to read again; the content is read when it is written out,
# so that the agent does not hold everybody's secrets in memory.
SECRET_CHANGES: Resource[KubeObject] = Resource("", "v1", "secrets", "Secret", KubeObject)
CONFIG_MAP_CHANGES: Resource[KubeObject] = Resource("", "v1", "configmaps", "ConfigMap", KubeObject)


def uid_of(pod: NodePod) -> str:
    """The pod's uid: what tells it from a namesake."""
    return pod.metadata.uid or ""


def is_terminal(pod: NodePod) -> bool:
    """The API server says it is over; it never runs again."""
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")


def grace_s(pod: NodePod) -> int:
    """How long its processes may take to end: what the deletion says, else its own wish."""
    asked = pod.metadata.deletion_grace_period_seconds
    if pod.metadata.deletion_timestamp and asked is not None:
        return max(0, asked)
    own = pod.spec.termination_grace_period_seconds
    return GRACE_DEFAULT_S if own is None else max(0, own)


def is_sidecar(container: Container) -> bool:
    """An init container that keeps running beside the others."""
    return container.restart_policy == "Always"
