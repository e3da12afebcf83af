"""How soon the next runner may be made, after some have failed.

Pure function of the evidence: runners that failed are kept for a while, and their reasons
and times are the only memory of this policy, so that a restart changes nothing. Causes have
budgets. What comes from outside (eviction, a node lost) or after a job costs nothing. What can
never work (image, template, refused version) stops creation until the spec changes, or until
a slow probe (one runner) succeeds. Anything else backs off: where nothing works it is one
runner at a time (the breaker half-opens), where others work only the failed places wait.

Which evidence is kept is decided here too, because it is what the verdict rests on. The dry
run that finds most hopeless templates before any runner is made: `template_check.py`.
Design section 5; issue log 7-10, 14, 47.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from runnerscale.api.phase import RunnerPhase
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner_set.snapshot import Retired, Snapshot
from runnerscale.controllers.ephemeral_runner_set.wanted import wanted
from runnerscale.core.backoff import Backoff

EVIDENCE_TTL_S = 600.0
EVIDENCE_MAX = 5
# Hopeless by themselves: only a person can mend them, and seldom without changing the spec.
HOPELESS = frozenset({Reason.INVALID_POD, Reason.IMAGE_INVALID, Reason.OUTDATED})
SLOW_PROBE = Backoff(first_s=60.0, cap_s=600.0)
# Nobody's fault: they say nothing about the next runner.
FREE = frozenset({Reason.POD_LOST, Reason.EVICTED, Reason.NODE_LOST, Reason.POD_REFUSED_BY_NODE})
# 5, 10, 20, 40, 80 s: upstream's row, with one entry for each piece of evidence.
AFTER_FAILURE = Backoff(first_s=5.0, cap_s=80.0)
# Disturbances cost nothing one by one; a storm of them (somebody deletes every pod at once)
# must not become a loop against the API server and GitHub.
STORM_WITHIN_S = 300.0
STORM_FREE_MIN = 10
STORM_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be made now.

    `at_once`: at most so many; None: no limit. `reserve`: so many places stay empty for now.
    `cap`: no more live runners than this (a refused version). `keep`: uids of the evidence
    that stays.
    """

    at_once: int | None = None
    reserve: int = 0
    cap: int | None = None
    again_s: float | None = None
    trouble: Trouble | None = None
    keep: frozenset[str] = frozenset()

    @property
    def blocks(self) -> bool:
        """Nothing may be made now."""
        return self.at_once == 0


def judge(seen: Snapshot) -> Verdict:
    """The verdict on a set as it is now."""
    evidence = [r for r in seen.retired if r.phase != RunnerPhase.SUCCEEDED and not r.forgotten]
    evidence.sort(key=lambda r: (-r.since_s, r.name))
    blockers = [r for r in evidence if r.current and _is_hopeless(r)]
    if blockers and not _works_since(seen, blockers[0].since_s):
        kept = frozenset(r.uid for r in blockers[:EVIDENCE_MAX])
        return _blocked(seen, blockers, keep=kept | _fresh(seen, evidence, room=kept))
    keep = _fresh(seen, evidence, room=frozenset())
    costly = [r for r in evidence if r.uid in keep and _costs(r)]
    if costly:
        return _backing_off(seen, costly, keep=keep)
    return _storm(seen, keep=keep)


def outdated(seen: Snapshot) -> Retired | None:
    """The runner that shows that GitHub refuses this very runner spec; None: nothing does."""
    found = [r for r in seen.retired if r.current and r.phase == RunnerPhase.OUTDATED]
    newest = max(found, key=lambda r: r.since_s, default=None)
    return None if newest is None or _works_since(seen, newest.since_s) else newest


def _is_hopeless(runner: Retired) -> bool:
    return runner.phase == RunnerPhase.OUTDATED or (
        runner.reason in HOPELESS and not runner.had_job
    )


def _costs(runner: Retired) -> bool:
    # A runner that got a job had worked until then; evidence of another spec says nothing.
    return runner.current and not runner.had_job and runner.reason not in FREE


def _works_since(seen: Snapshot, since_s: float) -> bool:
    listed = any(r.current and r.proven and r.created_s > since_s for r in seen.runners)
    return listed or seen.unlisted.works_s > since_s


def _tried_since(seen: Snapshot, since_s: float) -> bool:
    """A runner of this spec was made since, and lives."""
    listed = any(r.current and r.created_s > since_s for r in seen.runners)
    return listed or seen.unlisted.newest_s > since_s


def _fresh(seen: Snapshot, evidence: Sequence[Retired], *, room: frozenset[str]) -> frozenset[str]:
    """Evidence young enough to be kept, the newest first, as far as there is room."""
    young = [
        r.uid for r in evidence if seen.now_s - r.since_s < EVIDENCE_TTL_S and r.uid not in room
    ]
    return frozenset(young[: max(0, EVIDENCE_MAX - len(room))])


def _blocked(seen: Snapshot, blockers: Sequence[Retired], *, keep: frozenset[str]) -> Verdict:
    newest = blockers[0]
    tries = min(len(blockers), EVIDENCE_MAX)
    due_s = newest.since_s + SLOW_PROBE.delay_s(tries - 1) - seen.now_s
    probing = _tried_since(seen, newest.since_s)
    may_probe = due_s <= 0 and not probing
    reason = _reason_of(newest)
    what = newest.message or reason.meaning
    happened = f"runner {newest.name} shows that none can work: {what.rstrip('.')}"
    cap = None
    if newest.phase == RunnerPhase.OUTDATED:
        # What GitHub refuses is of no use while idle either; a busy one may finish.
        busy = sum(1 for r in seen.runners if r.has_job) + seen.unlisted.busy
        cap = busy + (1 if may_probe or probing else 0)
    return Verdict(
        at_once=1 if may_probe else 0,
        cap=cap,
        again_s=due_s if due_s > 0 else None,
        trouble=trouble(reason, about=seen.about, happened=happened),
        keep=keep,
    )


def _backing_off(seen: Snapshot, costly: Sequence[Retired], *, keep: frozenset[str]) -> Verdict:
    newest = costly[0]
    due_s = newest.since_s + AFTER_FAILURE.delay_s(len(costly) - 1) - seen.now_s
    waits = due_s > 0
    reason = _reason_of(newest)
    told = trouble(
        Reason.CREATION_PAUSED,
        about=seen.about,
        happened=(
            f"{len(costly)} of the last runners failed before they had a job, the last one "
            f"{newest.name}: {(newest.message or str(reason)).rstrip('.')}"
        ),
    )
    if _works_since(seen, float("-inf")):
        # Others work: only the places of the failed ones wait.
        return Verdict(
            reserve=len(costly) if waits else 0,
            again_s=due_s if waits else None,
            trouble=told if waits else None,
            keep=keep,
        )
    probing = _tried_since(seen, newest.since_s)
    return Verdict(
        at_once=0 if waits or probing else 1,
        again_s=due_s if waits else None,
        trouble=told,
        keep=keep,
    )


def _storm(seen: Snapshot, *, keep: frozenset[str]) -> Verdict:
    recent = [at_s for at_s in seen.disturbed_s if seen.now_s - at_s < STORM_WITHIN_S]
    if len(recent) <= max(STORM_FREE_MIN, 2 * wanted(seen)):
        return Verdict(keep=keep)
    last_s = max(recent)
    left_s = last_s + STORM_PAUSE_S - seen.now_s
    if left_s <= 0:
        probing = _tried_since(seen, last_s) and not _works_since(seen, last_s)
        return Verdict(at_once=0 if probing else 1, keep=keep)
    happened = (
        f"{len(recent)} runners were lost from outside within {STORM_WITHIN_S:.0f} s before they "
        "had a job"
    )
    return Verdict(
        at_once=0,
        again_s=left_s,
        trouble=trouble(Reason.CREATION_PAUSED, about=seen.about, happened=happened),
        keep=keep,
    )


def _reason_of(runner: Retired) -> Reason:
    if runner.phase == RunnerPhase.OUTDATED:
        return Reason.OUTDATED
    known = {reason.value: reason for reason in Reason}
    return known.get(runner.reason, Reason.RUNNER_FAILED)
