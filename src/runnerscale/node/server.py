"""One node agent as a process: from its options to a running agent, and to an orderly end.

The event loop, signals, logging and the command line are the caller's (`app/`, `cli/`). The token
for logs is handed in: whoever starts this also tells the API server.
"""

import asyncio
import contextlib
import fcntl
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

import runnerscale
from runnerscale.core.clock import Clock
from runnerscale.core.private_folder import make_private
from runnerscale.core.randomness import Random
from runnerscale.core.secret import SecretText
from runnerscale.node.agent import NodeAgent
from runnerscale.node.attempt_files import NodeFolder
from runnerscale.node.config import NodeConfig, NodeConfigError, checked
from runnerscale.node.node_client import NodeClient
from runnerscale.node.node_server import NodeServer
from runnerscale.node.parts import Telemetry
from runnerscale.node.questions import SystemNetwork
from runnerscale.node.system_processes import SystemProcesses

log = structlog.get_logger(__name__)

DRAIN_S = 60.0  # for the containers' own grace periods, when they end with the agent
CLEAR_S = 10.0
FILES_MAX = 16_384


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the process is told."""

    config: NodeConfig
    data_dir: Path
    log_token: SecretText  # who may read logs here: the API server
    control_token: SecretText | None = None  # who may inject faults; None: nobody
    port: int = 0  # of logs, health, metrics, faults; 0: a free one


async def run_node(
    options: NodeOptions,
    client: NodeClient,
    *,
    clock: Clock,
    random: Random,
    registry: CollectorRegistry,
    environ: Mapping[str, str],
    on_listening: Callable[[int], None] | None = None,
) -> None:
    """Run until cancelled. Containers outlive this, unless `stop_pods_on_exit` is set.

    `on_listening` is told the port.

    Raises:
        NodeConfigError: something about the machine or the options that a person must mend.
    """
    config = checked(options.config)
    if not sys.platform.startswith("linux"):
        raise NodeConfigError(f"the node agent needs Linux, this is {sys.platform}")
    raise_file_limit()
    with hold_folder(options.data_dir):
        network = SystemNetwork()
        server = NodeServer(
            NodeFolder(options.data_dir),
            token=options.log_token,
            control_token=options.control_token,
            registry=registry,
            clock=clock,
            port=options.port,
        )
        try:
            async with server:
                agent = NodeAgent(
                    client,
                    config=config,
                    processes=SystemProcesses(options.data_dir, config=config, clock=clock),
                    network=network,
                    clock=clock,
                    random=random,
                    telemetry=Telemetry.of(registry),
                    environ=environ,
                    log_port=server.port,
                    version=f"v{runnerscale.__version__}",
                )
                server.serve(agent)
                if on_listening is not None:
                    on_listening(server.port)
                await _run_and_drain(agent, config)
        finally:
            await network.close()


async def _run_and_drain(agent: NodeAgent, config: NodeConfig) -> None:
    work = asyncio.get_running_loop().create_task(agent.run(), name="node agent")
    try:
        await asyncio.shield(work)
    finally:
        if config.stop_pods_on_exit and not work.done():
            await agent.drain(timeout_s=DRAIN_S)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


def raise_file_limit() -> None:
    """Each container is a file handle here; the usual soft limit of 1,024 ends at as many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def clear_node(data_dir: Path, *, clock: Clock) -> int:
    """End every container that an agent left below `data_dir`; how many there were.

    For the end of a demo: nothing may be left behind, even if the agent was killed.

    Raises:
        NodeConfigError: an agent still uses the folder.
    """
    with hold_folder(data_dir):
        processes = SystemProcesses(data_dir, config=NodeConfig(), clock=clock)
        ended = []
        for pod in await processes.recover():
            for container in pod.containers.values():
                if container.latest is not None and container.latest.exit is None:
                    event = asyncio.Event()
                    container.latest.on_exit(event.set)
                    container.latest.kill()
                    ended.append(event)
        try:
            async with asyncio.timeout(CLEAR_S):
                for event in ended:
                    await event.wait()
        except TimeoutError:
            log.warning("some containers do not end", folder=str(data_dir))
        await processes.close()
        return len(ended)


@contextlib.contextmanager
def hold_folder(data_dir: Path) -> Iterator[None]:
    """Make the data folder ours alone: two agents in one folder would start pods twice.

    Raises:
        NodeConfigError: it cannot be written, or another agent has it.
    """
    try:
        make_private(data_dir)
        handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NodeConfigError(
            f"the data folder {data_dir} cannot be used: {error.strerror}; choose a writable one"
        ) from error
    try:
        _lock(handle, data_dir)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, data_dir: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise NodeConfigError(
            f"the data folder {data_dir} is in use by another node agent; stop that one first"
        ) from error
