"""What is heard of the listener: whether its pod runs, and what it says keeps it from its work.

The pod is its own controller's, which says what ails it; that goes before anything that the
listener itself has said, because a pod that is gone says nothing any more. Its word is an
annotation on the EphemeralRunnerSet (`api/listener_word.py`); one that cannot be read, or is
about another scale set, is passed over. A listener that finds its scale set gone is believed so
far that GitHub is asked at once (`registration.py`); it decides nothing.

Pure.
"""

from runnerscale.api import conditions as types
from runnerscale.api import labels as keys
from runnerscale.api.listener_word import ListenerWord, decoded
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set import listener
from runnerscale.controllers.autoscaling_runner_set.snapshot import Snapshot
from runnerscale.controllers.conditions import find
from runnerscale.kube.objects import is_deleting

# A word that is older than the last check, which denied it, is checked again after so long: two
# clocks differ.
DOUBT_AGAIN_S = 30.0
STAMP_S = 1.0  # times in annotations are whole seconds


def pod_state(seen: Snapshot) -> tuple[bool, tuple[str, str]]:
    """Whether the listener's pod runs; reason and message of the condition."""
    kept = listener.current(seen)
    if kept is None:
        when = "any more: it is being deleted" if is_deleting(seen.runner_set) else "yet"
        return False, ("NoListener", f"there is no listener {when}")
    running = find(kept.status.conditions, types.POD_RUNNING)
    if running is None:  # an older CRD has no conditions: what cannot be known is not denied
        return True, ("Exists", "")
    if running.status == "True":
        return True, ("Running", "")
    return False, (running.reason or "Starting", running.message)


def word(seen: Snapshot) -> ListenerWord | None:
    """What the listener says is wrong, as far as that is news about what there is."""
    found = seen.live_set
    if found is None or not pod_state(seen)[0]:
        return None
    said = decoded((found.metadata.annotations or {}).get(keys.LISTENER_TROUBLE))
    if said is None or said.scale_set_id not in (0, seen.scale_set_id):
        return None
    return said


def its_trouble(seen: Snapshot) -> Trouble | None:
    """The same, to be told on the runner set."""
    said = word(seen)
    if said is None:
        return None
    happened = said.message or said.reason.meaning
    return trouble(said.reason, about=seen.about, happened=f"the listener says: {happened}")


def doubt_s(seen: Snapshot) -> float | None:
    """In how many seconds GitHub is to be asked whether the scale set is gone, as it says.

    None: it does not say so. Each word is checked once at first: `since` is when it was said.
    """
    said = word(seen)
    if said is None or said.reason is not Reason.SCALE_SET_GONE:
        return None
    age_s = seen.now_s - seen.known.checked_s
    is_news = said.since_s + STAMP_S > seen.known.checked_s
    return max(0.0, (STAMP_S if is_news else DOUBT_AGAIN_S) - age_s)
