"""Every values file of the corpus is valid, wholly known, and renders."""

from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from runnerscale.chart_values.check import check
from runnerscale.chart_values.known import SHORT_NAMES, charts, ignored

from .render import render, render_notes
from .values_corpus import ALL_FILES, FOLDER, chart_of, short_of

FILES = pytest.mark.parametrize("file", ALL_FILES, ids=lambda file: file.stem)


def test_there_are_many_and_each_belongs_to_a_chart() -> None:
    assert len(ALL_FILES) >= 40
    assert sorted(FOLDER.iterdir()) == sorted(ALL_FILES)


@FILES
def test_a_file_fits_the_schema(file: Path) -> None:
    schema = charts()[short_of(file)].schema
    values = yaml.safe_load(file.read_text()) or {}
    assert list(jsonschema_rs.Draft7Validator(schema).iter_errors(values)) == []


@FILES
def test_a_file_has_no_problem_and_no_unknown_key(file: Path) -> None:
    report = check([(file.name, file.read_bytes())], chart=short_of(file), release="arc-test")
    assert [str(line) for line in report.lines if line.is_problem] == []


@FILES
def test_a_file_renders_and_the_notes_know_its_values(file: Path) -> None:
    documents = render(chart_of(file), [file], release="arc-test")
    assert documents
    assert all(d["metadata"]["name"] for d in documents)
    assert "not known" not in render_notes(chart_of(file), [file], release="arc-test")


@pytest.mark.parametrize("short", SHORT_NAMES)
def test_the_files_set_every_known_value(short: str) -> None:
    chart = charts()[short]
    given: set[tuple[str, ...]] = set()
    for file in ALL_FILES:
        if short_of(file) == short:
            note(yaml.safe_load(file.read_text()) or {}, (), given)
    known = {path for path, node in chart.paths() if not ignored(node)}
    assert known - given <= {("global",)}  # of a third chart that contains ours, and read by none


def note(value: object, path: tuple[str, ...], into: set[tuple[str, ...]]) -> None:
    """Write down every path of a map."""
    if isinstance(value, dict):
        for key, child in value.items():
            into.add((*path, str(key)))
            note(child, (*path, str(key)), into)
