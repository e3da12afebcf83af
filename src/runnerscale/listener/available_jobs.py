"""Which of the jobs that GitHub offers are claimed (acquire mode, older GHES).

github.com assigns jobs by itself and never offers one; an older server assigns nothing
that was not claimed. Claimed is at most what there is room for: a job that we claim and cannot
run is withheld from another scale set with the same label. What was left is remembered and
claimed when there is room, because it is not sure that the server offers it twice.

Pure. Contract: github-service-and-listener 2.11, 4.3; replaces W34 (everything was claimed).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from runnerscale.scaleset.model import JobEvent, JobEventKind, Statistics

OFFERS_MAX = 1000  # more are dropped, the oldest first: they wait for another listener


@dataclass(frozen=True, slots=True)
class Offers:
    """Ids of jobs that were offered and not yet claimed, the oldest first."""

    request_ids: tuple[int, ...] = ()


def heard(offers: Offers, events: Iterable[JobEvent], statistics: Statistics) -> Offers:
    """The offers after a message: new ones added, those that found an owner removed."""
    ids = dict.fromkeys(offers.request_ids)
    for event in events:
        if not event.request_id:
            continue  # 0 where the server pushes jobs: there is nothing to claim
        if event.kind is JobEventKind.AVAILABLE:
            ids[event.request_id] = None
        else:
            ids.pop(event.request_id, None)
    if statistics.available_jobs == 0 and not _offered_now(events):
        return Offers()
    return Offers(tuple(ids)[-OFFERS_MAX:])


def missed(offers: Offers, statistics: Statistics, *, max_runners: int) -> bool:
    """Whether jobs are offered that we never heard of, or forgot, though there is room for them.

    An offer is told once: a listener that dies takes those along that it left for lack of room.
    """
    room = free_capacity(statistics, max_runners=max_runners)
    return not offers.request_ids and statistics.available_jobs > 0 and room > 0


def listed(request_ids: Iterable[int]) -> Offers:
    """The offers, when the service was asked for all of them."""
    return Offers(tuple(dict.fromkeys(request_ids))[:OFFERS_MAX])


def _offered_now(events: Iterable[JobEvent]) -> bool:
    return any(event.kind is JobEventKind.AVAILABLE for event in events)


def free_capacity(statistics: Statistics, *, max_runners: int) -> int:
    """Room for so many more jobs: ours are those assigned and those claimed on their way."""
    return max(0, max_runners - statistics.assigned_jobs - statistics.acquired_jobs)


def to_claim(offers: Offers, statistics: Statistics, *, max_runners: int) -> list[int]:
    """The ids to claim now, the oldest offers first."""
    return list(offers.request_ids[: free_capacity(statistics, max_runners=max_runners)])


def asked(offers: Offers, request_ids: Iterable[int]) -> Offers:
    """The offers after a claim was answered: granted, or somebody else's, or gone."""
    gone = set(request_ids)
    return replace(offers, request_ids=tuple(i for i in offers.request_ids if i not in gone))
