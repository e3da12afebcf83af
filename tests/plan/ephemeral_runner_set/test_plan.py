"""The order of the stages, and what ends a pass."""

from dataclasses import replace

from runnerscale.api.labels import EPHEMERAL_RUNNER_SET_FINALIZER, INTEGRITY_HASH
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.plan import plan
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    AskGitHub,
    CheckTemplate,
    CreateRunner,
    DeleteRunner,
    PatchSet,
    ResolveProxy,
    Template,
    WriteStatus,
)
from runnerscale.kube.reconcile import Plan
from tests.plan.ephemeral_runner_set.values import FAILED, IDLE, NOW, SEEN, item

WHY = trouble(Reason.API_SERVER_REFUSED, about="x", happened="no")


def test_finalizer_and_hash_come_first_in_one_guarded_patch() -> None:
    bare = item(metadata={"finalizers": ["other"], "annotations": {}})
    (action,) = plan(replace(SEEN, item=bare, replicas=3)).actions
    assert isinstance(action, PatchSet)
    meta = action.body["metadata"]
    assert meta["finalizers"] == ["other", EPHEMERAL_RUNNER_SET_FINALIZER]
    assert meta["annotations"][INTEGRITY_HASH] and meta["resourceVersion"] == "9"
    only_hash = item(metadata={"annotations": {}})
    (action,) = plan(replace(SEEN, item=only_hash)).actions
    assert isinstance(action, PatchSet) and set(action.body["metadata"]) == {
        "annotations",
        "resourceVersion",
    }


def test_stages_stand_side_by_side() -> None:
    # One in trouble (a template unknown) does not stop the others.
    gone = replace(FAILED, since_s=NOW - 9999)
    old = replace(IDLE, uid="o", name="old", created_s=NOW - 900)
    seen = replace(
        SEEN, exact=True, runners=(IDLE, old), retired=(gone,), template=Template(), replicas=1
    )
    kinds = [type(a) for a in plan(seen).actions]
    assert kinds == [DeleteRunner, AskGitHub]
    wish = replace(seen, replicas=3)
    assert [type(a) for a in plan(wish).actions] == [DeleteRunner, CheckTemplate]


def test_no_runner_is_made_before_its_proxies_are_there() -> None:
    proxied = item(spec={"ephemeralRunnerSpec": {"proxy": {"noProxy": ["x"]}}})
    actions = plan(replace(SEEN, item=proxied, replicas=1)).actions
    assert actions == (ResolveProxy(),)
    assert plan(replace(SEEN, replicas=1)).actions == (CreateRunner(),)


def test_the_status_comes_last() -> None:
    assert [type(a) for a in plan(SEEN).actions] == [WriteStatus]


def test_what_failed_is_not_tried_again_in_the_same_pass() -> None:
    bad = DeleteRunner("bad", uid="f1", why="retired")
    old = replace(FAILED, since_s=NOW - 9999)
    seen = replace(SEEN, retired=(old,), failed=True, failed_actions=(bad,), failures=(WHY,))
    found = plan(seen)
    assert bad not in found.actions and found.failed and WHY in found.troubles


def test_after_a_conflict_it_looks_again_and_a_set_that_is_gone_wants_nothing() -> None:
    assert plan(replace(SEEN, stale=True)) == Plan(stale=True)
    assert plan(replace(SEEN, gone=True)) == Plan()


def test_a_set_that_is_deleted_makes_nobody() -> None:
    kinds = [type(a) for a in plan(replace(SEEN, deleted_s=NOW, replicas=5)).actions]
    assert kinds == [PatchSet]
