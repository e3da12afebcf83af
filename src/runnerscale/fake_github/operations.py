"""The table of everything that can be asked: area, method, path, and a name for it.

The names are what fault rules match, what the call counters count, and what handlers are
registered under. Contract C2 section 2; the runner and control parts are ours.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from runnerscale.fake_github.addresses import Area, Place
from runnerscale.fake_github.refusals import Refused, rest

Params: TypeAlias = dict[str, str]

_SETS = "/runtime/runnerscalesets"
_AGENTS = "/distributedtask/pools/0/agents"

TABLE: tuple[tuple[str, Area, str, str], ...] = (
    ("installation-token", Area.REST, "POST", "/app/installations/{installation}/access_tokens"),
    ("registration-token", Area.REST, "POST", "/orgs/{org}/actions/runners/registration-token"),
    (
        "registration-token",
        Area.REST,
        "POST",
        "/enterprises/{enterprise}/actions/runners/registration-token",
    ),
    (
        "registration-token",
        Area.REST,
        "POST",
        "/repos/{org}/{repo}/actions/runners/registration-token",
    ),
    ("runner-registration", Area.REST, "POST", "/actions/runner-registration"),
    ("find-groups", Area.SERVICE, "GET", "/runtime/runnergroups/"),
    ("find-scale-sets", Area.SERVICE, "GET", _SETS),
    ("create-scale-set", Area.SERVICE, "POST", _SETS),
    ("get-scale-set", Area.SERVICE, "GET", f"{_SETS}/{{id}}"),
    ("update-scale-set", Area.SERVICE, "PATCH", f"{_SETS}/{{id}}"),
    ("delete-scale-set", Area.SERVICE, "DELETE", f"{_SETS}/{{id}}"),
    ("open-session", Area.SERVICE, "POST", f"{_SETS}/{{id}}/sessions"),
    ("refresh-session", Area.SERVICE, "PATCH", f"{_SETS}/{{id}}/sessions/{{session}}"),
    ("delete-session", Area.SERVICE, "DELETE", f"{_SETS}/{{id}}/sessions/{{session}}"),
    ("jit-config", Area.SERVICE, "POST", f"{_SETS}/{{id}}/generatejitconfig"),
    ("acquire-jobs", Area.SERVICE, "POST", f"{_SETS}/{{id}}/acquirejobs"),
    ("acquirable-jobs", Area.SERVICE, "GET", f"{_SETS}/{{id}}/acquirablejobs"),
    ("poll", Area.SERVICE, "GET", f"{_SETS}/{{id}}/message"),
    ("acknowledge", Area.SERVICE, "DELETE", f"{_SETS}/{{id}}/message/{{message}}"),
    ("find-runner", Area.SERVICE, "GET", _AGENTS),
    ("get-runner", Area.SERVICE, "GET", f"{_AGENTS}/{{runner}}"),
    ("remove-runner", Area.SERVICE, "DELETE", f"{_AGENTS}/{{runner}}"),
    ("poll", Area.QUEUE, "GET", "/message"),
    ("acknowledge", Area.QUEUE, "DELETE", "/message/{message}"),
    ("runner-connect", Area.RUNNER, "POST", "/sessions"),
    ("runner-disconnect", Area.RUNNER, "DELETE", "/sessions/{session}"),
    ("runner-poll", Area.RUNNER, "GET", "/sessions/{session}/job"),
    ("runner-confirm", Area.RUNNER, "POST", "/sessions/{session}/jobs/{job}/start"),
    ("runner-report", Area.RUNNER, "POST", "/sessions/{session}/jobs/{job}/log"),
    ("runner-finish", Area.RUNNER, "POST", "/sessions/{session}/jobs/{job}/finish"),
    ("control-health", Area.CONTROL, "GET", "/healthz"),
    ("control-state", Area.CONTROL, "GET", "/state"),
    ("control-summary", Area.CONTROL, "GET", "/summary"),
    ("control-violations", Area.CONTROL, "GET", "/violations"),
    ("control-calls", Area.CONTROL, "GET", "/calls"),
    ("control-events", Area.CONTROL, "GET", "/events"),
    ("control-presets", Area.CONTROL, "GET", "/presets"),
    ("control-faults", Area.CONTROL, "GET", "/faults"),
    ("control-add-fault", Area.CONTROL, "POST", "/faults"),
    ("control-clear-faults", Area.CONTROL, "DELETE", "/faults"),
    ("control-remove-fault", Area.CONTROL, "DELETE", "/faults/{fault}"),
    ("control-jobs", Area.CONTROL, "GET", "/jobs"),
    ("control-add-jobs", Area.CONTROL, "POST", "/jobs"),
    ("control-job", Area.CONTROL, "GET", "/jobs/{job}"),
    ("control-job-log", Area.CONTROL, "GET", "/jobs/{job}/log"),
    ("control-cancel-job", Area.CONTROL, "POST", "/jobs/{job}/cancel"),
    ("control-workflow", Area.CONTROL, "POST", "/workflows"),
    ("control-runs", Area.CONTROL, "GET", "/runs"),
    ("control-run", Area.CONTROL, "GET", "/runs/{run}"),
    ("control-cancel-run", Area.CONTROL, "POST", "/runs/{run}/cancel"),
)

OPERATIONS = frozenset(name for name, area, _, _ in TABLE if area is not Area.CONTROL)


@dataclass(frozen=True, slots=True)
class Operation:
    """What is asked for, with the variable parts of its path."""

    name: str
    params: Params


def resolve(place: Place | None, method: str) -> Operation:
    """The operation that a request means.

    Raises:
        Refused: 404 unknown path, 405 known path with another method.
    """
    allowed: list[str] = []
    for name, area, wanted, pattern in _COMPILED if place is not None else ():
        if place is None or area is not place.area:
            continue
        found = pattern.fullmatch(place.path)
        if found is None:
            continue
        if wanted == method:
            params = {key: unquote(value) for key, value in found.groupdict().items()}
            if any("/" in value for value in params.values()):
                break  # an escaped slash would mean something else further down
            return Operation(name, params)
        allowed.append(wanted)
    if allowed:
        raise Refused(405, "", "Method Not Allowed", headers=(("Allow", ", ".join(allowed)),))
    raise rest(404, "Not Found")


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", path)
    text = "".join(
        re.escape(part) if place % 2 == 0 else f"(?P<{part}>[^/]+)"
        for place, part in enumerate(parts)
    )
    return re.compile(text)


_COMPILED = tuple((name, area, method, _pattern(path)) for name, area, method, path in TABLE)
