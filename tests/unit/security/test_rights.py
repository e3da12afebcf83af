"""Who may do what, asked of the embedded API server with the tokens that the parts really have."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runnerscale.api.crds import crd_documents
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.app.api_server import CONTROLLER, NODE
from runnerscale.app.manifests import SYSTEM_NAMESPACE, set_namespace_manifests, system_manifests
from runnerscale.controllers.autoscaling_listener.identity import rules
from runnerscale.controllers.autoscaling_listener.template import merged
from runnerscale.controllers.ephemeral_runner.runner_pod import runner_pod
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.kube.aiohttp_transport import AiohttpTransport
from runnerscale.kube.builtin import SECRETS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.credentials import StaticToken
from runnerscale.kube.errors import KubeError
from runnerscale.kube.transport import Endpoint
from tests.unit.apiserver.harness import ADMIN, Api, pod, serving

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = "/apis/actions.github.com/v1alpha1"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
GROUP = "actions.github.com"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
NAMESPACES = ("team-a", "team-b", SYSTEM_NAMESPACE, "")
LISTENER = "set-a-listener"
RESOURCES = [
    ("", "pods"),
    ("", "pods/log"),
    ("", "pods/status"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "serviceaccounts"),
    ("", "serviceaccounts/token"),
    ("", "events"),
    ("", "nodes"),
    ("", "namespaces"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("coordination.k8s.io", "leases"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    (GROUP, "autoscalingrunnersets"),
    (GROUP, "autoscalinglisteners"),
    (GROUP, "ephemeralrunnersets"),
    (GROUP, "ephemeralrunnersets/status"),
    (GROUP, "ephemeralrunners"),
    (GROUP, "ephemeralrunners/status"),
    (GROUP, "ephemeralrunners/finalizers"),
]


def listener_rules() -> list[dict[str, list[str]]]:
    spec = SimpleNamespace(ephemeral_runner_set_name="set-a")
    return rules(SimpleNamespace(listener=SimpleNamespace(spec=spec)))  # type: ignore[arg-type]


async def made(api: Api, path: str, body: dict[str, Any]) -> None:
    reply = await api.create(path, body)
    assert reply.code == 201, reply.body


@pytest.fixture
async def cluster() -> AsyncIterator[Api]:
    """Two teams with a set each; the controller's rights reach only team-a."""
    async with serving(crds=crd_documents()) as api:
        client = client_of(api, ADMIN.token.reveal())
        for each in [*system_manifests(), *set_namespace_manifests("team-a")]:
            await client.create(each.resource, each.namespace, each.body)
        await client.close()
        await made(api, "/api/v1/namespaces", {"metadata": {"name": "team-b"}})
        home = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts"
        await made(api, home, {"metadata": {"name": LISTENER}})
        in_a = f"{RBAC}/namespaces/team-a"
        await made(api, f"{in_a}/roles", {"metadata": {"name": "l"}, "rules": listener_rules()})
        subject = {"kind": "ServiceAccount", "name": LISTENER, "namespace": SYSTEM_NAMESPACE}
        role = {"kind": "Role", "name": "l", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": "l"}, "roleRef": role, "subjects": [subject]}
        await made(api, f"{in_a}/rolebindings", binding)
        for team in ("team-a", "team-b"):
            secrets = f"/api/v1/namespaces/{team}/secrets"
            await made(api, secrets, {"metadata": {"name": "github"}, "stringData": {"k": team}})
            for name in ("set-a", "set-b"):
                await made(api, f"{OURS}/namespaces/{team}/ephemeralrunnersets", runner_set(name))
                await made(api, f"{OURS}/namespaces/{team}/ephemeralrunners", runner(f"{name}-r"))
        yield api


def client_of(api: Api, token: str) -> KubeClient:
    return KubeClient(
        AiohttpTransport(Endpoint(api.url)),
        credentials=StaticToken(SecretText(token)),
        clock=SystemClock(),
        random=seeded(1),
    )


def spec() -> dict[str, Any]:
    return {
        "githubConfigUrl": "https://github.com/octo",
        "githubConfigSecret": "github",
        "runnerScaleSetId": 1,
        "spec": {"containers": [{"name": "runner", "image": "x"}]},
    }


def runner_set(name: str) -> dict[str, Any]:
    head = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "EphemeralRunnerSet"}
    return {
        **head,
        "metadata": {"name": name},
        "spec": {"patchID": 0, "ephemeralRunnerSpec": spec()},
    }


def runner(name: str) -> dict[str, Any]:
    head = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "EphemeralRunner"}
    return {**head, "metadata": {"name": name}, "spec": spec()}


async def token_of(api: Api, account: str, namespace: str = SYSTEM_NAMESPACE) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    reply = await api.create(path, {"spec": {}})
    assert reply.code == 201, reply.body
    return str(reply["status.token"])


async def may(
    api: Api, token: str, verbs: tuple[str, ...] = ("get", "create", "patch", "delete")
) -> set[tuple[str, str, str]]:
    """Namespace, verb and resource of everything that is allowed, whatever the name."""
    allowed = set()
    for namespace in NAMESPACES:
        for group, resource in RESOURCES:
            for verb in verbs:
                what, _, sub = resource.partition("/")
                asked = {"group": group, "resource": what, "subresource": sub}
                asked |= {"verb": verb, "namespace": namespace}
                body = {"spec": {"resourceAttributes": asked}}
                reply = await api.create(REVIEWS, body, token=token)
                if reply["status.allowed"]:
                    allowed.add((namespace, verb, resource))
    return allowed


async def test_the_listener_has_three_rights_and_no_fourth(cluster: Api) -> None:
    token = await token_of(cluster, LISTENER)
    assert await may(cluster, token, VERBS) == {
        ("team-a", "get", "ephemeralrunners"),
        ("team-a", "patch", "ephemeralrunners"),
        ("team-a", "patch", "ephemeralrunners/status"),
        # and `patch` of its one set by name, which is asked below
    }


async def test_the_listener_is_held_to_them(cluster: Api) -> None:
    token = await token_of(cluster, LISTENER)
    mine, theirs = f"{OURS}/namespaces/team-a", f"{OURS}/namespaces/team-b"

    async def patch(path: str) -> int:
        return int((await cluster.patch(path, {"metadata": {}}, token=token)).code)

    assert await patch(f"{mine}/ephemeralrunnersets/set-a") == 200
    assert await patch(f"{mine}/ephemeralrunners/set-a-r") == 200
    assert await patch(f"{mine}/ephemeralrunners/set-a-r/status") == 200
    assert (await cluster.get(f"{mine}/ephemeralrunners/set-a-r", token=token)).code == 200
    for path in (
        f"{mine}/ephemeralrunnersets/set-b",  # another set
        f"{mine}/ephemeralrunnersets/set-a/status",  # what the controller writes
        f"{theirs}/ephemeralrunnersets/set-a",
        f"{theirs}/ephemeralrunners/set-a-r",
        f"{theirs}/ephemeralrunners/set-a-r/status",
        "/api/v1/namespaces/team-a/secrets/github",
        f"{RBAC}/namespaces/team-a/roles/l",
    ):
        assert await patch(path) == 403, path
    for path in (
        f"{mine}/ephemeralrunners",
        f"{mine}/ephemeralrunnersets/set-a",
        f"{theirs}/ephemeralrunners/set-a-r",
        "/api/v1/namespaces/team-a/secrets/github",
        "/api/v1/namespaces/team-a/secrets",
        f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets",
        "/api/v1/namespaces/team-a/pods",
    ):
        assert (await cluster.get(path, token=token)).code == 403, path
    assert (await cluster.delete(f"{mine}/ephemeralrunners/set-a-r", token=token)).code == 403


async def test_the_listener_cannot_raise_its_own_rights(cluster: Api) -> None:
    token = await token_of(cluster, LISTENER)
    more = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    in_a = f"{RBAC}/namespaces/team-a"
    assert (await cluster.patch(f"{in_a}/roles/l", more, token=token)).code == 403
    named = {"metadata": {"name": "x"}, **more}
    assert (await cluster.create(f"{RBAC}/clusterroles", named, token=token)).code == 403
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{LISTENER}/token"
    assert (await cluster.create(path, {"spec": {}}, token=token)).code == 403
    as_admin = {"Impersonate-User": "admin"}
    assert (await cluster.get("/api/v1/nodes", token=token, headers=as_admin)).code == 403


async def test_the_controller_reaches_secrets_only_where_a_team_let_it(cluster: Api) -> None:
    allowed = await may(cluster, await token_of(cluster, CONTROLLER.rpartition(":")[2]))
    where = {namespace for namespace, _, what in allowed if what == "secrets"}
    assert where == {"team-a", SYSTEM_NAMESPACE}
    where = {namespace for namespace, verb, what in allowed if what == "pods" and verb == "create"}
    assert where == {"team-a", SYSTEM_NAMESPACE}
    assert not {what for _, _, what in allowed} & {
        "clusterroles",
        "clusterrolebindings",
        "nodes",
        "customresourcedefinitions",
        "serviceaccounts/token",
    }


async def test_the_controller_cannot_grant_what_it_does_not_hold(cluster: Api) -> None:
    token = await token_of(cluster, CONTROLLER.rpartition(":")[2])
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}
    body = {"metadata": {"name": "x"}, "rules": [rule]}
    path = f"{RBAC}/namespaces/team-a/roles"
    assert (await cluster.create(path, body, token=token)).code == 403


async def test_a_runner_has_no_rights_at_all(cluster: Api) -> None:
    assert await may(cluster, await token_of(cluster, "default", "team-a")) == set()


async def test_the_node_cannot_change_the_rules_or_the_sets(cluster: Api) -> None:
    allowed = await may(cluster, await token_of(cluster, NODE.rpartition(":")[2]))
    changes = {what for _, verb, what in allowed if verb not in ("get", "list", "watch")}
    assert changes == {"pods", "pods/status", "nodes", "events", "leases", "serviceaccounts/token"}


NAMES = [
    "../../team-b/secrets/github",
    "team-b/github",
    "a/../../x",
    "",
    "x\r\nHost: y",
    "x?y",
    "%2e",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_from_a_set_never_leads_out_of_its_namespace(cluster: Api, name: str) -> None:
    client = client_of(cluster, ADMIN.token.reveal())
    try:
        with pytest.raises((KubeError, ValueError)):
            await client.get(SECRETS, "team-a", name)
    finally:
        await client.close()


def fields_of(value: Any, path: str = "") -> set[str]:
    found = set()
    if isinstance(value, dict):
        for name, inner in (value.get("properties") or {}).items():
            found |= {f"{path}.{name}", *fields_of(inner, f"{path}.{name}")}
        found |= fields_of(value.get("items"), f"{path}[]")
    return found


def test_no_field_of_a_set_or_runner_names_a_namespace() -> None:
    named = {
        document["spec"]["names"]["kind"]: {
            field
            for version in document["spec"]["versions"]
            for field in fields_of(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
            if "namespace" in field.lower() and not field.endswith("etadata.namespace")
        }
        for document in map(msgspec.to_builtins, crd_documents())
    }
    # A listener is made by the controller, in the controller's own namespace.
    assert named == {
        "AutoscalingRunnerSet": set(),
        "EphemeralRunnerSet": set(),
        "EphemeralRunner": set(),
        "AutoscalingListener": {".autoscalingRunnerSetNamespace"},
    }


async def test_a_pod_gets_an_account_and_files_of_its_own_namespace_only(cluster: Api) -> None:
    path = "/api/v1/namespaces/team-a/pods"
    for name in ("team-b/default", "../team-b/default", "system:admin"):
        reply = await cluster.create(path, pod("p", serviceAccountName=name))
        assert reply.code in (403, 422), name
        volume = {"name": "v", "secret": {"secretName": name}}
        assert (await cluster.create(path, pod("p", volumes=[volume]))).code in (201, 422)
        await cluster.delete(f"{path}/p")
    # A token of team-a's account opens nothing in team-b, also for the same account name.
    token = await token_of(cluster, "default", "team-a")
    assert (await cluster.get("/api/v1/namespaces/team-b/secrets/github", token=token)).code == 403


def test_a_namespace_in_a_template_is_not_obeyed() -> None:
    meta = {"name": "r", "namespace": "team-a", "uid": "u"}
    wished = spec() | {"metadata": {"namespace": "team-b", "name": "x"}}
    wished["spec"] = {"containers": [{"name": "runner", "image": "x"}], "namespace": "team-b"}
    body = msgspec.json.encode({"metadata": meta, "spec": wished})
    one = msgspec.json.decode(body, type=EPHEMERAL_RUNNERS.type)
    made = runner_pod(one, build_version="0.14.2", template_hash="h")
    assert (made["metadata"]["namespace"], made["metadata"]["name"]) == ("team-a", "r")
    base = {"metadata": {**meta, "labels": {}, "annotations": {}}, "spec": {"containers": [{}]}}
    template = {"metadata": {"namespace": "team-b", "name": "x"}, "spec": {}}
    template["spec"] = {"serviceAccountName": "admin", "automountServiceAccountToken": True}
    listener = merged(base, template)
    assert listener["metadata"] == base["metadata"]
    assert not {"serviceAccountName", "automountServiceAccountToken"} & set(listener["spec"])
