"""Which part of GitHub an address means."""

import pytest

from runnerscale.fake_github.addresses import (
    Area,
    Place,
    is_api_host,
    locate,
    queue_url,
    tenant_url,
)
from runnerscale.fake_github.operations import resolve
from runnerscale.fake_github.options import HostedBackend
from runnerscale.fake_github.refusals import Refused

BROKER = "broker.actions.githubusercontent.com"
PIPELINES = "pipelinesghubeus1.actions.githubusercontent.com"


@pytest.mark.parametrize(
    ("host", "path", "place"),
    [
        ("127.0.0.1:8480", "/api/v3/app/x", Place(Area.REST, "/app/x")),
        ("ghes.example", "/api/v3/", Place(Area.REST, "/")),
        ("api.github.com", "/app/x", Place(Area.REST, "/app/x")),
        ("API.GitHub.com:443", "/app/x", Place(Area.REST, "/app/x")),
        ("api.acme.ghe.com", "/app/x", Place(Area.REST, "/app/x")),
        ("h", "/_services/pipelines/t1/_apis/a/b", Place(Area.SERVICE, "/a/b", "t1")),
        (BROKER, "/rest/_apis/a", Place(Area.SERVICE, "/a")),
        (BROKER, "/scalesets/message", Place(Area.QUEUE, "/message")),
        (PIPELINES, "/t1/_apis/a", Place(Area.SERVICE, "/a", "t1")),
        ("[::1]:8480", "/control/state", Place(Area.CONTROL, "/state")),
        ("api.github.com", "/runner/sessions", Place(Area.RUNNER, "/sessions")),
        (BROKER, "/api/v3/app/x", None),
        ("h", "/app/x", None),
        ("h", "/_services/pipelines/t1/nothing", None),
        ("h", "/_services/pipelines/a/b/_apis/c", None),
        ("h", "/", None),
    ],
)  # fmt: skip
def test_an_address_belongs_to_one_part(host: str, path: str, place: Place | None) -> None:
    assert locate(host, path) == place


@pytest.mark.parametrize(
    ("name", "hosted"),
    [
        ("api.github.com", True),
        ("api.github.localhost", True),
        ("api.x.ghe.com", True),
        ("github.com", False),
        ("api.example.com", False),
        ("api.ghe.com.evil.example", False),
    ],
)
def test_hosted_api_hosts_are_known_by_name(name: str, hosted: bool) -> None:
    assert is_api_host(name) is hosted


def test_the_port_that_the_client_used_is_kept() -> None:
    url = tenant_url("http", "api.github.localhost:8480", "t", HostedBackend.BROKER)
    assert url == "http://broker.actions.github.localhost:8480/rest"
    url = tenant_url("https", "api.github.com", "t", HostedBackend.PIPELINES)
    assert url == "https://pipelines.actions.githubusercontent.com/t/"
    url = tenant_url("http", "127.0.0.1:8480", "t", HostedBackend.BROKER)
    assert url == "http://127.0.0.1:8480/_services/pipelines/t/"


def test_the_queue_has_a_query_except_at_the_broker() -> None:
    tenant = Place(Area.SERVICE, "/x", "t")
    assert queue_url("http", "h:1", tenant, scale_set_id=3, session_id="s") == (
        "http://h:1/_services/pipelines/t/_apis/runtime/runnerscalesets/3/message?sessionId=s"
    )
    broker = Place(Area.SERVICE, "/x")
    host = "broker.actions.githubusercontent.com"
    assert queue_url("https", host, broker, scale_set_id=3, session_id="s") == (
        f"https://{host}/scalesets/message"
    )


def test_the_parts_of_a_path_are_unescaped_but_never_become_more_parts() -> None:
    found = resolve(Place(Area.REST, "/orgs/my%20org/actions/runners/registration-token"), "POST")
    assert found.params == {"org": "my org"}
    with pytest.raises(Refused):
        resolve(Place(Area.REST, "/orgs/a%2Fb/actions/runners/registration-token"), "POST")
