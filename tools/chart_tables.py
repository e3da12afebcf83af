"""What is made from the charts' values.yaml and values.schema.json.

- the table of values in each chart's README.md (between `<!-- values:begin -->` and `:end`);
- `templates/_unknown_values.tpl` of both charts, whose notes name unknown values;
- `src/runnerscale/chart_values/charts.json`, by which `runnerscale values check` does the same.

The form of values.yaml: directly above a key stands `# -- text`, continued by lines that begin
with `#` and four spaces; a key that is unset by default is commented out where it stands
(`# key: example`, with its real indentation), so that taking the `# ` away works in place.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from runnerscale.chart_values.known import (  # noqa: E402 - the path comes first
    SHORT_NAMES,
    Chart,
    ignored,
    known_tree,
)
from runnerscale.chart_values.nearest import (  # noqa: E402 - the path comes first
    ELSEWHERE_MIN,
    LIKENESS_MIN,
    SAME_PARENT_BONUS,
    WORD_LETTERS_MAX,
    in_order,
    names_twice,
)

CHARTS = ROOT / "charts"
CHART_NAMES = tuple(SHORT_NAMES.values())
PACKAGED = Path("src/runnerscale/chart_values/charts.json")
TEMPLATE = Path("templates/_unknown_values.tpl")

_DOC = re.compile(r"^( *)# -- (.*)$")
_MORE = re.compile(r"^( *)#    (.*)$")
_KEY = re.compile(r"^( *)(# )?([A-Za-z0-9_]+):(?: |$)")


@dataclass(slots=True)
class ValueKey:
    """One key of values.yaml."""

    path: tuple[str, ...]
    text: str  # what stands above it; empty for a map that explains itself by its keys
    is_set: bool  # False: commented out
    line: int = field(compare=False)


def chart_of(name: str) -> Chart:
    """A chart as its folder is now."""
    folder = CHARTS / name
    short = next(short for short, chart in SHORT_NAMES.items() if chart == name)
    return Chart(
        name,
        short,
        schema=json.loads((folder / "values.schema.json").read_text()),
        defaults=yaml.safe_load((folder / "values.yaml").read_text()),
    )


def value_keys(text: str) -> Iterator[ValueKey]:
    """The keys of a values.yaml in their order, those that are commented out too."""
    parents: list[tuple[int, str]] = []
    doc: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := _DOC.match(line):
            doc = [found[2].strip()]
        elif doc and (found := _MORE.match(line)):
            doc.append(found[2].strip())
        elif (found := _KEY.match(line)) and (doc or not found[2]):
            while parents and parents[-1][0] >= len(found[1]):
                parents.pop()
            parents.append((len(found[1]), found[3]))
            path = tuple(key for _, key in parents)
            yield ValueKey(path, " ".join(doc), is_set=not found[2], line=number)
            doc = []
        else:
            doc = []


def uncommented(text: str) -> str:
    """values.yaml with every unset key set to its example."""
    lines = []
    in_example = False
    for line in text.splitlines():
        stripped = line.lstrip()
        is_key = bool(re.match(r"# [A-Za-z0-9_]+:(?: |$)", stripped))
        if stripped.startswith("# -- ") or not stripped.startswith("#"):
            in_example = False
        if is_key or (in_example and re.match("#  +", stripped)):
            in_example = True
            lines.append(line.replace("# ", "", 1))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def readme_table(chart: Chart, text: str) -> str:
    """The table, a row for each documented key."""
    keys = [key for key in value_keys(text) if key.text]
    parents = {key.path[:length] for key in keys for length in range(len(key.path))}
    rows = ["| value | type | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        node = _node(chart, key.path)
        value = _default(chart, key)
        kind = _type_name(node) if node is not None else _kind(value)
        if not key.is_set or value is None:
            default = "unset"
        elif key.path in parents:
            default = ""  # its keys have rows of their own
        else:
            default = f"`{json.dumps(value)}`"
        cells = [f"`{'.'.join(key.path)}`", kind, default, key.text]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _default(chart: Chart, key: ValueKey) -> Any:
    value: Any = chart.defaults
    for part in key.path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _node(chart: Chart, path: tuple[str, ...]) -> Any:
    """What the schema says of a key, below a free-form map too; None: nothing."""
    node: Any = chart.schema
    for key in path:
        node = chart.resolved(node).get("properties", {}).get(key)
        if node is None:
            return None
    return chart.resolved(node)


def _type_name(node: Any) -> str:
    if ignored(node):
        return "any, ignored"
    if "enum" in node:
        return "one of " + ", ".join(f"`{one}`" for one in node["enum"] if one)
    names = node["type"] if isinstance(node["type"], list) else [node["type"]]
    words = {
        "object": "map",
        "array": "list",
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "bool",
    }
    shown = [words[name] for name in names if name != "null"]
    if "text" in shown and "pattern" in node:  # digits in quotes
        shown.remove("text")
    elif "text" in shown and {"number", "whole number"} & set(shown):
        shown = ["text"]
    return " or ".join(shown)


def _kind(value: Any) -> str:
    kinds = {dict: "map", list: "list", str: "text", bool: "bool"}
    return kinds.get(type(value), "number")


def packaged() -> str:
    """Schema and defaults of both charts, for the package."""
    data = {}
    for name in CHART_NAMES:
        chart = chart_of(name)
        data[name] = {"schema": chart.schema, "defaults": chart.defaults}
    return json.dumps(data, indent=1) + "\n"


def template() -> str:
    """`_unknown_values.tpl`, the same text in both charts: see its head."""
    known = {}
    for name in CHART_NAMES:
        chart = chart_of(name)
        paths = in_order([path for path, node in chart.paths() if not ignored(node)])
        known[name] = {
            "tree": known_tree(chart),
            "paths": [".".join(path) for path in paths],
            "twice": sorted(names_twice(paths)),
        }
    text = (ROOT / "tools" / "unknown_values.tpl").read_text()
    facts = {
        "@KNOWN@": json.dumps(known, indent=1),
        "@LIKENESS_MIN@": str(LIKENESS_MIN),
        "@ELSEWHERE_MIN@": str(ELSEWHERE_MIN),
        "@SAME_PARENT_BONUS@": str(SAME_PARENT_BONUS),
        "@WORD_LETTERS_MAX@": str(WORD_LETTERS_MAX),
    }
    for mark, fact in facts.items():
        text = text.replace(mark, fact)
    return text
