"""The built-in kinds we touch, as slim structs: only what somebody reads.

Never PUT one of these; what is created or patched is built as a plain mapping.
"""

import msgspec

from runnerscale.kube.objects import NO_RAW, Condition, KubeObject
from runnerscale.kube.resource import Resource


class ContainerStateRunning(msgspec.Struct, rename="camel", gc=False):
    """When a container started."""

    started_at: str | None = None


class ContainerStateWaiting(msgspec.Struct, rename="camel", gc=False):
    """Why a container does not run yet: `ImagePullBackOff`, `InvalidImageName`, ..."""

    reason: str | None = None
    message: str | None = None


class ContainerStateTerminated(msgspec.Struct, rename="camel", gc=False):
    """How a container ended."""

    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None  # `OOMKilled`, `Error`, `Completed`, ...
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, rename="camel", gc=False):
    """At most one of the three is set."""

    running: ContainerStateRunning | None = None
    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    """What the node says of one container."""

    name: str
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None
    image: str = ""
    container_id: str | None = msgspec.field(name="containerID", default=None)


class PodCondition(Condition, gc=False):
    """As Condition; `PodReady` is `type` "Ready", `PodScheduled` says why nothing fits."""


class PodStatus(msgspec.Struct, rename="camel", gc=False):
    """What node and scheduler say of a pod."""

    phase: str = ""
    reason: str | None = None  # `Evicted`, `NodeLost`, `OutOfcpu`, ...
    message: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    start_time: str | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)


class EnvVar(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Name, and where the value comes from (the sources stay raw)."""

    name: str
    value: str | None = None
    value_from: msgspec.Raw = NO_RAW


class Container(msgspec.Struct, rename="camel", gc=False):
    """The few container fields our rules read."""

    name: str
    image: str | None = None
    restart_policy: str | None = None  # "Always" on an init container: a sidecar
    working_dir: str | None = None
    env: list[EnvVar] | None = None


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    """The few pod fields our rules read."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    node_name: str | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    service_account_name: str | None = None


class Pod(KubeObject, gc=False):
    """A pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class Secret(KubeObject, gc=False):
    """A secret. `data` values are base64 text; decode only where used, never log.

    `repr` shows the keys only.
    """

    data: dict[str, str] | None = None
    type: str | None = None

    def __repr__(self) -> str:
        where = f"{self.metadata.namespace}/{self.metadata.name}"
        return f"Secret({where}, keys={sorted(self.data or {})})"

    def __rich_repr__(self) -> "list[tuple[str, object]]":
        return [("name", self.metadata.name), ("keys", sorted(self.data or {}))]


class ConfigMap(KubeObject, gc=False):
    """A config map."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class ServiceAccount(KubeObject, gc=False):
    """A service account."""


class PolicyRule(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """One rule of a role."""

    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    verbs: list[str] | None = None
    non_resource_urls: list[str] | None = msgspec.field(name="nonResourceURLs", default=None)


class Role(KubeObject, gc=False):
    """A role (also decodes a cluster role)."""

    rules: list[PolicyRule] | None = None


class RoleRef(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Which role a binding grants."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """To whom a binding grants it."""

    kind: str = ""
    name: str = ""
    namespace: str | None = None
    api_group: str | None = None


class RoleBinding(KubeObject, gc=False):
    """A role binding (also decodes a cluster role binding)."""

    role_ref: RoleRef | None = None
    subjects: list[Subject] | None = None


class LeaseSpec(msgspec.Struct, rename="camel", gc=False):
    """Who leads, since when, for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, gc=False):
    """A coordination.k8s.io lease."""

    spec: LeaseSpec | None = None


class NodeStatus(msgspec.Struct, rename="camel", gc=False):
    """Conditions of a node."""

    conditions: list[PodCondition] | None = None


class Node(KubeObject, gc=False):
    """A node."""

    status: NodeStatus | None = None


class Event(KubeObject, gc=False):
    """A core/v1 event."""

    reason: str | None = None
    message: str | None = None
    type: str | None = None
    count: int | None = None


class Namespace(KubeObject, gc=False):
    """A namespace."""


PODS = Resource("", "v1", "pods", "Pod", Pod)
SECRETS = Resource("", "v1", "secrets", "Secret", Secret)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", ServiceAccount)
EVENTS = Resource("", "v1", "events", "Event", Event)
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", Namespace, namespaced=False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", Role)
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", RoleBinding
)
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", Role, namespaced=False
)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
    RoleBinding,
    namespaced=False,
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)
