"""Invariant 9: whatever blocks work longer than a minute is visible as condition, Event and metric.

That work is blocked is judged from outside: a job waits although the maximum leaves room, fewer
runners are online than wanted, no listener of ours has a session, a deletion does not end. Then a
condition on the runner set, its EphemeralRunnerSet, its listener or one of its runners must have
a reason that `docs/troubleshooting.md` explains, an Event about one of them must have one, and a
metric of the controller or the listener.

Who reports may be down itself, or cannot reach the API server: that excuses for so long and one
minute more.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runnerscale.fake_github.model import JobState
from runnerscale.fake_github.runners import online
from tests.simulation.invariants.gauges import families
from tests.simulation.invariants.leaks import scale_set_name
from tests.simulation.invariants.names import (
    FOREIGN_OWNER,
    LISTENERS,
    RUNNER_SETS,
    RUNNERS,
    SCALE_SETS,
    TERMINAL,
    Json,
    is_going,
    meta,
    owner,
    phase,
    status,
)
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen

BLOCKED_S = 60.0
LOOKED_FOR_S = 15.0  # what blocks for less is over before anybody looks
WORDS = ("condition", "Event", "metric")
# Nobody is told that the registration of an idle runner has vanished, or that its container runs
# and never reaches GitHub (C1 has no word for either). Who waits for no job is
# asked about three minutes after its start, then every two, and once more after a minute. The
# job whose place such a runner takes waits for as long, and its set has too few online for as long;
# but only while such a runner stands there. No answer, no knowledge: while GitHub is away,
# and as long after it as a question may take to come round; nor does a controller that has just
# begun ask at once what its predecessor may have asked. Where such a runner is found
# at last, and then something that can be known blocks the same work (a person deletes it, and
# GitHub refuses to forget it, seed 2575), that has its own minute from then on: who reports
# cannot tell of it before it is there. An excuse that comes and goes ends after UNASKED_S, too.
# So it is where all three words stood, the cause that they named is over, and another one keeps the
# same job waiting (GitHub is back, and a webhook refuses the runner's writes, seed 9961): that one
# has its own minute from the last moment in which they stood, for as long after the block's begin.
# Without a fault that began or ended since a minute before, nothing can have taken the place of
# anything: who stops telling then is not excused.
UNASKED_S = 300.0
# What keeps GitHub from answering whatever is asked about a runner: no answer at all, an error or a
# text that nobody can read instead of each, a refusal to wait; no token to ask with, which is
# tried again a minute later; a line that is cut. Not here: what GitHub answers slowly, twice, in
# the wrong order or falsely, what spoils messages or sessions alone, what happens to scale sets.
GITHUB_AWAY = frozenset(
    {
        "github-down",
        "github-unreachable",
        "github-black-hole",
        "github-hour-outage",
        "github-rate-limited",
        "github-rate-limited-403",
        "github-rate-limited-secondary",
        "github-not-implemented",
        "github-exception",
        "github-html-bodies",
        "github-empty-bodies",
        "github-cut-bodies",
        "github-plain-bodies",
        "github-credentials-revoked",
        "github-registration-refused",
        "github-registration-unknown",
        "line-to-github-cut",
    }
)
NOBODY_ASKS = re.compile(r"controller|leader|lease")
TOLD_WITHIN_S = 30.0  # after that: the words travel over two controllers and a listener
EXCUSED_S = 60.0
TROUBLESHOOTING = Path(__file__).resolve().parents[3] / "docs" / "troubleshooting.md"
REASONS = frozenset(re.findall(r"^### (\w+)$", TROUBLESHOOTING.read_text(), re.MULTILINE))
WAITING = (JobState.QUEUED, JobState.AVAILABLE, JobState.ASSIGNED)
BUSY = (JobState.HANDED, JobState.RUNNING)
# Faults that keep controllers from working, or from reading and writing what they have to say.
SILENCING = re.compile(
    r"controller|leader|lease|api-|watch|history-forgotten|slow-network|reads-the-past|foreign"
)
TOO_FEW = " has too few runners online"
WAITS = " waits"
BAD_WHEN_TRUE = ("DeletionBlocked", "VersionSkew")


@dataclass(slots=True)
class _Block:
    """Something that does not go on; `shown`: what was last seen of it, and when."""

    since_s: float
    known_s: float  # since when it can be known what blocks it
    shown_s: dict[str, float] = field(default_factory=dict)
    all_shown_s: float = float("-inf")  # when all of it was last shown at once
    told: bool = False


class WhatBlocksIsVisible(Rule):
    """Looks at every tick, and at the words only where something is blocked."""

    sentence = "what blocks work is visible"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._blocks: dict[str, _Block] = {}
        self._silent_s = 0.0  # when reporters last could not speak
        self._away_s = float("-inf")  # when GitHub last could not be asked
        self._striking: frozenset[str] = frozenset()
        self._changed_s = float("-inf")  # when a fault last began or ended

    def tick(self, world: Any) -> Iterable[str]:
        """What is blocked, since when, and whether it is told."""
        now_s = self.seen.now_s()
        if _nobody_can_tell(world):
            self._silent_s = now_s
        if any(k in GITHUB_AWAY or NOBODY_ASKS.search(k) for k in world.striking):
            self._away_s = now_s
        if (striking := frozenset(world.striking)) != self._striking:
            self._striking, self._changed_s = striking, now_s
        blocked = dict(blocks(self.seen, world))
        for what in [w for w in self._blocks if w not in blocked]:
            del self._blocks[what]
        for what, runner_set in blocked.items():
            block = self._blocks.setdefault(what, _Block(now_s, now_s))
            unserved = what.endswith((TOO_FEW, WAITS))
            unasked = unserved and _nobody_asked_holds_it(self.seen, world, runner_set)
            if unasked:
                block.known_s = now_s
            due_s = block.since_s + UNASKED_S if unasked else self._due_s(block)
            if unasked and now_s - self._away_s <= UNASKED_S:
                continue
            if block.told or now_s - block.since_s < LOOKED_FOR_S:
                continue
            stands = set(shown(self.seen, world, runner_set, evidence=unserved))
            block.shown_s.update(dict.fromkeys(stands, now_s))
            if len(stands) == len(WORDS):
                block.all_shown_s = now_s
            if now_s <= due_s:
                continue
            late_s = now_s - max(due_s, self._silent_s + EXCUSED_S)
            lacking = [
                kind
                for kind in WORDS
                if now_s - block.shown_s.get(kind, float("-inf")) > TOLD_WITHIN_S
            ]
            if late_s > TOLD_WITHIN_S and lacking:
                block.told = True
                long_s = now_s - block.since_s
                yield f"{what} for {long_s:.0f} s, with no {' and no '.join(lacking)}"

    def _due_s(self, block: _Block) -> float:
        """Until when to tell it: a cause that took the place of a told one has its own minute."""
        known_s = block.known_s
        if self._changed_s > block.all_shown_s - BLOCKED_S:
            latest_s = max(known_s, block.since_s + UNASKED_S)
            known_s = max(known_s, min(block.all_shown_s, latest_s))
        return known_s + BLOCKED_S


def blocks(seen: Seen, world: Any) -> Iterable[tuple[str, Json]]:
    """What stands still now, and the runner set that it belongs to."""
    for runner_set in seen.all(SCALE_SETS):
        if is_going(runner_set):
            yield f"the deletion of {meta(runner_set)['name']} does not end", runner_set
            continue
        yield from _unserved(seen, world, runner_set)
        if not _has_session(seen, world, runner_set):
            yield f"{scale_set_name(runner_set)} has no session", runner_set
        yield from _hanging(seen, runner_set)


def _unserved(seen: Seen, world: Any, runner_set: Json) -> Iterable[tuple[str, Json]]:
    """Jobs that wait although there is room, runners that are wanted and not online."""
    name, spec = scale_set_name(runner_set), runner_set["spec"]
    most = spec.get("maxRunners", 2**31 - 1)
    github, now_s = seen.github, world.hub.now_s()
    ids = {s.id for s in github.scale_sets.values() if s.name == name}
    waiting, busy = [], 0
    for job in github.jobs.values():
        if job.state in BUSY:
            busy += job.scale_set_id in ids
        elif job.state in WAITING and name in job.request.labels and not job.cancel_asked:
            waiting.append(job)
    for job in waiting[: max(0, most - busy)]:
        yield f"job {job.number} on {name}{WAITS}", runner_set
    assigned = busy + sum(job.state is JobState.ASSIGNED for job in waiting)
    wanted = min(most, spec.get("minRunners", 0) + assigned)
    here = sum(
        runner.scale_set_id in ids and online(github, runner, now_s)
        for runner in github.runners.values()
    )
    if here < wanted:
        yield f"{name}{TOO_FEW}", runner_set


def _nobody_asked_holds_it(seen: Seen, world: Any, runner_set: Json) -> bool:
    """Whether a runner stands there of which only GitHub knows that it will take no job.

    Its registration vanished without a word to anybody, or its container runs and never came.
    """
    places = {
        meta(obj)["name"]
        for resource, obj in _family(seen, runner_set)
        if resource == RUNNERS and phase(obj) not in TERMINAL and not is_going(obj)
    }
    running = {process.spec.pod.name for process in world.machine.running("runner")}
    known = seen.github.runners_by_secret.values()  # also of those whose registration is gone
    return any(
        r.name in places and (r.ghost or (r.name in running and not r.session_id)) for r in known
    )


def _has_session(seen: Seen, world: Any, runner_set: Json) -> bool:
    listening = {process.spec.pod.name for process in world.machine.running("listener")}
    for scale_set in seen.github.scale_sets.values():
        session = scale_set.session
        if scale_set.name == scale_set_name(runner_set) and session is not None:
            return session.owner != FOREIGN_OWNER and session.owner in listening
    return False


def _hanging(seen: Seen, runner_set: Json) -> Iterable[tuple[str, Json]]:
    for resource, obj in _family(seen, runner_set):
        if is_going(obj) and resource != SCALE_SETS:
            yield f"the deletion of {resource} {meta(obj)['name']} does not end", runner_set


def _family(seen: Seen, runner_set: Json) -> Iterable[tuple[str, Json]]:
    """The runner set and all objects of ours that belong to it."""
    yield SCALE_SETS, runner_set
    name, namespace = meta(runner_set)["name"], meta(runner_set)["namespace"]
    for listener in seen.all(LISTENERS):
        spec = listener["spec"]
        if (spec["autoscalingRunnerSetNamespace"], spec["autoscalingRunnerSetName"]) == (
            namespace,
            name,
        ):
            yield LISTENERS, listener
    sets = [s for s in seen.all(RUNNER_SETS) if owner(s).get("uid") == meta(runner_set)["uid"]]
    uids = {meta(each)["uid"] for each in sets}
    yield from ((RUNNER_SETS, each) for each in sets)
    for runner in seen.all(RUNNERS):
        if owner(runner).get("uid") in uids:
            yield RUNNERS, runner


def shown(seen: Seen, world: Any, runner_set: Json, *, evidence: bool) -> Iterable[str]:
    """Which of condition, Event and metric say that something is wrong; of one reason.

    `evidence`: why a runner that is kept for people has ended counts, too. It says why there are
    too few and why jobs wait, and nothing of a session or a deletion.
    """
    family = [obj for _, obj in _family(seen, runner_set)]
    said = {reason for obj in family for reason in _bad_reasons(obj)}
    ended = {reason for obj in family for reason in _why_it_ended(obj)}
    if evidence:
        said |= ended
    if said:
        yield "condition"
    names = {(meta(obj)["namespace"], meta(obj)["name"]) for obj in family}
    counted = set()
    for registry in _registries(world, family):
        counted |= _in_metrics(registry, names)
    if not evidence:
        counted -= ended - said
    if counted & said or (counted and not said):
        yield "metric"
    uids = {meta(obj)["uid"] for obj in family}
    for event in (seen.objects.get("events") or {}).values():
        if event.get("reason") in said | counted and event["involvedObject"].get("uid") in uids:
            yield "Event"
            break


def _bad_reasons(obj: Json) -> list[str]:
    """Of conditions that say that something is wrong now: of a runner that has ended, its going."""
    return [
        condition["reason"]
        for condition in status(obj).get("conditions") or ()
        if (condition["status"] == "True") == (condition["type"] in BAD_WHEN_TRUE)
        and condition.get("reason") in REASONS
        and (phase(obj) not in TERMINAL or condition["type"] in BAD_WHEN_TRUE)
    ]


def _why_it_ended(obj: Json) -> list[str]:
    """Of a runner that is kept as evidence."""
    if phase(obj) not in TERMINAL:
        return []
    told = [status(obj).get("reason")]
    told += [each.get("reason") for each in status(obj).get("conditions") or ()]
    return [str(reason) for reason in told if reason in REASONS]


def _registries(world: Any, family: list[Json]) -> Iterable[Any]:
    yield from (p.registry for p in world.controllers if p.leads and not p.component.dead)
    for obj in family:
        registry = world.listener_program.registries.get(meta(obj)["name"])
        if registry is not None:
            yield registry


def _in_metrics(registry: Any, names: set[tuple[str, str]]) -> set[str]:
    found = set()
    for family in families(registry, ("runnerscale_trouble", "runnerscale_listener_state")):
        if family.name == "runnerscale_trouble":
            for sample in family.samples:
                place = sample.labels["namespace"], sample.labels["name"]
                if sample.value > 0 and place in names:
                    found.add(sample.labels["reason"])
        elif family.name == "runnerscale_listener_state":
            found |= {s.labels["reason"] for s in family.samples if s.value > 0}
    return found & REASONS


def _nobody_can_tell(world: Any) -> bool:
    if any(SILENCING.search(kind) for kind in world.striking):
        return True
    if world.api is None or world.api_component.dead or world.api_component.paused:
        return True
    working = (p for p in world.controllers if p.leads)
    return not any(not p.component.dead and not p.component.paused for p in working)
