"""Which values a chart knows: its schema, walked by everyone in this room.

The schemas are draft-07 with two marks of ours: `x-free-form` on a map whose keys are the
user's own although some have types, and `x-ignored` (with the reason) on a key that ARC's
values files carry and that changes nothing here. A map without `properties` is free-form too.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

Node = Mapping[str, Any]  # one node of a schema
Path = tuple[str, ...]  # keys from the top of the values

REFERENCE = "#/definitions/"


@dataclass(frozen=True, slots=True)
class Chart:
    """What the charts' folder says about one chart's values."""

    name: str
    short: str  # how a person calls it on the command line
    schema: Node = field(repr=False)
    defaults: Mapping[str, Any] = field(repr=False)

    def resolved(self, node: Node) -> Node:
        """The node itself, or the definition it points to."""
        reference = node.get("$ref")
        if reference is None:
            return node
        found: Node = self.schema["definitions"][str(reference).removeprefix(REFERENCE)]
        return found

    def children(self, node: Node) -> Mapping[str, Node]:
        """The keys whose names are fixed below a node; none where they are the user's own."""
        resolved = self.resolved(node)
        if resolved.get("x-free-form"):
            return {}
        properties: Mapping[str, Node] = resolved.get("properties", {})
        return properties

    def paths(self) -> Iterator[tuple[Path, Node]]:
        """Every known path with its node, parents before children."""
        yield from self._below((), self.schema)

    def _below(self, path: Path, node: Node) -> Iterator[tuple[Path, Node]]:
        for key, child in self.children(node).items():
            yield (*path, key), self.resolved(child)
            yield from self._below((*path, key), child)


def ignored(node: Node) -> str:
    """Why a known key changes nothing; empty for the usual key."""
    return str(node.get("x-ignored", ""))


SHORT_NAMES = {
    "controller": "gha-runner-scale-set-controller",
    "scale-set": "gha-runner-scale-set",
}


@cache
def charts() -> Mapping[str, Chart]:
    """The charts by the names that the command line takes."""
    data = json.loads(files("runnerscale.chart_values").joinpath("charts.json").read_bytes())
    return {
        short: Chart(name, short, schema=data[name]["schema"], defaults=data[name]["defaults"])
        for short, name in SHORT_NAMES.items()
    }


def known_tree(chart: Chart, node: Node | None = None) -> dict[str, Any]:
    """The keys as nested maps: text (empty, or why it is ignored) where nothing is below."""
    tree: dict[str, Any] = {}
    for key, child in chart.children(chart.schema if node is None else node).items():
        below = known_tree(chart, child)
        tree[key] = below or ignored(chart.resolved(child))
    return tree
