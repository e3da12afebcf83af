"""What the node agent's process makes of a file of images and of the cluster it is given."""

import sys

from runnerscale.app.manifests import CONTROLLER_IMAGE, RUNNER_IMAGE
from runnerscale.app.node import node_config
from runnerscale.fake_github.demo_runner_job import FOLDER_VARIABLE
from runnerscale.kube.cluster import ClusterConfig
from runnerscale.node.config import ImageRule, MountMode, NodeConfig
from runnerscale.node.image import Command, find_command

CLUSTER = ClusterConfig(server="https://127.0.0.1:6443", ca_pem="PEM")


def wired(given: NodeConfig | None = None) -> NodeConfig:
    return node_config(CLUSTER, name="n", pods_max=3, stop_pods=True, given=given)


def test_without_a_file_the_demos_images_are_known() -> None:
    config = wired()
    assert [rule.pattern for rule in config.images] == [CONTROLLER_IMAGE, RUNNER_IMAGE]
    assert (config.api_host, config.api_port, config.api_ca_pem) == ("127.0.0.1", 6443, "PEM")
    assert sys.prefix in config.visible  # a pod may mount over the folder that Python is in


def test_the_folders_of_demo_runners_are_in_those_of_their_pods() -> None:
    found = find_command(wired(), image=RUNNER_IMAGE, command=["/home/runner/run.sh"], args=[])
    assert isinstance(found, Command)
    assert found.env[FOLDER_VARIABLE] == "."  # a container begins in its pod's folder


def test_a_file_adds_images_and_sets_limits() -> None:
    own = ImageRule(pattern="example.com/tool:*", entrypoint=("tool",))
    config = wired(NodeConfig(images=(own,), mounts=MountMode.REWRITE, commands={"/x": ("y",)}))
    found = find_command(config, image="example.com/tool:1", command=["/x"], args=["z"])
    assert found == Command(("y", "z"))
    assert config.mounts is MountMode.REWRITE
    assert "/manager" in config.commands
    assert (config.node_name, config.pods_max, config.stop_pods_on_exit) == ("n", 3, True)
