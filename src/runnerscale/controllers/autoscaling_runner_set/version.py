"""Whether chart and controller are of one version; told, and nothing else.

ARC deletes what does not match, and with it the scale set and everything queued for it (W36).
A label that is missing or unreadable says nothing, and nothing is concluded from it.

Pure. Contract: resources-and-controllers 4.1.1, overruled by design section 4.
"""

import re

from runnerscale.api import labels as keys
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set.snapshot import Snapshot

ANY_VERSION = "dev"
CANARY = "canary-"
# major[.minor[.patch]], digits without leading zeros; whatever follows the patch is ignored.
VERSION = re.compile(r"(0|[1-9]\d*)(?:\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*).*)?)?")


def skew(seen: Snapshot) -> Trouble | None:
    """The trouble, if the two differ by more than a patch."""
    label = (seen.meta.labels or {}).get(keys.VERSION, "")
    build = seen.settings.build_version
    if not label or fits(build, label):
        return None
    what = f"its label {keys.VERSION} says {label}, this controller is {build}"
    return trouble(Reason.VERSION_SKEW, about=seen.about, happened=what)


def fits(build: str, label: str) -> bool:
    """Whether this build is made for objects with that label."""
    if build in (ANY_VERSION, label) or build.startswith(CANARY):
        return True
    ours, theirs = _parse(build), _parse(label)
    return ours is not None and ours == theirs


def _parse(text: str) -> tuple[int, int] | None:
    match = VERSION.fullmatch(text)
    return (int(match[1]), int(match[2] or 0)) if match else None
