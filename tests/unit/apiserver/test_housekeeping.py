"""What the server does by itself: accounts, quotas, collected owners, dropped kinds, restarts.

The visible steps of garbage collection and namespace deletion are held by `tests/conformance`.
"""

from typing import Any

from runnerscale.apiserver.admission import Attributes, denied_by_webhook
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.store import MemoryStore
from tests.conformance.widget_crd import WIDGET_CRD
from tests.unit.apiserver.harness import CM, PODS, Api, config_map, eventually, pod, serving

SA = "/api/v1/namespaces/default/serviceaccounts"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/conformance.runnerscale.dev/v1/namespaces/default/widgets"
WIDGET = {
    "apiVersion": "conformance.runnerscale.dev/v1",
    "kind": "Widget",
    "metadata": {"name": "w"},
    "spec": {"size": 1},
}


def there(api: Api, resource: str, name: str, namespace: str = "default") -> Any:
    return lambda: api.server.store.table(resource).get(namespace, name) is not None


def gone(api: Api, resource: str, name: str, namespace: str = "default") -> Any:
    return lambda: api.server.store.table(resource).get(namespace, name) is None


async def test_every_namespace_has_its_account_at_once(api: Api) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "new"}})
    path = "/api/v1/namespaces/new/pods"
    assert (await api.create(path, pod("p"))).code == 201


async def test_a_deleted_default_account_comes_back(api: Api) -> None:
    await api.delete(f"{SA}/default")
    await eventually(there(api, "serviceaccounts", "default"))


async def test_the_ca_is_in_every_namespace() -> None:
    async with serving(root_ca="PEM") as api:
        reply = await api.get(f"{CM}/kube-root-ca.crt")
        assert reply["data"] == {"ca.crt": "PEM"}


async def test_a_new_ca_is_in_every_namespace_after_a_restart() -> None:
    store = MemoryStore()
    async with serving(store=store, root_ca="OLD") as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    async with serving(store=store, root_ca="NEW"):

        def renewed() -> bool:
            maps = store.table("configmaps").list(everywhere=True)
            found = [m.object()["data"] for m in maps if m.name == "kube-root-ca.crt"]
            return len(found) >= 2 and all(data == {"ca.crt": "NEW"} for data in found)

        await eventually(renewed)


async def test_a_chain_of_owners_is_collected_to_its_end(api: Api) -> None:
    owner = await api.create(CM, config_map("a"))
    for name in ("b", "c"):
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata.name"],
            "uid": owner["metadata.uid"],
        }
        meta = {"name": name, "ownerReferences": [reference]}
        owner = await api.create(CM, {"metadata": meta})
    await api.delete(f"{CM}/a")
    await eventually(gone(api, "configmaps", "c"))


async def test_an_object_with_one_owner_left_only_loses_the_reference(api: Api) -> None:
    owners = [await api.create(CM, config_map(name)) for name in ("a", "b")]
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": o["metadata.name"],
            "uid": o["metadata.uid"],
        }
        for o in owners
    ]
    await api.create(CM, {"metadata": {"name": "child", "ownerReferences": references}})
    await api.delete(f"{CM}/a")
    store = api.server.store
    await eventually(lambda: len(store.children_of(owners[0]["metadata.uid"])) == 0)
    child = await api.get(f"{CM}/child")
    assert [r["name"] for r in child["metadata.ownerReferences"]] == ["b"]


async def test_an_owner_of_a_kind_nobody_knows_keeps_its_object(api: Api) -> None:
    reference = {"apiVersion": "none.io/v1", "kind": "X", "name": "x", "uid": "u"}
    await api.create(CM, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await api.create(CM, config_map("other"))
    await eventually(lambda: True)
    assert (await api.get(f"{CM}/child")).code == 200


async def test_an_owned_pod_on_a_node_gets_its_grace_period_when_collected(api: Api) -> None:
    owner = await api.create(CM, config_map("a"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "a",
        "uid": owner["metadata.uid"],
        "controller": True,
    }
    body = pod("p", nodeName="n1", terminationGracePeriodSeconds=7)
    body["metadata"]["ownerReferences"] = [reference]
    await api.create(PODS, body)
    await api.delete(f"{CM}/a")
    record = api.server.store.table("pods")
    await eventually(lambda: (found := record.get("default", "p")) is not None and found.deleting)
    assert (await api.get(f"{PODS}/p"))["metadata.deletionGracePeriodSeconds"] == 7


async def test_a_dropped_crd_takes_its_objects_and_its_paths_with_it() -> None:
    async with serving(crds=[WIDGET_CRD]) as api:
        assert (await api.create(WIDGETS, WIDGET)).code == 201
        name = WIDGET_CRD["metadata"]["name"]
        await api.delete(f"{CRDS}/{name}")
        await eventually(lambda: api.server.registry.of_resource(name) is None)
        assert (await api.get(WIDGETS)).code == 404
        assert (await api.create(CRDS, WIDGET_CRD)).code == 201
        assert (await api.get(WIDGETS))["items"] == []


async def test_a_kind_is_served_as_soon_as_its_crd_is_created(api: Api) -> None:
    created = await api.create(CRDS, WIDGET_CRD)
    types = {c["type"]: c["status"] for c in created["status.conditions"]}
    assert types == {"NamesAccepted": "True", "Established": "True"}
    assert (await api.create(WIDGETS, WIDGET)).code == 201


async def test_a_restart_serves_stored_kinds_and_finishes_what_was_begun() -> None:
    store = MemoryStore()
    async with serving(store=store, crds=[WIDGET_CRD]) as api:
        await api.create(WIDGETS, WIDGET)
        owner = await api.create(CM, config_map("a"))
        version = store.version
    # The same store under a new server: the hints of the old one are lost.
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "a",
        "uid": owner["metadata.uid"],
    }
    child = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "child", "uid": "c", "ownerReferences": [reference]},
    }
    store.put(store.table("configmaps"), "default", "child", child, {})
    store.remove(store.table("configmaps"), store.table("configmaps").get("default", "a"))  # type: ignore[arg-type]
    async with serving(store=store) as api:
        assert (await api.get(f"{WIDGETS}/w"))["spec.size"] == 1
        await eventually(gone(api, "configmaps", "child"))
        assert store.version > version


async def test_a_quota_counts_what_there_is_and_a_finished_pod_is_free_again(api: Api) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    await api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    assert (await api.create(PODS, pod("p"))).code == 201
    full = await api.create(PODS, pod("q"))
    assert full.code == 403
    assert full["message"] == (
        'pods "q" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
    assert (await api.create(PODS, pod("q"))).code == 201


async def test_a_quota_is_heard_in_a_dry_run(api: Api) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    await api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"count/pods": "0"}}})
    reply = await api.create(PODS, pod("p"), params={"dryRun": "All"})
    assert (reply.code, reply["reason"]) == (403, "Forbidden")
    assert "exceeded quota: q" in reply["message"]


async def test_a_webhook_can_be_played_by_a_function() -> None:
    asked: list[tuple[str, str]] = []

    def hook(attributes: Attributes) -> ApiFailure | None:
        asked.append((attributes.operation, attributes.name))
        if attributes.kind.kind == "Pod" and attributes.operation == "CREATE":
            return denied_by_webhook("policy.example.com", "no pods today")
        return None

    async with serving(hook=hook) as api:
        reply = await api.create(PODS, pod("p"))
        assert reply.code == 403
        assert reply["message"] == (
            'admission webhook "policy.example.com" denied the request: no pods today'
        )
        await api.create(CM, config_map("a"))
        await api.delete(f"{CM}/a")
        assert asked[-2:] == [("CREATE", "a"), ("DELETE", "a")]


async def test_a_pod_takes_the_priority_of_its_class(api: Api) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.create(classes, {"metadata": {"name": "high"}, "value": 1000})
    created = await api.create(PODS, pod("p", priorityClassName="high"))
    assert created["spec.priority"] == 1000
    missing = await api.create(PODS, pod("q", priorityClassName="notexist"))
    assert missing["message"] == (
        'pods "q" is forbidden: no PriorityClass with name notexist was found'
    )


async def test_server_side_apply_is_refused_with_a_sentence_dry_run_or_not(api: Api) -> None:
    for params in ({}, {"dryRun": "All"}):
        reply = await api.patch(
            f"{CM}/a", {}, "application/apply-patch+yaml", params={**params, "fieldManager": "x"}
        )
        assert (reply.code, reply["reason"]) == (415, "UnsupportedMediaType")
        assert "server-side apply is not supported by this server" in reply["message"]
