"""What the set says where all its runners wait for the same: their cause, as its own.

Each runner says what it waits for, but people look at the runner set first, and there no reason
stood while nobody came online (an image, a quota, no node). Only the columns say it: Event, metric
and log line are the runners' own.

It is said when every live runner waits for one cause, and stays, in the words of then, until one
serves or none waits for it any more: hundreds of runners that come, go and word it differently
make no more than two writes. The memory of that is the stored status itself.

Pure. What failed runners do to the making of others: `failure_policy.py`.
"""

from runnerscale.api.catalogue import Severity
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner_set.snapshot import Snapshot
from runnerscale.controllers.ephemeral_runner_set.wanted import alive

SAID = "no runner is online: "
KNOWN = {str(reason): reason for reason in Reason}


def shared(seen: Snapshot) -> tuple[Trouble, ...]:
    """The one trouble of all runners, if it is one."""
    if seen.deleting or seen.serving or not seen.waits:
        return ()
    stored = seen.item.status
    if stored.message.startswith(SAID):
        for each in seen.waits:
            if each.reason == stored.reason:
                return _told(seen, each.reason, stored.message)
    first = seen.waits[0]
    if len(seen.waits) > 1 or first.runners < alive(seen) + seen.made:
        return ()
    return _told(seen, first.reason, SAID + first.message)


def _told(seen: Snapshot, word: str, message: str) -> tuple[Trouble, ...]:
    reason = KNOWN.get(word)  # a word of another release is not repeated
    if reason is None or reason.severity is Severity.INFO:
        return ()
    return (trouble(reason, about=seen.about, happened=reason.happened_in(message)),)
