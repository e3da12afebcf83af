"""Certificates that expire, are not valid yet, are exchanged: at GitHub, and at the API server."""

import datetime
import signal
import ssl
from pathlib import Path

import trustme

from runnerscale.kube.builtin import CONFIG_MAPS
from tests.system.plant import NAMESPACE, Part, Plant, until
from tests.system.relay import Relay

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def showing(
    authority: trustme.CA, *, begin: datetime.datetime, end: datetime.datetime
) -> ssl.SSLContext:
    """What a server asks its clients to believe."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", not_before=begin, not_after=end).configure_cert(context)
    return context


async def test_githubs_certificate_out_of_its_time_is_said_and_a_new_one_is_taken(
    tmp_path: Path,
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "github.crt", tmp_path / "github.key"
    issued.private_key_pem.write_to_path(key)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(certificate, append=True)
    good = {"begin": NOW - DAY, "end": NOW + DAY}
    onward = ssl.create_default_context()
    authority.configure_trust(onward)
    plant = Plant(tmp_path, certificate=(certificate, key))
    relay = Relay(plant.ports.github, tls=showing(authority, **good), onward_tls=onward)
    control = Relay(plant.ports.github, onward_tls=onward)
    async with relay.open(), control.open():
        plant.control_url = f"http://127.0.0.1:{control.port}"
        plant.config_url = f"https://127.0.0.1:{relay.port}/demo-org/demo"
        body = {"metadata": {"name": "ca"}, "data": {"ca.crt": authority.cert_pem.bytes().decode()}}
        plant.more_objects = [(CONFIG_MAPS, NAMESPACE, body)]
        reference = {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}}
        plant.set_spec = {"githubServerTLS": {"certificateFrom": reference}}
        # For the runners the chart's template does this; they reach GitHub directly here.
        authority.cert_pem.write_to_path(tmp_path / "ca.crt")
        plant.runner_env = {"NODE_EXTRA_CA_CERTS": str(tmp_path / "ca.crt")}
        async with plant.running():
            await plant.queue(1)
            await plant.until_done(1)
            for context, words in (
                (showing(authority, begin=NOW - 3 * DAY, end=NOW - DAY), "certificate has expired"),
                (showing(authority, begin=NOW + DAY, end=NOW + 2 * DAY), "is not yet valid"),
                (showing(stranger, **good), "unable to get local issuer certificate"),
            ):
                await relay.use_tls(context)
                await until(lambda words=words: logged(plant, words), why=plant.tell, within_s=90)
            # Which object, and what to do: on the set, in the words of TLS.
            await until(lambda: told(plant, "certificate"), why=plant.tell)
            await plant.queue(1)
            await relay.use_tls(showing(authority, **good))  # renewed, by the same authority
            await plant.until_done(2, within_s=120)
            await until(lambda: told(plant, "ListenerReady=True"), why=plant.tell)
            await plant.until_clean()


async def test_the_api_servers_certificate_and_its_authority_change_under_running_clients(
    tmp_path: Path,
) -> None:
    plant = Plant(tmp_path)
    files = tmp_path / "api" / "certificates"
    async with plant.running():
        await plant.witness()
        await plant.queue(1)
        await plant.until_done(1)
        kept = await plant.kept()
        before = (files / "server.crt").read_bytes()
        (files / "server.crt").unlink()
        plant.api.kill()
        await plant.start_api()
        assert (files / "server.crt").read_bytes() != before
        await plant.queue(1)
        await plant.until_done(2)

        # Another authority: kubeconfigs have the new one, and whoever refuses reads them again.
        for name in ("ca.crt", "ca.key"):
            (files / name).unlink()
        plant.api.kill()
        await plant.start_api()
        for part in (plant.controller, plant.node):
            said = "the API server's authority was exchanged"
            await until(lambda part=part, said=said: has_said(part, said), why=plant.tell)
        # What containers have is written by the node agent, which reads it at its start.
        plant.node.signal(signal.SIGTERM)
        assert await plant.node.ended() == 0
        plant.node.start()
        await plant.queue(1)
        await plant.until_done(3, within_s=90)
        await plant.until_clean()
        assert await plant.kept() == kept


async def logged(plant: Plant, words: str) -> bool:
    """The listener said so. Its log is where the node keeps it."""
    return words in plant.pod_logs()


async def told(plant: Plant, words: str) -> bool:
    return words in await plant.troubles()


async def has_said(part: Part, words: str) -> bool:
    return words in part.said()
