"""The table of the built-in kinds: names, scopes, subresources, and what sets each apart.

Their field types are data in `builtin_types.json`; their rules are in `pod_rules.py` and
`builtin_rules.py`. A kind that is here only as data (nothing acts on it) says so.
"""

from runnerscale.apiserver.kinds import Kind

RBAC = "rbac.authorization.k8s.io"
CRD_GROUP = "apiextensions.k8s.io"
AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"


def builtin_kinds() -> list[Kind]:
    """A fresh list; each server has its own."""
    return [*_core(), *_cluster(), *_rbac(), *_others(), *_reviews()]


def _core() -> list[Kind]:
    return [
        Kind(
            "",
            "v1",
            "namespaces",
            "Namespace",
            namespaced=False,
            short_names=("ns",),
            subresources=("status", "finalize"),
            type_name="Namespace",
            selectable={"status.phase": "status.phase"},
            returns_deleted=True,
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        Kind(
            "",
            "v1",
            "pods",
            "Pod",
            short_names=("po",),
            categories=("all",),
            subresources=("status", "log", "binding", "eviction"),
            type_name="Pod",
            selectable={
                "spec.nodeName": "spec.nodeName",
                "spec.restartPolicy": "spec.restartPolicy",
                "spec.schedulerName": "spec.schedulerName",
                "spec.serviceAccountName": "spec.serviceAccountName",
                "spec.hostNetwork": "spec.hostNetwork",
                "status.phase": "status.phase",
                "status.podIP": "status.podIP",
                "status.nominatedNodeName": "status.nominatedNodeName",
            },
            generation=True,
            returns_deleted=True,
        ),
        Kind("", "v1", "secrets", "Secret", type_name="Secret", selectable={"type": "type"}),
        Kind("", "v1", "configmaps", "ConfigMap", short_names=("cm",), type_name="ConfigMap"),
        Kind(
            "",
            "v1",
            "serviceaccounts",
            "ServiceAccount",
            short_names=("sa",),
            subresources=("token",),
            type_name="ServiceAccount",
            returns_deleted=True,
        ),
    ]


def _cluster() -> list[Kind]:
    return [
        Kind(
            "",
            "v1",
            "events",
            "Event",
            short_names=("ev",),
            type_name="Event",
            create_on_update=True,
            selectable={
                **{f"involvedObject.{k}": f"involvedObject.{k}" for k in _INVOLVED},
                "reason": "reason",
                "reportingComponent": "reportingComponent",
                "source": "source.component",
                "type": "type",
            },
        ),
        Kind(
            "",
            "v1",
            "nodes",
            "Node",
            namespaced=False,
            short_names=("no",),
            subresources=("status",),
            type_name="Node",
            selectable={"spec.unschedulable": "spec.unschedulable"},
        ),
        Kind(
            "",
            "v1",
            "resourcequotas",
            "ResourceQuota",
            short_names=("quota",),
            subresources=("status",),
            type_name="ResourceQuota",
            returns_deleted=True,
        ),
        # Data only: nothing here provisions or binds volumes.
        Kind(
            "",
            "v1",
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            short_names=("pvc",),
            subresources=("status",),
            type_name="PersistentVolumeClaim",
            returns_deleted=True,
        ),
    ]


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _rbac() -> list[Kind]:
    return [
        Kind(RBAC, "v1", "roles", "Role", type_name="Role", create_on_update=True),
        Kind(
            RBAC,
            "v1",
            "rolebindings",
            "RoleBinding",
            type_name="RoleBinding",
            create_on_update=True,
        ),
        Kind(
            RBAC,
            "v1",
            "clusterroles",
            "ClusterRole",
            namespaced=False,
            type_name="ClusterRole",
            create_on_update=True,
        ),
        Kind(
            RBAC,
            "v1",
            "clusterrolebindings",
            "ClusterRoleBinding",
            namespaced=False,
            type_name="ClusterRoleBinding",
            create_on_update=True,
        ),
    ]


def _others() -> list[Kind]:
    return [
        Kind(
            "coordination.k8s.io",
            "v1",
            "leases",
            "Lease",
            type_name="Lease",
            create_on_update=True,
            unconditional_update=False,
        ),
        Kind(
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            "PriorityClass",
            namespaced=False,
            short_names=("pc",),
            type_name="PriorityClass",
            generation=True,
        ),
        Kind(
            CRD_GROUP,
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=("status",),
            type_name="CustomResourceDefinition",
            generation=True,
            unconditional_update=False,
        ),
    ]


def _reviews() -> list[Kind]:
    """Questions that are answered and never stored."""
    return [
        *(
            Kind(
                AUTHORIZATION,
                "v1",
                plural,
                kind,
                namespaced=namespaced,
                type_name=kind,
                verbs=("create",),
            )
            for plural, kind, namespaced in (
                ("localsubjectaccessreviews", "LocalSubjectAccessReview", True),
                ("selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
                ("selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
                ("subjectaccessreviews", "SubjectAccessReview", False),
            )
        ),
        *(
            Kind(
                AUTHENTICATION,
                "v1",
                plural,
                kind,
                namespaced=False,
                type_name=kind,
                verbs=("create",),
            )
            for plural, kind in (
                ("selfsubjectreviews", "SelfSubjectReview"),
                ("tokenreviews", "TokenReview"),
            )
        ),
    ]
