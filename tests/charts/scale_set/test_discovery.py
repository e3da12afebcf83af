"""Which service account the controller has: said in the values, or read from its Deployment."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.charts.render import SCALE_SET, render_one

from .chart import BASE, GHA, RELEASE, K, one, refusal, values

WATCHES = GHA + "controller-watch-single-namespace"
ACCOUNT = GHA + "controller-service-account-name"
PLACE = GHA + "controller-service-account-namespace"
REMEDY = "Set controllerServiceAccount.name and controllerServiceAccount.namespace"
HERE = "test-ns"

Deployment = dict[str, Any]


def deployment(name: str, *, watches: str = "", place: str = "arc-system") -> Deployment:
    """A controller as its chart installs it; `watches`: the only namespace, if there is one."""
    labels = {
        K + "part-of": "gha-rs-controller",
        ACCOUNT: f"{name}-account",
        PLACE: place,
        **({WATCHES: watches} if watches else {}),
    }
    metadata = {"name": name, "namespace": place, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


def without_label(item: Deployment, key: str) -> Deployment:
    labels = {k: v for k, v in item["metadata"]["labels"].items() if k != key}
    return {**item, "metadata": {**item["metadata"], "labels": labels}}


OTHERS: list[Deployment] = [
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "b", "namespace": "b", "labels": {K + "part-of": "something"}},
    },
]


def subject(found: Sequence[Deployment], account: Mapping[str, str] | None = None) -> Any:
    """Whom the rights go to, with these Deployments in the cluster."""
    given = values(controllerServiceAccount=account)
    binding = render_one(SCALE_SET, "RoleBinding", given, release=RELEASE, lookup=[*OTHERS, *found])
    (only,) = binding["subjects"]
    assert only["kind"] == "ServiceAccount"
    return only["name"], only["namespace"]


def refused(found: Sequence[Deployment], account: Mapping[str, str] | None = None) -> str:
    return refusal({"controllerServiceAccount": account}, lookup=[*OTHERS, *found])


@pytest.mark.behaviour("C3 T199")
def test_the_only_controller_of_the_cluster_is_found() -> None:
    assert subject([deployment("arc")]) == ("arc-account", "arc-system")


@pytest.mark.behaviour("C3 T199")
def test_the_only_controller_that_watches_this_namespace_is_found() -> None:
    others = [deployment(f"x{n}", watches=f"ns-{n}", place=f"ns-{n}") for n in range(3)]
    mine = deployment("mine", watches=HERE, place="ns-9")
    assert subject([*others, mine]) == ("mine-account", "ns-9")


@pytest.mark.behaviour("C3 T199")
def test_the_namespace_that_counts_is_the_overridden_one() -> None:
    found = [deployment("a", watches="elsewhere"), deployment("b", watches=HERE)]
    extra = {"controllerServiceAccount": None, "namespaceOverride": "elsewhere"}
    assert one("RoleBinding", extra, lookup=found)["subjects"][0]["name"] == "a-account"


@pytest.mark.behaviour("C3 T199")
def test_without_a_controller_the_values_must_say_it() -> None:
    text = refused([])
    assert "no controller was found" in text
    assert REMEDY in text


@pytest.mark.behaviour("C3 T199")
def test_without_a_cluster_the_values_must_say_it() -> None:
    for account in (None, {"name": "arc"}, {"namespace": "arc-system"}, {"name": ""}):
        text = refusal({"controllerServiceAccount": account})
        assert "no cluster to look in (helm template, GitOps)" in text
        assert REMEDY in text


@pytest.mark.behaviour("C3 T199")
def test_controllers_of_both_kinds_are_refused() -> None:
    text = refused([deployment("all"), deployment("one", watches=HERE)])
    assert "side by side, which is not supported: arc-system/all, arc-system/one" in text
    assert REMEDY in text


@pytest.mark.behaviour("C3 T199")
def test_two_controllers_of_the_whole_cluster_are_ambiguous() -> None:
    text = refused([deployment("a"), deployment("b")])
    assert "more than one controller for the whole cluster was found" in text
    assert "arc-system/a, arc-system/b" in text
    assert REMEDY in text


@pytest.mark.behaviour("C3 T199")
def test_when_nobody_watches_this_namespace_it_says_which_are_watched() -> None:
    text = refused([deployment("a", watches="ns-1"), deployment("b", watches="ns-2")])
    assert f'no controller watches namespace "{HERE}": those found watch ns-1, ns-2' in text
    assert REMEDY in text


def test_two_watchers_of_this_namespace_are_ambiguous() -> None:
    # T199's last row but one has the last one win in silence; W-S13 overrules.
    text = refused([deployment("a", watches=HERE), deployment("b", watches=HERE)])
    assert f'more than one controller watches namespace "{HERE}"' in text
    assert "arc-system/a, arc-system/b" in text
    assert REMEDY in text


@pytest.mark.behaviour("C3 T199")
@pytest.mark.parametrize("watches", ["", HERE])
@pytest.mark.parametrize(("key", "part"), [(ACCOUNT, "name"), (PLACE, "namespace")])
def test_a_controller_without_the_label_is_refused(watches: str, key: str, part: str) -> None:
    text = refused([without_label(deployment("arc", watches=watches), key)])
    assert f"controllerServiceAccount.{part} is not set" in text
    assert f"no label {key}" in text


def test_what_is_said_wins_and_only_the_rest_is_looked_for() -> None:
    found = [deployment("arc")]
    assert subject(found, {"name": "mine"}) == ("mine", "arc-system")
    assert subject(found, {"namespace": "mine"}) == ("arc-account", "mine")
    bare = without_label(found[0], ACCOUNT)
    assert subject([bare], {"name": "mine"}) == ("mine", "arc-system")


def test_with_both_said_nobody_is_looked_for() -> None:
    # Not even when what would be found is ambiguous; nor is any right to list needed.
    both = {"name": "mine", "namespace": "there"}
    assert subject([deployment("a"), deployment("b")], both) == ("mine", "there")
    assert subject([], both) == ("mine", "there")
    assert one("RoleBinding")["subjects"][0]["name"] == BASE["controllerServiceAccount"]["name"]
