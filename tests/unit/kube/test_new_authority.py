"""A cluster's authority is exchanged under a running client: read again, used, and work goes on."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.kube.errors import ConfigError

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


async def serve(authority: trustme.CA) -> asyncio.Server:
    """One answer a connection, under a certificate of that authority."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    return await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)


def kubeconfig(folder: Path, authority: trustme.CA, server: asyncio.Server) -> Path:
    (folder / "ca.crt").write_bytes(authority.cert_pem.bytes())
    port = server.sockets[0].getsockname()[1]
    cluster: dict[str, Any] = {"server": f"https://127.0.0.1:{port}"}
    cluster["certificate-authority"] = "ca.crt"
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_new_authority_is_found_by_the_client_that_refused_its_certificate(
    tmp_path: Path,
) -> None:
    old, new = trustme.CA(), trustme.CA()
    async with await serve(new) as server:
        path = kubeconfig(tmp_path, old, server)
        config = load_config(path, {})
        client = open_client(config, clock=SystemClock(), random=seeded(1))
        try:
            with pytest.raises(ConfigError, match="its certificate is not trusted"):
                await client.get_raw("/version")
            kubeconfig(tmp_path, new, server)  # somebody has put the new one in place
            assert await client.get_raw("/version") == {}
        finally:
            await client.close()
