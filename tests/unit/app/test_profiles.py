"""The debug pages of a running process: what waits, what there is, where the time goes."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator

import aiohttp
import pytest

from runnerscale.app.probes import SideServer
from runnerscale.app.profiles import profile_pages, sample


@pytest.fixture
async def pages() -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        SideServer(profile_pages(), "127.0.0.1:0", flag="--x") as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client,
    ):
        yield client


async def text(pages: aiohttp.ClientSession, path: str) -> str:
    async with pages.get(f"/debug/pprof/{path}") as answer:
        assert answer.status == 200
        return await answer.text()


async def test_the_index_names_the_pages(pages: aiohttp.ClientSession) -> None:
    index = await text(pages, "")
    for path in re.findall(r"/debug/pprof/(\w+)", index):
        assert await text(pages, f"{path}?seconds=0.02") is not None


async def a_long_wait(secret: str) -> str:
    await asyncio.Event().wait()
    return secret


async def test_a_task_that_waits_is_shown_with_its_place_and_no_values(
    pages: aiohttp.ClientSession,
) -> None:
    task = asyncio.get_running_loop().create_task(a_long_wait("ghp_secret"), name="the-waiting-one")
    await asyncio.sleep(0)
    try:
        shown = await text(pages, "goroutine")
    finally:
        task.cancel()
    assert re.search(r"task the-waiting-one\n  \S+test_profiles\.a_long_wait:\d+", shown)
    assert "thread MainThread" in shown
    assert "ghp_secret" not in shown


async def test_the_heap_counts_objects_by_type(pages: aiohttp.ClientSession) -> None:
    first, *rows = (await text(pages, "heap")).splitlines()
    assert int(first.split()[0]) > 1000
    assert any(row.endswith(" builtins.dict") for row in rows)


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "soon", "nan", "inf"])
async def test_a_profile_has_an_end(pages: aiohttp.ClientSession, seconds: str) -> None:
    async with pages.get(f"/debug/pprof/profile?seconds={seconds}") as answer:
        assert answer.status == 400
        assert "use a number up to 60" in await answer.text()


async def test_one_profile_at_a_time(pages: aiohttp.ClientSession) -> None:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(pages.get("/debug/pprof/profile?seconds=0.5")) for _ in "ab"]
    codes = sorted(task.result().status for task in asked)
    for task in asked:
        task.result().release()
    assert codes == [200, 409]


def test_samples_are_taken_of_the_thread_that_was_named() -> None:
    done = threading.Event()

    def busy_here() -> None:
        done.wait()

    thread = threading.Thread(target=busy_here)
    thread.start()
    try:
        stacks = sample(thread.ident or 0, samples=3)
    finally:
        done.set()
        thread.join()
    assert stacks.total() == 3
    assert all("busy_here" in stack for stack in stacks)
    assert sample(-1, samples=1).total() == 0
