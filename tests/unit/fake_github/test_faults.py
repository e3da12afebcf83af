"""Fault rules: which request, how often, for how long, and what the client then sees."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from runnerscale.core.randomness import seeded
from runnerscale.fake_github.faults import (
    RULES_MAX,
    Action,
    Facts,
    FaultBook,
    FaultInvalid,
    Match,
    Rule,
)
from tests.unit.fake_github.http_world import github

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]
SETS = "/runtime/runnerscalesets"

FACTS = Facts(
    operation="jit-config",
    method="POST",
    path="/x/_apis/runtime/runnerscalesets/3/generatejitconfig",
    host="ghes.example:8480",
    scale_set_id=3,
    scale_set_name="demo",
)
BOOM = Action(status=500)


def fires(rule: Rule, facts: Facts = FACTS, now_s: float = 0.0) -> bool:
    book = FaultBook()
    book.add(rule)
    return book.pick(facts, now_s, seeded(1)) is not None


@pytest.mark.parametrize(
    ("match", "hit"),
    [
        (Match(), True),
        (Match(operations=("jit-config", "poll")), True),
        (Match(operations=("poll",)), False),
        (Match(methods=("POST",)), True),
        (Match(methods=("GET",)), False),
        (Match(path=r"sets/\d+/generate"), True),
        (Match(path="^/generate"), False),
        (Match(host="ghes"), True),
        (Match(host=r"api\."), False),
        (Match(scale_set="3"), True),
        (Match(scale_set="demo"), True),
        (Match(scale_set="other"), False),
    ],
)
def test_a_rule_hits_what_it_matches(match: Match, hit: bool) -> None:
    assert fires(Rule(match, BOOM)) is hit


def test_a_rule_spares_the_first_and_stops_after_its_times() -> None:
    book = FaultBook()
    book.add(Rule(Match(), BOOM, times=2, after=1))
    picked = [book.pick(FACTS, 0, seeded(1)) is not None for _ in range(5)]
    assert picked == [False, True, True, False, False]
    assert book.rules == {}


def test_a_rule_ends_with_its_time() -> None:
    assert fires(Rule(Match(), BOOM, until_s=10), now_s=9.9)
    assert not fires(Rule(Match(), BOOM, until_s=10), now_s=10)


def test_chance_comes_from_the_randomness_handed_in() -> None:
    def history(seed: int) -> list[bool]:
        book = FaultBook()
        book.add(Rule(Match(), BOOM, rate=0.5))
        chance = seeded(seed)
        return [book.pick(FACTS, 0, chance) is not None for _ in range(50)]

    assert history(1) == history(1) != history(2)
    assert 10 < sum(history(1)) < 40


def test_the_first_rule_that_fires_wins() -> None:
    book = FaultBook()
    book.add(Rule(Match(), Action(status=500), times=1))
    book.add(Rule(Match(), Action(status=404)))
    statuses = [rule.action.status for _ in range(2) if (rule := book.pick(FACTS, 0, seeded(1)))]
    assert statuses == [500, 404]


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Match(path="("), BOOM),
        Rule(Match(host="x" * 400), BOOM),
        Rule(Match(), Action(status=99)),
        Rule(Match(), Action(delay_s=-1)),
        Rule(Match(), BOOM, rate=2),
        Rule(Match(), BOOM, times=0),
        Rule(Match(), Action(status=200, headers=(("X", "a\r\nSet-Cookie: b"),))),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: Rule) -> None:
    with pytest.raises(FaultInvalid):
        FaultBook().add(rule)


def test_there_is_a_bound_on_rules() -> None:
    book = FaultBook()
    for _ in range(RULES_MAX):
        book.add(Rule(Match(), BOOM))
    with pytest.raises(FaultInvalid, match="remove some first"):
        book.add(replace(Rule(Match(), BOOM)))


# --- over HTTP ---------------------------------------------------------------------------------


def test_a_connection_can_break_before_anything_is_done(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(
                match={"operations": ["jit-config"]}, action={"drop": "before"}, times=1
            )
            with pytest.raises(aiohttp.ClientError):
                await client.jit("r-1")
            assert client.fake.state.runners == {}
            assert (await client.jit("r-1")).status == 200

    run_virtual(story())


def test_a_connection_can_break_after_the_effect(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(preset="jit-lost-answer")
            with pytest.raises(aiohttp.ClientError):
                await client.jit("r-1")
            assert [r.name for r in client.fake.state.runners.values()] == ["r-1"]
            assert (await client.jit("r-1")).exception == "TaskAgentExistsException"

    run_virtual(story())


def test_an_answer_can_be_slow(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(preset="slow", value="3", seconds=100)
            began_s = asyncio.get_running_loop().time()
            assert (await client.jit("r-1")).status == 200
            assert asyncio.get_running_loop().time() - began_s == pytest.approx(3, abs=0.1)

    run_virtual(story())


def test_a_black_hole_never_answers_and_breaks_when_it_is_over(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(preset="black-hole", seconds=30)
            call = asyncio.create_task(client.jit("r-1"))
            await asyncio.sleep(29)
            assert not call.done()
            await asyncio.sleep(2)
            with pytest.raises(aiohttp.ClientError):
                await call
            await client.fault(match={}, action={"black_hole": True})
            call = asyncio.create_task(client.jit("r-1"))
            await asyncio.sleep(100)
            assert (await client.send("DELETE", "/control/faults")).json == {"removed": 1}
            with pytest.raises(aiohttp.ClientError):
                await call

    run_virtual(story())


def test_a_canned_answer_has_its_headers_and_body(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            action = {
                "status": 429,
                "body": "slow down",
                "content_type": "text/plain",
                "headers": {"Retry-After": "7"},
            }
            await client.fault(match={"path": "/scalesets|message"}, action=action, times=1)
            reply = await client.poll()
            assert (reply.status, reply.body) == (429, b"slow down")
            assert reply.headers["Retry-After"] == "7"
            assert reply.headers["Content-Type"] == "text/plain"
            assert reply.headers["ActivityId"]

    run_virtual(story())


def test_a_fault_can_be_for_one_scale_set_only(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            one, two = await client.scale_set("one"), await client.scale_set("two")
            await client.fault(preset="github-down", scale_set="two")
            assert (await client.service("GET", f"{SETS}/{one}")).status == 200
            assert (await client.service("GET", f"{SETS}/{two}")).status == 503

    run_virtual(story())


def test_the_control_api_is_never_hit(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.fault(preset="github-unreachable")
            assert (await client.send("GET", "/control/state")).status == 200
            with pytest.raises(aiohttp.ClientError):
                await client.register()
            shown = (await client.send("GET", "/control/faults")).json["faults"]
            assert [(each["name"], each["fired"]) for each in shown] == [("github-unreachable", 1)]
            removed = await client.send("DELETE", f"/control/faults/{shown[0]['id']}")
            assert removed.status == 204
            assert (await client.register()).status == 200

    run_virtual(story())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "give a preset"),
        ({"preset": "meteor"}, "there is no fault 'meteor'; there are: acknowledge-ignored"),
        ({"preset": "slow", "action": {"status": 500}}, "takes only"),
        ({"preset": "slow", "value": "much"}, "value must be a number"),
        ({"preset": "session-lost", "scale_set": "none"}, "no scale set 'none'"),
        ({"match": {"operations": ["dance"]}, "action": {}}, "no operation 'dance'"),
        ({"action": {"twist": "again"}}, "no twist 'again'"),
        ({"action": {"drop": "sometimes"}}, "sometimes"),
        ({"action": {"statu": 500}}, "statu"),
        ({"match": {"path": "("}, "action": {"status": 500}}, "path pattern cannot be read"),
        ([], "cannot be used"),
    ],
)
def test_a_fault_that_cannot_be_used_is_refused_in_words(
    run_virtual: RunVirtual, body: Any, says: str
) -> None:
    async def story() -> None:
        async with github() as client:
            reply = await client.send("POST", "/control/faults", json=body)
            assert reply.status == 400
            assert says in reply.json["message"]

    run_virtual(story())
