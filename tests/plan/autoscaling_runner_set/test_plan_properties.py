"""What holds for every runner set whatever is written on it, beside it and at GitHub.

Objects with every part there or missing, of older versions, spoilt by hand, with the children of
others; a GitHub that has, has not or will not. Judged by what is asked for, not by the stages.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.autoscaling_runner_set import snapshot as snap
from runnerscale.controllers.autoscaling_runner_set.outdated import pod_fingerprint
from runnerscale.controllers.autoscaling_runner_set.plan import plan
from runnerscale.controllers.autoscaling_runner_set.snapshot import Snapshot
from runnerscale.controllers.autoscaling_runner_set.wish import same_address
from runnerscale.core.clock import format_time
from runnerscale.kube.objects import is_deleting
from runnerscale.kube.reconcile import Pass, PassEnd, Plan
from runnerscale.scaleset.errors import CredentialsRefused, ScaleSetError, Unavailable
from runnerscale.scaleset.model import RunnerScaleSet
from tests.plan.autoscaling_runner_set.world import HOME, NAME, RUNNERS, SPEC, TEMPLATE, URL, World
from tests.plan.checked import Checked
from tests.properties import examples

pytestmark = pytest.mark.usefixtures("quiet")


NOW_S = 1_800_000_000.0
OTHER = "https://github.com/other-org"
URLS = st.sampled_from([URL, OTHER, "https://GITHUB.com/Other-Org/", "nonsense", ""])
IDS = st.sampled_from([7, 8])
BUSY = {"phase": "Running", "jobId": "j"}
PASSES_MAX = 12

# --- what there can be --------------------------------------------------------------------------


def some(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these, or none."""
    return st.fixed_dictionaries({}, optional=parts)


def times() -> st.SearchStrategy[str]:
    """As we write them, long ago or just now; and as nobody does."""
    past = st.sampled_from([0.0, 30.0, 200.0, 5000.0]).map(lambda s: format_time(NOW_S - s))
    return past | st.sampled_from(["", "yesterday", "2026-01-01T00:00:00", "9" * 30])


LEFT = st.lists(
    st.builds(
        lambda number, url, since: {
            "scaleSetId": number,
            "githubConfigUrl": url,
            "githubConfigSecret": "github",
            **({"failingSince": since} if since else {}),
        },
        IDS,
        st.sampled_from([URL, OTHER]),
        times(),
    ),
    max_size=2,
).map(json.dumps)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        keys.SCALE_SET_ID: st.sampled_from(["7", "8", "0", "-1", "x", "²", "9" * 5000]),
        keys.ISSUED_FOR: URLS,
        keys.RUNNER_SCALE_SET_NAME: st.sampled_from([NAME, "other"]),
        keys.RUNNER_GROUP_NAME: st.sampled_from(["Default", "testgroup"]),
        keys.SETTINGS_HASH: st.just("r1-x"),
        keys.INTEGRITY_HASH: st.sampled_from(["r1-x", "7bd9f"]),
        keys.SET_KEYS: st.sampled_from(["", ";", "team;x", "a,b"]),
        keys.OUTDATED_FOR: st.sampled_from(["r1-old", "now"]),
        keys.MOVING_SINCE: times(),
        keys.DELETION_FAILING_SINCE: times(),
        keys.LEFT_BEHIND: LEFT | st.sampled_from(["", "{", "[3]", "null"]),
        keys.CLEANUP_MANAGER_ROLE: st.sampled_from(["linux-gha-rs-manager", "r"]),
        keys.CLEANUP_GITHUB_SECRET: st.just("github"),
        "team.example.com/x": st.just("y"),
    },
)
# Registered, and with places left behind: the way out has something to do.
RECORDS = st.fixed_dictionaries(
    {
        keys.SCALE_SET_ID: st.sampled_from(["7", "8"]),
        keys.ISSUED_FOR: st.sampled_from([URL, OTHER]),
        keys.LEFT_BEHIND: LEFT,
    },
    optional={keys.MOVING_SINCE: times()},
)
BLOCK = some(
    labels=st.sampled_from([{}, {"a": "b"}, {keys.PART_OF: "mine"}]),
    annotations=st.sampled_from([{}, {"a": "b"}]),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "githubConfigUrl": URLS,
        "githubConfigSecret": st.sampled_from(["github", "wrong", ""]),
        "runnerGroup": st.sampled_from(["", "testgroup", "nobody", "TESTGROUP"]),
        "runnerScaleSetName": st.sampled_from(["", NAME, "other"]),
        "runnerScaleSetLabels": st.sampled_from([[], ["gpu"], ["gpu", "gpu", NAME]]),
        "template": st.sampled_from([{}, TEMPLATE, {"spec": {"containers": []}}]),
        "proxy": st.sampled_from([{}, {"http": {"url": "http://p:1"}, "noProxy": []}]),
        "githubServerTLS": st.sampled_from([{}, {"certificateFrom": {}}]),
        "vaultConfig": st.sampled_from([{}, {"type": "azure_key_vault"}]),
        "autoscalingListener": BLOCK,
        "ephemeralRunnerSetMetadata": BLOCK,
        "ephemeralRunnerMetadata": BLOCK,
        "listenerTemplate": st.sampled_from([{}, {"spec": {"containers": []}}]),
        "listenerMetrics": st.just({}),
        "minRunners": st.sampled_from([0, 3, 50]),
        "maxRunners": st.sampled_from([0, 10, 2**40]),
    },
)
WHOLE = st.sampled_from([SPEC, {**SPEC, "githubConfigUrl": OTHER}, SPEC, {}])
HELD = [keys.RUNNER_SET_FINALIZER]
FINALIZERS = st.sampled_from([HELD, ["a/b", *HELD], HELD, []])
CONDITION = st.builds(
    lambda kind, status: {
        "type": kind,
        "status": status,
        "reason": "R",
        "message": "",
        "lastTransitionTime": format_time(NOW_S),
    },
    st.sampled_from(["TemplateAccepted", "PodRunning", "Ready"]),
    st.sampled_from(["True", "False", "Unknown"]),
)
STATUSES = some(
    phase=st.sampled_from(["", "Pending", "Running", "Outdated", "Odd"]),
    reason=st.sampled_from(["", "QuotaExceeded", "Odd"]),
    message=st.just("m"),
    conditions=st.lists(CONDITION, max_size=2, unique_by=lambda c: c["type"]),
)
# None: not being deleted.
GOING = st.sampled_from([None, None, NOW_S - 1, NOW_S - 5000])
OWNERS = st.sampled_from(["ours", "ours", "ours", "another's", "nobody's"])
WORDS = st.sampled_from(
    [
        None,
        "{",
        json.dumps({"reason": "ScaleSetGone", "since": format_time(NOW_S), "scaleSetId": 7}),
        json.dumps({"reason": "SessionLost", "since": format_time(NOW_S), "message": "m"}),
    ]
)
CHILD_SETS = st.tuples(
    st.sampled_from([NAME, NAME, "linux-old", "linux-older"]),
    OWNERS,
    GOING,
    st.sampled_from([URL, OTHER]),
    IDS,
    WORDS,
    STATUSES,
    st.sampled_from([None, "0", "x"]),
)
LISTENERS = st.tuples(
    st.sampled_from(["b-listener", "a-listener", "linux-5b5868b7-listener"]),
    GOING,
    st.sampled_from([URL, URL, OTHER, "nonsense"]),
    IDS,
    st.sampled_from(["linux", "linux", "other"]),
    STATUSES,
)
CHILD_RUNNERS = st.tuples(
    st.sampled_from([NAME, "linux-old", "elsewhere"]),
    st.sampled_from([URL, OTHER]),
    IDS,
    st.sampled_from(
        [
            {},
            {"phase": "Pending", "runnerId": 3},
            BUSY,
            {"phase": "Outdated"},
            {"phase": "Pending", "reason": "ScaleSetGone"},
        ]
    ),
    GOING,
)
# By the kind of call and the place: what GitHub answers instead.
CALLS = st.sampled_from(["client", "group", "find", "get", "create", "update", "delete", "delete"])
FAULTS = st.dictionaries(
    st.tuples(CALLS, st.sampled_from([URL, OTHER])),
    st.sampled_from([Unavailable("away"), CredentialsRefused("401")]),
    max_size=3,
)
Faults = dict[tuple[str, str], ScaleSetError]


def timed(meta: dict[str, Any], going_s: float | None) -> dict[str, Any]:
    """An object that is being deleted is held by somebody's finalizer."""
    if going_s is None:
        return meta
    held = [*meta.get("finalizers", []), "test/hold"]
    return {**meta, "deletionTimestamp": format_time(going_s), "finalizers": held}


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    going: st.SearchStrategy[Any] = GOING,
    notes: st.SearchStrategy[dict[str, str]] = ANNOTATIONS | RECORDS,
) -> World:
    world = World(create=False)
    world.start(excluded_prefixes=draw(st.sampled_from([(), ("actions.github.com/",)])))
    annotations = draw(notes)
    spec = {**draw(WHOLE), **draw(SPECS | st.just({}))}
    finalizers = draw(FINALIZERS)
    meta = {
        "name": NAME,
        "uid": "uid-self",
        "annotations": annotations,
        "labels": draw(some(team=st.just("a")))
        | draw(st.sampled_from([{}, {keys.VERSION: "0.14.2"}, {keys.VERSION: "0.9.3"}])),
        "finalizers": finalizers,
        "creationTimestamp": format_time(NOW_S - 100),
    }
    body = {"metadata": timed(meta, draw(going)), "spec": spec, "status": draw(STATUSES)}
    world.api.put(AUTOSCALING_RUNNER_SETS, RUNNERS, body)
    if annotations.get(keys.OUTDATED_FOR) == "now":
        found = world.caches.runner_sets.store.get(f"{RUNNERS}/{NAME}")
        assert found is not None
        world.edit_meta(annotations={keys.OUTDATED_FOR: pod_fingerprint(found.spec.template)})
    if draw(st.booleans()):
        rival = {"name": "rival", "annotations": {keys.SCALE_SET_ID: draw(RIVALS)}}
        spec = {**SPEC, "runnerScaleSetName": NAME}
        world.api.put(AUTOSCALING_RUNNER_SETS, RUNNERS, {"metadata": rival, "spec": spec})
    _children(draw, world)
    for url in (URL, OTHER):
        world.github.at[url] = {
            number: RunnerScaleSet(number, draw(st.sampled_from([NAME, "x"])), 1, "Default")
            for number in draw(st.sets(IDS))
        }
    world.github.next_id = 9
    return world


RIVALS = st.sampled_from(["7", "8", "7", "", "9" * 5000])


def _children(draw: st.DrawFn, world: World) -> None:
    uids = {"ours": "uid-self", "another's": "uid-before"}
    for name, owner, going_s, url, number, word, status, hold in draw(
        st.lists(CHILD_SETS, max_size=3, unique_by=itemgetter(0))
    ):
        reference = {"apiVersion": "v1", "kind": "AutoscalingRunnerSet", "name": NAME}
        owners = [{**reference, "uid": uids[owner], "controller": True}] if owner in uids else []
        notes = {keys.LISTENER_TROUBLE: word, keys.HOLD: hold}
        meta = {
            "name": name,
            "ownerReferences": owners,
            "annotations": {key: value for key, value in notes.items() if value is not None},
        }
        runner = {"githubConfigUrl": url, "githubConfigSecret": "github"}
        runner_spec = {**runner, "runnerScaleSetId": number}
        body = {"spec": {"patchID": 3, "replicas": 5, "ephemeralRunnerSpec": runner_spec}}
        meta = timed(meta, going_s)
        world.api.put(EPHEMERAL_RUNNER_SETS, RUNNERS, {"metadata": meta, "status": status, **body})
    for name, going_s, url, number, serves, status in draw(
        st.lists(LISTENERS, max_size=3, unique_by=itemgetter(0))
    ):
        spec = {
            "githubConfigUrl": url,
            "runnerScaleSetId": number,
            "autoscalingRunnerSetNamespace": RUNNERS,
            "autoscalingRunnerSetName": serves,
        }
        body = {"metadata": timed({"name": name}, going_s), "spec": spec, "status": status}
        world.api.put(AUTOSCALING_LISTENERS, HOME, body)
    for index, (of, url, number, status, going_s) in enumerate(
        draw(st.lists(CHILD_RUNNERS, max_size=3))
    ):
        owner = world.api.body(EPHEMERAL_RUNNER_SETS, RUNNERS, of)
        uid = owner["metadata"]["uid"] if owner else "uid-gone"
        reference = {"apiVersion": "v1", "kind": "EphemeralRunnerSet", "name": of, "uid": uid}
        meta = {"name": f"r{index}", "ownerReferences": [{**reference, "controller": True}]}
        spec = {"githubConfigUrl": url, "githubConfigSecret": "s", "runnerScaleSetId": number}
        body = {"metadata": timed(meta, going_s), "spec": spec, "status": status}
        world.api.put(EPHEMERAL_RUNNERS, RUNNERS, body)


def observed(world: World) -> Snapshot | None:
    note(json.dumps([*map(repr, world.github.at.items()), *world.api.objects.values()], indent=1))
    return world.reconciler.observe(f"{RUNNERS}/{NAME}")


# --- what always holds --------------------------------------------------------------------------


def check(seen: Snapshot, made: Plan[snap.Action, Any]) -> None:
    """Safety of one batch: nothing but what is in the snapshot, and nothing that is not ours."""
    assert made.again_s is None or (isfinite(made.again_s) and made.again_s > 0), made
    sets = {item.metadata.name: item for item in seen.sets}
    listeners = {item.metadata.name: item for item in seen.listeners}
    going = is_deleting(seen.runner_set)
    for action in made.actions:
        match action:
            case snap.PatchSelf(body):
                assert body["metadata"]["resourceVersion"] == seen.meta.resource_version
            case snap.PatchSet(name, body):
                assert name in sets and not going
                forbidden = {"replicas", "patchID", "settledRunners"}
                assert not forbidden & set(body.get("spec", {}))
                assert "status" not in body
            case snap.DeleteSet(name, uid):
                assert sets[name].metadata.uid == uid
                assert not is_deleting(sets[name])
                assert going or name != NAME, "the one set is never replaced"
            case snap.CreateSet(body):
                assert NAME not in sets and not going
                assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-self"
                assert "replicas" not in body["spec"]
            case snap.PatchListener(name, body):
                assert name in listeners and not going and "status" not in body
            case snap.DeleteListener(name, uid):
                assert listeners[name].metadata.uid == uid
                assert not is_deleting(listeners[name])
            case snap.CreateListener():
                assert not listeners and not going, "two listeners for one session"
            case snap.DeleteScaleSet(place, number, left_behind):
                assert going or left_behind, "a scale set is never deleted to heal anything"
                assert _may_be_deleted(seen, place.config_url, number)
            case snap.Unprotect():
                assert going and not sets and not listeners
            case _:
                pass


def _may_be_deleted(seen: Snapshot, url: str, number: int) -> bool:
    places = (*seen.neighbours, *seen.runners.busy_places)
    return not any(n == number and same_address(found, url) for found, n in places)


async def one_pass(world: World) -> PassEnd:
    running: Pass[Any, Any, Any, Any] = Pass(
        Checked(world.reconciler, plan, check), f"{RUNNERS}/{NAME}"
    )
    end = await running.run()
    running.report()
    for error in end.errors:
        raise error  # also a conflict: nobody else writes here
    return end


async def rest(world: World) -> PassEnd:
    """Passes until nothing is written or asked."""
    for _ in range(PASSES_MAX):
        world.api.changes()
        calls = len(world.github.calls)
        end = await one_pass(world)
        if not world.api.writes and len(world.github.calls) == calls:
            assert not end.unfinished
            return end
    raise AssertionError(f"never comes to rest: {world.api.writes} {world.github.calls[-5:]}")


def faulty(faults: Faults) -> Callable[[str, Any], ScaleSetError | None]:
    return lambda call, place: next(
        (
            e
            for (what, at), e in faults.items()
            if call == what and same_address(at, place.config_url)
        ),
        None,
    )


# --- the properties -----------------------------------------------------------------------------


def permuted(seen: Snapshot, data: st.DataObject) -> Snapshot:
    def shuffled(items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(data.draw(st.permutations(items)))

    return replace(seen, sets=shuffled(seen.sets), listeners=shuffled(seen.listeners))


@examples(60)
@given(worlds(), st.data())
def test_a_plan_is_always_made_and_names_only_what_is_there(
    world: World, data: st.DataObject
) -> None:
    seen = observed(world)
    if seen is None:
        return
    made = plan(seen)
    check(seen, made)
    assert plan(seen) == made
    other = plan(permuted(seen, data))
    assert sorted(map(repr, other.actions)) == sorted(map(repr, made.actions))
    assert (other.again_s, other.failed) == (made.again_s, made.failed)
    assert {t.reason for t in other.troubles} == {t.reason for t in made.troubles}


@examples(40)
@given(worlds(), FAULTS)
def test_applied_it_comes_to_rest_and_stays(world: World, faults: Faults) -> None:
    async def scenario() -> None:
        observed(world)
        world.github.fault = faulty(faults)
        await rest(world)
        for wait_s in (30.0, 100.0, 700.0, 5000.0):
            world.clock.advance(wait_s)
            await rest(world)
        assert world.github.killed == []
        world.clock.advance(20.0)
        world.api.changes()
        await one_pass(world)
        assert world.api.writes == [], "a write for nothing"

    asyncio.run(scenario())


@examples(40)
@given(worlds(going=st.just(NOW_S - 1), notes=RECORDS), FAULTS)
def test_a_deletion_ends_and_leaves_nothing_of_ours_at_github(world: World, faults: Faults) -> None:
    """First whatever goes wrong, then nothing any more, all within the bounds of giving up."""

    async def scenario() -> None:
        seen = observed(world)
        if seen is None or keys.RUNNER_SET_FINALIZER not in (seen.meta.finalizers or ()):
            return
        ours = recorded(world, seen)
        world.edit_meta(annotations={keys.DELETION_FAILING_SINCE: None})
        world.github.fault = faulty(faults)
        await rest(world)
        world.github.fault = faulty({})
        for _ in range(12):
            release_children(world)
            world.clock.advance(61.0)
            await rest(world)
        held = world.api.body(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)
        assert held is None or keys.RUNNER_SET_FINALIZER not in held["metadata"]["finalizers"]
        for url, number in ours:
            assert number not in world.github.at[url], f"scale set {number} at {url} is left"

    asyncio.run(scenario())


def release_children(world: World) -> None:
    """Their controllers work, and jobs end."""
    for resource, namespace in (
        (AUTOSCALING_LISTENERS, HOME),
        (EPHEMERAL_RUNNERS, RUNNERS),
        (EPHEMERAL_RUNNER_SETS, RUNNERS),
    ):
        for name in world.api.names(resource):
            found = world.api.body(resource, namespace, name)
            assert found is not None
            if resource is EPHEMERAL_RUNNERS or found["metadata"].get("deletionTimestamp"):
                world.api.drop(resource, namespace, name)


def recorded(world: World, seen: Snapshot) -> set[tuple[str, int]]:
    """The scale sets that are ours by what is written down, and nobody else's."""
    found = {(seen.issued_for, seen.scale_set_id)} if seen.scale_set_id else set()
    try:
        left = json.loads(seen.annotation(keys.LEFT_BEHIND) or "[]") or []
    except ValueError:
        left = []
    found |= {(i["githubConfigUrl"], i["scaleSetId"]) for i in left if isinstance(i, dict)}
    if "wrong" in seen.runner_set.spec.github_config_secret or seen.wish.place is None:
        found = set()  # there is no way in
    return {
        (url, number)
        for place, number in found
        for url in (URL, OTHER)
        if same_address(url, place) and not seen.is_neighbours(url, number)
    }
