"""Taking the chart's `cleanup-protection` from its objects, when their runner set is deleted.

The order matters: what the runners' pods need goes first, our own rights last, because taking
those away ends what we can do here. What is gone is done; what is refused for too long is left
to whoever took our rights, and told.

The annotations name what the values of today make. What earlier values made (another container
mode, credentials in the values) Helm has deleted since, but nobody would ever release it: its
name follows from the name of the manager's Role, and it is released with the rest.

Pure. Contract: resources-and-controllers 4.1.4.
"""

from typing import Any

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_runner_set.snapshot import Action, Snapshot, Unprotect
from runnerscale.kube.builtin import ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from runnerscale.kube.resource import Resource

BATCHES: tuple[tuple[tuple[str, Resource[Any]], ...], ...] = (
    (
        (keys.CLEANUP_KUBE_MODE_ROLE_BINDING, ROLE_BINDINGS),
        (keys.CLEANUP_KUBE_MODE_ROLE, ROLES),
        (keys.CLEANUP_KUBE_MODE_SERVICE_ACCOUNT, SERVICE_ACCOUNTS),
        (keys.CLEANUP_NO_PERMISSION_SERVICE_ACCOUNT, SERVICE_ACCOUNTS),
        (keys.CLEANUP_GITHUB_SECRET, SECRETS),
    ),
    ((keys.CLEANUP_MANAGER_ROLE_BINDING, ROLE_BINDINGS),),
    ((keys.CLEANUP_MANAGER_ROLE, ROLES),),
)

# Their names in the chart, after the scale set's name; in a Role's name underscores stay.
MANAGER = "-gha-rs-manager"
MADE_BY_SOME_VALUES = {
    keys.CLEANUP_KUBE_MODE_ROLE_BINDING: "-gha-rs-kube-mode",
    keys.CLEANUP_KUBE_MODE_ROLE: "-gha-rs-kube-mode",
    keys.CLEANUP_KUBE_MODE_SERVICE_ACCOUNT: "-gha-rs-kube-mode",
    keys.CLEANUP_NO_PERMISSION_SERVICE_ACCOUNT: "-gha-rs-no-permission",
    keys.CLEANUP_GITHUB_SECRET: "-gha-rs-github-secret",
}


def next_steps(seen: Snapshot) -> tuple[Action, ...]:
    """The next objects; empty: all are done."""
    for batch in BATCHES:
        steps = tuple(
            Unprotect(key, resource, name)
            for key, resource in batch
            if key not in seen.unprotected and (name := _name(seen, key, resource))
        )
        if steps:
            return steps
    return ()


def _name(seen: Snapshot, key: str, resource: Resource[Any]) -> str:
    """As the annotation says, else as the chart would have named it; "" where no chart made it."""
    named = seen.annotation(key)
    suffix = MADE_BY_SOME_VALUES.get(key, "")
    manager = seen.annotation(keys.CLEANUP_MANAGER_ROLE)
    if named or not suffix or not manager.endswith(MANAGER):
        return named
    owner = manager.removesuffix(MANAGER)
    is_role = resource is ROLES or resource is ROLE_BINDINGS
    return f"{owner if is_role else owner.replace('_', '-')}{suffix}"
