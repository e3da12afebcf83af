"""Who asks and what they may: tokens, service accounts, impersonation, rights that change.

The texts of refusals and the rules of escalation are held by `tests/conformance`.
"""

from typing import Any

import pytest

from runnerscale.apiserver.rbac import Ask, User, denial
from runnerscale.core.clock import ManualClock
from tests.unit.apiserver.harness import ADMIN, BOB, CM, PODS, Api, config_map, pod, serving

SA = "/api/v1/namespaces/default/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW: dict[str, Any] = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}


async def grant(api: Api, user: str, *rules: dict[str, Any]) -> None:
    path = f"{RBAC}/namespaces/default"
    await api.create(f"{path}/roles", {"metadata": {"name": "r"}, "rules": list(rules)})
    namespace, _, name = user.rpartition(":")
    subject: dict[str, Any] = {"kind": "User", "name": user}
    if namespace:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [subject],
    }
    assert (await api.create(f"{path}/rolebindings", binding)).code == 201


async def token_of(api: Api, account: str = "default", **spec: Any) -> str:
    body = {"spec": spec}
    reply = await api.create(f"{SA}/{account}/token", body)
    assert reply.code == 201, reply.body
    return str(reply["status.token"])


async def test_a_wrong_token_is_unauthorized_and_no_token_is_anonymous(api: Api) -> None:
    wrong = await api.get(CM, token="nonsense")
    assert (wrong.code, wrong["reason"], wrong["message"]) == (401, "Unauthorized", "Unauthorized")
    nobody = await api.get(CM, token="")
    assert nobody.code == 403
    assert 'User "system:anonymous" cannot list resource "configmaps"' in nobody["message"]
    assert (await api.get("/readyz", token="")).body == "ok"
    assert (await api.get("/version", token="")).code == 200


async def test_a_service_account_token_is_that_account(api: Api) -> None:
    token = await token_of(api)
    reply = await api.create(WHO, dict(REVIEW), token=token)
    info = reply["status.userInfo"]
    assert info["username"] == "system:serviceaccount:default:default"
    assert info["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    assert (await api.get(CM, token=token)).code == 403
    await grant(
        api, "sa:default", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    )
    assert (await api.get(CM, token=token)).code == 200


async def test_a_token_ends_with_its_account_even_if_one_of_that_name_comes_back(api: Api) -> None:
    await api.create(SA, {"metadata": {"name": "x"}})
    token = await token_of(api, "x")
    assert (await api.get(CM, token=token)).code == 403
    await api.delete(f"{SA}/x")
    assert (await api.get(CM, token=token)).code == 401
    await api.create(SA, {"metadata": {"name": "x"}})
    assert (await api.get(CM, token=token)).code == 401


async def test_a_token_ends_with_the_pod_it_is_bound_to(api: Api) -> None:
    created = await api.create(PODS, pod("p"))
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": created["metadata.uid"]}
    token = await token_of(api, boundObjectRef=reference)
    who = await api.create(WHO, dict(REVIEW), token=token)
    assert who["status.userInfo"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    await api.delete(f"{PODS}/p")
    assert (await api.get(CM, token=token)).code == 401


async def test_a_token_ends_when_its_time_is_up() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as api:
        token = await token_of(api, expirationSeconds=600)
        clock.advance(599)
        assert (await api.get(CM, token=token)).code == 403
        clock.advance(2)
        assert (await api.get(CM, token=token)).code == 401


async def test_a_token_signed_by_somebody_else_is_unauthorized(api: Api) -> None:
    import jwt

    token = await token_of(api)
    claims = jwt.decode(token, options={"verify_signature": False})
    forged = jwt.encode(claims, "another key of at least 32 bytes!!", algorithm="HS256")
    unsigned = jwt.encode(claims, None, algorithm="none")
    assert (await api.get(CM, token=forged)).code == 401
    assert (await api.get(CM, token=unsigned)).code == 401


async def test_a_right_is_gone_as_soon_as_the_binding_is(api: Api) -> None:
    bob = BOB.token.reveal()
    await grant(api, "bob", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
    assert (await api.get(CM, token=bob)).code == 200
    await api.delete(f"{RBAC}/namespaces/default/rolebindings/r")
    assert (await api.get(CM, token=bob)).code == 403


async def test_a_right_on_a_subresource_is_no_right_on_the_resource(api: Api) -> None:
    # The listener's Role: patch ephemeralrunners/status and nothing more (C1 3.3).
    bob = BOB.token.reveal()
    await grant(api, "bob", {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]})
    await api.create(PODS, pod("p"))
    status = {"status": {"phase": "Running"}}
    assert (await api.patch(f"{PODS}/p/status", status, token=bob)).code == 200
    assert (await api.patch(f"{PODS}/p", {"metadata": {}}, token=bob)).code == 403
    assert (await api.get(f"{PODS}/p", token=bob)).code == 403


async def test_a_right_on_one_name_is_no_right_on_another(api: Api) -> None:
    bob = BOB.token.reveal()
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["mine"],
        "verbs": ["patch", "get"],
    }
    await grant(api, "bob", rule)
    await api.create(CM, config_map("mine"))
    await api.create(CM, config_map("other"))
    assert (await api.patch(f"{CM}/mine", {"data": {"a": "1"}}, token=bob)).code == 200
    assert (await api.patch(f"{CM}/other", {"data": {"a": "1"}}, token=bob)).code == 403
    assert (await api.get(CM, token=bob)).code == 403


async def test_only_who_may_impersonate_can(api: Api) -> None:
    headers = {"Impersonate-User": "system:serviceaccount:default:default"}
    who = await api.create(WHO, dict(REVIEW), headers=headers)
    assert who["status.userInfo"]["username"] == "system:serviceaccount:default:default"
    refused = await api.get(CM, headers=headers, token=BOB.token.reveal())
    assert refused.code == 403
    assert 'cannot impersonate resource "serviceaccounts"' in refused["message"]


async def test_no_token_is_ever_in_an_answer_or_a_repr(api: Api) -> None:
    token = await token_of(api)
    reply = await api.get(CM, token=token + "x")
    assert token not in str(reply.body)
    assert ADMIN.token.reveal() not in repr(ADMIN)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            Ask("get", "", "pods", "log", "ns", "p"),
            'User "u" cannot get resource "pods/log" in API group "" in the namespace "ns"',
        ),
        (
            Ask("list", "a.b", "xs"),
            'User "u" cannot list resource "xs" in API group "a.b" at the cluster scope',
        ),
        (Ask("get", path="/x"), 'User "u" cannot get path "/x"'),
    ],
)
def test_a_refusal_names_who_what_and_where(ask: Ask, text: str) -> None:
    assert denial(User("u"), ask) == text


async def test_a_token_for_another_audience_is_not_ours(api: Api) -> None:
    other = await token_of(api, audiences=["https://elsewhere"])
    assert (await api.get(CM, token=other)).code == 401
