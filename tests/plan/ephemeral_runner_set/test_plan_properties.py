"""What holds for every set whatever it wishes, whoever its runners are and whatever GitHub says.

Runners of every phase, registered or not, with jobs whose phase lags, of older specs, going,
failed at any time, of others; a set with and without its finalizer, held, with and without
proxies. Judged by what is asked for and by the objects themselves, not by the stages.
"""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from math import isfinite
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.ephemeral_runner_set import observe
from runnerscale.controllers.ephemeral_runner_set import snapshot as snap
from runnerscale.controllers.ephemeral_runner_set.controller import BATCH_MAX
from runnerscale.controllers.ephemeral_runner_set.plan import plan
from runnerscale.controllers.ephemeral_runner_set.snapshot import Check, Removal, Snapshot, Template
from runnerscale.core.clock import format_time
from runnerscale.kube.errors import Conflict, Forbidden, KubeError, Unreachable
from runnerscale.kube.reconcile import Pass, PassEnd, Plan
from runnerscale.scaleset.errors import (
    CredentialsRefused,
    JobStillRunning,
    RunnerNotFound,
    ScaleSetError,
    Unavailable,
)
from tests.plan.checked import Checked
from tests.plan.ephemeral_runner_set.world import KEY, NS, RUNNER_SPEC, SET, World
from tests.properties import examples

NOW_S = 1_800_000_000.0
UID = "uid-set"
TERMINAL = ("Failed", "Succeeded", "Outdated")
PASSES_MAX = 40


pytestmark = pytest.mark.usefixtures("quiet")


# --- what there can be --------------------------------------------------------------------------

AGES = st.sampled_from([0.0, 5.0, 30.0, 130.0, 700.0, 5000.0])
PHASES = st.sampled_from(
    ["", "Pending", "Running", "Unknown", "Odd", "Failed", "Succeeded", "Outdated"]
)
JOBS = st.sampled_from([{}, {}, {"jobId": "j"}, {"jobRequestId": 9}, {"workflowRunId": 3}])
REASONS = st.sampled_from(["", "", "RunnerFailed", "InvalidPod", "Evicted", "Odd"])
MADE_FROM = st.sampled_from(["", "r1-old", "arc", "now", "now"])


@st.composite
def conditions(draw: st.DrawFn) -> list[dict[str, Any]]:
    kinds = draw(st.lists(st.sampled_from(["Healthy", "Online", "Started"]), unique=True))
    return [
        {
            "type": kind,
            "status": draw(st.sampled_from(["True", "False"])),
            "reason": "R",
            "message": "",
            "lastTransitionTime": format_time(NOW_S - draw(AGES)),
        }
        for kind in kinds
    ]


@st.composite
def runners(draw: st.DrawFn) -> dict[str, Any]:
    """Without name, number and owner."""
    status: dict[str, Any] = {"phase": draw(PHASES), **draw(JOBS)}
    status["ready"] = draw(st.booleans())
    status["conditions"] = draw(conditions())
    reason = draw(REASONS)
    if reason:
        status |= {"reason": reason, "message": "m"}
    made_from = draw(MADE_FROM)
    meta: dict[str, Any] = {
        "creationTimestamp": format_time(NOW_S - draw(AGES)),
        "annotations": {keys.RUNNER_SPEC_HASH: made_from} if made_from else {},
        "finalizers": list(keys.EPHEMERAL_RUNNER_FINALIZERS),
    }
    if draw(st.sampled_from([False, False, False, True])):
        meta["deletionTimestamp"] = format_time(NOW_S - 3)
    image = draw(st.sampled_from(["img:1", "img:1", "img:0"]))
    spec = {**RUNNER_SPEC, "spec": {"containers": [{"name": "runner", "image": image}]}}
    return {"metadata": meta, "spec": spec, "status": status}


OWNERS = st.sampled_from([UID, UID, UID, UID, "uid-before", "nobody"])
PROXY = {"http": {"url": "http://p:1"}}
ANSWERS = st.sampled_from(
    [
        None,
        None,
        None,
        RunnerNotFound("404"),
        JobStillRunning("a job still runs on it"),
        Unavailable("away"),
        CredentialsRefused("401"),
    ]
)
REFUSALS = st.sampled_from(
    [None, None, None, Forbidden(403, "Forbidden", "denied"), Unreachable("reset")]
)


@st.composite
def worlds(draw: st.DrawFn, *, going: bool | None = None) -> World:
    world = World(served=False)
    world.clock.advance(NOW_S - world.clock.now_s())
    ours = [keys.EPHEMERAL_RUNNER_SET_FINALIZER]
    held = draw(st.sampled_from([ours, ours, ["some/body", *ours], []]))
    notes = st.fixed_dictionaries(
        {keys.INTEGRITY_HASH: st.sampled_from(["r1-x", "r1-x", "7bd9f", ""])},
        optional={keys.HOLD: st.sampled_from(["0", "2", "x", "-1", "\u00b2", "9" * 5000])},
    )
    meta: dict[str, Any] = {
        "uid": UID,
        "finalizers": held,
        "annotations": draw(notes),
        "labels": draw(st.sampled_from([{}, {keys.SCALE_SET_NAME: "set"}])),
    }
    if draw(st.sampled_from([False, False, True])) if going is None else going:
        meta["deletionTimestamp"] = format_time(NOW_S - draw(AGES))
        meta["finalizers"] = held or ["some/body"]
    runner: dict[str, Any] = draw(
        st.sampled_from([{}, {}, {"proxy": PROXY}, {"proxy": {}}, {"spec": {"containers": []}}])
    )
    settled = draw(st.sampled_from([None, [], ["r0", "gone"]]))
    spec = {} if settled is None else {"settledRunners": settled}
    replicas, patch_id = draw(st.integers(-1, 7)), draw(st.sampled_from([0, 0, 3]))
    world.make(replicas=replicas, patch_id=patch_id, runner=runner, meta=meta, **spec)
    # Between two looks at the caches: the set is there first.
    _runners(draw, world)
    world.restart()
    fault = draw(REFUSALS)
    refused = draw(st.sampled_from(["dry-run", "create", "delete"]))
    calls = Counter[str]()

    def once(verb: str, plural: str, name: str) -> KubeError | None:
        calls[verb] += verb == refused
        return fault if calls[refused] in (1, 2) and verb == refused else None

    world.api.fault = once
    return world


def _runners(draw: st.DrawFn, world: World) -> None:
    fingerprint = world.reconciler.observe(KEY)
    assert fingerprint is not None
    for number, body in enumerate(
        draw(st.lists(runners(), min_size=draw(st.sampled_from([3, 0, 6])), max_size=8))
    ):
        uid = draw(OWNERS)
        reference = {"apiVersion": "v1", "kind": "EphemeralRunnerSet", "name": SET, "uid": uid}
        meta = body["metadata"] | {"name": f"r{number}"}
        meta["ownerReferences"] = [{**reference, "controller": True}] if uid != "nobody" else []
        if meta["annotations"].get(keys.RUNNER_SPEC_HASH) == "now":
            meta["annotations"][keys.RUNNER_SPEC_HASH] = fingerprint.fingerprint
        status = dict(body["status"])
        if draw(st.booleans()):
            status["runnerId"] = 100 + number
            answer: ScaleSetError | None = draw(ANSWERS)
            if answer is not None:
                world.github.answers[100 + number] = answer
        world.ids = 200
        world.api.put(EPHEMERAL_RUNNERS, NS, {**body, "metadata": meta, "status": status})


def observed(world: World) -> Snapshot:
    note(json.dumps([world.github.answers, *world.api.objects.values()], indent=1, default=repr))
    seen = world.reconciler.observe(KEY)
    assert seen is not None
    return seen


# --- what always holds --------------------------------------------------------------------------


def check(seen: Snapshot, made: Plan[snap.Action, Any]) -> None:
    """Safety of one batch."""
    assert made.again_s is None or (isfinite(made.again_s) and made.again_s >= 0), made
    if not made.actions and not seen.made:
        assert made.again_s is None or made.again_s > 0, "a pass for nothing, and again at once"
    live = {r.uid: r for r in seen.runners}
    retired = {r.uid: r for r in seen.retired}
    asks = creations = 0
    for action in made.actions:
        match action:
            case snap.DeleteRunner(name, uid, version):
                if uid in retired:
                    assert retired[uid].name == name
                    continue
                runner = live[uid]
                assert runner.name == name
                assert version == runner.resource_version, "a job that comes meanwhile"
                assert not runner.has_job
                unasked = runner.removal is not Removal.FORGOTTEN and runner.runner_id != 0
                given_up = seen.deleting and runner.removal is Removal.NO_ANSWER
                assert not unasked or given_up, "GitHub was not asked"
            case snap.AskGitHub(name, uid, runner_id):
                runner = live[uid]
                assert (runner.name, runner.runner_id) == (name, runner_id) and runner_id
                assert not runner.has_job
                assert runner.removal not in (Removal.ASKED, Removal.FORGOTTEN)
                asks += 1
            case snap.CreateRunner():
                creations += 1
            case snap.PatchSet(body):
                assert body["metadata"]["resourceVersion"] == seen.item.metadata.resource_version
                assert "spec" not in body, "the wish is the listener's"
            case snap.WriteProxySecret() | snap.DeleteProxySecret():
                assert seen.proxy.secret is not snap.Look.UNKNOWN
            case _:
                pass
    _count(seen, asks=asks, creations=creations)


def _count(seen: Snapshot, *, asks: int, creations: int) -> None:
    """Not one too many is made, and not one too many is let go."""
    limits = [seen.replicas] if seen.hold is None else [seen.replicas, seen.hold]
    wish = max(0, min(limits))
    alive = seen.unlisted.alive
    alive += sum(1 for r in seen.runners if r.removal is not Removal.FORGOTTEN)
    assert creations == 0 or (not seen.deleting and creations + alive + seen.held <= wish)
    if seen.deleting or any(r.phase == "Outdated" for r in seen.retired):
        return  # all go; a refused version may keep none that is idle
    shrinks = seen.exact or seen.hold is not None
    surplus = max(0, alive - wish) if shrinks else 0
    exchanged = max(1, wish // 10) if any(not r.current for r in seen.runners) else 0
    assert asks <= surplus + exchanged


async def one_pass(world: World) -> PassEnd:
    running: Pass[Any, Any, Any, Any] = Pass(
        Checked(world.reconciler, plan, check), KEY, batch_max=BATCH_MAX
    )
    end = await running.run()
    running.report()
    for _ in range(4):
        await asyncio.sleep(0)  # answers of GitHub that are there already
    for error in end.errors:
        if not isinstance(error, Unreachable | Conflict):
            raise error
    return end


async def rest(world: World) -> None:
    """Passes until nothing is written or asked, and nothing is due within the status's pace."""
    for _ in range(PASSES_MAX):
        world.api.changes()
        asked = len(world.github.asked)
        end = await one_pass(world)
        idle = not world.api.writes and len(world.github.asked) == asked
        if not idle or end.errors or end.failed or len(world.reconciler.removals):
            continue
        if end.again_s is not None and end.again_s <= 2.0:
            world.clock.advance(end.again_s)
            continue
        assert not end.unfinished
        return
    raise AssertionError(f"never comes to rest: {world.api.writes}")


def mine(world: World) -> list[dict[str, Any]]:
    """The set's runners."""
    return [
        body
        for (plural, _, _), body in world.api.objects.items()
        if plural == EPHEMERAL_RUNNERS.plural
        and any(o["uid"] == UID for o in body["metadata"].get("ownerReferences", ()))
    ]


def is_live(body: dict[str, Any]) -> bool:
    return (
        not body["metadata"].get("deletionTimestamp")
        and body.get("status", {}).get("phase") not in TERMINAL
    )


def is_busy(body: dict[str, Any]) -> bool:
    return any(
        body.get("status", {}).get(key) for key in ("jobId", "jobRequestId", "workflowRunId")
    )


def has_job_or_github_says_so(world: World, body: dict[str, Any]) -> bool:
    answer = world.github.answers.get(body.get("status", {}).get("runnerId", 0))
    return is_busy(body) or isinstance(answer, JobStillRunning)


# --- the properties -----------------------------------------------------------------------------


@examples(40)
@given(worlds(), st.data())
def test_a_plan_is_always_made_and_names_only_what_is_there(
    world: World, data: st.DataObject
) -> None:
    template = data.draw(st.sampled_from([Template(Check.ACCEPTED), Template()]))
    seen = replace(observed(world), template=template)
    made = plan(seen)
    check(seen, made)
    assert plan(seen) == made
    shuffled = replace(
        seen,
        runners=tuple(data.draw(st.permutations(seen.runners))),
        retired=tuple(data.draw(st.permutations(seen.retired))),
    )
    other = plan(shuffled)
    assert sorted(map(repr, other.actions)) == sorted(map(repr, made.actions))
    assert (other.again_s, other.failed) == (made.again_s, made.failed)
    # Numbers are as good as the runners one by one, where nothing is to be decided about one.
    with mock.patch.object(observe, "must_list", return_value=True):
        one_by_one = replace(observed(world), template=template)
    assert len(one_by_one.runners) == len(seen.runners) + seen.unlisted.alive
    assert plan(one_by_one).actions == made.actions


@examples(30)
@given(worlds())
def test_applied_it_comes_to_rest_stays_and_no_job_is_lost(world: World) -> None:
    async def scenario() -> None:
        observed(world)
        busy = {
            body["metadata"]["uid"]
            for body in mine(world)
            if is_live(body) and has_job_or_github_says_so(world, body)
        }
        await rest(world)
        for wait_s in (15.0, 65.0, 130.0):
            world.clock.advance(wait_s)
            await rest(world)
            counters_are_true(world)
        if not world.set_is_gone and not world.set["metadata"].get("deletionTimestamp"):
            kept = {body["metadata"]["uid"] for body in mine(world) if is_live(body)}
            assert busy <= kept, "a runner with a job was let go"

    asyncio.run(scenario())


def counters_are_true(world: World) -> None:
    """At rest the columns are the objects."""
    if world.set_is_gone or world.set["metadata"].get("deletionTimestamp"):
        return
    found = Counter(column(body) for body in mine(world))
    assert world.counters[1:] == (found["pending"], found["running"], found["failed"])


def column(body: dict[str, Any]) -> str:
    phase = body.get("status", {}).get("phase")
    if body["metadata"].get("deletionTimestamp"):
        return "deleting"
    if phase in TERMINAL:
        return str(phase).lower()
    return "running" if phase == "Running" or is_busy(body) else "pending"


@examples(20)
@given(worlds(going=False))
def test_once_all_answers_are_good_there_are_as_many_as_wanted(world: World) -> None:
    """Exactly so many, except where more of them have a job."""

    async def scenario() -> None:
        seen = observed(world)
        await rest(world)
        world.api.fault = lambda verb, plural, name: None
        world.github.answers.clear()
        world.says(max(0, seen.replicas), 0)
        for _ in range(14):
            world.register()
            world.come_online()  # whoever is a probe has to show that runners work
            world.clock.advance(61.0)
            world.sweep()
            await rest(world)
        limits = [max(0, seen.replicas), *([] if seen.hold is None else [max(0, seen.hold)])]
        live = [body for body in mine(world) if is_live(body)]
        busy = [body for body in live if is_busy(body)]
        template = world.set["spec"]["ephemeralRunnerSpec"]["spec"]["containers"]
        if template:  # else none can be made
            assert len(live) == max(min(limits), len(busy))
        assert not [b for b in mine(world) if b.get("status", {}).get("phase") == "Failed"]

    asyncio.run(scenario())


@examples(20)
@given(worlds(going=True))
def test_a_deletion_ends_once_jobs_end(world: World) -> None:
    async def scenario() -> None:
        observed(world)
        await rest(world)
        world.api.fault = lambda verb, plural, name: None
        world.github.answers.clear()
        for body in mine(world):
            for key in ("jobId", "jobRequestId", "workflowRunId"):
                world.change(body["metadata"]["name"], **{key: None})
        for _ in range(4):
            world.sweep()
            world.clock.advance(65.0)
            if not world.set_is_gone:
                await rest(world)
        ours = keys.EPHEMERAL_RUNNER_SET_FINALIZER
        found = world.api.body(EPHEMERAL_RUNNER_SETS, NS, SET)
        assert found is None or ours not in found["metadata"]["finalizers"]
        assert not mine(world)

    asyncio.run(scenario())
