"""Where credentials come from, and what their absence does not stop."""

from dataclasses import replace

import pytest

from runnerscale.controllers.autoscaling_listener.means import with_user
from runnerscale.credentials.place import PlaceTrouble
from tests.plan.autoscaling_listener.world import RUNNERS, TOKEN, World

MISSING = PlaceTrouble(
    "CredentialsMissing", 'failed to get kubernetes secret: "arc-runners/github"', "Create it"
)


async def test_credentials_are_asked_for_once_in_a_pass_in_the_namespace_of_the_runners() -> None:
    world = World()
    await world.one_pass()
    (place,) = world.clients.asked
    assert place.namespace == RUNNERS
    assert place.secret_name == "github"


async def test_without_credentials_there_is_no_configuration_and_no_pod() -> None:
    world = World()
    world.clients.means = MISSING
    end = await world.settle()
    assert world.config is None
    assert world.pod is None
    assert world.service_account is not None  # what does not need them is there
    assert end.again_s == 30.0
    assert world.listener["status"]["reason"] == "CredentialsMissing"


async def test_a_dead_listener_is_restarted_though_the_secret_cannot_be_read() -> None:
    # W51: its last good configuration is still there.
    world = World()
    await world.settle()
    world.clients.means = MISSING
    world.end_pod(1)
    uid = world.pod["metadata"]["uid"]
    world.clock.advance(10)
    await world.settle()
    assert world.pod["metadata"]["uid"] != uid
    assert world.listener["status"]["conditions"][0]["reason"] == "CredentialsMissing"


@pytest.mark.behaviour("C1 T97")
async def test_a_missing_ca_key_means_no_pod_and_is_told_by_name() -> None:
    world = World(
        githubServerTLS={"certificateFrom": {"configMapKeyRef": {"name": "ca", "key": "root.pem"}}}
    )
    what = "config map arc-runners/ca has no key root.pem"
    world.clients.means = PlaceTrouble("CertificateInvalid", what, "Add it")
    await world.settle()
    (place, *_) = world.clients.asked
    assert (place.certificate.name, place.certificate.key) == ("ca", "root.pem")
    assert world.pod is None
    assert world.listener["status"]["reason"] == "CertificateInvalid"
    assert what in world.listener["status"]["message"]


@pytest.mark.behaviour("C1 T97")
async def test_the_ca_is_written_into_the_configuration() -> None:
    from tests.plan.autoscaling_listener.test_config_secret import file_of

    world = World()
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    world.clients.means = replace(TOKEN, root_ca_pem=pem)
    await world.settle()
    assert file_of(world)["server_root_ca"] == pem


def test_user_information_replaces_what_the_url_had_and_is_escaped() -> None:
    assert with_user("http://old:x@proxy:8080", "me", "a@b/c") == "http://me:a%40b%2Fc@proxy:8080"
    assert with_user("http://proxy:8080", "", "") == "http://proxy:8080"
