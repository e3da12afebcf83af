"""How many runners a set should have now, and how many it has.

One page for the two numbers that every stage compares. The wish comes from the listener; a
hold (by the runner set's controller) and a refused runner version only ever lower it. Failed
and outdated runners are no capacity; one that GitHub has forgotten is none either.

Pure. Design section 5; contract: resources-and-controllers 4.3.1.
"""

from runnerscale.controllers.ephemeral_runner_set.snapshot import Removal, Snapshot


def wanted(seen: Snapshot, *, cap: int | None = None) -> int:
    """So many; `cap`: what the failure policy allows to live."""
    limits = (limit for limit in (seen.hold, cap) if limit is not None)
    return max(0, min([seen.replicas, *limits]))


def shrink_to(seen: Snapshot, *, cap: int | None = None) -> int | None:
    """Down to how many surplus idle runners go; None: a numbered patch shrinks nothing.

    The listener said "exactly", or somebody limits the set whatever the listener says.
    """
    if seen.exact:
        return wanted(seen, cap=cap)
    limits = [limit for limit in (seen.hold, cap) if limit is not None]
    return min(limits, default=None)


def alive(seen: Snapshot) -> int:
    """Runners that have a job or can get one."""
    listed = sum(1 for runner in seen.runners if runner.removal is not Removal.FORGOTTEN)
    return listed + seen.unlisted.alive


def missing(seen: Snapshot, *, cap: int | None = None) -> int:
    """How many places are to be filled; places of finished runners wait for the listener.

    A runner that GitHub has forgotten is in its place until it is deleted: else there would be
    more than the maximum for a moment, and for good if the deletion fails.
    """
    there = len(seen.runners) + seen.unlisted.alive
    return max(0, wanted(seen, cap=cap) - there - seen.held - seen.made)


def surplus(seen: Snapshot, *, cap: int | None = None) -> int:
    """How many are to go."""
    target = shrink_to(seen, cap=cap)
    return 0 if target is None else max(0, alive(seen) - target)
