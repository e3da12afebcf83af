"""Images are names of commands here; what cannot be had waits with kubelet's reasons."""

from typing import Any

import pytest

from runnerscale.node.config import ImageRule, NodeConfig
from runnerscale.node.image import (
    Command,
    ImageProblem,
    command_beside,
    find_command,
    is_reference,
)

CONFIG = NodeConfig(
    images=(
        ImageRule(
            pattern="ghcr.io/actions/*",
            entrypoint=("/entry",),
            cmd=("--default",),
            prefix=("nice",),
            commands={"/home/runner/run.sh": ("python", "-m", "demo")},
            env={"HOME": "/home/runner"},
        ),
    ),
    commands={"/ghalistener": ("python", "-m", "runnerscale", "listener")},
)


def command(image: str = "ghcr.io/actions/runner:1", **fields: object) -> Command | ImageProblem:
    given: dict[str, object] = {"command": (), "args": (), **fields}
    return find_command(CONFIG, image=image, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ("nice", "/entry", "--default")),
        ({"args": ["-x"]}, ("nice", "/entry", "-x")),
        # A command replaces entrypoint and cmd, as in Kubernetes.
        ({"command": ["/other"]}, ("nice", "/other")),
        ({"command": ["/other"], "args": ["-x"]}, ("nice", "/other", "-x")),
        ({"command": ["/home/runner/run.sh", "a"]}, ("nice", "python", "-m", "demo", "a")),
        ({"command": ["/ghalistener"]}, ("nice", "python", "-m", "runnerscale", "listener")),
    ],
)
def test_command_and_args_replace_those_of_the_image(
    asked: dict[str, Any], expected: tuple[str, ...]
) -> None:
    found = command(**asked)
    assert isinstance(found, Command)
    assert found.argv == expected


def test_a_probe_runs_in_the_image_without_its_entrypoint_or_wrapper() -> None:
    found = command_beside(CONFIG, image="ghcr.io/actions/runner:1", command=["docker", "info"])
    assert found == Command(("docker", "info"), env={"HOME": "/home/runner"})
    stands_for = command_beside(
        CONFIG, image="ghcr.io/actions/runner:1", command=["/home/runner/run.sh", "-x"]
    )
    assert stands_for.argv == ("python", "-m", "demo", "-x")
    assert command_beside(CONFIG, image="other:1", command=["true"]) == Command(("true",))


@pytest.mark.parametrize(
    "reference",
    ["demo", "demo:1", "ghcr.io/a/b:v1.2_3", "localhost:5000/a", "a@sha256:" + "0" * 64, "A.io/b"],
)
def test_well_formed_references(reference: str) -> None:
    assert is_reference(reference)


@pytest.mark.parametrize(
    "reference", ["", "Demo", "a b", "a:", "a::b", "http://a/b", "a/../b", ":1"]
)
def test_malformed_references_can_never_be_pulled(reference: str) -> None:
    found = command(reference)
    assert isinstance(found, ImageProblem)
    assert (found.reason, found.retry) == ("InvalidImageName", False)


def test_an_image_without_a_rule_cannot_be_pulled() -> None:
    found = command("docker.io/library/nginx:1")
    assert isinstance(found, ImageProblem)
    assert (found.reason, found.retry) == ("ErrImagePull", True)
    assert "docker.io/library/nginx:1" in found.message


def test_an_image_that_may_not_be_pulled_is_not_present() -> None:
    found = command("nginx", pull_policy="Never")
    assert isinstance(found, ImageProblem)
    assert found.reason == "ErrImageNeverPull"


def test_an_injected_fault_makes_a_good_image_unavailable() -> None:
    found = command(unavailable=["ghcr.io/*"])
    assert isinstance(found, ImageProblem)
    assert found.reason == "ErrImagePull"


def test_an_image_without_any_command_says_so() -> None:
    config = NodeConfig(images=(ImageRule(pattern="*"),))
    found = find_command(config, image="x", command=(), args=())
    assert isinstance(found, ImageProblem)
    assert found.reason == "CreateContainerError"
