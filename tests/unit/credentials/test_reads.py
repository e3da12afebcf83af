import asyncio
from typing import Any

import pytest

from runnerscale.core.clock import ManualClock
from runnerscale.credentials import reads as rules
from runnerscale.credentials.reads import Reads


class Missing(Exception):
    pass


class Away(Exception):
    pass


class Thing:
    """Something that can be read; what it gives may be an error."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.reads: Reads[str] = Reads(
            self.clock, failures=Missing, is_passing=lambda e: isinstance(e, Away)
        )
        self.value: Any = "one"
        self.count = 0

    async def read(self) -> str:
        self.count += 1
        await asyncio.sleep(0)
        if isinstance(self.value, Exception):
            raise self.value
        return str(self.value)

    async def get(self, key: str = "k") -> str:
        return (await self.reads.get(key, self.read, age_max_s=50)).value


async def test_a_reading_lasts_as_long_as_the_caller_allows() -> None:
    thing = Thing()
    assert await thing.get() == "one"
    thing.value = "two"
    thing.clock.advance(49)
    assert await thing.get() == "one"
    reading = await thing.reads.get("k", thing.read, age_max_s=20)
    assert (reading.value, reading.at_s) == ("two", 49)
    assert thing.count == 2


async def test_many_at_once_read_once() -> None:
    thing = Thing()
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(thing.get())
        group.create_task(thing.get("another"))
    assert thing.count == 2


async def test_a_failure_is_remembered_for_a_moment() -> None:
    thing = Thing()
    thing.value = Missing()
    for _ in range(3):
        with pytest.raises(Missing):
            await thing.get()
    assert thing.count == 1
    thing.value = "there"
    thing.clock.advance(rules.FAILURE_KEPT_S)
    assert await thing.get() == "there"


async def test_what_is_away_leaves_the_last_value_standing() -> None:
    thing = Thing()
    await thing.get()
    thing.value = Away()
    thing.clock.advance(60)
    assert await thing.get() == "one"
    assert await thing.get() == "one"
    assert thing.count == 2
    thing.value = "two"
    thing.clock.advance(rules.FAILURE_KEPT_S)
    assert await thing.get() == "two"


async def test_what_is_away_from_the_start_is_told_and_not_remembered() -> None:
    thing = Thing()
    thing.value = Away()
    for _ in range(2):
        with pytest.raises(Away):
            await thing.get()
    assert thing.count == 2


async def test_forgetting_reads_again_but_not_in_the_same_moment() -> None:
    thing = Thing()
    await thing.get()
    thing.value = "two"
    thing.reads.forget("k")
    assert await thing.get() == "one"
    thing.clock.advance(rules.APART_S)
    assert await thing.get() == "two"
    thing.clock.advance(rules.APART_S)
    await thing.get()
    assert thing.count == 2


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ENTRIES_MAX", 10)
    thing = Thing()
    for number in range(30):
        thing.clock.advance(1)
        await thing.get(str(number))
    assert len(thing.reads._readings) <= 10
    before = thing.count
    assert await thing.get("29") == "one"
    assert thing.count == before
