"""What the node agent is told: which image means which command, and its limits.

Images are names here, nothing is pulled: an image that no rule maps is an image that cannot be
pulled. Read from JSON or YAML by `read_config`, or made in code by the wiring.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from runnerscale.core.small_file import read_small


class NodeConfigError(Exception):
    """The configuration cannot be used; the text names the file or field and the remedy."""


class MountMode(StrEnum):
    """How a container sees its mount paths."""

    AUTO = "auto"  # a namespace where the kernel allows it, else rewriting
    NAMESPACE = "namespace"  # a mount namespace of its own; not starting where there is none
    REWRITE = "rewrite"  # env, arguments and folder that begin with a mount path are rewritten


class ImageRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Images that match `pattern` run `prefix + (command or entrypoint) + (args or cmd)`."""

    pattern: str  # shell-style, matched against the whole reference: "ghcr.io/actions/*"
    prefix: tuple[str, ...] = ()  # goes before everything: a wrapper
    entrypoint: tuple[str, ...] = ()  # used when the container gives no command
    cmd: tuple[str, ...] = ()  # used when it gives neither command nor args
    commands: Mapping[str, tuple[str, ...]] = {}  # what command[0] stands for, in this image only
    env: Mapping[str, str] = {}
    working_dir: str = ""  # empty: a fresh folder of the container


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set; every value has a default that suits one machine."""

    node_name: str = "single-machine"
    images: tuple[ImageRule, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = {}  # what command[0] stands for, in any image
    env: Mapping[str, str] = {}  # in every container, before the image's own
    # Of the agent's own environment only these reach a container.
    inherit_env: tuple[str, ...] = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
    # Folders of the machine that stand for what is in the images: a container sees them even
    # where a volume of its pod is mounted over them.
    visible: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    mounts: MountMode = MountMode.AUTO
    pods_max: int = 110  # Kubernetes' own default
    starts_max: int = 8  # containers being started at the same time
    log_file_max_bytes: int = 10 * 1024 * 1024  # kubelet's default; two such files per container
    volume_max_bytes: int = 32 * 1024 * 1024  # all files of one volume together
    status_delay_s: float = 0.1  # changes within that time become one write
    heartbeat_s: float = 10.0
    lease_s: int = 40
    stop_pods_on_exit: bool = False  # SIGTERM ends the containers too; a kill never does
    api_host: str = ""  # KUBERNETES_SERVICE_HOST and _PORT in every container; empty: not set
    api_port: int = 0
    api_ca_pem: str = ""  # mounted as ca.crt beside the service-account token
    token_lifetime_s: int = 3600


def checked(config: NodeConfig) -> NodeConfig:
    """The same configuration, if it can work.

    Raises:
        NodeConfigError: a limit that makes no sense.
    """
    positive = {
        "pods_max": config.pods_max,
        "starts_max": config.starts_max,
        "log_file_max_bytes": config.log_file_max_bytes,
        "volume_max_bytes": config.volume_max_bytes,
        "heartbeat_s": config.heartbeat_s,
        "lease_s": config.lease_s,
    }
    for name, value in positive.items():
        if value <= 0:
            raise NodeConfigError(f"node configuration: {name} is {value}; give a number above 0")
    if config.token_lifetime_s < 600:
        raise NodeConfigError(
            f"node configuration: token_lifetime_s is {config.token_lifetime_s}; "
            "the API server issues none below 600"
        )
    for rule in config.images:
        if not rule.pattern:
            raise NodeConfigError(
                'node configuration: an image rule has no pattern; "*" means every image'
            )
    return config


def decode_config(document: Any, *, source: str = "node configuration") -> NodeConfig:
    """A configuration from plain data.

    Raises:
        NodeConfigError: a field of the wrong type or an unknown one, with its place.
    """
    try:
        config = msgspec.convert(document, NodeConfig)
    except msgspec.ValidationError as error:
        raise NodeConfigError(f"{source}: {error}; correct that field") from error
    return checked(config)


def read_config(path: Path) -> NodeConfig:
    """A configuration from a JSON or YAML file.

    Raises:
        NodeConfigError: unreadable, or not a usable configuration.
    """
    try:
        document = msgspec.yaml.decode(read_small(path))
    except OSError as error:
        raise NodeConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise NodeConfigError(f"{path}: is neither JSON nor YAML: {error}") from error
    return decode_config(document if document is not None else {}, source=str(path))
