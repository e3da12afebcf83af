from typing import Any

import pytest

from runnerscale.scaleset.errors import (
    BadAnswer,
    Refused,
    RunnerGroupNotFound,
    ScaleSetAmbiguous,
    ScaleSetError,
    ScaleSetNotFound,
    Unavailable,
)
from runnerscale.scaleset.model import RunnerGroup, RunnerScaleSet
from runnerscale.scaleset.transport import NoAnswer, NotReached
from tests.unit.scaleset.stub import (
    ONE_RETRY,
    Seen,
    client_of,
    exception,
    in_turn,
    reply,
    stub_with,
)

SET = {
    "id": 1,
    "name": "ScaleSet",
    "runnerGroupId": 1,
    "runnerGroupName": "Default",
    "labels": [{"type": "System", "name": "ScaleSet"}, {"type": "System", "name": "x64"}],
    "RunnerSetting": {"disableUpdate": True},
    "createdOn": "2026-01-01T00:00:00Z",
    "statistics": {"totalAssignedJobs": 4},
}
FOUND = {"count": 1, "value": [SET]}
NONE = {"count": 0, "value": []}
ROOT = "/tenant/123/_apis/runtime/runnerscalesets"


def is_lookup(seen: Seen) -> bool:
    return seen.method == "GET" and seen.path == ROOT


@pytest.mark.behaviour("C2 T35")
async def test_a_runner_group_is_found_by_its_name() -> None:
    answer = {"count": 1, "value": [{"id": 1, "name": "test-runner-group", "isDefaultGroup": True}]}
    stub = stub_with(lambda seen: reply(200, answer))
    found = await client_of(stub).get_runner_group("a&b #1")
    assert found == RunnerGroup(1, "test-runner-group", is_default=True)
    (seen,) = stub.calls()
    assert seen.path == "/tenant/123/_apis/runtime/runnergroups/"
    assert seen.query["groupName"] == ["a&b #1"]


@pytest.mark.behaviour("C2 T36")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NONE, "no runner group found with name"),
        ({"count": 2, "value": []}, "multiple runner group found with name"),
    ],
)
async def test_a_runner_group_must_be_one(answer: Any, said: str) -> None:
    stub = stub_with(lambda seen: reply(200, answer))
    with pytest.raises(RunnerGroupNotFound, match=f'{said} "g"'):
        await client_of(stub).get_runner_group("g")


@pytest.mark.behaviour("C2 T37")
async def test_a_scale_set_is_found_by_its_name() -> None:
    stub = stub_with(lambda seen: reply(200, FOUND))
    found = await client_of(stub).find_scale_set("ScaleSet", 1)
    assert found is not None
    assert (found.id, found.name, found.labels) == (1, "ScaleSet", ("ScaleSet", "x64"))
    assert found.disable_update
    assert found.statistics is not None and found.statistics.assigned_jobs == 4
    (seen,) = stub.calls()
    assert seen.path == ROOT
    assert seen.query == {
        "name": ["ScaleSet"],
        "runnerGroupId": ["1"],
        "api-version": ["6.0-preview"],
    }


@pytest.mark.behaviour("C2 T38")
async def test_a_count_of_zero_is_none_whatever_else_is_there() -> None:
    stub = stub_with(lambda seen: reply(200, {"count": 0, "value": [SET]}))
    assert await client_of(stub).find_scale_set("ScaleSet", 1) is None


async def test_without_a_count_the_array_decides() -> None:
    stub = stub_with(in_turn(reply(200, {"value": [SET]}), reply(200, {})))
    client = client_of(stub)
    found = await client.find_scale_set("ScaleSet", 1)
    assert found is not None
    assert await client.find_scale_set("ScaleSet", 1) is None


@pytest.mark.behaviour("C2 T39")
async def test_several_of_one_name_is_an_error_of_its_own() -> None:
    stub = stub_with(lambda seen: reply(200, {"count": 2, "value": [SET, SET]}, ActivityId="X"))
    with pytest.raises(ScaleSetAmbiguous) as caught:
        await client_of(stub).find_scale_set("ScaleSet", 1)
    assert 'multiple runner scale sets found with name "ScaleSet"' in str(caught.value)
    assert 'activity_id="X"' in str(caught.value)
    assert caught.value.answer.activity_id == "X"


@pytest.mark.behaviour("C2 T40")
@pytest.mark.parametrize(
    "answer", [{"count": 1, "value": []}, {"count": 1}, {"count": 1, "value": [SET, SET]}]
)
async def test_a_count_that_contradicts_the_array_is_an_error(answer: Any) -> None:
    stub = stub_with(lambda seen: reply(200, answer))
    with pytest.raises(BadAnswer, match="count is 1"):
        await client_of(stub).find_scale_set("ScaleSet", 1)


@pytest.mark.behaviour("C2 T41")
async def test_a_refused_lookup_says_what_github_said() -> None:
    stub = stub_with(in_turn(reply(404), reply(400, text="example plain text error")))
    client = client_of(stub)
    with pytest.raises(Refused, match="404 Not Found"):
        await client.find_scale_set("ScaleSet", 1)
    with pytest.raises(Refused, match=r"400 Bad Request.*example plain text error"):
        await client.find_scale_set("ScaleSet", 1)


@pytest.mark.behaviour("C2 T42")
async def test_a_scale_set_is_got_by_its_id() -> None:
    stub = stub_with(in_turn(reply(200, SET), reply(200, b"null"), reply(404), reply(410)))
    client = client_of(stub)
    found = await client.get_scale_set(1)
    assert found is not None and found.runner_group_name == "Default"
    assert stub.calls()[0].path == f"{ROOT}/1"
    assert await client.get_scale_set(1) is None
    for _ in range(2):
        with pytest.raises(ScaleSetNotFound, match="scale set 1"):
            await client.get_scale_set(1)


@pytest.mark.behaviour("C2 T43", "C2 T44", "C2 T48", "C2 T46", "C1 T41")
@pytest.mark.parametrize(
    ("labels", "sent"),
    [((), ["my-scale-set"]), (("linux", "x64"), ["linux", "x64"]), (("ScaleSet",), ["ScaleSet"])],
)
async def test_a_scale_set_is_created_with_its_labels(
    labels: tuple[str, ...], sent: list[str]
) -> None:
    answer = {
        "id": 7,
        "name": "my-scale-set",
        "labels": [{"type": "System", "name": name} for name in sent],
        "runnerSetting": {"disableUpdate": True},
    }
    stub = stub_with(lambda seen: reply(200, answer))
    created = await client_of(stub).create_scale_set("my-scale-set", 1, labels=labels)
    assert created == RunnerScaleSet(
        id=7, name="my-scale-set", labels=tuple(sent), disable_update=True
    )
    (seen,) = stub.calls()
    assert (seen.method, seen.path) == ("POST", ROOT)
    assert seen.json == {
        "name": "my-scale-set",
        "runnerGroupId": 1,
        "labels": [{"type": "System", "name": name} for name in sent],
        "RunnerSetting": {"disableUpdate": True},
    }


@pytest.mark.behaviour("C2 T45")
async def test_a_scale_set_without_a_name_is_not_asked_for() -> None:
    stub = stub_with()
    with pytest.raises(Refused, match="no name"):
        await client_of(stub).create_scale_set("", 1)
    assert stub.seen == []


@pytest.mark.behaviour("C2 T47")
async def test_only_200_creates() -> None:
    # A 201 may have created it all the same, so the name is looked up before giving up.
    stub = stub_with(lambda seen: reply(200, NONE) if is_lookup(seen) else reply(201, SET))
    with pytest.raises(BadAnswer, match="unexpected status code 201"):
        await client_of(stub, policy=ONE_RETRY).create_scale_set("ScaleSet", 1)


@pytest.mark.behaviour("C2 T49")
async def test_a_change_sends_only_what_changes() -> None:
    stub = stub_with(lambda seen: reply(200, SET))
    changed = await client_of(stub).update_scale_set(1, runner_group_id=1)
    assert changed.id == 1
    (seen,) = stub.calls()
    assert (seen.method, seen.path) == ("PATCH", f"{ROOT}/1")
    assert seen.json == {"runnerGroupId": 1}  # no RunnerSetting, no createdOn (weakness W56)


async def test_a_change_of_what_is_gone_says_so() -> None:
    stub = stub_with(in_turn(reply(404), reply(200, b"null")))
    client = client_of(stub)
    with pytest.raises(ScaleSetNotFound):
        await client.update_scale_set(1, name="n")
    with pytest.raises(BadAnswer, match="null"):
        await client.update_scale_set(1, name="n")


@pytest.mark.behaviour("C2 T50")
async def test_only_204_deletes() -> None:
    answers = in_turn(reply(204), reply(400, {"message": "test error"}), reply(200), reply(404))
    stub = stub_with(answers)
    client = client_of(stub)
    await client.delete_scale_set(10)
    assert (stub.calls()[0].method, stub.calls()[0].path) == ("DELETE", f"{ROOT}/10")
    with pytest.raises(Refused, match="test error"):
        await client.delete_scale_set(10)
    with pytest.raises(BadAnswer, match="unexpected status code 200"):
        await client.delete_scale_set(10)
    with pytest.raises(ScaleSetNotFound):
        await client.delete_scale_set(10)


@pytest.mark.parametrize("lost", [NoAnswer("reset"), reply(502), reply(200), reply(200, {})])
async def test_a_lost_answer_to_create_is_found_by_name_and_not_repeated(lost: Any) -> None:
    stub = stub_with(lambda seen: reply(200, FOUND) if is_lookup(seen) else lost)
    created = await client_of(stub).create_scale_set("ScaleSet", 1)
    assert created.id == 1
    assert [seen.method for seen in stub.calls()] == ["POST", "GET"]


async def test_a_create_that_had_no_effect_is_made_again() -> None:
    posts = in_turn(NoAnswer("reset"), reply(502), reply(200, SET))
    stub = stub_with(lambda seen: reply(200, NONE) if is_lookup(seen) else posts(seen))
    assert (await client_of(stub).create_scale_set("ScaleSet", 1)).id == 1
    assert [seen.method for seen in stub.calls()] == ["POST", "GET", "POST", "GET", "POST"]


@pytest.mark.parametrize("harmless", [NotReached("refused"), reply(429)])
async def test_an_attempt_that_cannot_have_had_an_effect_needs_no_lookup(harmless: Any) -> None:
    stub = stub_with(in_turn(harmless, reply(200, SET)))
    assert (await client_of(stub).create_scale_set("ScaleSet", 1)).id == 1
    assert [seen.method for seen in stub.calls()] == ["POST", "POST"]


async def test_when_it_cannot_be_found_out_the_lost_answer_is_the_error() -> None:
    stub = stub_with(lambda seen: reply(503) if is_lookup(seen) else NoAnswer("reset by peer"))
    with pytest.raises(Unavailable, match="reset by peer") as caught:
        await client_of(stub, policy=ONE_RETRY).create_scale_set("ScaleSet", 1)
    assert caught.value.sent
    assert [seen.method for seen in stub.calls()] == ["POST", "GET", "GET"]


async def test_a_name_taken_meanwhile_is_adopted() -> None:
    taken = exception(409, "RunnerScaleSetExistsException")
    stub = stub_with(lambda seen: reply(200, FOUND) if is_lookup(seen) else taken)
    assert (await client_of(stub).create_scale_set("ScaleSet", 1)).id == 1
    stub.actions = lambda seen: reply(200, NONE) if is_lookup(seen) else taken
    with pytest.raises(Refused, match="RunnerScaleSetExistsException"):
        await client_of(stub).create_scale_set("ScaleSet", 1)


async def test_a_time_for_the_whole_call_holds() -> None:
    stub = stub_with(lambda seen: reply(503))
    with pytest.raises(Unavailable, match="503") as caught:
        await client_of(stub).find_scale_set("ScaleSet", 1, timeout_s=4)
    # Waits of 1 and 2 s fit into 4 s, the third of 4 s does not.
    assert stub.clock.slept_s == [1.0, 2.0]
    assert caught.value.answer.attempts == 3


async def test_a_missing_group_is_told_by_githubs_exception_too() -> None:
    stub = stub_with(lambda seen: exception(404, "X.RunnerGroupNotFoundException, X"))
    with pytest.raises(ScaleSetError) as caught:
        await client_of(stub).create_scale_set("ScaleSet", 9)
    assert type(caught.value) is RunnerGroupNotFound
