"""The node agent as a process of its own, for the system tests: it can be killed like one.

Arguments: data folder, kubeconfig, file to write the port to, mount mode.
"""

import asyncio
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.core.secret import SecretText
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.node.config import ImageRule, MountMode, NodeConfig
from runnerscale.node.server import NodeOptions, run_node

TOKEN = "node-token-of-the-tests"


async def main(data: Path, kubeconfig: Path, port_file: Path, mounts: str) -> None:
    clock, random = SystemClock(), system_random()
    cluster = load_config(kubeconfig, {})
    address = urlsplit(cluster.server)
    config = NodeConfig(
        images=(ImageRule(pattern="shell:*", entrypoint=("sh",)),),
        commands={"/python": (sys.executable, "-I")},
        mounts=MountMode(mounts),
        pods_max=20,
        api_host=address.hostname or "",
        api_port=address.port or 0,
        api_ca_pem="PEM",
    )
    options = NodeOptions(
        config=config,
        data_dir=data,
        log_token=SecretText(TOKEN),
        control_token=SecretText(TOKEN),
    )
    client = open_client(cluster, clock=clock, random=random)
    try:
        await run_node(
            options,
            client,
            clock=clock,
            random=random,
            registry=CollectorRegistry(),
            environ=os.environ,
            on_listening=lambda port: port_file.write_text(str(port)) and None,  # type: ignore[arg-type,return-value]
        )
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
