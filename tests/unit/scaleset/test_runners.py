from typing import Any

import pytest

from runnerscale.scaleset.errors import (
    BadAnswer,
    JobStillRunning,
    Refused,
    RunnerExists,
    RunnerNotFound,
    ScaleSetError,
    ScaleSetNotFound,
    Unavailable,
)
from runnerscale.scaleset.model import RunnerReference
from runnerscale.scaleset.transport import NoAnswer, NotReached
from tests.unit.scaleset.stub import (
    ONE_RETRY,
    Handler,
    client_of,
    exception,
    in_turn,
    reply,
    stub_with,
)

AGENTS = "/tenant/123/_apis/distributedtask/pools/0/agents"
RUNNER = {"id": 5, "name": "set-abc", "runnerScaleSetId": 1}
JIT = {"runner": RUNNER, "encodedJITConfig": "aHVzaA=="}
NONE = {"count": 0, "value": []}


def jit_or_lookup(jit: Handler, lookup: Handler) -> Handler:
    return lambda seen: jit(seen) if seen.method == "POST" else lookup(seen)


@pytest.mark.behaviour("C2 T51")
async def test_a_runner_is_got_by_its_id() -> None:
    stub = stub_with(lambda seen: reply(200, {"id": 1, "name": "self-hosted-ubuntu"}))
    assert await client_of(stub).get_runner(1) == RunnerReference(1, "self-hosted-ubuntu")
    assert stub.calls()[0].path == f"{AGENTS}/1"


@pytest.mark.parametrize(
    ("status", "read"), [("Online", "online"), ("offline", "offline"), (7, "")]
)
async def test_whether_a_runner_is_online_is_read_where_it_is_told(status: Any, read: str) -> None:
    stub = stub_with(lambda seen: reply(200, RUNNER | {"status": status}))
    assert (await client_of(stub).get_runner(5)).status == read


@pytest.mark.behaviour("C2 T52")
async def test_a_runner_is_found_by_its_name() -> None:
    stub = stub_with(
        in_turn(
            reply(200, {"count": 1, "value": [RUNNER]}),
            reply(200, NONE),
            reply(200, {"count": 2, "value": [RUNNER, RUNNER]}),
        )
    )
    client = client_of(stub)
    assert await client.find_runner("set-abc") == RunnerReference(5, "set-abc", 1)
    assert stub.calls()[0].path == AGENTS
    assert stub.calls()[0].query["agentName"] == ["set-abc"]
    assert await client.find_runner("set-abc") is None
    with pytest.raises(Refused, match='multiple runners found with name "set-abc"'):
        await client.find_runner("set-abc")


@pytest.mark.behaviour("C2 T53")
async def test_a_runner_is_removed() -> None:
    stub = stub_with(
        in_turn(
            reply(204),
            reply(204),
            exception(409, "GitHub.DistributedTask.WebApi.JobStillRunningException, X", "busy"),
            exception(404, "GitHub.DistributedTask.WebApi.TaskAgentNotFoundException, X", "gone"),
        )
    )
    client = client_of(stub)
    await client.remove_runner(1)
    await client.remove_runner(0)
    assert [(s.method, s.path) for s in stub.calls()] == [
        ("DELETE", f"{AGENTS}/1"),
        ("DELETE", f"{AGENTS}/0"),
    ]
    with pytest.raises(JobStillRunning, match="busy"):
        await client.remove_runner(1)
    with pytest.raises(RunnerNotFound, match="gone"):
        await client.remove_runner(1)


@pytest.mark.parametrize("answer", [reply(404), reply(404, {"message": "Not Found"})])
async def test_a_bare_404_is_not_taken_for_a_runner_that_is_gone(answer: Any) -> None:
    # A proxy or a router can say 404 too, and the runner may be in the middle of a job.
    stub = stub_with(lambda seen: answer)
    client = client_of(stub)
    for call in (client.remove_runner(1), client.get_runner(1)):
        with pytest.raises(Refused) as caught:
            await call
        assert type(caught.value) is Refused


@pytest.mark.behaviour("C2 T55")
async def test_a_runner_is_registered_with_both_members_in_the_body() -> None:
    stub = stub_with(lambda seen: reply(200, JIT))
    config = await client_of(stub).generate_jit_config(1, "set-abc")
    assert config.runner == RunnerReference(5, "set-abc", 1)
    assert config.encoded.reveal() == "aHVzaA=="
    assert "aHVzaA" not in repr(config)
    (seen,) = stub.calls()
    assert seen.path == "/tenant/123/_apis/runtime/runnerscalesets/1/generatejitconfig"
    assert seen.json == {"name": "set-abc", "workFolder": ""}
    await client_of(stub).generate_jit_config(1, "set-abc", work_folder="/work")
    assert stub.calls()[-1].json["workFolder"] == "/work"


@pytest.mark.behaviour("C2 T54")
@pytest.mark.parametrize(
    "body",
    [
        {"unrelated": 1},
        {"runner": RUNNER},
        {"runner": None, "encodedJITConfig": "x"},
        {"runner": {"name": "set-abc"}, "encodedJITConfig": "x"},
        {},
    ],
)
async def test_an_answer_without_runner_or_config_is_an_error(body: Any) -> None:
    jit: Handler = lambda seen: reply(200, body)  # noqa: E731
    stub = stub_with(jit_or_lookup(jit, lambda seen: reply(200, NONE)))
    with pytest.raises(BadAnswer):
        await client_of(stub, policy=ONE_RETRY).generate_jit_config(1, "set-abc")


@pytest.mark.behaviour("C2 T56")
@pytest.mark.parametrize(
    "answer", [exception(409, "X.TaskAgentExistsException, X", "taken"), reply(409)]
)
async def test_a_taken_name_is_told(answer: Any) -> None:
    stub = stub_with(lambda seen: answer)
    with pytest.raises(RunnerExists):
        await client_of(stub).generate_jit_config(1, "set-abc")
    assert len(stub.calls()) == 1


async def test_a_scale_set_that_is_gone_is_told_at_registration() -> None:
    stub = stub_with(
        in_turn(reply(404), exception(400, "GitHub.X.RunnerScaleSetNotFoundException, GitHub.X"))
    )
    for _ in range(2):
        with pytest.raises(ScaleSetNotFound):
            await client_of(stub).generate_jit_config(1, "set-abc")


@pytest.mark.parametrize("lost", [NoAnswer("reset"), reply(500), reply(503), reply(200)])
async def test_a_lost_registration_is_looked_up_and_told_as_taken(lost: Any) -> None:
    # Weakness W8: upstream repeats, and is told "runner exists" about its own runner.
    found = reply(200, {"count": 1, "value": [RUNNER]})
    stub = stub_with(jit_or_lookup(lambda seen: lost, lambda seen: found))
    with pytest.raises(RunnerExists, match=r"id 5, scale set 1"):
        await client_of(stub).generate_jit_config(1, "set-abc")
    assert [seen.method for seen in stub.calls()] == ["POST", "GET"]
    assert stub.calls()[1].query["agentName"] == ["set-abc"]


async def test_a_registration_without_effect_is_made_again() -> None:
    posts = in_turn(NoAnswer("reset"), reply(200, JIT))
    stub = stub_with(jit_or_lookup(posts, lambda seen: reply(200, NONE)))
    assert (await client_of(stub).generate_jit_config(1, "set-abc")).runner.id == 5
    assert [seen.method for seen in stub.calls()] == ["POST", "GET", "POST"]


async def test_a_registration_that_never_left_us_may_not_exist() -> None:
    stub = stub_with(lambda seen: NotReached("no route"))
    with pytest.raises(Unavailable, match="no route") as caught:
        await client_of(stub, policy=ONE_RETRY).generate_jit_config(1, "set-abc")
    assert not caught.value.sent
    assert [seen.method for seen in stub.calls()] == ["POST", "POST"]


def calls_of(client: Any) -> list[Any]:
    return [
        client.get_runner(1),
        client.find_runner("r"),
        client.remove_runner(1),
        client.find_scale_set("s", 1),
        client.get_scale_set(1),
        client.update_scale_set(1, name="n"),
        client.delete_scale_set(1),
        client.get_runner_group("g"),
    ]


@pytest.mark.behaviour("C2 T70")
@pytest.mark.parametrize("number", range(8))
async def test_a_repeatable_call_is_tried_again_on_503(number: int) -> None:
    stub = stub_with(lambda seen: reply(503))
    calls = calls_of(client_of(stub, policy=ONE_RETRY))
    with pytest.raises(Unavailable, match=r"giving up after 2 attempt\(s\)"):
        await calls[number]
    assert len(stub.calls()) == 2
    for call in calls:
        call.close()


@pytest.mark.behaviour("C2 T70")
async def test_a_registration_is_looked_up_instead_of_being_repeated_on_503() -> None:
    stub = stub_with(lambda seen: reply(503))
    with pytest.raises(Unavailable):
        await client_of(stub, policy=ONE_RETRY).generate_jit_config(1, "set-abc")
    assert [seen.method for seen in stub.calls()] == ["POST", "GET", "GET"]


@pytest.mark.parametrize("method", ["get_runner", "remove_runner"])
async def test_every_failure_is_one_of_ours(method: str) -> None:
    for status in (*range(200, 208), *range(300, 309), *range(400, 430), *range(500, 511)):
        stub = stub_with(lambda seen, status=status: reply(status, b"{"))
        if status == (200 if method == "get_runner" else 204):
            stub.actions = lambda seen: reply(599)
        with pytest.raises(ScaleSetError) as caught:
            await getattr(client_of(stub, policy=ONE_RETRY), method)(1)
        assert type(caught.value).__module__ == "runnerscale.scaleset.errors"
