"""The node agent as a process: which images are which commands on a single machine.

What the agent is, is `node/server.py`. Here: the two images of the single machine (a file may
name more, and set limits), the API server's address for containers, and the agent's own client.
"""

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from prometheus_client import CollectorRegistry

from runnerscale.app.api_server import ensure_token
from runnerscale.app.logs import Style, configure_logging
from runnerscale.app.manifests import CONTROLLER_IMAGE, RUNNER_IMAGE
from runnerscale.app.problem import Problem
from runnerscale.app.process import run_process
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.fake_github.demo_runner_job import FOLDER_VARIABLE
from runnerscale.kube.cluster import ClusterConfig, load_config, open_client
from runnerscale.node.config import ImageRule, NodeConfig, NodeConfigError, read_config
from runnerscale.node.server import NodeOptions, run_node

# Isolated and without site: the demo's runner needs only the standard library, and is started
# once for each job.
RUNNER_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from runnerscale.fake_github"


def node_config(
    cluster: ClusterConfig,
    *,
    name: str,
    pods_max: int,
    stop_pods: bool,
    given: NodeConfig | None = None,
) -> NodeConfig:
    """Images and limits of the single machine; `given`: what a file says, which wins."""
    given = given or NodeConfig()
    address = urlsplit(cluster.server)
    source = str(Path(__file__).resolve().parents[2])
    own = (sys.executable, "-m", "runnerscale.cli.main")
    runner = (
        *(sys.executable, "-I", "-S", "-c"),
        f"{RUNNER_START}.demo_runner import main; main()",
        source,
    )
    demo = (
        ImageRule(pattern=CONTROLLER_IMAGE, entrypoint=(*own, "controller")),
        ImageRule(
            pattern=RUNNER_IMAGE,
            entrypoint=runner,
            commands={"/home/runner/run.sh": runner},
            env={FOLDER_VARIABLE: "."},  # the pod's own folder: it goes with it, however that ends
        ),
    )
    commands = {"/ghalistener": (*own, "listener"), "/manager": (*own, "controller")}
    environment = {"PYTHONPATH": source} if _from_checkout(source) else {}
    return msgspec.structs.replace(
        given,
        node_name=name,
        images=(*given.images, *demo),
        commands={**commands, **given.commands},
        env={**environment, **given.env},
        visible=(*given.visible, source, sys.prefix, sys.base_prefix),
        pods_max=pods_max,
        stop_pods_on_exit=stop_pods,
        api_host=given.api_host or address.hostname or "127.0.0.1",
        api_port=given.api_port or address.port or 443,
        api_ca_pem=given.api_ca_pem or cluster.ca_pem,
    )


def _from_checkout(source: str) -> bool:
    return not source.endswith("site-packages")


def run_node_process(
    *,
    data: Path,
    kubeconfig: Path,
    token_file: Path,
    name: str,
    port: int,
    pods_max: int,
    stop_pods: bool,
    config: Path | None = None,
) -> int:
    """Run until SIGTERM; the exit code. `config`: a file of images and limits.

    Raises:
        Problem: configuration, folder or port cannot be used.
    """
    clock = SystemClock()
    random = system_random()
    configure_logging("info", "text", style=Style.CONTROLLER, clock=clock)
    folder = data.absolute()  # containers start in folders of their own

    try:
        given = None if config is None else read_config(config)
    except NodeConfigError as error:
        raise Problem(str(error).rstrip("."), "") from error

    async def work() -> int:
        cluster = load_config(kubeconfig, os.environ)
        client = open_client(cluster, clock=clock, random=random, user_agent="runnerscale-node")
        token = ensure_token(token_file)
        options = NodeOptions(
            config=node_config(
                cluster, name=name, pods_max=pods_max, stop_pods=stop_pods, given=given
            ),
            data_dir=folder,
            log_token=token,
            control_token=token,
            port=port,
        )
        try:
            await run_node(
                options,
                client,
                clock=clock,
                random=random,
                registry=CollectorRegistry(),
                environ=os.environ,
            )
        except NodeConfigError as error:
            raise Problem(str(error).rstrip("."), "") from error
        finally:
            await client.close()
        return 0

    return run_process(work)
