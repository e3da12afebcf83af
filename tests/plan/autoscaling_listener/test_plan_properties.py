"""What holds for every listener whatever is written on it, on its parts and in its pod.

Parts that are missing, foreign, of an earlier listener or of ARC's, going, or spoilt by hand.
Judged by what is asked for, not by the stages.
"""

import asyncio
import base64
import json
from dataclasses import replace
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.controllers.autoscaling_listener import snapshot as snap
from runnerscale.controllers.autoscaling_listener.plan import plan
from runnerscale.controllers.autoscaling_listener.snapshot import SECRET_CHILDREN, Child, Snapshot
from runnerscale.core.clock import format_time
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import PODS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from runnerscale.kube.objects import controller_of, is_deleting
from runnerscale.kube.reconcile import Pass, PassEnd, Plan
from tests.plan.autoscaling_listener.test_means import MISSING
from tests.plan.autoscaling_listener.world import HOME, IMAGE, NAME, RUNNERS, SPEC, TOKEN, World
from tests.plan.checked import Checked
from tests.properties import examples

NOW_S = 1_800_000_000.0
UID = "uid-self"
PASSES_MAX = 8


pytestmark = pytest.mark.usefixtures("quiet")


# --- what there can be --------------------------------------------------------------------------

TIMES = st.sampled_from([0.0, 5.0, 300.0, 5000.0]).map(lambda s: format_time(NOW_S - s))
GOING = st.sampled_from([None, None, None, NOW_S - 1, NOW_S - 5000])
BLOCK = st.sampled_from([{}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}, "labels": {}}])
PROXY = {"http": {"url": "http://p:1"}, "https": {"url": "http://u:p@p:2"}, "noProxy": ["a"]}
VAULTS = st.sampled_from(
    [
        {},
        {"type": "azure_key_vault"},
        {"type": "odd"},
        {
            "type": "azure_key_vault",
            "azureKeyVault": {"url": "u", "tenantId": "t", "clientId": "c", "certificatePath": "p"},
            "proxy": {"https": {"url": "http://p:3", "credentialSecretRef": "vault-proxy"}},
        },
    ]
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "githubConfigUrl": st.sampled_from(["", "https://github.com/o", "nonsense"]),
        "githubConfigSecret": st.sampled_from(["", "github"]),
        "runnerScaleSetId": st.sampled_from([0, 7, 8]),
        "ephemeralRunnerSetName": st.sampled_from(["", "linux"]),
        "maxRunners": st.sampled_from([0, 10]),
        "minRunners": st.sampled_from([0, 3, 50]),
        "image": st.sampled_from(["", IMAGE, "foreign:1"]),
        "imagePullSecrets": st.sampled_from([[], [{"name": "s"}]]),
        "proxy": st.sampled_from([{}, PROXY]),
        "vaultConfig": VAULTS,
        "metrics": st.sampled_from([{}, {"counters": {"x": {"labels": []}}}]),
        "template": st.sampled_from(
            [
                {},
                {"spec": {"containers": []}},
                {"metadata": {"labels": {"t": "1"}}, "spec": {"containers": [{"name": "side"}]}},
                {"spec": {"containers": [{"name": "listener", "env": None, "image": "mine:1"}]}},
            ]
        ),
        "roleMetadata": BLOCK,
        "configSecretMetadata": BLOCK,
    },
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "restarts": st.sampled_from([0, 3, 9]),
        "lastTermination": st.sampled_from(["", "exit code 1"]),
        "reason": st.sampled_from(["", "ListenerCrashing", "Odd"]),
        "conditions": st.just([]),
    },
)
STATES = st.sampled_from(
    [
        None,
        {},
        {"waiting": {}},
        {"waiting": {"reason": "ImagePullBackOff"}},
        {"running": {}},
        {"running": {"startedAt": format_time(NOW_S - 30)}},
        {"running": {"startedAt": format_time(NOW_S - 5000)}},
        {"terminated": {"exitCode": 0}},
        {
            "terminated": {
                "exitCode": 137,
                "startedAt": format_time(NOW_S - 9),
                "finishedAt": format_time(NOW_S - 1),
            }
        },
        {"terminated": {"exitCode": 1, "finishedAt": format_time(NOW_S - 1)}},
    ]
)
OWNERS = st.sampled_from([UID, UID, UID, "uid-before", "other-kind", None])
DATA = st.sampled_from(
    [
        None,
        {},
        {"config.json": base64.b64encode(b'{"github_token":"old"}').decode()},
        {"config.json": base64.b64encode(b"no JSON \xff").decode()},
        {"http_proxy": base64.b64encode(b"\xff\xfe").decode(), "https_proxy": ""},
        {"config.json": ""},
    ]
)


def owners(uid: str | None) -> list[dict[str, Any]]:
    if uid is None:
        return []
    kind = "Deployment" if uid == "other-kind" else "AutoscalingListener"
    reference = {"apiVersion": "actions.github.com/v1alpha1", "kind": kind, "name": NAME}
    return [{**reference, "uid": uid, "controller": True}]


@st.composite
def metas(draw: st.DrawFn, name: str) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "name": name,
        "creationTimestamp": draw(TIMES),
        "ownerReferences": owners(draw(OWNERS)),
        "annotations": draw(ANNOTATIONS),
        "labels": draw(st.sampled_from([{}, {"foreign": "x"}])),
    }
    going_s = draw(GOING)
    if going_s is not None:
        meta |= {"deletionTimestamp": format_time(going_s), "finalizers": ["test/hold"]}
    return meta


ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        keys.INTEGRITY_HASH: st.sampled_from(["r1-x", "7bd9f", ""]),
        keys.OWNED_KEYS: st.sampled_from(["", ";", "a;b", "x,y"]),
        keys.LISTENER_RESTARTS: st.sampled_from(["0", "4", "-1", "x", "9" * 5000]),
        keys.LISTENER_ACCOUNT_UID: st.sampled_from(["", "uid-account"]),
    },
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    for resource, namespace, name in (
        (AUTOSCALING_LISTENERS, HOME, NAME),
        (AUTOSCALING_RUNNER_SETS, RUNNERS, "linux"),
    ):
        world.api.drop(resource, namespace, name)
    world.start(
        metrics_addr=draw(st.sampled_from([":8080", "", "x"])),
        log_level=draw(st.sampled_from(["debug", "odd"])),
        excluded_prefixes=draw(st.sampled_from([(), ("actions.github.com/",)])),
    )
    world.clients.means = draw(
        st.sampled_from([TOKEN, MISSING, replace(TOKEN, http_proxy=SecretText("http://x"))])
    )
    if draw(st.sampled_from([True, True, False])):
        world.api.put(AUTOSCALING_RUNNER_SETS, RUNNERS, {"metadata": {"name": "linux"}})
    held = [keys.LISTENER_FINALIZER]
    meta = {**draw(metas(NAME)), "uid": UID, "ownerReferences": []}
    meta["finalizers"] = meta.get("finalizers", []) + draw(st.sampled_from([held, held, []]))
    spec = {**SPEC, **draw(SPECS | st.just({}))}
    body = {"metadata": meta, "spec": spec, "status": draw(STATUSES)}
    world.api.put(AUTOSCALING_LISTENERS, HOME, body)
    _children(draw, world)
    return world


def _children(draw: st.DrawFn, world: World) -> None:
    maybe = st.booleans()
    if draw(maybe):
        world.api.put(SERVICE_ACCOUNTS, HOME, {"metadata": draw(metas(NAME))})
    if draw(maybe):
        rules = draw(st.sampled_from([None, [], [{"verbs": ["get"]}]]))
        world.api.put(ROLES, RUNNERS, {"metadata": draw(metas(NAME)), "rules": rules})
    if draw(maybe):
        ref = draw(st.sampled_from([None, {"kind": "Role", "name": NAME}, {"kind": "ClusterRole"}]))
        body = {"metadata": draw(metas(NAME)), "roleRef": ref, "subjects": None}
        world.api.put(ROLE_BINDINGS, RUNNERS, body)
    for name in (f"{NAME}-config", f"{NAME}-proxy"):
        if draw(maybe):
            world.api.put(SECRETS, HOME, {"metadata": draw(metas(name)), "data": draw(DATA)})
    if draw(maybe):
        data = {"username": base64.b64encode(b"u\xff").decode()}
        world.api.put(SECRETS, RUNNERS, {"metadata": {"name": "vault-proxy"}, "data": data})
    if draw(st.sampled_from([True, True, False])):
        state = draw(STATES)
        container = {"name": "listener", "state": state}
        status = {
            "phase": draw(st.sampled_from(["", "Pending", "Running", "Failed", "Succeeded"])),
            "reason": draw(st.sampled_from([None, "Evicted"])),
            "containerStatuses": draw(st.sampled_from([None, [], [container], [container] * 2])),
        }
        image = draw(st.sampled_from([IMAGE, "foreign:1"]))
        spec = {"containers": [{"name": "listener", "image": image}]}
        body = {"metadata": draw(metas(NAME)), "spec": spec}
        if draw(maybe):
            body["status"] = status
        world.api.put(PODS, HOME, body)


def observed(world: World) -> Snapshot:
    note(json.dumps([*world.api.objects.values()], indent=1))
    seen = world.reconciler.observe(f"{HOME}/{NAME}")
    assert seen is not None
    return seen


# --- what always holds --------------------------------------------------------------------------


def check(seen: Snapshot, made: Plan[snap.Action, Any]) -> None:
    """Safety of one batch: what is changed or removed is there, ours, and the very one."""
    assert made.again_s is None or (isfinite(made.again_s) and made.again_s > 0), made
    going = is_deleting(seen.listener)
    for action in made.actions:
        match action:
            case snap.PatchSelf(body):
                version = seen.listener.metadata.resource_version
                assert body["metadata"]["resourceVersion"] == version
                kept = body["metadata"]["finalizers"]
                theirs = set(seen.listener.metadata.finalizers or ()) - {keys.LISTENER_FINALIZER}
                assert theirs <= set(kept), "somebody else's finalizer"
            case snap.DeleteSelf(uid):
                assert uid == UID and seen.owner_confirmed and not seen.owner_exists
            case snap.Read(child):
                assert seen.child(child) is None
            case snap.Create(child):
                assert seen.is_absent(child) and not going
                assert child is not Child.POD or seen.pod is None
            case snap.Patch(child):
                assert seen.child(child) is not None and not going
                assert child is not Child.POD, "pods are never updated (W20)"
            case snap.Remove(child, uid, at_once):
                found = seen.child(child)
                assert found is not None and found.metadata.uid == uid
                if child in (Child.POD, *SECRET_CHILDREN):
                    owner = controller_of(found)
                    assert owner is not None and owner.kind == "AutoscalingListener"
                assert child is Child.POD or not at_once
            case _:
                pass


async def one_pass(world: World) -> PassEnd:
    world.api.changes()
    running: Pass[Any, Any, Any, Any] = Pass(
        Checked(world.reconciler, plan, check), f"{HOME}/{NAME}"
    )
    end = await running.run()
    running.report()
    for error in end.errors:
        raise error  # also a conflict: nobody else writes here
    return end


async def rest(world: World) -> None:
    """Passes until nothing is written."""
    for _ in range(PASSES_MAX):
        end = await one_pass(world)
        if not world.api.writes:
            assert not end.unfinished
            return
    raise AssertionError(f"never comes to rest: {world.api.writes}")


@examples(50)
@given(worlds())
def test_a_plan_is_always_made_and_names_only_what_is_there(world: World) -> None:
    seen = observed(world)
    made = plan(seen)
    check(seen, made)
    assert plan(seen) == made
    other = plan(replace(seen, children=dict(reversed(seen.children.items()))))
    assert other == made, "the order of children does not matter"


@examples(30)
@given(worlds())
def test_applied_it_comes_to_rest_and_stays(world: World) -> None:
    async def scenario() -> None:
        observed(world)
        await rest(world)
        for wait_s in (2.0, 70.0, 400.0, 5000.0):
            world.clock.advance(wait_s)
            await rest(world)
            let_go(world)
        await rest(world)
        world.clock.advance(20.0)
        await one_pass(world)
        assert world.api.writes == [], "a write for nothing"

    asyncio.run(scenario())


def let_go(world: World) -> None:
    """Whoever held what is being deleted lets go of it."""
    for (plural, namespace, name), body in [*world.api.objects.items()]:
        if body["metadata"].get("deletionTimestamp") and plural != AUTOSCALING_LISTENERS.plural:
            world.api.drop(world.api.types.get(plural, SECRETS), namespace, name)
