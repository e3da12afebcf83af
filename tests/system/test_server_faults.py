"""The API server with a full disk, damaged files, a taken port, too little of something.

The real process. After each fault every answered write is there again, or the process says what
is wrong in one sentence and ends with 1.
"""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runnerscale.app.api_server import ADMIN, kubeconfig_path
from runnerscale.app.single_machine import free_ports
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.builtin import CONFIG_MAPS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.kube.errors import KubeError
from tests.system.plant import BINARY, Part, Room, one_sentence, until

WRITERS = 6
CALL_S = 6  # a write takes milliseconds; where nobody answers any more, so long is asked again
KUBECONFIG = """\
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@dataclass
class Server:
    """One API server, what was answered by it, and how to reach it."""

    part: Part
    folder: Path  # as the test reaches it
    acknowledged: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        """Of the administrator, once it is ready."""

        async def ready() -> bool:
            assert self.part.runs, self.part.said()
            return "API server ready" in self.part.said()

        await until(ready, every_s=0.02)
        config = load_config(kubeconfig_path(self.folder, ADMIN), {})
        client = open_client(config, clock=SystemClock(), random=system_random())
        try:
            yield client
        finally:
            await client.close()

    async def write(self, client: KubeClient, *, each: int, of_bytes: int) -> None:
        """Many at once; each writer stops at its first refusal."""
        begun = len(self.acknowledged)

        async def writer(number: int) -> None:
            for n in range(each):
                name, value = f"w{begun}-{number}-{n}", f"{number}-{n}-" + "x" * of_bytes
                body = {"metadata": {"name": name}, "data": {"v": value}}
                try:
                    await client.create(CONFIG_MAPS, "default", body, timeout_s=CALL_S)
                except KubeError as error:
                    self.refused.append(str(error))
                    return
                self.acknowledged[name] = value

        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(writer(number))

    async def check(self, client: KubeClient) -> None:
        """Whatever was answered is there, as it was."""
        items = (await client.list(CONFIG_MAPS, "default", timeout_s=60)).items
        found = {str(item.metadata.name): (item.data or {}).get("v") for item in items}
        lost = {n for n, value in self.acknowledged.items() if found.get(n) != value}
        assert not lost


def server(tmp_path: Path, **more: Any) -> Server:
    data = tmp_path / "data"
    argv = [BINARY, "api-server", "--data", str(data), "--port", str(free_ports().api)]
    return Server(Part("api-server", argv, tmp_path / "log", **more), data)


async def test_a_full_disk_ends_it_with_a_sentence_and_no_answered_write_is_lost(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    room = Room(f"mount -t tmpfs -o size=3m tmpfs {data}")
    made = server(tmp_path, inside=room)
    made.folder = room.path(data)
    try:
        made.part.start()
        async with made.client() as client:
            await made.write(client, each=200, of_bytes=20_000)
        assert await made.part.ended() == 1
        assert len(made.acknowledged) > 20
        assert len(made.refused) == WRITERS
        said = one_sentence(made.part.said())
        assert "objects.sqlite: cannot store objects (database or disk is full)" in said
        assert said.endswith("free the disk and restart.")
        # Not even its small files find room: said in the same way, and nothing is spoilt.
        room.run(f"cat /dev/zero > {data}/filler 2>/dev/null || true")
        made.part.start()
        assert await made.part.ended() == 1
        assert "the disk is full; free some of it" in one_sentence(made.part.said())
        room.run(f"rm {data}/filler; mount -o remount,size=64m {data}")
        made.part.start()
        async with made.client() as client:
            await made.check(client)
            await made.write(client, each=2, of_bytes=20_000)
            await made.check(client)
    finally:
        await end(made)
        room.close()


async def test_a_damaged_database_is_said_and_a_lost_end_of_the_journal_is_left_out(
    tmp_path: Path,
) -> None:
    made = server(tmp_path)
    database, wal = made.folder / "objects.sqlite", made.folder / "objects.sqlite-wal"
    try:
        made.part.start()
        async with made.client() as client:
            await made.write(client, each=8, of_bytes=2_000)
            newest = int((await client.list(CONFIG_MAPS, "default")).resource_version)
        made.part.kill()
        whole = wal.read_bytes()

        # The last page of the journal is spoilt. What came before is served, as one state that
        # once was, and no version is ever given away twice.
        wal.write_bytes(whole[:-2000] + bytes(500) + whole[-1500:])
        made.part.start()
        async with made.client() as client:
            listed = await client.list(CONFIG_MAPS, "default")
            assert int(listed.resource_version) > newest
            values = {str(i.metadata.name): (i.data or {}).get("v") for i in listed.items}
            there = made.acknowledged.keys() & values.keys()
            assert len(there) > len(made.acknowledged) / 2
            assert all(values[name] == made.acknowledged[name] for name in there)
        assert "the end of the journal is no whole write" in made.part.said()
        made.acknowledged = {name: made.acknowledged[name] for name in there}
        made.part.signal(15)
        assert await made.part.ended() == 0

        # A page of the database itself.
        pages = bytearray(database.read_bytes())
        at = len(pages) // 4096 // 2 * 4096
        pages[at : at + 4096] = b"\xa5" * 4096
        good, _ = database.read_bytes(), database.write_bytes(pages)
        made.part.start()
        assert await made.part.ended() == 1
        said = one_sentence(made.part.said())
        assert "objects.sqlite" in said
        assert "move it away or choose another data folder" in said or "restore" in said
        database.write_bytes(good)  # the copy is put back
        made.part.start()
        async with made.client() as client:
            await made.check(client)
    finally:
        await end(made)


async def test_a_taken_port_is_one_sentence_and_exit_code_1(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    folder = str(tmp_path)
    node = ["--kubeconfig", str(kubeconfig), "--token-file", f"{folder}/token"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        parts = [
            Part(words[0], [BINARY, *words, "--port", port], tmp_path / "logs" / words[0])
            for words in (
                ["api-server", "--data", f"{folder}/api"],
                ["fake-github"],
                ["node", "--data", f"{folder}/node", *node],
            )
        ]
        for part in parts:
            part.start()
        for part in parts:
            assert await part.ended() == 1, part.said()
            said = one_sentence(part.said())
            assert port in said
            assert "in use" in said
            assert "another" in said


async def test_too_few_descriptors_for_a_storm_of_connections_end_nothing(tmp_path: Path) -> None:
    made = server(tmp_path, limits={resource.RLIMIT_NOFILE: 64})
    try:
        made.part.start()
        async with made.client() as client:
            await made.write(client, each=1, of_bytes=10)
            port = int(made.part.argv[-1])
            with ExitStack() as storm:
                for _ in range(200):  # they connect, and say nothing
                    with suppress(OSError):
                        storm.enter_context(socket.create_connection(("127.0.0.1", port), 5))
                await made.write(client, each=1, of_bytes=10)  # who was there before is served
                assert not made.refused
        async with made.client() as client:
            await made.check(client)
        assert made.part.runs
    finally:
        await end(made)


async def end(made: Server) -> None:
    """SIGTERM, if it runs."""
    if made.part.runs:
        made.part.signal(15)
        assert await made.part.ended() == 0, made.part.said()
