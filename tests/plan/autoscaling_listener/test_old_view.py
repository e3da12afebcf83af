"""What a controller does not make when its view of the listener is of the past."""

import pytest

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.controllers.autoscaling_listener import snapshot as snap
from runnerscale.controllers.autoscaling_listener.controller import Bound
from runnerscale.controllers.autoscaling_listener.snapshot import Child
from runnerscale.kube.builtin import PODS, ROLE_BINDINGS, ROLES
from runnerscale.kube.errors import Conflict
from tests.plan.autoscaling_listener.world import HOME, NAME, World


@pytest.mark.parametrize("child", [Child.ROLE, Child.ROLE_BINDING])
@pytest.mark.parametrize("now", ["gone", "going", "another"])
async def test_a_right_beside_the_runners_is_not_made_for_a_listener_of_the_past(
    child: Child, now: str
) -> None:
    # It has no owner in that namespace: nobody would ever take it away (stale sweep, set-deleted).
    this = World()
    seen = this.reconciler.observe(f"{HOME}/{NAME}")
    assert seen is not None
    if now == "going":
        gone = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}
        this.api.change(AUTOSCALING_LISTENERS, HOME, NAME, gone)
    else:
        body = this.api.body(AUTOSCALING_LISTENERS, HOME, NAME)
        assert body is not None
        this.api.drop(AUTOSCALING_LISTENERS, HOME, NAME)
        if now == "another":
            this.api.put(
                AUTOSCALING_LISTENERS, HOME, {"metadata": {"name": NAME}, "spec": body["spec"]}
            )
    with pytest.raises(Conflict):
        await this.reconciler.apply(Bound(seen, snap.Create(child, {"metadata": {"name": NAME}})))
    assert this.api.names(ROLES) == this.api.names(ROLE_BINDINGS) == []


async def test_a_listener_is_not_let_go_while_its_pod_runs_unseen() -> None:
    # A new process saw the deletion before it saw the pod: the next listener, of another name,
    # ran beside the old one (simulation, seed 1249).
    this = World()
    await this.settle()
    this.run_pod()
    this.caches.pods.store.remove(f"{HOME}/{NAME}")
    this.caches.pods.paused = True  # type: ignore[attr-defined]
    gone = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}
    this.api.change(AUTOSCALING_LISTENERS, HOME, NAME, gone)
    await this.settle()
    assert this.listener is not None
    assert this.pod["metadata"]["deletionTimestamp"]
    this.api.drop(PODS, HOME, NAME)
    await this.settle()
    assert this.listener is None
