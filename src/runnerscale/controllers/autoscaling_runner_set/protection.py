"""Taking the chart's `cleanup-protection` from its objects, when their runner set is deleted.

The order matters: what the runners' pods need goes first, our own rights last, because taking
those away ends what we can do here. What is gone is done; what is refused for too long is left
to whoever took our rights, and told.

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


def next_steps(seen: Snapshot) -> tuple[Action, ...]:
    """The next objects; empty: all are done."""
    for batch in BATCHES:
        steps = tuple(
            Unprotect(key, resource, name)
            for key, resource in batch
            if (name := seen.annotation(key)) and key not in seen.unprotected
        )
        if steps:
            return steps
    return ()
