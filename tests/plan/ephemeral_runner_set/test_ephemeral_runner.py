"""The object that a set makes (contract 3.11)."""

import msgspec

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.api.names import runner_proxy_name
from runnerscale.controllers.ephemeral_runner_set.ephemeral_runner import (
    decoded,
    ephemeral_runner,
    is_mine,
)
from runnerscale.kube.objects import ObjectMeta, OwnerReference
from tests.plan.ephemeral_runner_set.values import REFERENCE, item

SET = item(
    metadata={
        "labels": {keys.COMPONENT: keys.COMPONENT_RUNNER_SET, "team": "set", keys.VERSION: "v"},
        "annotations": {keys.INTEGRITY_HASH: "h", keys.HOLD: "3", keys.OWNED_KEYS: "a;b"},
    },
    spec={
        "patchID": 7,
        "ephemeralRunnerMetadata": {
            "labels": {"team": "runner", "extra": "1"},
            "annotations": {"note": "n", keys.PATCH_ID: "no"},
        },
        "ephemeralRunnerSpec": {
            "githubConfigUrl": "https://github.com/o",
            "githubConfigSecret": "s",
            "runnerScaleSetId": 4,
            "proxy": {"http": {"url": "http://p"}},
            "metadata": {"labels": {"pod": "label"}},
            "spec": {"containers": [{"name": "runner", "image": "i", "anyNewField": [0]}]},
        },
    },
)
BODY = ephemeral_runner(SET, REFERENCE, name="set-runner-abcde", fingerprint="r1-f")


def test_metadata_inherits_from_the_set_and_the_controller_wins() -> None:
    meta = BODY["metadata"]
    assert (meta["name"], meta["namespace"]) == ("set-runner-abcde", "runners")
    assert meta["labels"] == {
        "team": "set",
        "extra": "1",
        keys.COMPONENT: keys.COMPONENT_RUNNER,
        keys.VERSION: "v",
    }
    assert meta["annotations"] == {
        "note": "n",
        keys.INTEGRITY_HASH: "h",
        keys.PATCH_ID: "7",
        keys.RUNNER_SPEC_HASH: "r1-f",
    }
    assert meta["finalizers"] == [
        "ephemeralrunner.actions.github.com/finalizer",
        "ephemeralrunner.actions.github.com/runner-registration-finalizer",
    ]
    assert meta["ownerReferences"][0]["uid"] == "uid-set"
    assert meta["ownerReferences"][0]["controller"] is True


def test_the_spec_is_the_sets_with_a_reference_to_the_proxies() -> None:
    spec = BODY["spec"]
    assert spec["spec"]["containers"][0]["anyNewField"] == [0]
    assert spec["metadata"] == {"labels": {"pod": "label"}}
    assert spec["proxySecretRef"] == runner_proxy_name(namespace="runners", runner_set="set")
    assert spec["proxy"] == {"http": {"url": "http://p"}}
    assert (spec["githubConfigUrl"], spec["runnerScaleSetId"]) == ("https://github.com/o", 4)


def test_required_fields_are_there_even_where_they_are_empty() -> None:
    spec = ephemeral_runner(item(), REFERENCE, name="x", fingerprint="f")["spec"]
    assert spec == {"githubConfigUrl": "", "githubConfigSecret": "", "runnerScaleSetId": 0}


def test_it_reads_back_as_what_it_was_made_from() -> None:
    runner = decoded(BODY, uid="u")
    assert isinstance(runner, EphemeralRunner) and runner.metadata.uid == "u"
    assert msgspec.json.decode(runner.spec.spec) == BODY["spec"]["spec"]


def test_whose_an_object_is() -> None:
    mine = ObjectMeta(owner_references=[OwnerReference(uid="uid-set", controller=True)])
    assert is_mine(mine, REFERENCE)
    assert not is_mine(ObjectMeta(owner_references=[OwnerReference(uid="uid-set")]), REFERENCE)
    assert not is_mine(ObjectMeta(), REFERENCE)
