"""What may be created where: namespaces, service accounts, priorities, quotas, and a seam.

Runs after a request was authorized. `mutate` fills in what admission fills in; `check` is the
last word before an object is stored. The seam (`hook`) stands for webhooks: a test or the
demo hands in a function that refuses what it likes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runnerscale.apiserver.builtin_kinds import RBAC
from runnerscale.apiserver.failures import ApiFailure, forbidden, not_found
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.quota import Quotas
from runnerscale.apiserver.store import Store
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random, name_suffix

Json = dict[str, Any]

IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"  # held while a pod uses the claim
ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT_VOLUME = "kube-api-access-"
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a hook is asked about."""

    operation: str  # CREATE, UPDATE, DELETE
    kind: Kind
    subresource: str
    namespace: str
    name: str
    obj: Json | None
    old: Json | None
    user: str
    dry_run: bool


Hook = Callable[[Attributes], ApiFailure | None]


def denied_by_webhook(webhook: str, why: str, *, code: int = 403) -> ApiFailure:
    """The answer that a refusing webhook causes."""
    message = f'admission webhook "{webhook}" denied the request: {why}'
    return ApiFailure(code, "Forbidden" if code == 403 else "", message)


class Admission:
    """Reads namespaces, accounts, priorities and quotas from the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: Random,
        hook: Hook | None = None,
        *,
        mounts_accounts: bool = True,
    ) -> None:
        """Put the parts together.

        Args:
            hook: asked last about every write; what it returns is the answer.
            mounts_accounts: pods get the files of their account. A server without a
                certificate cannot give them all: there the node does it as it can.
        """
        self._mounts_accounts = mounts_accounts
        self._store = store
        self._random = random
        self._clock = clock
        self._hook = hook
        self.quotas = Quotas(store)

    def check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        """The namespace of a new object exists and is not on its way out.

        Raises:
            ApiFailure: 404 or 403.
        """
        record = self._store.table("namespaces").get("", namespace)
        if record is None:
            raise not_found("", "namespaces", namespace)
        if record.deleting:
            why = (
                f"unable to create new content in namespace {namespace} because it is being"
                " terminated"
            )
            failure = forbidden(kind.group, kind.plural, name, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            assert failure.details is not None
            failure.details["causes"] = [cause]
            raise failure

    def check_delete(self, kind: Kind, name: str) -> None:
        """Some namespaces stay.

        Raises:
            ApiFailure: 403.
        """
        if kind.resource == "namespaces" and name in IMMORTAL_NAMESPACES:
            raise forbidden("", "namespaces", name, "this namespace may not be deleted")

    def mutate(self, kind: Kind, obj: Json, namespace: str) -> None:
        """Fill in what admission fills in, in place.

        Raises:
            ApiFailure: 403, a pod refers to an account or priority that is not there.
        """
        if kind.resource == "pods":
            self._account(kind, obj, namespace)
            self._priority(kind, obj)
            if self._mounts_accounts:
                self._mount_account(obj, namespace)
            _tolerate_node_trouble(obj["spec"])
        elif kind.resource == "nodes":
            _taint_new_node(obj)
        elif kind.resource == "persistentvolumeclaims":
            finalizers = obj["metadata"].setdefault("finalizers", [])
            if CLAIM_PROTECTION not in finalizers:
                finalizers.append(CLAIM_PROTECTION)

    def _account(self, kind: Kind, obj: Json, namespace: str) -> None:
        spec = obj["spec"]
        account = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = account
        found = self._store.table("serviceaccounts").get(namespace, account)
        if found is None:
            why = (
                f"error looking up service account {namespace}/{account}: serviceaccount"
                f' "{account}" not found'
            )
            raise forbidden(kind.group, kind.plural, obj["metadata"].get("name", ""), why)
        pull = found.object().get("imagePullSecrets")
        if pull and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = pull

    def _mount_account(self, obj: Json, namespace: str) -> None:
        """Each container finds the account's token where nothing else is mounted."""
        spec = obj["spec"]
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            account = self._store.table("serviceaccounts").get(
                namespace, spec["serviceAccountName"]
            )
            wanted = account is None or account.object().get("automountServiceAccountToken")
        if wanted is False:
            return
        containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
        bare = [c for c in containers if not _mounts_account(c)]
        if not bare:
            return
        name = ACCOUNT_VOLUME + name_suffix(self._random)
        for container in bare:
            mount = {"name": name, "mountPath": ACCOUNT_DIR, "readOnly": True}
            container.setdefault("volumeMounts", []).append(mount)
        spec.setdefault("volumes", []).append({"name": name, "projected": account_projection()})

    def _priority(self, kind: Kind, obj: Json) -> None:
        spec = obj["spec"]
        wanted = spec.get("priorityClassName") or ""
        name = obj["metadata"].get("name", "")
        classes = self._store.table("priorityclasses.scheduling.k8s.io")
        value, policy = 0, "PreemptLowerPriority"
        if wanted in _SYSTEM_PRIORITIES:
            value = _SYSTEM_PRIORITIES[wanted]
        elif wanted:
            record = classes.get("", wanted)
            if record is None:
                why = f"no PriorityClass with name {wanted} was found"
                raise forbidden(kind.group, kind.plural, name, why)
            found = record.object()
            value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
        else:
            for record in classes:
                found = record.object()
                if found.get("globalDefault"):
                    value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
                    spec["priorityClassName"] = record.name
        if spec.get("priority") not in (None, value):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod"
                f" spec; priority admission controller computed {value} from the given"
                " PriorityClass name"
            )
            raise forbidden(kind.group, kind.plural, name, why)
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", policy)

    def check(self, attributes: Attributes) -> None:
        """The last word: hooks, then quota.

        Raises:
            ApiFailure: refused.
        """
        if self._hook is not None:
            failure = self._hook(attributes)
            if failure is not None:
                raise failure
        kind, obj = attributes.kind, attributes.obj
        if attributes.operation != "CREATE" or attributes.subresource or obj is None:
            return
        if kind.namespaced:
            now_s = self._clock.now_s()
            failure = self.quotas.check_create(kind, obj, attributes.namespace, now_s)
            if failure is not None:
                raise failure


def _tolerate_node_trouble(spec: Json) -> None:
    """A pod is given five minutes on a node that is not ready or not reachable."""
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(t, key) for t in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )


def _mounts_account(container: Json) -> bool:
    mounts = container.get("volumeMounts") or ()
    return any(mount.get("mountPath") == ACCOUNT_DIR for mount in mounts)


def account_projection() -> Json:
    """Token, certificate and namespace, as the files of one volume."""
    namespace = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", **namespace}]}},
        ],
    }


def _taint_new_node(obj: Json) -> None:
    """A new node takes nothing until it was said to be ready."""
    taints = obj.setdefault("spec", {}).setdefault("taints", [])
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    if taint not in taints:
        taints.append(taint)


def _tolerates(toleration: Json, key: str) -> bool:
    named = toleration.get("key") in (None, "", key)
    return named and toleration.get("effect") in (None, "", "NoExecute")


def bootstrap_objects() -> list[tuple[str, str, Json]]:
    """(resource, namespace, object) that every server has: namespaces, roles, bindings."""
    objects: list[tuple[str, str, Json]] = [
        ("namespaces", "", {"metadata": {"name": name}})
        for name in ("default", "kube-system", "kube-public", "kube-node-lease")
    ]
    for name, rules in _CLUSTER_ROLES.items():
        role = {"metadata": {"name": name, "labels": _BOOTSTRAP}, "rules": rules}
        objects.append((f"clusterroles.{RBAC}", "", role))
    for name, groups in _CLUSTER_ROLE_BINDINGS.items():
        binding = {
            "metadata": {"name": name, "labels": _BOOTSTRAP},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups],
        }
        objects.append((f"clusterrolebindings.{RBAC}", "", binding))
    return objects


_BOOTSTRAP = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


_CLUSTER_ROLES: dict[str, list[Json]] = {
    "cluster-admin": [
        _rule(["*"], ["*"], ["*"]),
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "system:discovery": [{"nonResourceURLs": _DISCOVERY, "verbs": ["get"]}],
    "system:public-info-viewer": [{"nonResourceURLs": _PUBLIC, "verbs": ["get"]}],
    "system:basic-user": [
        _rule(
            ["authorization.k8s.io"],
            ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            ["create"],
        ),
        _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
    ],
    # What an agent of a node needs; here it also places pods on itself.
    "system:node": [
        _rule([""], ["nodes"], ["create", "get", "list", "watch", "update", "patch"]),
        _rule([""], ["nodes/status"], ["get", "update", "patch"]),
        _rule([""], ["pods"], ["get", "list", "watch", "delete"]),
        _rule([""], ["pods/status"], ["get", "update", "patch"]),
        _rule([""], ["pods/binding"], ["create"]),
        _rule([""], ["secrets", "configmaps"], ["get", "list", "watch"]),
        _rule([""], ["serviceaccounts"], ["get"]),
        _rule([""], ["serviceaccounts/token"], ["create"]),
        _rule([""], ["events"], ["create", "patch", "update"]),
        _rule(["coordination.k8s.io"], ["leases"], ["create", "get", "update", "patch"]),
    ],
}
_CLUSTER_ROLE_BINDINGS: dict[str, list[str]] = {
    "cluster-admin": ["system:masters"],
    "system:discovery": ["system:authenticated"],
    "system:public-info-viewer": ["system:authenticated", "system:unauthenticated"],
    "system:basic-user": ["system:authenticated"],
    "system:node": ["system:nodes"],
}
