"""A proxy or a certificate that bars the way: read again at once, as refused credentials are."""

import pytest

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.errors import Unavailable
from runnerscale.scaleset.transport import CertificateRefused, ProxyRefused
from tests.unit.credentials.cluster import World
from tests.unit.credentials.test_clients import WITH_PROXY


@pytest.mark.parametrize("fault", [ProxyRefused("407"), CertificateRefused("self-signed")])
async def test_what_bars_the_way_is_read_again_at_once(fault: Exception) -> None:
    world = World()
    world.cluster.secret("login", username="u", password="wrong")
    client = await world.cache.client_for(WITH_PROXY)
    world.stubs[0].rest["/registration-token"] = lambda seen: fault
    world.clock.advance(6)
    with pytest.raises(Unavailable):
        await client.get_runner(5)
    world.cluster.secret("login", username="u", password="right")
    assert await world.cache.client_for(WITH_PROXY) is not client
    assert world.networks[-1].proxies.https == SecretText("http://u:right@proxy:8080")
