"""What an API server serves of one group: which resources, and which fields it keeps of each.

Asked of discovery and of the OpenAPI document, which everybody may read who is logged in. A
CustomResourceDefinition itself may be read by few; what follows from it is all we need. Which
resources and fields there should be is the caller's business (`app/api_check.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runnerscale.kube.client import KubeClient
from runnerscale.kube.errors import BadAnswer, NotFound

TIMEOUT_S = 90.0  # longer than an exec plugin may take, so that its own complaint is heard


@dataclass(frozen=True, slots=True)
class Fields:
    """The members of a kind's parts; None: the part keeps whatever it is given."""

    parts: Mapping[str, frozenset[str] | None]

    def lost(self, part: str, names: frozenset[str]) -> list[str]:
        """Which of these members the server would drop, as `part.name`."""
        kept = self.parts.get(part, frozenset())
        return [] if kept is None else [f"{part}.{name}" for name in sorted(names - kept)]


async def served_resources(client: KubeClient, group: str, version: str) -> frozenset[str]:
    """Names such as `pods` and `pods/status`; empty when the group is not there at all.

    Raises:
        KubeError: no answer, or no.
    """
    try:
        answer = await client.get_raw(f"/apis/{group}/{version}", timeout_s=TIMEOUT_S)
    except NotFound:
        return frozenset()
    try:
        return frozenset(str(each["name"]) for each in answer["resources"])
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"/apis/{group}/{version} is no list of resources") from error


async def served_fields(client: KubeClient, group: str, version: str) -> dict[str, Fields]:
    """By kind, what the server keeps of its parts (`spec`, `status`).

    Raises:
        KubeError: no answer, or no.
    """
    path = f"/openapi/v3/apis/{group}/{version}"
    answer = await client.get_raw(path, timeout_s=TIMEOUT_S)
    try:
        schemas = answer["components"]["schemas"].values()
        return {
            kind: fields for schema in schemas for kind, fields in _kinds_of(schema, group, version)
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise BadAnswer(f"{path} is no OpenAPI document") from error


def _kinds_of(schema: Mapping[str, Any], group: str, version: str) -> list[tuple[str, Fields]]:
    properties = schema.get("properties")
    if not properties:
        return []
    parts = {name: _members(properties[name]) for name in ("spec", "status") if name in properties}
    return [
        (str(each["kind"]), Fields(parts))
        for each in schema.get("x-kubernetes-group-version-kind", ())
        if (each["group"], each["version"]) == (group, version)
    ]


def _members(part: Mapping[str, Any]) -> frozenset[str] | None:
    if part.get("x-kubernetes-preserve-unknown-fields"):
        return None
    return frozenset(part.get("properties") or ())
