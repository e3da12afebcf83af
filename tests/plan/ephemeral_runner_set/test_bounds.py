"""What the runner set asks for at least and at most."""

import msgspec

from runnerscale.api.autoscaling_runner_set import MAX_RUNNERS_UNLIMITED, AutoscalingRunnerSet
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.controllers.ephemeral_runner_set.bounds import Bounds
from runnerscale.kube.store import Store


def bounds(uid: str = "u", **spec: int) -> Bounds:
    wanted = {"githubConfigUrl": "https://github.com/o", "githubConfigSecret": "s", **spec}
    body = {"metadata": {"name": "a", "namespace": "ns", "uid": uid}, "spec": wanted}
    store: Store[AutoscalingRunnerSet] = Store()
    store.put("ns/a", msgspec.convert(body, AutoscalingRunnerSet))
    return Bounds(store)


def owned_by(uid: str) -> EphemeralRunnerSet:
    owner = {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": "AutoscalingRunnerSet",
        "name": "a",
        "uid": uid,
        "controller": True,
    }
    meta = {"name": "a", "namespace": "ns", "uid": "set", "ownerReferences": [owner]}
    runner = {"githubConfigUrl": "x", "githubConfigSecret": "s", "runnerScaleSetId": 1}
    body = {"metadata": meta, "spec": {"ephemeralRunnerSpec": runner}}
    return msgspec.convert(body, EphemeralRunnerSet)


def test_what_the_runner_set_asks_for() -> None:
    asked = bounds(minRunners=2, maxRunners=7)
    assert (asked.low(owned_by("u")), asked.high(owned_by("u"))) == (2, 7)


def test_nothing_said_means_none_and_no_limit() -> None:
    assert (bounds().low(owned_by("u")), bounds().high(owned_by("u"))) == (0, MAX_RUNNERS_UNLIMITED)


def test_another_runner_set_of_that_name_says_nothing() -> None:
    asked = bounds("other", minRunners=2, maxRunners=7)
    assert (asked.low(owned_by("u")), asked.high(owned_by("u"))) == (None, None)
