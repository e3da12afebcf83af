"""All rules on one look, and what follows: may the controller be exchanged now? Pure."""

from dataclasses import dataclass

from runnerscale.core.plain_text import counted
from runnerscale.migration import controllers, runner_sets, running, surroundings
from runnerscale.migration.findings import Finding, Weight, note
from runnerscale.migration.snapshot import ESSENTIAL, RUNNER_SETS, RUNNERS, SETS, Snapshot

FREE = 0  # nothing stands in the way
BLOCKED = 1  # something does
BLIND = 2  # it could not be looked at, or there is nothing to look at

ORDER = tuple(Weight)


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, the weightiest first; and what nobody could see."""

    findings: tuple[Finding, ...]
    unseen: tuple[str, ...]
    exit_code: int
    summary: str


def check(seen: Snapshot) -> Report:
    """The report on a cluster."""
    if not seen.installed:
        what = "it does not know the four kinds of ARC: there is nothing to take over"
        found = (note("not-installed", "the cluster", what, "Install our charts"),)
        return Report(found, _unseen(seen), BLIND, "there is nothing to take over")
    if not seen.namespace_there:
        what = f"namespace {seen.namespace} does not exist"
        return Report((), _unseen(seen), BLIND, f"{what}: there is nothing to take over")
    parts = (controllers, runner_sets, running, surroundings)
    everything = [finding for each in parts for finding in each.findings(seen)]
    everything.sort(key=lambda f: (ORDER.index(f.weight), f.about, f.topic))
    blocked = sum(f.weight is Weight.IN_THE_WAY for f in everything)
    return Report(tuple(everything), _unseen(seen), *_verdict(seen, blocked))


def _verdict(seen: Snapshot, blocked: int) -> tuple[int, str]:
    what = counted(len(seen.of(RUNNER_SETS)), "runner set", "runner sets")
    if blocked:
        things = "1 thing stands" if blocked == 1 else f"{blocked} things stand"
        return BLOCKED, f"{things} in the way of {what}"
    if any(what in seen.unseen for what in ESSENTIAL):
        return BLIND, "too little could be seen to say whether something stands in the way"
    if not any(seen.of(kind) for kind in (RUNNER_SETS, SETS, RUNNERS)):
        where = f"in namespace {seen.namespace}" if seen.namespace else "in the cluster"
        return BLIND, f"{where} there are no runner sets: there is nothing to take over"
    return FREE, f"nothing stands in the way of taking over {what}"


def _unseen(seen: Snapshot) -> tuple[str, ...]:
    return tuple(f"{what} could not be looked at: {why}" for what, why in seen.unseen.items())
