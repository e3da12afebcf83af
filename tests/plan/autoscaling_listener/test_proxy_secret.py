"""The listener's proxies as environment values."""

import base64
from dataclasses import replace

import pytest

from runnerscale.core.clock import format_time
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import PODS, SECRETS
from tests.plan.autoscaling_listener.world import HOME, NAME, TOKEN, World

FULL = {
    "http": {"url": "http://proxy.example.com:8080", "credentialSecretRef": "proxy"},
    "https": {"url": "https://proxy.example.com:8080", "credentialSecretRef": "proxy"},
    "noProxy": ["noproxy.example.com", "noproxy2.example.com"],
}
MEANS = replace(
    TOKEN,
    http_proxy=SecretText("http://username:password@proxy.example.com:8080"),
    https_proxy=SecretText("https://username:password@proxy.example.com:8080"),
    no_proxy=("noproxy.example.com", "noproxy2.example.com"),
)


def data_of(world: World) -> dict[str, str]:
    return {k: base64.b64decode(v).decode() for k, v in world.proxy["data"].items()}


def env_of(world: World) -> list[str]:
    """The variables of the contract: ours comes after them."""
    names = [item["name"] for item in world.pod["spec"]["containers"][0]["env"]]
    assert names.pop() == "RUNNERSCALE_CONTROLLER"
    return names


@pytest.mark.behaviour("C1 T96", "C1 T32")
async def test_a_full_proxy_is_flattened_and_the_pod_refers_to_all_of_it() -> None:
    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    assert data_of(world) == {
        "http_proxy": "http://username:password@proxy.example.com:8080",
        "https_proxy": "https://username:password@proxy.example.com:8080",
        "no_proxy": "noproxy.example.com,noproxy2.example.com",
    }
    assert world.proxy["metadata"]["labels"] == {
        "actions.github.com/scale-set-namespace": "arc-runners",
        "actions.github.com/scale-set-name": "linux",
    }
    # Golden vector of contract 2.8: on these bytes our annotation is ARC's.
    assert world.proxy["metadata"]["annotations"]["actions.github.com/integrity-hash"] == (
        "54787b4cb"
    )
    assert env_of(world) == ["LISTENER_CONFIG_PATH", "http_proxy", "https_proxy", "no_proxy"]
    source = world.pod["spec"]["containers"][0]["env"][1]["valueFrom"]["secretKeyRef"]
    assert source == {"name": f"{NAME}-proxy", "key": "http_proxy"}


@pytest.mark.behaviour("C1 T96")
async def test_only_the_configured_parts_are_referred_to_but_all_keys_exist() -> None:
    world = World(proxy={"http": FULL["http"]})
    world.clients.means = replace(MEANS, https_proxy=None, no_proxy=())
    await world.settle()
    assert set(data_of(world)) == {"http_proxy", "https_proxy", "no_proxy"}
    assert data_of(world)["https_proxy"] == ""
    assert env_of(world) == ["LISTENER_CONFIG_PATH", "http_proxy"]


@pytest.mark.behaviour("C1 T104")
async def test_rotated_proxy_credentials_arrive_with_a_new_pod() -> None:
    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    pod = world.pod["metadata"]["uid"]
    world.clients.means = replace(MEANS, http_proxy=SecretText("http://username:new@proxy:8080"))
    await world.settle()
    assert data_of(world)["http_proxy"] == "http://username:new@proxy:8080"
    assert world.pod["metadata"]["deletionTimestamp"]  # an environment is fixed at its start
    world.pod_gone()
    await world.settle()
    assert world.pod["metadata"]["uid"] != pod


async def test_a_proxy_that_is_no_longer_wished_takes_its_secret_with_it() -> None:
    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    world.edit(proxy=None)
    world.clients.means = TOKEN
    await world.settle()
    world.pod_gone()
    await world.settle()
    assert world.proxy is None
    assert env_of(world) == ["LISTENER_CONFIG_PATH"]


async def test_somebody_elses_secret_of_that_name_is_left_alone() -> None:
    from runnerscale.kube.builtin import SECRETS

    world = World()
    world.api.put(SECRETS, HOME, {"metadata": {"name": f"{NAME}-proxy"}, "data": {"a": "Yg=="}})
    await world.settle()
    assert world.proxy["data"] == {"a": "Yg=="}


@pytest.mark.behaviour("C1 T96")
async def test_the_secret_goes_with_the_listener() -> None:
    from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS

    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    gone = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, NAME, gone)
    await world.settle()
    assert world.proxy is None


async def test_a_proxy_secret_of_a_listener_that_is_gone_becomes_ours() -> None:
    from runnerscale.kube.builtin import SECRETS

    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    owner = {**world.proxy["metadata"]["ownerReferences"][0], "uid": "another"}
    change = {"metadata": {"ownerReferences": [owner], "labels": None}}
    world.api.change(SECRETS, HOME, f"{NAME}-proxy", change)
    await world.settle()
    (now,) = world.proxy["metadata"]["ownerReferences"]
    assert now["uid"] == world.listener["metadata"]["uid"]
    assert world.proxy["metadata"]["labels"]


async def test_without_credentials_the_stored_proxies_stay() -> None:
    from tests.plan.autoscaling_listener.test_means import MISSING

    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    before = data_of(world)
    world.clients.means = MISSING
    await world.settle()
    assert data_of(world) == before


async def test_a_key_that_somebody_adds_is_left_there_and_written_about_no_more() -> None:
    # The data never was equal then, and was patched in every round of every pass.
    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    world.api.change(SECRETS, HOME, f"{NAME}-proxy", {"data": {"note": "eA=="}})
    await world.settle()
    assert world.proxy["data"]["note"] == "eA=="


async def test_proxies_spoilt_by_hand_are_put_right() -> None:
    # What is no text stopped the plan, and with it the write that would have mended it.
    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    spoilt = {"data": {"http_proxy": base64.b64encode(b"\xff\xfe").decode()}}
    world.api.change(SECRETS, HOME, f"{NAME}-proxy", spoilt)
    await world.settle()
    assert data_of(world)["http_proxy"] == "http://username:password@proxy.example.com:8080"


async def test_a_secret_that_is_going_is_not_deleted_again() -> None:
    world = World(proxy=FULL)
    world.clients.means = MEANS
    await world.settle()
    held = {"deletionTimestamp": format_time(world.clock.now_s()), "finalizers": ["some/body"]}
    world.api.change(SECRETS, HOME, f"{NAME}-proxy", {"metadata": held})
    world.edit(proxy=None)
    await world.settle()
    world.api.drop(PODS, HOME, NAME)
    await world.settle()
    assert world.proxy is not None
