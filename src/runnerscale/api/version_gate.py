"""Whether an object and a controller are of one version: ARC's own rule.

ARC deletes what does not fit; for us it is a word on the object. Charts write the version of ARC
that they are exchangeable with. Pure. Contract: resources-and-controllers 4.1.1.
"""

import re

ANY_VERSION = "dev"
CANARY = "canary-"
# major[.minor[.patch]], digits without leading zeros; whatever follows the patch is ignored.
VERSION = re.compile(r"(0|[1-9]\d*)(?:\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*).*)?)?")


def fits(build: str, label: str) -> bool:
    """Whether this build is made for objects with that label."""
    if build in (ANY_VERSION, label) or build.startswith(CANARY):
        return True
    ours, theirs = _parse(build), _parse(label)
    return ours is not None and ours == theirs


def _parse(text: str) -> tuple[str, str] | None:
    match = VERSION.fullmatch(text)
    # As text: no number begins with a zero here, and one may be longer than Python reads.
    return (match[1], match[2] or "0") if match else None
