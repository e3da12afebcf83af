"""The API server's audit log as values: who asked for what, and what they were told."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One request."""

    user: str
    verb: str  # get, list, watch, create, update, patch, delete, deletecollection, ...
    resource: str  # empty for a path such as /readyz
    subresource: str
    namespace: str
    name: str  # empty where the request has none, also for a generated name
    code: int
    uri: str
    group: str  # API group; empty for the core
    user_agent: str
    reason: str  # of a refusal
    received: str  # RFC 3339 with microseconds
    decision: str  # of the authorizer: "allow" or "forbid"; admission refuses with 403 as well

    @property
    def writes(self) -> bool:
        """It changes something, if it is let."""
        return self.verb in WRITES

    @property
    def forbidden(self) -> bool:
        """It was refused for want of a right."""
        return self.code == 403


class AuditLog:
    """Reads the file; requests of one watch appear when it is answered, not when it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """Where the file ends now."""
        return self.path.stat().st_size if self.path.exists() else 0

    def events(self, *, since: int = 0) -> list[AuditEvent]:
        """One event per request, in the order of the answers."""
        if not self.path.exists():
            return []
        seen: set[str] = set()
        found = []
        with self.path.open("rb") as lines:
            lines.seek(since)
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # still being written
                entry = json.loads(line)
                # A watch has two stages, started and complete; the first one counts.
                if entry["auditID"] not in seen:
                    seen.add(entry["auditID"])
                    found.append(_event(entry))
        return found


def _event(entry: dict[str, Any]) -> AuditEvent:
    about = entry.get("objectRef") or {}
    status = entry.get("responseStatus") or {}
    return AuditEvent(
        user=(entry.get("user") or {}).get("username", ""),
        verb=entry.get("verb", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=int(status.get("code", 0)),
        uri=entry.get("requestURI", ""),
        group=about.get("apiGroup", ""),
        user_agent=entry.get("userAgent", ""),
        reason=str(status.get("message") or status.get("reason") or ""),
        received=entry.get("requestReceivedTimestamp", ""),
        decision=(entry.get("annotations") or {}).get("authorization.k8s.io/decision", ""),
    )
