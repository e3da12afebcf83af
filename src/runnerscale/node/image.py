"""From an image name and a container to the command that stands for it.

Nothing is ever pulled: the rules of `config.py` say which images exist. The waiting reasons are
kubelet's, because the controllers look at them. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from runnerscale.node.config import ImageRule, NodeConfig

REFERENCE_MAX = 4096
# The grammar of image references: [host[:port]/]path[:tag][@digest], path in lower case.
_DOMAIN = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
)
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[\w][\w.-]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class ImageProblem:
    """Why no command could be found: a waiting reason of kubelet and its message."""

    reason: str
    message: str
    retry: bool  # a later try may go better, as with a real pull


@dataclass(frozen=True, slots=True)
class Command:
    """What to start, before variables are expanded and mount paths rewritten."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""


def is_reference(image: str) -> bool:
    """Whether `image` is a well-formed image reference."""
    return len(image) <= REFERENCE_MAX and _REFERENCE.fullmatch(image) is not None


def find_command(
    config: NodeConfig,
    *,
    image: str,
    command: Sequence[str],
    args: Sequence[str],
    pull_policy: str = "",
    unavailable: Sequence[str] = (),
) -> Command | ImageProblem:
    """The command of a container, or why its image cannot be had.

    `unavailable`: patterns of images that are out of reach for now (an injected fault).
    """
    if not is_reference(image):
        return ImageProblem(
            "InvalidImageName",
            f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": '
            "invalid reference format",
            retry=False,
        )
    if any(fnmatchcase(image, pattern) for pattern in unavailable):
        message = f'failed to pull image "{image}": the registry does not answer (injected)'
        return ImageProblem("ErrImagePull", message, retry=True)
    rule = next((rule for rule in config.images if fnmatchcase(image, rule.pattern)), None)
    if rule is None:
        if pull_policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            return ImageProblem("ErrImageNeverPull", message, retry=True)
        message = f'failed to pull image "{image}": no rule of this node maps it to a command'
        return ImageProblem("ErrImagePull", message, retry=True)
    return _command_of(rule, config, command=command, args=args)


def command_beside(config: NodeConfig, *, image: str, command: Sequence[str]) -> Command:
    """A command that is run in a container which runs already: no entrypoint, no wrapper."""
    rule = next((rule for rule in config.images if fnmatchcase(image, rule.pattern)), None)
    rule = rule or ImageRule(pattern="*")
    argv = tuple(command)
    stands_for = argv and (rule.commands.get(argv[0]) or config.commands.get(argv[0]))
    if stands_for:
        argv = (*stands_for, *argv[1:])
    return Command(argv, env=dict(rule.env), working_dir=rule.working_dir)


def _command_of(
    rule: ImageRule, config: NodeConfig, *, command: Sequence[str], args: Sequence[str]
) -> Command | ImageProblem:
    # Kubernetes: a command replaces entrypoint *and* cmd; args alone replace cmd.
    head = tuple(command) or rule.entrypoint
    tail = tuple(args) or (() if command else rule.cmd)
    argv = (*head, *tail)
    if not argv:
        message = "no command specified: neither the container nor the image has one"
        return ImageProblem("CreateContainerError", message, retry=True)
    stands_for = rule.commands.get(argv[0]) or config.commands.get(argv[0])
    if stands_for:
        argv = (*stands_for, *argv[1:])
    return Command((*rule.prefix, *argv), env=dict(rule.env), working_dir=rule.working_dir)
