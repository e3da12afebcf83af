"""The Secret that carries the JIT config."""

import base64
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.controllers.ephemeral_runner.identity import Jit
from runnerscale.controllers.ephemeral_runner.jit_secret import jit_secret, template_hash
from runnerscale.core.secret import SecretText

JIT = Jit(7, "runner-a", 3, SecretText("encoded-config"))


def runner(**spec: Any) -> EphemeralRunner:
    body = {
        "metadata": {"name": "runner-a", "namespace": "ns", "uid": "uid-a"},
        "spec": {"githubConfigUrl": "u", "githubConfigSecret": "s", "runnerScaleSetId": 3, **spec},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunner)


@pytest.mark.behaviour("C1 T140")
def test_it_has_the_runners_name_and_four_keys() -> None:
    body = jit_secret(runner(), JIT)
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("runner-a", "ns")
    plain = {key: base64.b64decode(value).decode() for key, value in body["data"].items()}
    assert plain == {
        "jitToken": "encoded-config",
        "runnerName": "runner-a",
        "runnerId": "7",
        "scaleSetId": "3",
    }


def test_it_is_owned_and_controlled_by_its_runner() -> None:
    assert jit_secret(runner(), JIT)["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "actions.github.com/v1alpha1",
            "kind": "EphemeralRunner",
            "name": "runner-a",
            "uid": "uid-a",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@pytest.mark.behaviour("C1 T27")
def test_its_metadata_come_only_from_its_own_block_and_excluded_labels_stay_out() -> None:
    meta = {"labels": {"a": "1", "example.com/b": "2"}, "annotations": {"example.com/c": "3"}}
    made = runner(ephemeralRunnerConfigSecretMetadata=meta)
    body = jit_secret(made, JIT, excluded_labels=("example.com/",))
    assert body["metadata"]["labels"] == {"a": "1"}
    assert body["metadata"]["annotations"] == {"example.com/c": "3"}
    assert "labels" not in jit_secret(runner(), JIT)["metadata"]


@pytest.mark.behaviour("C1 T29")
def test_a_block_with_labels_only_is_enough() -> None:
    made = runner(ephemeralRunnerConfigSecretMetadata={"labels": {"a": "1"}})
    assert "annotations" not in jit_secret(made, JIT)["metadata"]


def test_the_pods_hash_is_a_short_label_that_is_another_for_each_part_of_the_secret() -> None:
    # Contract resources-and-controllers 2.7: any stable valid label value will do.
    one = Jit(1, "test-runner", 0, SecretText("fake-jit-config"))
    assert re.fullmatch(r"[0-9a-f]{10}", template_hash(one))
    others = [
        replace(one, runner_id=2),
        replace(one, runner_name="test-runner-2"),
        replace(one, scale_set_id=1),
        replace(one, config=SecretText("fake-jit-confi")),
    ]
    assert len({template_hash(jit) for jit in (one, *others)}) == 5
    assert template_hash(one) == template_hash(replace(one))
