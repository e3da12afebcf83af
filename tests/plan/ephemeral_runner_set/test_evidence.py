"""Retired runners: kept for a while, then deleted."""

from dataclasses import replace

from runnerscale.controllers.ephemeral_runner_set.evidence import stage
from runnerscale.controllers.ephemeral_runner_set.failure_policy import EVIDENCE_TTL_S, Verdict
from runnerscale.controllers.ephemeral_runner_set.snapshot import DeleteRunner
from tests.plan.ephemeral_runner_set.values import FAILED, NOW, SEEN


def test_what_the_policy_does_not_keep_goes_whatever_changed_on_it() -> None:
    kept = replace(FAILED, name="kept", uid="k", since_s=NOW - 100)
    found = stage(replace(SEEN, retired=(FAILED, kept)), Verdict(keep=frozenset({"k"})))
    assert found.actions == (DeleteRunner("bad", uid="f1", why="retired"),)
    assert found.again_s == EVIDENCE_TTL_S - 100


def test_evidence_of_a_block_has_no_end_by_itself() -> None:
    old = replace(FAILED, since_s=NOW - 2 * EVIDENCE_TTL_S)
    found = stage(replace(SEEN, retired=(old,)), Verdict(keep=frozenset({"f1"})))
    assert found.actions == () and found.again_s is None
