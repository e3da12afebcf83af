"""Names that cannot be resolved, and connections that stay open and carry nothing any more."""

from pathlib import Path

import pytest

from runnerscale.app.single_machine import free_ports
from tests.system.plant import Plant, Room, until
from tests.system.relay import Relay

NAME = "ghes.test"
LOOPBACK = "127.0.0.1 localhost\n"
pytestmark = pytest.mark.timeout(280)


async def test_a_name_that_is_not_found_is_said_and_work_goes_on_when_it_is_again(
    tmp_path: Path,
) -> None:
    hosts, resolver = tmp_path / "hosts", tmp_path / "resolv.conf"
    hosts.write_text(f"{LOOPBACK}127.0.0.1 {NAME}\n")
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    room = Room(f"mount --bind {hosts} /etc/hosts; mount --bind {resolver} /etc/resolv.conf")
    plant = Plant(tmp_path)
    plant.controller.inside = plant.node.inside = room
    try:
        async with Relay(plant.ports.github).open() as relay:
            plant.config_url = f"http://{NAME}:{relay.port}/demo-org/demo"
            async with plant.running():
                await plant.queue(1)
                await plant.until_done(1)
                hosts.write_text(LOOPBACK)  # the same file: it is mounted

                async def missed() -> bool:
                    relay.cut()  # again and again: found names are remembered for 10 s
                    return await told(plant, "GitHubUnavailable")

                await until(missed, every_s=1.0, why=plant.tell)
                await plant.queue(1)
                assert "name" in (await plant.troubles()).lower()  # in the resolver's words
                hosts.write_text(f"{LOOPBACK}127.0.0.1 {NAME}\n")
                await plant.until_done(2, within_s=90)
                await plant.until_clean()
    finally:
        room.close()


async def test_connections_that_fall_silent_are_given_up_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    ports = free_ports()
    api, github = Relay(ports.api), Relay(ports.github)
    async with api.open(), github.open():
        plant = Plant(tmp_path, ports=ports, api_relay=api.port)
        plant.config_url = f"http://127.0.0.1:{github.port}/demo-org/demo"
        async with plant.running():
            await plant.witness()
            await plant.queue(2, seconds=3)
            await plant.until_started(2)
            kept = await plant.kept()
            # The API server: watches, and what is written just now. Then new connections pass.
            silent = api.fall_silent(new_too=True)
            assert silent >= 3  # watches of controller and node
            await plant.queue(2)
            swallowed = api.swallowed
            await until(lambda: more_than(api, swallowed), why=plant.tell)
            api.holds_new = False
            await plant.until_done(4, within_s=150)
            # GitHub: the long poll. A job that comes meanwhile is heard of by the next one.
            assert github.fall_silent() >= 1
            await plant.queue(1)
            await plant.until_done(5, within_s=150)
            await plant.until_clean()
            assert await plant.kept() == kept


async def told(plant: Plant, words: str) -> bool:
    return words in await plant.troubles()


async def more_than(relay: Relay, count: int) -> bool:
    return relay.swallowed > count
