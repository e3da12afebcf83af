"""Names that the judges know: resources, users, phases. Written down here, not imported."""

from typing import Any

from tests.simulation.writes import NOBODY

Json = dict[str, Any]

RUNNERS = "ephemeralrunners.actions.github.com"
RUNNER_SETS = "ephemeralrunnersets.actions.github.com"
SCALE_SETS = "autoscalingrunnersets.actions.github.com"
LISTENERS = "autoscalinglisteners.actions.github.com"
TERMINAL = ("Failed", "Succeeded", "Outdated")
OUR_USERS = "system:serviceaccount:runnerscale-system:"
NODE_USER = "system:serviceaccount:runnerscale-system:runnerscale-node"
LISTENER_MARK = "-listener"
FOREIGN_SCALE_SET = "somebody-elses"  # of another installation, made by a fault
FOREIGN_OWNER = "another-listener"
SERVER = NOBODY  # garbage collection, and what ends with its namespace


def is_ours(user: str) -> bool:
    """Controller or listener; the node agent does what a pod's deletion asks for."""
    return user.startswith(OUR_USERS) and user != NODE_USER


def meta(obj: Json | None) -> Json:
    """The metadata of an object that may be missing."""
    return (obj or {}).get("metadata") or {}


def status(obj: Json | None) -> Json:
    """The status of an object that may be missing."""
    return (obj or {}).get("status") or {}


def phase(obj: Json | None) -> str:
    """The phase, empty if there is none."""
    return str(status(obj).get("phase") or "")


def is_going(obj: Json | None) -> bool:
    """Whether its deletion has begun."""
    return bool(meta(obj).get("deletionTimestamp"))


def owner(obj: Json | None) -> Json:
    """The first owner reference; empty if there is none."""
    return (meta(obj).get("ownerReferences") or [{}])[0]
