"""Who we say we are: the User-Agent, one JSON object on one line.

A file of its own because its key order is part of the contract, and because it is made
per call: one client serves many scale sets (weaknesses W43, W47).

Pure. Contract: github-service-and-listener 2.1.
"""

import json
from dataclasses import dataclass, replace
from functools import lru_cache

from runnerscale import __version__

SYSTEM = "runnerscale"
KIND = "scaleset"
BUILD_COMMIT = "unknown"  # no build information is stamped into a Python package


@dataclass(frozen=True, slots=True)
class SystemInfo:
    """Which program speaks. `scale_set_id` 0: the call is about none in particular."""

    system: str = SYSTEM
    version: str = __version__
    commit_sha: str = "NA"
    scale_set_id: int = 0
    subsystem: str = ""

    def about(self, scale_set_id: int) -> "SystemInfo":
        """The same program, speaking about this scale set (0: whichever it speaks about)."""
        return replace(self, scale_set_id=scale_set_id) if scale_set_id else self


@lru_cache(maxsize=1024)  # asked for with every request; a process has few scale sets
def user_agent(info: SystemInfo) -> str:
    """The header's value."""
    return _json(
        {
            "system": info.system,
            "version": info.version,
            "commit_sha": info.commit_sha,
            "scale_set_id": info.scale_set_id,
            "subsystem": info.subsystem,
            "build_version": __version__,
            "build_commit_sha": BUILD_COMMIT,
            "kind": KIND,
        }
    )


def debug_text(info: SystemInfo, *, has_proxy: bool, has_root_ca: bool) -> str:
    """How a client describes itself in a log."""
    return _json(
        {"has_proxy": has_proxy, "has_root_ca": has_root_ca, "system_info": user_agent(info)}
    )


def _json(members: dict[str, object]) -> str:
    return json.dumps(members, separators=(",", ":"))
