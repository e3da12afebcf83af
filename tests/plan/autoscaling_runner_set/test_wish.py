"""What a runner set wishes for, and what of it makes sense."""

from typing import Any

import msgspec
import pytest

from runnerscale.api.autoscaling_runner_set import AutoscalingRunnerSet
from runnerscale.controllers.autoscaling_runner_set.wish import (
    Limits,
    Wish,
    claim,
    read_wish,
    same_address,
    scale_set_labels,
    scale_set_name,
)
from tests.plan.autoscaling_runner_set.world import SPEC, URL


def runner_set(name: str = "linux", **spec: Any) -> AutoscalingRunnerSet:
    body = {"metadata": {"name": name, "namespace": "arc-runners"}, "spec": {**SPEC, **spec}}
    spec_only = {key: value for key, value in body["spec"].items() if value is not None}
    return msgspec.json.decode(
        msgspec.json.encode({**body, "spec": spec_only}), type=AutoscalingRunnerSet
    )


def wish(name: str = "linux", **spec: Any) -> Wish:
    return read_wish(runner_set(name, **spec), "AutoscalingRunnerSet arc-runners/linux")


def reasons(found: Wish) -> list[str]:
    return [str(trouble.reason) for trouble in found.troubles]


def test_a_good_wish_has_no_troubles() -> None:
    found = wish()
    assert found.troubles == ()
    assert found.limits == Limits(1, 10)
    assert found.template_usable
    assert found.place is not None
    assert found.place.config_url == URL
    assert found.place.namespace == "arc-runners"


def test_absent_limits_mean_none_and_as_many_as_a_listener_counts() -> None:
    assert wish(minRunners=None, maxRunners=None).limits == Limits(0, 2147483647)
    assert wish(minRunners=0, maxRunners=0).limits == Limits(0, 0)


def test_more_minimum_than_maximum_costs_only_the_limits() -> None:
    found = wish(minRunners=5, maxRunners=2)
    assert found.limits is None
    assert found.place is not None
    assert found.template_usable
    assert reasons(found) == ["MinAboveMax"]
    words = 'MinRunners "5" cannot be greater than MaxRunners "2"'
    assert words in found.troubles[0].happened


def test_limits_below_zero_are_no_limits() -> None:
    assert reasons(wish(minRunners=-1)) == ["SpecInvalid"]


def test_more_runners_than_a_listener_counts_are_no_limit() -> None:
    assert wish(minRunners=0, maxRunners=2**31 - 1).limits == Limits(0, 2**31 - 1)
    found = wish(maxRunners=2**31)  # the CRD takes it; a listener told so would not start
    assert found.limits is None
    assert reasons(found) == ["SpecInvalid"]
    assert "2147483648" in found.troubles[0].happened


@pytest.mark.parametrize("url", ["", "github.com/org", "https://github.com", "https://h/a/b/c"])
def test_an_unreadable_url_is_no_place(url: str) -> None:
    found = wish(githubConfigUrl=url)
    assert found.place is None
    assert found.url is None
    assert reasons(found) == ["ConfigUrlInvalid"]


def test_a_missing_secret_name_and_a_name_too_long_are_no_place() -> None:
    assert wish(githubConfigSecret="").place is None
    long = wish(name="x" * 46)
    assert long.place is None
    assert "46 characters" in long.troubles[0].happened
    assert wish(name="x" * 45).place is not None


@pytest.mark.parametrize(
    "template", [None, {}, {"spec": {"containers": []}}, {"spec": {"containers": [{"name": "x"}]}}]
)
def test_a_template_without_a_runner_is_told_and_costs_only_the_template(template: Any) -> None:
    found = wish(template=template)
    assert not found.template_usable
    assert found.place is not None
    assert reasons(found) == ["SpecInvalid"]
    assert "no container named runner" in found.troubles[0].happened


@pytest.mark.behaviour("C1 T40")
def test_labels_are_the_name_and_then_each_wished_one_once() -> None:
    assert scale_set_labels("set", ["a", "b", "a", "set"]) == ("set", "a", "b")
    assert scale_set_labels("set", None) == ("set",)


@pytest.mark.behaviour("C1 T37")
def test_without_a_name_the_object_lends_its_own() -> None:
    assert scale_set_name(runner_set()) == "linux"
    assert scale_set_name(runner_set(runnerScaleSetName="other")) == "other"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (URL, URL + "/", True),
        (URL, "https://GitHub.com/Octo-Org/octo-repo", True),
        (URL, "https://github.com/octo-org", False),
        (URL, "nonsense", False),
        ("nonsense", "nonsense", True),
    ],
)
def test_two_urls_of_one_place(one: str, other: str, same: bool) -> None:
    assert same_address(one, other) is same


def test_a_claim_is_place_group_and_name_in_any_case() -> None:
    one = runner_set(runnerScaleSetName="Set", runnerGroup="Grp")
    other = runner_set(name="b", runnerScaleSetName="set", runnerGroup="grp")
    assert claim(one) == claim(other)
    assert claim(runner_set()) != claim(runner_set(githubConfigUrl="https://github.com/else"))
