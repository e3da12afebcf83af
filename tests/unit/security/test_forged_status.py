"""What somebody can do who may write the status of a runner and forges the id in it.

The id is what GitHub is asked to forget. It can be another runner's of the same credentials.
"""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.app.api_server import NODE
from runnerscale.controllers.ephemeral_runner.actions import (
    DeletePod,
    DeleteRunner,
    PatchStatus,
    RemoveRunner,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.snapshot import PodPast, Removal
from tests.plan.ephemeral_runner.values import (
    BUSY,
    IDLE,
    JIT,
    MADE,
    NOW_S,
    PENDING,
    RUNNING,
    Hand,
    removed,
    seen,
)
from tests.unit.apiserver.harness import Api
from tests.unit.security.test_rights import cluster, may, token_of

__all__ = ["cluster"]  # the fixture
FORGED = 99
LETTING_GO = (DeletePod, DeleteRunner, SetFinalizers)


@pytest.mark.parametrize("account", [NODE, "default"])
async def test_only_listener_and_controller_write_the_status_of_runners(
    cluster: Api,
    account: str,
) -> None:
    token = await token_of(cluster, account.rpartition(":")[2])
    allowed = await may(cluster, token, ("patch", "update"))
    assert not [right for right in allowed if right[2].startswith("ephemeralrunners")]


def test_a_forged_id_is_put_right_by_whoever_registered_the_runner() -> None:
    forged = replace(IDLE, runner_id=FORGED)
    hand = Hand(jit=JIT, secret=True, pod=PodPast.MADE, issued_s=NOW_S)
    (write,) = [a for a in plan(seen(forged, RUNNING, hand)).actions if isinstance(a, PatchStatus)]
    assert write.runner_id == JIT.runner_id
    assert write.resource_version == forged.resource_version


def test_where_the_forged_id_is_of_a_busy_runner_githubs_no_is_final() -> None:
    going = replace(PENDING, runner_id=FORGED, deleted_s=NOW_S)
    asked = [a for a in plan(seen(going, RUNNING, MADE)).actions if isinstance(a, RemoveRunner)]
    assert [a.runner_id for a in asked] == [FORGED]  # after a restart there is nothing else to know
    answered = seen(going, RUNNING, removed(Removal.BUSY))
    made = plan(answered)
    assert not [a for a in made.actions if isinstance(a, LETTING_GO)]
    assert {t.reason for t in made.troubles} <= {Reason.DELETION_WAITS, Reason.JOB_STILL_RUNNING}
    assert made.troubles


def test_whoever_has_a_job_is_not_asked_about_whatever_its_id_says() -> None:
    made = plan(seen(replace(BUSY, runner_id=FORGED), RUNNING, MADE))
    assert not [a for a in made.actions if isinstance(a, (RemoveRunner, *LETTING_GO))]
