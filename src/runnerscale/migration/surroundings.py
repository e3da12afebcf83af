"""What ARC's charts grant and store, where we would use more: rights and schemas.

None of it stands in the way: without the right to write Events there are none, what a schema drops
is told in the log and as a metric. It is named so that nobody looks for it in vain. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence

from runnerscale.migration.controllers import WATCHED
from runnerscale.migration.findings import Finding, changes, note
from runnerscale.migration.snapshot import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    ROLES,
    Json,
    Snapshot,
    labels,
    meta,
    name_of,
    part,
)

ACCOUNT = "actions.github.com/controller-service-account-name"
ACCOUNT_NAMESPACE = "actions.github.com/controller-service-account-namespace"
RUNNERS = "ephemeralrunners"
FIELDS_SHOWN_MAX = 8


def findings(seen: Snapshot) -> Iterator[Finding]:
    """Listener Roles, Events, CRDs."""
    for role in seen.of(ROLES):
        about = f"Role {name_of(role)}"
        if not _allows(role.get("rules") or (), RUNNERS, "get"):
            what = "its listener may not read runners, as before ARC's #4646"
            yield changes("listener-role", about, what, "The right is added")
    looked = not {CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS} & set(seen.unseen)
    for item in seen.of(DEPLOYMENTS) if looked else ():
        namespace, name = labels(item).get(ACCOUNT_NAMESPACE), labels(item).get(ACCOUNT)
        if labels(item).get(WATCHED):
            continue  # its rights are in Roles, which are not looked at
        if name and not _writes_events(seen, str(namespace), str(name)):
            about = f"controller {name_of(item)}"
            what = "its account may not write Events in every namespace, as ARC's charts have it"
            yield note("events", about, what, "Our chart grants it; all else works without")
    for name, fields in sorted(seen.dropped.items()):
        shown = ", ".join(fields[:FIELDS_SHOWN_MAX])
        more = " ..." if len(fields) > FIELDS_SHOWN_MAX else ""
        what = f"the API server drops {shown}{more}"
        fix = "Apply our CRDs to see conditions: `runnerscale crds | kubectl apply -f -`"
        yield note("crd", f"CRD {name}", what, fix)


def _writes_events(seen: Snapshot, namespace: str, name: str) -> bool:
    rules = {
        str(meta(role).get("name")): role.get("rules") or () for role in seen.of(CLUSTER_ROLES)
    }
    for binding in seen.of(CLUSTER_ROLE_BINDINGS):
        subjects = binding.get("subjects") or ()
        if not any(_is(subject, namespace, name) for subject in subjects):
            continue
        if _allows(rules.get(str(part(binding, "roleRef").get("name")), ()), "events", "create"):
            return True
    return False


def _is(subject: Json, namespace: str, name: str) -> bool:
    who = (subject.get("kind"), subject.get("namespace"), subject.get("name"))
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return who == ("ServiceAccount", namespace, name) or (
        subject.get("kind") == "Group" and subject.get("name") in groups
    )


def _allows(rules: Sequence[object], resource: str, verb: str) -> bool:
    return any(
        isinstance(rule, Mapping)
        and {resource, "*"} & set(rule.get("resources") or ())
        and {verb, "*"} & set(rule.get("verbs") or ())
        for rule in rules
    )
