"""What the rules about a listener see, what they may ask for, and how answers come back.

Values only. Caches fill `children` for what may be watched; Secrets may not be listed in the
controller's namespace, so they are read one by one, by an action whose answer comes back here.
Contract: resources-and-controllers 4.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS, AutoscalingListener
from runnerscale.api.names import listener_config_name, listener_proxy_name
from runnerscale.api.reasons import Trouble
from runnerscale.credentials.place import GitHubPlace, Resolved
from runnerscale.kube.builtin import (
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Pod,
    Secret,
)
from runnerscale.kube.objects import KubeObject, ObjectReference
from runnerscale.kube.resource import Resource


class Child(Enum):
    """What belongs to a listener; deletion goes in this order."""

    POD = "pod"
    CONFIG_SECRET = "config Secret"  # noqa: S105 - a name
    PROXY_SECRET = "proxy Secret"  # noqa: S105 - a name
    ROLE_BINDING = "RoleBinding"
    ROLE = "Role"
    SERVICE_ACCOUNT = "ServiceAccount"

    @property
    def resource(self) -> Resource[Any]:
        """Its REST resource."""
        return _RESOURCES[self]


_RESOURCES: dict[Child, Resource[Any]] = {
    Child.POD: PODS,
    Child.CONFIG_SECRET: SECRETS,
    Child.PROXY_SECRET: SECRETS,
    Child.ROLE_BINDING: ROLE_BINDINGS,
    Child.ROLE: ROLES,
    Child.SERVICE_ACCOUNT: SERVICE_ACCOUNTS,
}
SECRET_CHILDREN = (Child.CONFIG_SECRET, Child.PROXY_SECRET)


class Look(Enum):
    """Where a child is not an object: nobody looked yet, or there is none."""

    UNASKED = "unasked"
    ABSENT = "absent"


RESTARTS_DIGITS_MAX = 6  # more than that no hand of ours has written


@dataclass(frozen=True, slots=True)
class Settings:
    """How this controller process was started; the same for all listeners."""

    image: str  # its own: a listener of this image takes up a changed configuration in place
    entrypoint: str = "/ghalistener"
    log_level: str = "debug"
    log_format: str = "text"
    metrics_addr: str = ":8080"  # "": listeners publish no metrics
    metrics_endpoint: str = "/metrics"
    excluded_prefixes: tuple[str, ...] = ()
    # What a listener's container has unless its listenerTemplate says otherwise; None: nothing.
    restricted: bool = False
    resources: Mapping[str, Mapping[str, str | int | float]] | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How the pod before the next one ended."""

    restarts: int  # how often in a row one ended soon after its start
    termination: str  # when, how, with which exit code; for people


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One listener, its children, and what this pass has learned."""

    now_s: float
    settings: Settings
    listener: AutoscalingListener
    owner_exists: bool  # the AutoscalingRunnerSet, as far as the cache knows
    children: Mapping[Child, KubeObject | Look]
    means: Resolved | Trouble | None = None  # credentials, proxies, CA; None: not asked
    refused: Mapping[Child, Trouble] = field(default_factory=dict)
    ended: Ended | None = None  # of the pod that was taken away in this pass
    told: str = ""  # fingerprint of the status written last (a hint; a restart forgets it)
    owner_confirmed: bool = False  # the server itself was asked about the owner
    vault_proxy: Secret | Look = Look.UNASKED  # credentials for the proxy before the vault

    @property
    def namespace(self) -> str:
        """The controller's namespace, where the listener lives."""
        return self.listener.metadata.namespace or ""

    @property
    def name(self) -> str:
        """The listener's name, also of its pod, ServiceAccount, Role and RoleBinding."""
        return self.listener.metadata.name or ""

    @property
    def key(self) -> str:
        """The work-queue key."""
        return f"{self.namespace}/{self.name}"

    @property
    def about(self) -> str:
        """As troubles name it."""
        return f"AutoscalingListener {self.key}"

    @property
    def reference(self) -> ObjectReference:
        """For Events and owner references."""
        return ObjectReference(
            AUTOSCALING_LISTENERS.api_version,
            AUTOSCALING_LISTENERS.kind,
            self.namespace,
            self.name,
            self.listener.metadata.uid or "",
        )

    def child(self, child: Child) -> KubeObject | None:
        """The child, if it is known to exist."""
        found = self.children.get(child, Look.ABSENT)
        return None if isinstance(found, Look) else found

    @property
    def pod(self) -> Pod | None:
        """The pod, if there is one."""
        found = self.child(Child.POD)
        return found if isinstance(found, Pod) else None

    def secret(self, child: Child) -> Secret | None:
        """One of the two Secrets, if it was read and is there."""
        found = self.child(child)
        return found if isinstance(found, Secret) else None

    def is_unasked(self, child: Child) -> bool:
        """Nobody has looked for it in this pass."""
        return self.children.get(child) is Look.UNASKED

    def is_absent(self, child: Child) -> bool:
        """It was looked for, and there is none."""
        return self.children.get(child, Look.ABSENT) is Look.ABSENT

    def child_namespace(self, child: Child) -> str:
        """Role and RoleBinding are beside the runners, all else beside the listener."""
        if child in (Child.ROLE, Child.ROLE_BINDING):
            return self.listener.spec.autoscaling_runner_set_namespace
        return self.namespace

    def child_name(self, child: Child) -> str:
        """What the child is called."""
        if child is Child.CONFIG_SECRET:
            return listener_config_name(self.name)
        if child is Child.PROXY_SECRET:
            return listener_proxy_name(self.name)
        return self.name


# --- what a plan may ask for -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatchSelf:
    """Change the listener's own finalizers, at the version read."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteSelf:
    """The owner is gone: so should this be."""

    uid: str


@dataclass(frozen=True, slots=True)
class AskOwner:
    """Whether the server itself knows the owner; the cache may lag."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ResolveMeans:
    """Read credentials, proxies and CA."""

    place: GitHubPlace


@dataclass(frozen=True, slots=True)
class ReadVaultProxy:
    """Read the Secret with the credentials of the proxy before the vault."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read one child from the server."""

    child: Child


@dataclass(frozen=True, slots=True)
class Create:
    """Create one child. The body may hold secrets and is never shown."""

    child: Child
    body: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Patch:
    """Change one child; only the satellites that nobody but us writes."""

    child: Child
    body: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete one child; `uid`: a namesake born later is not ours to delete."""

    child: Child
    uid: str
    at_once: bool = False  # grace period 0: nothing in it runs any more
    ended: Ended | None = None  # what the next pod is to remember


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status; the version is not needed, nobody else writes it."""

    body: Mapping[str, Any]
    told: str


Action = (
    PatchSelf
    | DeleteSelf
    | AskOwner
    | ResolveMeans
    | ReadVaultProxy
    | Read
    | Create
    | Patch
    | Remove
    | WriteStatus
)
# A child as it now is, Look.ABSENT, a refusal in words, credentials, yes or no, or nothing.
Answer = KubeObject | Look | Trouble | Resolved | bool | None


def learn(seen: Snapshot, answers: Sequence[tuple[Action, Answer]]) -> Snapshot:
    """The snapshot with this pass's answers in it."""
    for action, answer in answers:
        seen = _learn_one(seen, action, answer)
    return seen


def _learn_one(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    match action:
        case Read(child) | Create(child) | Patch(child):
            return _with_child(seen, child, answer)
        case Remove(child, ended=ended):
            learned = _with_child(seen, child, answer)
            return replace(learned, ended=ended) if ended else learned
        case ResolveMeans():
            ok = isinstance(answer, Resolved | Trouble)
            return replace(seen, means=answer) if ok else seen  # type: ignore[arg-type]
        case ReadVaultProxy():
            secret = answer if isinstance(answer, Secret) else Look.ABSENT
            return replace(seen, vault_proxy=secret)
        case AskOwner():
            return replace(seen, owner_exists=bool(answer), owner_confirmed=True)
        case WriteStatus(told=told):
            return replace(seen, told=told)
        case PatchSelf() | DeleteSelf():
            changed = isinstance(answer, AutoscalingListener)
            return replace(seen, listener=answer) if changed else _gone(seen)  # type: ignore[arg-type]


def _with_child(seen: Snapshot, child: Child, answer: Answer) -> Snapshot:
    if isinstance(answer, Trouble):
        return replace(seen, refused={**seen.refused, child: answer})
    assert isinstance(answer, KubeObject | Look)
    return replace(seen, children={**seen.children, child: answer})


def _gone(seen: Snapshot) -> Snapshot:
    """The listener itself is gone: nothing holds it any more, so nothing is left to do."""
    meta = seen.listener.metadata
    without = AutoscalingListener(metadata=type(meta)(name=meta.name, namespace=meta.namespace))
    without.metadata.deletion_timestamp = meta.deletion_timestamp or "gone"
    return replace(seen, listener=without)


def restarts_of(pod: Pod) -> int:
    """How often in a row listeners had ended soon after their start when this pod was made."""
    text = (pod.metadata.annotations or {}).get(keys.LISTENER_RESTARTS, "")
    return int(text) if text.isdecimal() and len(text) <= RESTARTS_DIGITS_MAX else 0
