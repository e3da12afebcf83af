"""The order in which a listener is made real.

Rights, credentials and configuration first, then the pod that needs them; each stage says what
is wrong by itself and stops nobody else. What each does is in the file of its name.

Pure. Contract: resources-and-controllers 4.2.
"""

from runnerscale.api.labels import LISTENER_FINALIZER
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.autoscaling_listener import (
    config_secret,
    deletion,
    identity,
    means,
    pod_life,
    proxy_secret,
    status,
)
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    AskOwner,
    DeleteSelf,
    PatchSelf,
    Snapshot,
)
from runnerscale.controllers.stages import Stage, as_plan, joined
from runnerscale.kube.objects import is_deleting
from runnerscale.kube.patching import add_finalizers
from runnerscale.kube.reconcile import Plan


def plan(seen: Snapshot) -> Plan[Action, Trouble]:
    """What to do about a listener, now."""
    if is_deleting(seen.listener):
        return as_plan(deletion.stage(seen))
    orphaned = _orphan(seen)
    if orphaned is not None:
        return as_plan(orphaned)
    missing = add_finalizers(seen.listener.metadata, [LISTENER_FINALIZER])
    if missing is not None:
        return as_plan(Stage((PatchSelf(missing),)))
    before = joined(
        [
            identity.stage(seen),
            means.stage(seen),
            proxy_secret.stage(seen),
            config_secret.stage(seen),
        ]
    )
    pod = pod_life.stage(seen, may_create=not before.actions)
    so_far = joined([before, pod])
    # The status tells how the pass ended, so it waits until nothing else is to be done.
    if so_far.actions:
        return as_plan(so_far)
    return as_plan(joined([so_far, status.stage(seen, so_far.troubles)]))


def _orphan(seen: Snapshot) -> Stage[Action] | None:
    """Without its runner set a listener has no purpose; the server is asked, the cache may lag."""
    if seen.owner_exists:
        return None
    spec = seen.listener.spec
    if not seen.owner_confirmed:
        where = (spec.autoscaling_runner_set_namespace, spec.autoscaling_runner_set_name)
        return Stage((AskOwner(*where),))
    return Stage((DeleteSelf(seen.listener.metadata.uid or ""),))
