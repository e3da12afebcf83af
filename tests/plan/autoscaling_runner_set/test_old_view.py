"""What a controller does not make when its view of the runner set is of the past."""

import json

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.controllers.autoscaling_runner_set import snapshot as snap
from runnerscale.controllers.autoscaling_runner_set.controller import Bound
from runnerscale.kube.errors import Conflict
from tests.plan.autoscaling_runner_set.world import KEY, NAME, RUNNERS, URL, World


@pytest.mark.parametrize("what", ["scale set", "listener"])
@pytest.mark.parametrize("now", ["gone", "going", "another"])
async def test_what_has_no_owner_is_not_made_for_a_runner_set_of_the_past(
    what: str, now: str
) -> None:
    # Its scale set was registered anew at GitHub and stayed there (stale sweep, set-deleted).
    this = World()
    seen = this.reconciler.observe(KEY)
    assert seen is not None and seen.wish.place is not None
    if now == "going":
        gone = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}
        this.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME, gone)
    else:
        body = this.api.body(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)
        assert body is not None
        this.api.drop(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)
        if now == "another":
            again = {"metadata": {"name": NAME}, "spec": body["spec"]}
            this.api.put(AUTOSCALING_RUNNER_SETS, RUNNERS, again)
    action = (
        snap.CreateScaleSet(seen.wish.place, "linux", 1, ("linux",))
        if what == "scale set"
        else snap.CreateListener({"metadata": {"name": "a-listener"}})
    )
    with pytest.raises(Conflict):
        await this.reconciler.apply(Bound(seen, action))
    assert this.github.calls == []
    assert this.api.names(AUTOSCALING_LISTENERS) == []


async def test_no_listener_is_made_before_the_view_of_listeners_is_proven() -> None:
    # One that a predecessor made, under another name since the URL was another, ran on beside the
    # new one (simulation, seed 1249).
    this = World()
    proven = False
    this.reconciler._is_view_proven = lambda: proven
    end = await this.one_pass()
    assert [type(error) for error in end.errors] == [Conflict]
    assert this.api.names(AUTOSCALING_LISTENERS) == []
    proven = True
    await this.settle()
    assert len(this.listeners) == 1


async def test_a_place_is_not_struck_out_before_the_view_of_it_is_proven() -> None:
    # The EphemeralRunnerSet was not seen yet: the old scale set was forgotten with it, and stayed
    # at GitHub (stale sweep, moved). Nor is it deleted while its runners may only not be seen.
    this = World()
    await this.settle()
    proven = False
    this.reconciler._is_view_proven = lambda: proven
    owned = this.caches.runner_sets_owned
    unseen = owned.store.get(KEY)
    owned.store.remove(KEY)
    this.edit(githubConfigUrl="https://github.com/other-org")
    for _ in range(4):
        await this.one_pass()
    assert this.annotations[keys.SCALE_SET_ID] == "7"
    proven = True
    owned.store.put(KEY, unseen)
    await this.settle()
    assert this.annotations[keys.SCALE_SET_ID] == "8"
    assert this.github.at[URL] == {}


async def test_what_is_left_behind_is_not_deleted_while_its_runners_may_not_be_seen() -> None:
    this = World()
    await this.settle()
    left = [{"scaleSetId": 5, "githubConfigUrl": URL, "githubConfigSecret": "github"}]
    this.edit_meta(annotations={keys.LEFT_BEHIND: json.dumps(left)})
    proven = False
    this.reconciler._is_view_proven = lambda: proven
    await this.settle()
    assert this.github.writes()[1:] == []  # the first made its own scale set
    proven = True
    await this.settle()
    assert this.github.writes()[1:] == [("delete", 5)]
    assert keys.LEFT_BEHIND not in this.annotations
