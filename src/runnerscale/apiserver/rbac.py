"""Who may do what: roles and bindings, really enforced.

Rules of a user are resolved once and kept until a role or binding changes. The group
`system:masters` may do everything. Creating rights is itself limited: nobody grants what they
do not hold (`check_escalation`, `check_bind`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runnerscale.apiserver.builtin_kinds import RBAC
from runnerscale.apiserver.failures import forbidden, quoted
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.store import Store

Json = dict[str, Any]

MASTERS = "system:masters"
_TABLES = tuple(
    f"{plural}.{RBAC}"
    for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
)
_USERS_KEPT_MAX = 4096


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants to do; `path` for requests that are about no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """`pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Granted:
    """A rule and where it holds: one namespace, or everywhere."""

    namespace: str | None
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: frozenset[str]
    source: str = ""


def _granted(rule: Json, namespace: str | None, source: str = "") -> Granted:
    return Granted(
        namespace,
        frozenset(rule.get("verbs") or ()),
        frozenset(rule.get("apiGroups") or ()),
        frozenset(rule.get("resources") or ()),
        frozenset(rule.get("resourceNames") or ()),
        frozenset(rule.get("nonResourceURLs") or ()),
        source,
    )


class Authorizer:
    """Decides from the RBAC objects in the store."""

    def __init__(self, store: Store) -> None:
        """Rules are read when they are first needed."""
        self._store = store
        self._resolved: dict[User, tuple[Granted, ...]] = {}
        self._revision = -1

    def allows(self, user: User, ask: Ask) -> bool:
        """Whether some rule grants it."""
        return self.decide(user, ask)[0]

    def decide(self, user: User, ask: Ask) -> tuple[bool, str]:
        """Whether some rule grants it, and which."""
        if MASTERS in user.groups:
            return True, ""
        for rule in self.rules_of(user):
            if _grants(rule, ask):
                return True, f"RBAC: allowed by {rule.source}"
        return False, ""

    def rules_of(self, user: User) -> tuple[Granted, ...]:
        """All rules that bind to a user, at the present state of the roles."""
        revision = max(self._store.table(name).revision for name in _TABLES)
        if revision != self._revision or len(self._resolved) > _USERS_KEPT_MAX:
            self._resolved = {}
            self._revision = revision
        rules = self._resolved.get(user)
        if rules is None:
            rules = self._resolved[user] = tuple(self._resolve(user))
        return rules

    def _resolve(self, user: User) -> Iterator[Granted]:
        for record in self._store.table(f"clusterrolebindings.{RBAC}"):
            binding = record.object()
            subject = _bound(binding, user, "")
            if subject:
                source = _source("ClusterRoleBinding", record.name, binding, subject)
                yield from (_granted(r, None, source) for r in self._rules(binding, ""))
        for record in self._store.table(f"rolebindings.{RBAC}"):
            binding = record.object()
            subject = _bound(binding, user, record.namespace)
            if subject:
                where = f"{record.name}/{record.namespace}"
                source = _source("RoleBinding", where, binding, subject)
                for rule in self._rules(binding, record.namespace):
                    yield _granted(rule, record.namespace, source)

    def _rules(self, binding: Json, namespace: str) -> list[Json]:
        role = binding.get("roleRef") or {}
        return self.role_rules(role.get("kind") or "", role.get("name") or "", namespace)

    def role_rules(self, kind: str, name: str, namespace: str) -> list[Json]:
        """The rules of a role; none if it does not exist."""
        if kind == "ClusterRole":
            record = self._store.table(f"clusterroles.{RBAC}").get("", name)
        else:
            record = self._store.table(f"roles.{RBAC}").get(namespace, name)
        return (record.object().get("rules") or []) if record is not None else []

    def check_escalation(self, user: User, kind: Kind, obj: Json, namespace: str) -> None:
        """Nobody writes a role with more rights than they hold, unless they may `escalate`.

        Raises:
            ApiFailure: 403 that lists what is missing.
        """
        name = obj["metadata"].get("name") or ""
        ask = Ask("escalate", RBAC, kind.plural, namespace=namespace, name=name)
        if self.allows(user, ask):
            return
        self._check_covered(user, kind, name, namespace, obj.get("rules") or ())

    def check_bind(self, user: User, kind: Kind, obj: Json, namespace: str) -> None:
        """Nobody binds a role with more rights than they hold, unless they may `bind` it.

        Raises:
            ApiFailure: 403 that lists what is missing.
        """
        role = obj.get("roleRef") or {}
        plural = "clusterroles" if role.get("kind") == "ClusterRole" else "roles"
        name = role.get("name") or ""
        if self.allows(user, Ask("bind", RBAC, plural, namespace=namespace, name=name)):
            return
        rules = self.role_rules(role.get("kind") or "", name, namespace)
        self._check_covered(user, kind, obj["metadata"].get("name") or "", namespace, rules)

    def _check_covered(
        self, user: User, kind: Kind, name: str, namespace: str, rules: Iterable[Json]
    ) -> None:
        if MASTERS in user.groups:
            return
        held = [r for r in self.rules_of(user) if r.namespace in (None, namespace or None)]
        missing = [part for rule in rules for part in _single(rule) if not _covered(part, held)]
        if not missing:
            return
        groups = " ".join(quoted(g) for g in user.groups)
        lines = "\n".join(sorted(_compact(rule) for rule in _joined(missing)))
        why = (
            f"user {quoted(user.name)} (groups=[{groups}]) is attempting to grant RBAC"
            f" permissions not currently held:\n{lines}"
        )
        raise forbidden(kind.group, kind.plural, name, why)


def _bound(binding: Json, user: User, namespace: str) -> str:
    """By which of its subjects a binding is about this user; empty: it is not."""
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == user.name:
            return f"User {quoted(name)}"
        if kind == "Group" and name in user.groups:
            return f"Group {quoted(name)}"
        if kind == "ServiceAccount":
            where = subject.get("namespace") or namespace
            if user.name == f"system:serviceaccount:{where}:{name}":
                return f"ServiceAccount {quoted(f'{name}/{where}')}"
    return ""


def _source(kind: str, name: str, binding: Json, subject: str) -> str:
    role = binding.get("roleRef") or {}
    of = f"{role.get('kind')} {quoted(role.get('name') or '')}"
    return f"{kind} {quoted(name)} of {of} to {subject}"


def _grants(rule: Granted, ask: Ask) -> bool:
    if ask.verb not in rule.verbs and "*" not in rule.verbs:
        return False
    if ask.path:
        return rule.namespace is None and any(_url_matches(url, ask.path) for url in rule.urls)
    if rule.namespace is not None and rule.namespace != ask.namespace:
        return False
    if ask.group not in rule.groups and "*" not in rule.groups:
        return False
    if rule.names and ask.name not in rule.names:
        return False
    return _resource_matches(rule.resources, ask.resource, ask.subresource)


def _resource_matches(resources: frozenset[str], resource: str, subresource: str) -> bool:
    if "*" in resources:
        return True
    full = f"{resource}/{subresource}" if subresource else resource
    return full in resources or bool(subresource and f"*/{subresource}" in resources)


def _url_matches(pattern: str, path: str) -> bool:
    if pattern == "*" or pattern == path:
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1])


def _covered(rule: Json, held: Sequence[Granted]) -> bool:
    """Each single right of a rule is in some rule that is held."""
    for verb in rule.get("verbs") or ():
        for url in rule.get("nonResourceURLs") or ():
            if not any(
                h.namespace is None
                and (verb in h.verbs or "*" in h.verbs)
                and any(_url_matches(u, url) for u in h.urls)
                for h in held
            ):
                return False
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                names = rule.get("resourceNames") or [""]
                if not all(_single_covered(verb, group, resource, n, held) for n in names):
                    return False
    return True


def _single_covered(
    verb: str, group: str, resource: str, name: str, held: Sequence[Granted]
) -> bool:
    plain, _, subresource = resource.partition("/")
    for rule in held:
        if verb not in rule.verbs and "*" not in rule.verbs:
            continue
        if group not in rule.groups and "*" not in rule.groups:
            continue
        if rule.names and (not name or name not in rule.names):
            continue
        if resource in rule.resources or _resource_matches(rule.resources, plain, subresource):
            return True
    return False


def _single(rule: Json) -> Iterator[Json]:
    """A rule as the single rights that it consists of."""
    for verb in rule.get("verbs") or ():
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                one = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or ()
                for name in names:
                    yield {**one, "resourceNames": [name]}
                if not names:
                    yield one
        for url in rule.get("nonResourceURLs") or ():
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _joined(rights: Iterable[Json]) -> list[Json]:
    """Single rights on the same resource as one rule again."""
    joined: dict[tuple[str, ...], Json] = {}
    for right in rights:
        if right.get("nonResourceURLs"):
            joined[("", *right["nonResourceURLs"], *right["verbs"])] = right
            continue
        about = (*right["apiGroups"], *right["resources"], *right.get("resourceNames", ()), "*")
        known = joined.setdefault(about, {**right, "verbs": []})
        known["verbs"] += [v for v in right["verbs"] if v not in known["verbs"]]
    return list(joined.values())


def _compact(rule: Json) -> str:
    parts = []
    for label, name in (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    ):
        values = rule.get(name)
        if values:
            parts.append(f"{label}:[{' '.join(quoted(v) for v in values)}]")
    return "{" + ", ".join(parts) + "}"


def denial(user: User, ask: Ask) -> str:
    """Why not, in Kubernetes' words (without the object in front)."""
    if ask.path:
        return f"User {quoted(user.name)} cannot {ask.verb} path {quoted(ask.path)}"
    where = f"in the namespace {quoted(ask.namespace)}" if ask.namespace else "at the cluster scope"
    return (
        f"User {quoted(user.name)} cannot {ask.verb} resource {quoted(ask.full_resource)}"
        f" in API group {quoted(ask.group)} {where}"
    )
