"""Too little disk, memory or descriptors for one part: the others go on, and it is said."""

import asyncio
import resource
import signal
from pathlib import Path

from runnerscale.app.single_machine import free_ports
from runnerscale.kube.builtin import CONFIG_MAPS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.errors import KubeError
from tests.system.plant import BINARY, NAMESPACE, Part, Plant, Room, until
from tests.system.test_server_faults import Server, end

MIB = 1024 * 1024


async def test_a_full_disk_of_the_node_loses_no_job_and_no_exit_status(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    room = Room(f"mount -t tmpfs -o size=4m tmpfs {folder}")
    plant = Plant(tmp_path)
    plant.node.inside = room
    try:
        async with plant.running():
            await plant.queue(2, seconds=6)
            await plant.until_started(2)
            room.run(f"cat /dev/zero > {folder}/filler 2>/dev/null || true")
            room.run(f"test $(stat -f -c %a {folder}) = 0")
            await plant.queue(2, seconds=0.5)
            # The new ones wait, and their pods say why. The two that run are not disturbed.
            await until(lambda: pods_say(plant, "No space left on device. Free some"))
            # One that ends gives room back, so that those that wait begin by themselves.
            await plant.until_done(4)
            room.run(f"rm -f {folder}/filler")
            await plant.queue(1)
            await plant.until_done(5)
            await plant.until_clean()
            assert "Traceback" not in plant.node.said(), plant.node.said()
            assert "ContainerStatusUnknown" not in plant.node.said()
    finally:
        room.close()


async def test_a_node_with_few_descriptors_runs_what_it_can_follow_and_then_the_rest(
    tmp_path: Path,
) -> None:
    plant = Plant(tmp_path)
    plant.set_spec = {"maxRunners": 20}
    plant.node.limits = {resource.RLIMIT_NOFILE: 64}
    async with plant.running():
        await plant.queue(14, seconds=8)  # side by side, on a busy machine too
        await until(lambda: pods_say(plant, "file descriptors in use. Raise its limit"))
        await plant.until_done(14, within_s=100)
        await plant.until_clean()
        assert "ContainerStatusUnknown" not in plant.node.said(), plant.node.said()


async def test_silent_connections_give_their_descriptors_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    port = free_ports().api
    argv = [BINARY, "api-server", "--data", str(data), "--port", str(port)]
    limits = {resource.RLIMIT_NOFILE: 64}
    made = Server(Part("api-server", argv, tmp_path / "log", limits=limits), data)
    storm: list[asyncio.StreamWriter] = []
    try:
        made.part.start()
        async with made.client() as client:
            await made.write(client, each=1, of_bytes=10)
            for _ in range(200):
                storm.append((await asyncio.open_connection("127.0.0.1", port))[1])
            said = "file descriptors run out, new connections may be refused"
            await until(lambda: has_said(made.part, said), why=made.part.said)
            assert "raise the limit (ulimit -n" in made.part.said()
        async with made.client() as client:  # a new one, while the others hold on
            await until(lambda: answers(client), within_s=60, why=made.part.said)
            await made.check(client)
    finally:
        for writer in storm:
            writer.transport.abort()
        await end(made)


async def test_what_a_server_answered_before_its_memory_ran_out_is_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    argv = [BINARY, "api-server", "--data", str(data), "--port", str(free_ports().api)]
    limits = {resource.RLIMIT_AS: 400 * MIB}
    made = Server(Part("api-server", argv, tmp_path / "log", limits=limits), data)
    try:
        made.part.start()
        async with made.client() as client:
            await made.write(client, each=300, of_bytes=250_000)
        assert len(made.acknowledged) > 20
        assert made.refused  # it ran out, whatever it then did
        if made.part.runs:
            made.part.signal(signal.SIGKILL)
        await made.part.ended()
        made.part.limits = {}
        made.part.start()
        async with made.client() as client:
            await made.check(client)
    finally:
        await end(made)


async def pods_say(plant: Plant, text: str) -> bool:
    found = await plant.admin.get_raw(f"/api/v1/namespaces/{NAMESPACE}/pods")
    return text in str([item.get("status") for item in found["items"]])


async def has_said(part: Part, text: str) -> bool:
    await asyncio.sleep(0)
    return text in part.said()


async def answers(client: KubeClient) -> bool:
    try:
        await client.list(CONFIG_MAPS, "default", timeout_s=5)
    except KubeError:
        return False
    return True
