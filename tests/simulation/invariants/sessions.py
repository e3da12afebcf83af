"""Invariant 5: at most one open session per scale set from us, at any time.

GitHub keeps one for each scale set; ours may still be two when a set is registered anew or moves
and its old listener goes on. So they are counted for each runner set, over all its scale sets,
and so are the listener containers that run: two would fight for the one session.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.simulation.invariants.names import FOREIGN_OWNER, FOREIGN_SCALE_SET, meta
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write

NAME_LABEL = "actions.github.com/scale-set-name"
NAMESPACE_LABEL = "actions.github.com/scale-set-namespace"
# Faults that end listeners or have them ended, and do not keep them from GitHub.
ENDS_IN_ORDER = (
    "listener-pod-deleted",
    "listener-evicted",
    "listener-deleted",
    "node-drained",
    "maximum-",
    "minimum-",
    "template-",
    "group-",
    "url-",
    "secret-",
    "set-created-anew",
    "controller-",
    "runner-",
)
STOPS_WITHIN_S = 45.0  # with a message at hand; the pod's grace is thirty


class OneOpenSession(Rule):
    """Sessions that GitHub holds open for us."""

    sentence = "at most one open session per scale set"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._open: dict[str, set[str]] = defaultdict(set)  # scale set name: owners
        self._names: dict[object, str] = {}

    def happened(self, event: dict[str, object]) -> Iterable[str]:
        """A session that opens or ends; a scale set that gets its name."""
        if event["kind"] == "scale set":
            self._names[event["id"]] = str(event["name"])
        if event["kind"] != "session" or event["owner"] == FOREIGN_OWNER:
            return
        name = self._names.get(event["scale_set"], "")
        which = f"{event['scale_set']} by {event['owner']}"
        if name == FOREIGN_SCALE_SET:
            return
        if event["state"] == "ended":
            self._open[name].discard(which)
            return
        self._open[name] = {each for each in self._open[name] if not self._is_left(each, event)}
        self._open[name].add(which)
        if len(self._open[name]) > 1:
            yield f"{name} has {' and '.join(sorted(self._open[name]))}"

    def _is_left(self, which: str, event: dict[str, object]) -> bool:
        """Of another scale set, by a listener that was killed: nobody can give that back.

        It stands at GitHub for its life; a set that moved meanwhile has another scale set by then.
        """
        scale_set, _, owner = which.partition(" by ")
        mine = [p for p in self.seen.containers() if p.spec.pod.name == owner]
        killed = bool(mine) and all(process.exit is not None for process in mine)
        return killed and scale_set != str(event["scale_set"])


class OneListenerAtATime(Rule):
    """Never two listener containers for one runner set."""

    sentence = "at most one listener runs for a runner set"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._sets: dict[str, str] = {}  # pod uid: runner set
        self._told: set[str] = set()

    def hear(self, write: Write) -> Iterable[str]:
        """Whose listener a pod is."""
        if write.resource == "pods" and write.before is None:
            labels = meta(write.after).get("labels") or {}
            if NAME_LABEL in labels:
                self._sets[write.uid] = f"{labels.get(NAMESPACE_LABEL)}/{labels[NAME_LABEL]}"
        return ()

    def tick(self, world: Any) -> Iterable[str]:
        """The listeners that run now."""
        running: dict[str, list[str]] = defaultdict(list)
        for process in world.machine.running("listener"):
            pod = process.spec.pod
            running[self._sets.get(pod.uid, pod.name)].append(pod.name)
        for name, pods in running.items():
            if len(pods) > 1 and name not in self._told:
                self._told.add(name)
                yield f"for {name} run {', '.join(sorted(pods))}"


class SessionsAreGivenBack(Rule):
    """A listener that ends in order closes its session, if nothing keeps it from that."""

    sentence = "a session is given back"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        # Owner and scale set: the pod that opened it. A successor has the same name, and
        # cannot give back what one that was killed had.
        self._open: dict[tuple[str, str], str] = {}
        self._ended: set[str] = set()  # uids of the pods that were looked at
        self._kept_s = float("-inf")  # when something last kept listeners from GitHub

    def happened(self, event: dict[str, object]) -> Iterable[str]:
        """A session that opens or ends."""
        if event["kind"] == "fault":
            self._kept_s = self.seen.now_s()
        elif event["kind"] == "session":
            which = str(event["owner"]), str(event["scale_set"])
            if event["state"] == "ended":
                self._open.pop(which, None)
            else:
                self._open[which] = self._opener(which[0])
        return ()

    def _opener(self, owner: str) -> str:
        mine = [p for p in self.seen.containers() if p.spec.pod.name == owner and p.exit is None]
        return mine[-1].spec.pod.uid if mine else ""

    def tick(self, world: Any) -> Iterable[str]:
        """Listeners that have ended since."""
        now_s = self.seen.now_s()
        if any(not kind.startswith(ENDS_IN_ORDER) for kind in world.striking):
            self._kept_s = now_s
        if any(rule.until_s is not None for rule in world.hub.faults.rules.values()):
            self._kept_s = now_s
        for process in world.machine.started:
            pod = process.spec.pod
            if process.spec.argv[0] != "listener" or process.exit is None:
                continue
            if pod.uid in self._ended:
                continue
            self._ended.add(pod.uid)
            if process.exit.code or now_s - self._kept_s < STOPS_WITHIN_S:
                continue
            for (_, scale_set), uid in self._open.items():
                if uid == pod.uid:
                    yield f"{pod.name} ended in order and left that of {scale_set} open"
