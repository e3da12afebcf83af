"""What an error of a call means; the calls themselves are seen in the scenarios."""

from typing import Any

import pytest

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.ephemeral_runner_set import snapshot as snap
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Answer,
    Look,
    Refused,
    Said,
    Snapshot,
    Undecided,
)
from runnerscale.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    NotFound,
    ServerFault,
    Unreachable,
)
from tests.plan.ephemeral_runner_set.world import KEY, NS, SET, World

NO = Forbidden(403, "Forbidden", 'cannot patch resource "x"')


class Scene(World):
    def __init__(self) -> None:
        super().__init__()
        self.make(replicas=1, runner={"proxy": {"noProxy": ["x"]}})

    def at(self) -> Snapshot:
        seen = self.reconciler.observe(KEY)
        assert seen is not None
        return seen

    async def ends(self, action: snap.Action, error: Exception | None = None) -> Answer:
        seen = self.at()
        self.api.fault = lambda verb, plural, name: error
        try:
            return await self.reconciler._hands.apply(seen, action)
        finally:
            self.api.fault = lambda *_: None


@pytest.mark.parametrize(
    ("action", "error", "expected"),
    [
        (snap.PatchSet({}), NotFound(404, "", ""), Said.GONE),
        (snap.PatchSet({}), Conflict(409, "", ""), Said.CONFLICT),
        (snap.WriteStatus({}, snap.StatusView((), ())), NotFound(404, "", ""), Said.GONE),
        (snap.DeleteRunner("gone", uid="u"), None, Said.GONE),
        (snap.DeleteRunner("gone", uid="u"), Conflict(409, "", ""), Said.CONFLICT),
        (snap.ReadProxySecret(), NotFound(404, "", ""), Look.ABSENT),
        (snap.WriteProxySecret({}, create=False), NotFound(404, "", ""), Look.UNKNOWN),
        (snap.DeleteProxySecret("u"), Conflict(409, "", ""), Look.UNKNOWN),
        (snap.DeleteProxySecret("u"), None, Look.ABSENT),
        (snap.CheckTemplate(), AlreadyExists(409, "", ""), Said.DONE),
        (snap.AskGitHub("nobody", uid="u", runner_id=1), None, Said.GONE),
    ],
)
async def test_an_error_that_is_an_answer(
    action: snap.Action, error: Exception | None, expected: Answer
) -> None:
    assert await Scene().ends(action, error) == expected


@pytest.mark.parametrize(
    "action",
    [
        snap.PatchSet({}),
        snap.WriteStatus({}, snap.StatusView((), ())),
        snap.CreateRunner(),
        snap.DeleteRunner("x", uid="u"),
        snap.ReadProxySecret(),
        snap.WriteProxySecret({"metadata": {"name": "x"}}, create=True),
        snap.WriteProxySecret({}, create=False),
        snap.DeleteProxySecret("u"),
    ],
)
async def test_a_refusal_keeps_the_servers_words(action: snap.Action) -> None:
    answer = await Scene().ends(action, NO)
    assert isinstance(answer, Refused)
    assert answer.trouble.reason == "RightsMissing" and NO.message in answer.trouble.happened


async def test_a_server_that_is_away_raises_where_nothing_was_made() -> None:
    with pytest.raises(ServerFault):
        await Scene().ends(
            snap.WriteStatus({}, snap.StatusView((), ())), ServerFault(503, "", "down")
        )


async def test_a_creation_without_an_answer_keeps_its_name() -> None:
    this = Scene()
    answer = await this.ends(snap.CreateRunner(), Unreachable("reset"))
    assert isinstance(answer, Undecided) and answer.name.startswith("set-runner-")
    assert this.at().undecided == (answer.name,)
    this.clock.advance(61)  # the cache would show it by now
    assert this.at().undecided == ()


async def test_a_creation_that_found_itself_needs_to_read_and_may_fail_at_that() -> None:
    this = Scene()
    this.runner("set-runner-x")

    def fault(verb: str, plural: str, name: str) -> Exception | None:
        return {
            "create": AlreadyExists(409, "AlreadyExists", "taken"),
            "get": Unreachable("reset"),
        }.get(verb)

    seen = this.at()
    this.api.fault = fault
    answer = await this.reconciler._hands.apply(seen, snap.CreateRunner("set-runner-x"))
    assert isinstance(answer, Undecided)
    this.api.fault = lambda verb, plural, name: (
        AlreadyExists(409, "AlreadyExists", "taken") if verb == "create" else None
    )
    answer = await this.reconciler._hands.apply(seen, snap.CreateRunner("set-runner-x"))
    assert answer is Said.DONE
    answer = await this.reconciler._hands.apply(seen, snap.CreateRunner("vanished"))
    assert answer is Said.DONE


async def test_when_every_drawn_name_is_taken_it_says_so() -> None:
    this = Scene()
    seen = this.at()
    this.api.fault = lambda verb, plural, name: (
        AlreadyExists(409, "AlreadyExists", "taken") if verb == "create" else None
    )

    async def foreign(resource: Any, namespace: str, name: str, **_: Any) -> Any:
        from runnerscale.api.ephemeral_runner import EphemeralRunner

        return EphemeralRunner()

    this.api.get = foreign  # type: ignore[method-assign]
    answer = await this.reconciler._hands.apply(seen, snap.CreateRunner())
    assert isinstance(answer, Refused) and answer.trouble.reason == "RunnerNameTaken"


async def test_a_refused_deletion_is_not_taken_for_our_own_doing() -> None:
    this = Scene()
    name = this.runner("r", runnerId=1, phase="Pending")
    uid = this.body(name)["metadata"]["uid"]
    await this.ends(snap.DeleteRunner(name, uid=uid), NO)
    remembered = this.reconciler._memory.of(KEY, this.set["metadata"]["uid"])
    assert remembered.let_go == {}


def test_a_set_that_is_not_there_has_no_snapshot() -> None:
    this = Scene()
    this.api.drop(EPHEMERAL_RUNNER_SETS, NS, SET)
    assert this.reconciler.observe(KEY) is None


async def test_a_view_that_may_be_of_the_past_confirms_nothing() -> None:
    # The set itself was written before its runners: it is the same in both views, and the ones
    # that a predecessor made were made once more (stale sweep, scale-up).
    this = Scene()
    hands = this.reconciler._hands
    hands._is_view_proven = lambda: False
    assert await this.ends(snap.ConfirmView()) is Said.CONFLICT
    hands._is_view_proven = lambda: True
    assert await this.ends(snap.ConfirmView()) is Said.DONE
