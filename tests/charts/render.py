"""Render a chart as `helm template` would, in a millisecond or two and without a cluster.

The engine is Helm's own (v4, in helm-python-sdk). What it can and cannot do here:

- Values go in as a mapping, or as values files merged in order as `-f` does; `set_values` are
  `--set` expressions and win over both. Numbers reach the templates as float64, as numbers of a
  values file do with the helm binary. With the binary, numbers of `--set` are int64: that case
  only real helm can show (tests/kubernetes/test_..._chart_on_the_server.py).
- `lookup` is a list of the objects that are in the cluster. With it the engine asks a small API
  server on 127.0.0.1 in this process (`cluster_objects.py` beside this file), some 10 ms a
  render; without it `lookup` finds nothing, as offline.
- values.schema.json is checked, as by `helm template`; a violation is a `RenderError` as well.
- Hooks and `crds/` are not treated specially: a hook is an object with its annotation, and CRDs
  are not rendered (`helm_python.Chart.crds` has them).

Objects are read as the API server reads them, only stricter: a key given twice in a map is an
error, since the API server refuses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml
from helm_python import _native  # kube_version is an option of the library, not of its Python face

from .cluster_objects import cluster_with

CHARTS = Path(__file__).resolve().parents[2] / "charts"
CONTROLLER = CHARTS / "gha-runner-scale-set-controller"
SCALE_SET = CHARTS / "gha-runner-scale-set"

Values = Mapping[str, Any] | Sequence[Path]


class RenderError(Exception):
    """The chart refuses these values; `str()` is Helm's text."""


class Document(dict[str, Any]):
    """One rendered object: a plain dict that knows the template it comes from."""

    template: str  # such as `templates/deployment.yaml`

    @property
    def name(self) -> str:
        return str(self["metadata"]["name"])


def render(
    chart: Path,
    values: Values = {},  # noqa: B006 - never written
    *,
    release: str,
    namespace: str = "test-ns",
    kube_version: str = "1.31.0",
    lookup: Sequence[Mapping[str, Any]] | None = None,
    show: Sequence[str] = (),
    set_values: Sequence[str] = (),
    notes: bool = False,
    upgrade: bool = False,
) -> list[Document]:
    """The objects of a release, by template name and then in the order of the template.

    Args:
        chart: the chart's folder, such as `CONTROLLER`.
        values: a mapping, or values files.
        lookup: the objects that the template function `lookup` finds; None: there is no cluster.
        show: only these templates, by the end of their names (`deployment.yaml`).
        set_values: `--set` expressions.
        notes: append one more document `{"notes": the text of NOTES.txt}`.

    Raises:
        RenderError: a template fails, the schema is violated, or the result is no YAML.
    """
    documents: list[Document] = []
    texts = render_texts(
        chart,
        values,
        release=release,
        namespace=namespace,
        kube_version=kube_version,
        lookup=lookup,
        set_values=set_values,
        upgrade=upgrade,
    )
    for template, text in texts.items():
        if template.endswith("NOTES.txt") or (show and not template.endswith(tuple(show))):
            continue
        documents += parse(template, text)
    if notes:
        documents.append(_document("templates/NOTES.txt", {"notes": _notes(texts)}))
    return documents


def render_one(chart: Path, kind: str, values: Values = {}, **options: Any) -> Document:  # noqa: B006
    """The only object of that kind."""
    found = [d for d in render(chart, values, **options) if d.get("kind") == kind]
    assert len(found) == 1, f"{len(found)} objects of kind {kind}, expected one"
    return found[0]


def render_notes(chart: Path, values: Values = {}, **options: Any) -> str:  # noqa: B006
    """What NOTES.txt says after `helm install`."""
    return _notes(render_texts(chart, values, **options))


def render_texts(
    chart: Path,
    values: Values = {},  # noqa: B006
    *,
    release: str,
    namespace: str = "test-ns",
    kube_version: str = "1.31.0",
    lookup: Sequence[Mapping[str, Any]] | None = None,
    set_values: Sequence[str] = (),
    upgrade: bool = False,
) -> dict[str, str]:
    """The text of every template, by its path in the chart, sorted by path."""
    options = {
        "name": release,
        "namespace": namespace,
        "kube_version": f"v{kube_version.removeprefix('v')}",
        "is_install": not upgrade,
        "is_upgrade": upgrade,
    }
    given = json.dumps(merged_values(values, set_values))
    loaded = _loaded(chart)
    try:
        if lookup is None:
            answer = _native.call_string("helm_render", loaded._raw(), given, json.dumps(options))
        else:
            with cluster_with(lookup) as config:
                answer = _native.call_string(
                    "helm_render_with_config",
                    config._raw(),
                    loaded._raw(),
                    given,
                    json.dumps(options),
                )
    except helm_python.HelmError as error:
        raise RenderError(str(error)) from None
    texts = {name.partition("/")[2]: text for name, text in json.loads(answer).items()}
    return dict(sorted(texts.items()))


def merged_values(values: Values, set_values: Sequence[str] = ()) -> dict[str, Any]:
    """What the user gives, before the chart's defaults: files in order, then `--set`."""
    if isinstance(values, Mapping):
        result = deepcopy(dict(values))
    else:
        result = {}
        for path in values:
            try:
                _overlay(result, helm_python.values_from_yaml(path.read_text()))
            except helm_python.HelmError as error:
                raise RenderError(f"{path.name}: {error}") from None
    for expression in set_values:
        _overlay(result, helm_python.parse_set_string(expression))
    return result


def parse(template: str, text: str) -> list[Document]:
    """The objects in one rendered template."""
    try:
        found = list(yaml.load_all(text, Loader=_ObjectLoader))
    except yaml.YAMLError as error:
        raise RenderError(f"{template} renders no YAML: {error}\n{text}") from None
    return [_document(template, value) for value in found if value is not None]


def _document(template: str, value: dict[str, Any]) -> Document:
    document = Document(value)
    document.template = template
    return document


def _notes(texts: Mapping[str, str]) -> str:
    return next((t for name, t in texts.items() if name.endswith("NOTES.txt")), "")


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Maps are merged key by key; anything else replaces, null too (it deletes a default)."""
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            _overlay(below[key], value)
        else:
            below[key] = deepcopy(value)


def _loaded(chart: Path) -> helm_python.Chart:
    """The chart, read again only after a file of it has changed (a test may write a copy)."""
    files = sorted(p for p in chart.rglob("*") if p.is_file() and "crds" not in p.parts)
    return _load(chart, tuple((p, p.stat().st_mtime_ns) for p in files))


@cache
def _load(chart: Path, _files: tuple[tuple[Path, int], ...]) -> helm_python.Chart:
    try:
        return helm_python.Chart.load(chart)
    except helm_python.HelmError as error:
        raise RenderError(str(error)) from None


class _ObjectLoader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: no dates, `1e+06` is a number, no key twice in a map."""


def _map_without_twins(loader: _ObjectLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    loader.flatten_mapping(node)
    pairs = loader.construct_pairs(node, deep=True)
    keys = [key for key, _ in pairs]
    twins = sorted({str(key) for key in keys if keys.count(key) > 1})
    if twins:
        raise yaml.constructor.ConstructorError(
            None, None, f"keys given twice: {', '.join(twins)}", node.start_mark
        )
    return dict(pairs)


def _without_dates() -> dict[str, list[tuple[str, Any]]]:
    return {
        first: [(tag, pattern) for tag, pattern in rules if not tag.endswith(":timestamp")]
        for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


_ObjectLoader.yaml_implicit_resolvers = _without_dates()
_ObjectLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
_ObjectLoader.add_constructor("tag:yaml.org,2002:map", _map_without_twins)
