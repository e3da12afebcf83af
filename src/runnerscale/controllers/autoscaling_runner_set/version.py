"""Whether chart and controller are of one version; told, and nothing else.

ARC deletes what does not match, and with it the scale set and everything queued for it (W36).
A label that is missing or unreadable says nothing, and nothing is concluded from it.

Pure. Contract: resources-and-controllers 4.1.1, overruled by design section 4.
"""

from runnerscale.api import labels as keys
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.api.version_gate import fits
from runnerscale.controllers.autoscaling_runner_set.snapshot import Snapshot

__all__ = ["fits", "skew"]


def skew(seen: Snapshot) -> Trouble | None:
    """The trouble, if the two differ by more than a patch."""
    label = (seen.meta.labels or {}).get(keys.VERSION, "")
    build = seen.settings.build_version
    if not label or fits(build, label):
        return None
    what = f"its label {keys.VERSION} says {label}, this controller is {build}"
    return trouble(Reason.VERSION_SKEW, about=seen.about, happened=what)
