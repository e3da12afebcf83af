"""Questions that are answered and not stored: may I, who am I, a token please.

The rules they ask are `rbac.py` and `authentication.py`.
"""

from typing import Any

from runnerscale.apiserver.authentication import (
    AUDIENCE,
    EXPIRATION_S_MIN,
    Authenticator,
)
from runnerscale.apiserver.failures import (
    ApiFailure,
    conflict,
    invalid,
    not_found,
    required,
    wrong,
)
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.rbac import Ask, Authorizer, User
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.store import Store
from runnerscale.core.clock import Clock, format_time

Json = dict[str, Any]


class Reviews:
    """Answers reviews and token requests."""

    def __init__(
        self, store: Store, authorizer: Authorizer, authenticator: Authenticator, clock: Clock
    ) -> None:
        """Reads accounts and pods from the store."""
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._authenticator = authenticator

    def answer(self, kind: Kind, body: Json, user: User, namespace: str) -> Json:
        """The body with its status filled in.

        Raises:
            ApiFailure: 422, the question is incomplete.
        """
        body.setdefault("kind", kind.kind)
        body.setdefault("apiVersion", kind.api_version)
        body.setdefault("metadata", {})
        spec: Json = body.get("spec") or {}
        if kind.kind == "SelfSubjectAccessReview":
            return {**body, "status": self._access(kind, spec, user)}
        if kind.kind in ("SubjectAccessReview", "LocalSubjectAccessReview"):
            other = User(spec.get("user") or "", tuple(spec.get("groups") or ()))
            return {**body, "status": self._access(kind, spec, other)}
        if kind.kind == "SelfSubjectRulesReview":
            return {**body, "status": self._rules(spec.get("namespace") or namespace, user)}
        if kind.kind == "TokenReview":
            return {**body, "status": self._token(spec)}
        meta = {**body["metadata"], "creationTimestamp": format_time(self._clock.now_s())}
        return {**body, "metadata": meta, "status": {"userInfo": _user_info(user)}}

    def _access(self, kind: Kind, spec: Json, user: User) -> Json:
        resource = spec.get("resourceAttributes")
        path = spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            error = wrong("spec.resourceAttributes", resource, text)
            raise invalid(kind.group, "", "", [error])  # no kind, as Kubernetes
        if path is not None:
            ask = Ask(path.get("verb") or "", path=path.get("path") or "")
        else:
            assert resource is not None
            ask = Ask(
                resource.get("verb") or "",
                resource.get("group") or "",
                resource.get("resource") or "",
                resource.get("subresource") or "",
                resource.get("namespace") or "",
                resource.get("name") or "",
            )
        allowed, reason = self._authorizer.decide(user, ask)
        return {"allowed": allowed, "reason": reason} if reason else {"allowed": allowed}

    def _rules(self, namespace: str, user: User) -> Json:
        resources: list[Json] = []
        urls: list[Json] = []
        rules = [
            r for r in self._authorizer.rules_of(user) if r.namespace in (None, namespace or None)
        ]
        for rule in rules:
            if rule.urls:
                urls.append({"verbs": sorted(rule.verbs), "nonResourceURLs": sorted(rule.urls)})
            if rule.resources:
                entry: Json = {
                    "verbs": sorted(rule.verbs),
                    "apiGroups": sorted(rule.groups),
                    "resources": sorted(rule.resources),
                }
                if rule.names:
                    entry["resourceNames"] = sorted(rule.names)
                resources.append(entry)
        return {"resourceRules": resources, "nonResourceRules": urls, "incomplete": False}

    def _token(self, spec: Json) -> Json:
        try:
            user = self._authenticator.user_of_token(spec.get("token") or "")
        except ApiFailure:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user_info(user), "audiences": [AUDIENCE]}

    def request_token(self, account: Record, body: Json) -> Json:
        """TokenRequest.

        Raises:
            ApiFailure: 404, 409, 422.
        """
        spec: Json = body.get("spec") or {}
        seconds = spec.get("expirationSeconds")
        seconds = 3600 if seconds is None else int(seconds)
        if seconds < EXPIRATION_S_MIN:
            text = "may not specify a duration less than 10 minutes"
            error = wrong("spec.expirationSeconds", seconds, text)
            raise invalid("authentication.k8s.io", "TokenRequest", "", [error])
        pod = self._bound_pod(account, spec.get("boundObjectRef"))
        audiences = spec.get("audiences") or [AUDIENCE]
        token, expires_s = self._authenticator.issue(
            account, expiration_s=seconds, pod=pod, audiences=audiences
        )
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": account.name,
                "namespace": account.namespace,
                "uid": account.uid,
                "creationTimestamp": format_time(self._clock.now_s()),
            },
            "spec": {
                **spec,
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": format_time(expires_s)},
        }

    def _bound_pod(self, account: Record, reference: Json | None) -> Record | None:
        if reference is None:
            return None
        if reference.get("kind") != "Pod":
            error = required("spec.boundObjectRef.kind", "this server binds tokens to pods only")
            raise invalid("authentication.k8s.io", "TokenRequest", "", [error])
        name = reference.get("name") or ""
        pod = self._store.table("pods").get(account.namespace, name)
        if pod is None:
            raise not_found("", "pods", name)
        uid = reference.get("uid")
        if uid and uid != pod.uid:
            why = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record."
                " The object might have been deleted and then recreated"
            )
            raise conflict("", "Pod", name, why)
        return pod


def _user_info(user: User) -> Json:
    info: Json = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info
