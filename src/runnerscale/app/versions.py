"""Which versions we speak of, and to whom.

Our own version is for people. Charts and the version gate of ARC compare with the release that we
are exchangeable with, so that going back to ARC's image is safe (design, section 8).
"""

import os

from runnerscale import __version__

COMPATIBLE_VERSION = "0.14.2"
SYSTEM = "runnerscale"  # in the User-Agent towards GitHub


def commit_sha() -> str:
    """The commit we were built from, if whoever built us said so."""
    return os.environ.get("RUNNERSCALE_COMMIT", "unknown")


def own_version() -> str:
    """Ours."""
    return __version__
