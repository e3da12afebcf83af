"""Never two controllers at work: what the lease promises, judged by what the store says.

The promise, as far as a lease can give one: whoever writes (Events and the lease itself apart)
is the holder that the lease in the store names at that moment. Two things are beyond it. A
process that was stopped and goes on cannot know that time has passed before it has looked:
what was under way when it was stopped may still be sent in its first moment (`AWAKENING_S`).
And a request that had reached the server before the holder changed is the holder's of then.
"""

from dataclasses import dataclass, field

from tests.simulation.writes import Write

CONTROLLER_USER = "system:serviceaccount:runnerscale-system:runnerscale-controller"
LEASES = "leases.coordination.k8s.io"
LEASE = "actions-runner-controller"
OUTSIDE_THE_WORK = ("events", LEASES)
AWAKENING_S = 1.0


@dataclass(slots=True)
class Leadership:
    """Hears every write of a world in which controllers work under a lease."""

    holder: str = ""  # as the lease in the store says
    changes: int = 0
    awake_s: dict[str, float] = field(default_factory=dict)  # process: when it went on

    def hear(self, write: Write, *, agent: str, now_s: float) -> str:
        """One stored change; what is wrong with it, or ""."""
        if write.resource == LEASES:
            if write.name != LEASE:
                return ""  # a node's own
            spec = (write.after or {}).get("spec") or {}
            holder = str(spec.get("holderIdentity") or "")
            self.changes += holder != self.holder
            self.holder = holder
            return ""
        if write.by != CONTROLLER_USER or write.resource in OUTSIDE_THE_WORK:
            return ""
        if self.holder.rpartition("_")[0] == agent:
            return ""
        if now_s - self.awake_s.get(agent, -AWAKENING_S - 1.0) <= AWAKENING_S:
            return ""
        return f"{agent} decided to {write} while {self.holder or 'nobody'} held the lease"
