"""Kill -9 under write load: what was answered is there after the restart, and versions grow.

The real process, over HTTPS, killed at random instants.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from runnerscale.core.randomness import seeded
from tests.system.api_process import ApiProcess

CM = "/api/v1/namespaces/default/configmaps"
ROUNDS = 4
WRITERS = 8


class Acknowledged:
    """What the server has answered: name to (version, value), and what was deleted."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[int, str]] = {}
        self.deleted: set[str] = set()
        self.unsure: set[str] = set()  # the answer was lost: either outcome is right
        self.version = 0
        self.writes = 0


async def write_until_killed(
    session: aiohttp.ClientSession, url: str, writer: int, seen: Acknowledged, seed: int
) -> None:
    """Create, patch and delete as fast as answers come; end when the connection breaks."""
    random = seeded(seed)
    mine = [name for name in seen.values if name.startswith(f"w{writer}-")]
    count = seed * 100_000
    while True:
        choice = random.random()
        name = random.choice(mine) if mine and choice < 0.7 else f"w{writer}-{count}"
        count += 1
        seen.unsure.add(name)
        try:
            code, body = await one_write(session, url, name, mine, choice)
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return
        seen.unsure.discard(name)
        assert code in (200, 201), body
        if choice < 0.2 and name in mine:
            mine.remove(name)
            seen.values.pop(name)
            seen.deleted.add(name)
        else:
            version = int(body["metadata"]["resourceVersion"])
            seen.values[name] = (version, body["data"]["v"])
            seen.version = max(seen.version, version)
            if name not in mine:
                mine.append(name)
        seen.writes += 1


async def one_write(
    session: aiohttp.ClientSession, url: str, name: str, mine: list[str], choice: float
) -> tuple[int, Any]:
    if name not in mine:
        body = {"metadata": {"name": name}, "data": {"v": str(choice)}}
        async with session.post(url + CM, json=body) as response:
            return response.status, await response.json()
    if choice < 0.2:
        async with session.delete(f"{url}{CM}/{name}") as response:
            return response.status, await response.json()
    headers = {"Content-Type": "application/merge-patch+json"}
    patch = {"data": {"v": str(choice)}}
    async with session.patch(f"{url}{CM}/{name}", json=patch, headers=headers) as response:
        return response.status, await response.json()


async def check(session: aiohttp.ClientSession, url: str, seen: Acknowledged) -> None:
    """Every answered write is there; versions never went back."""
    async with session.get(url + CM) as response:
        listed = await response.json()
    found = {i["metadata"]["name"]: i for i in listed["items"]}
    assert int(listed["metadata"]["resourceVersion"]) >= seen.version
    for name, (version, value) in seen.values.items():
        if name in seen.unsure:
            continue
        assert name in found, f"{name} was answered and is lost"
        assert found[name]["data"]["v"] == value
        assert int(found[name]["metadata"]["resourceVersion"]) == version
    for name in seen.deleted - seen.unsure:
        assert name not in found, f"{name} was deleted and is back"
    # From here on the server's word on the unsure ones is the truth.
    for name in seen.unsure:
        seen.values.pop(name, None)
        seen.deleted.discard(name)
        if name in found:
            meta = found[name]["metadata"]
            seen.values[name] = (int(meta["resourceVersion"]), found[name]["data"]["v"])
    seen.unsure.clear()


async def test_nothing_that_was_answered_is_lost_by_kill_9(tmp_path: Path) -> None:
    server = ApiProcess(tmp_path / "data")
    seen = Acknowledged()
    random = seeded(11)
    server.start()
    try:
        context = ssl.create_default_context(
            cafile=str(tmp_path / "data" / "certificates" / "ca.crt")
        )
        for round_ in range(1, ROUNDS + 1):
            before = seen.writes
            connector = aiohttp.TCPConnector(ssl=context)
            headers = {"Authorization": f"Bearer {server.token}"}
            timeout = aiohttp.ClientTimeout(total=20)
            async with aiohttp.ClientSession(
                connector=connector, headers=headers, timeout=timeout
            ) as session:
                writers = [
                    asyncio.create_task(
                        write_until_killed(session, server.url, n, seen, round_ * 10 + n)
                    )
                    for n in range(WRITERS)
                ]
                await asyncio.sleep(0.2 + random.random() * 0.4)
                server.kill()
                for writer in writers:
                    await writer
                server.start()
                await check(session, server.url, seen)
            assert seen.writes > before, "the load never wrote anything"
    finally:
        server.stop()


async def test_a_second_server_on_the_same_folder_says_so(tmp_path: Path) -> None:
    first = ApiProcess(tmp_path / "data")
    first.start()
    second = ApiProcess(tmp_path / "data")
    try:
        with pytest.raises(AssertionError, match="in use by another API server; stop that one"):
            second.start()
    finally:
        second.stop()
        first.stop()
