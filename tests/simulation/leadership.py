"""Never two controllers at work: what the lease promises, judged by what the store says.

The promise, as far as a lease can give one: whoever writes (Events and the lease itself apart)
is the holder that the lease in the store names at that moment. Three things are beyond it. A
lease that a person deletes is heard of at the next renewal that is answered: until then its
holder works on (`NOTICED_S`, or until another one holds it; where renewals are slow or lost,
until its renew deadline, seed 4546). A process that was stopped and goes on cannot know that
time has passed before it has looked: what was under way when it was stopped may still be sent
in its first moment (`AWAKENING_S`). And a request that had reached the server before the holder
changed is the holder's of then.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from runnerscale.kube.lease import RENEW_DEADLINE_S
from tests.simulation.writes import Write

CONTROLLER_USER = "system:serviceaccount:runnerscale-system:runnerscale-controller"
LEASES = "leases.coordination.k8s.io"
LEASE = "actions-runner-controller"
OUTSIDE_THE_WORK = ("events", LEASES)
AWAKENING_S = 1.0
NOTICED_S = 3.0  # a renewal is sent every two
# Faults under which a renewal has no answer in time.
RENEWALS_LATE = re.compile(r"lease-renewals|api-|slow-network|line-to-api|leader-cut-off")


@dataclass(slots=True)
class Leadership:
    """Hears every write of a world in which controllers work under a lease."""

    holder: str = ""  # as the lease in the store says
    changes: int = 0
    deleted_from: str = ""  # who held the lease that was deleted
    deleted_s: float = 0.0
    awake_s: dict[str, float] = field(default_factory=dict)  # process: when it went on

    def hear(self, write: Write, *, agent: str, now_s: float, striking: Iterable[str] = ()) -> str:
        """One stored change, made under the faults of now; what is wrong with it, or ""."""
        if write.resource == LEASES:
            if write.name != LEASE:
                return ""  # a node's own
            spec = (write.after or {}).get("spec") or {}
            holder = str(spec.get("holderIdentity") or "")
            self.changes += holder != self.holder
            if write.after is None:
                self.deleted_from, self.deleted_s = _process(self.holder), now_s
            self.holder = holder
            return ""
        if write.by != CONTROLLER_USER or write.resource in OUTSIDE_THE_WORK:
            return ""
        if _process(self.holder) == agent:
            return ""
        late = any(RENEWALS_LATE.search(kind) for kind in striking)
        heard_s = self.deleted_s + (RENEW_DEADLINE_S if late else NOTICED_S)
        if self.deleted_from == agent and (not self.holder or now_s <= heard_s):
            return ""
        if now_s - self.awake_s.get(agent, -AWAKENING_S - 1.0) <= AWAKENING_S:
            return ""
        return f"{agent} decided to {write} while {self.holder or 'nobody'} held the lease"


def _process(identity: str) -> str:
    """The process of an identity: a random part is put behind its name."""
    return identity.rpartition("_")[0]
