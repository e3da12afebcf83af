import json
from urllib.parse import parse_qs, urlsplit

import pytest

from runnerscale.scaleset import requests
from runnerscale.scaleset.user_agent import SystemInfo, debug_text, user_agent
from tests.unit.scaleset.stub import TENANT, client_of, reply, stub_with

TENANT_QUERY = "http://h/tenant/123/?foo=1"


@pytest.mark.behaviour("C2 T27", "C2 T28", "C2 T29")
@pytest.mark.parametrize(
    ("tenant", "path", "query", "url"),
    [
        (
            "http://h/tenant/123/",
            "/my/path?name=banana",
            {},
            "http://h/tenant/123/my/path?api-version=6.0-preview&name=banana",
        ),
        ("http://h/t", "p/", {}, "http://h/t/p/?api-version=6.0-preview"),
        ("http://h/t/", "/p?api-version=5.0", {}, "http://h/t/p?api-version=5.0"),
        ("http://h/t/", "/p?api-version=", {}, "http://h/t/p?api-version=6.0-preview"),
        (
            TENANT_QUERY,
            "/p",
            {"bar": "2"},
            "http://h/tenant/123/p?api-version=6.0-preview&bar=2&foo=1",
        ),
        (TENANT_QUERY, "/p?foo=3", {}, "http://h/tenant/123/p?api-version=6.0-preview&foo=3"),
        ("https://h:8443", "p", {}, "https://h:8443/p?api-version=6.0-preview"),
    ],
)
def test_a_path_is_laid_below_the_tenant(
    tenant: str, path: str, query: dict[str, str], url: str
) -> None:
    assert requests.actions_url(tenant, path, query) == url


@pytest.mark.behaviour("C2 T34")
@pytest.mark.parametrize(
    "name", ["a b", "a&b", "a+b", "a%20b", "100%", "a;b", "a#b", "naïve", "a=b"]
)
def test_a_name_arrives_as_it_is(name: str) -> None:
    url = requests.actions_url(TENANT, "p", {"name": name})
    assert parse_qs(urlsplit(url).query)["name"] == [name]


@pytest.mark.behaviour("C2 T30", "C2 T31")
async def test_every_call_says_who_speaks_and_about_which_scale_set() -> None:
    stub = stub_with(lambda seen: reply(200, {"id": 10, "name": "s"}))
    client = client_of(stub)
    client.system_info = SystemInfo("test", "test-version", "test-sha", 1, "subtest")
    await client.find_scale_set("s", 1)
    client.system_info = SystemInfo(
        "actions-runner-controller", "0.1.0", "1234567890abcdef", 10, "test"
    )
    await client.get_scale_set(42)
    first, second = stub.calls()
    assert first.headers["Content-Type"] == second.headers["Content-Type"] == "application/json"
    names = ["system", "version", "commit_sha", "scale_set_id", "subsystem"]
    names += ["build_version", "build_commit_sha", "kind"]
    said = json.loads(first.headers["User-Agent"])
    assert list(said) == names
    assert [said[name] for name in names[:5]] == ["test", "test-version", "test-sha", 1, "subtest"]
    assert said["kind"] == "scaleset"
    assert json.loads(second.headers["User-Agent"])["scale_set_id"] == 42  # per call (W43)
    assert json.loads(second.headers["User-Agent"])["system"] == "actions-runner-controller"
    assert "\n" not in first.headers["User-Agent"]


@pytest.mark.behaviour("C2 T32")
def test_the_debug_text_has_three_members() -> None:
    info = SystemInfo(subsystem="test")
    text = json.loads(debug_text(info, has_proxy=True, has_root_ca=False))
    assert text == {"has_proxy": True, "has_root_ca": False, "system_info": user_agent(info)}
    assert client_of(stub_with()).debug_text() == debug_text(
        SystemInfo(), has_proxy=False, has_root_ca=False
    )


def test_system_info_about_no_scale_set_stays_what_it_is() -> None:
    info = SystemInfo(scale_set_id=7)
    assert info.about(0) is info
    assert info.about(8).scale_set_id == 8


def test_an_unset_member_is_not_sent_in_a_change() -> None:
    unset: dict[str, None] = dict.fromkeys(["name", "runner_group_id", "labels", "disable_update"])
    assert requests.update_scale_set_body(**unset) == {}  # type: ignore[arg-type]
    assert requests.update_scale_set_body(
        name="n", runner_group_id=2, labels=["a"], disable_update=False
    ) == {
        "name": "n",
        "runnerGroupId": 2,
        "labels": [{"type": "System", "name": "a"}],
        "RunnerSetting": {},
    }
