"""The renderer of the chart tests does what `helm template` does."""

from pathlib import Path

import pytest

from .render import RenderError, merged_values, parse, render, render_notes

TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
data:
  minor: {{ .Capabilities.KubeVersion.Minor | quote }}
  size: {{ .Values.size | int64 | quote }}
  gone: {{ hasKey .Values "gone" | quote }}
  {{- range (lookup "apps/v1" "Deployment" "" "").items }}
  {{ .metadata.name }}: {{ .metadata.namespace }}
  {{- end }}
{{- if .Values.refuse }}{{ fail "no, because of that" }}{{ end }}
---
apiVersion: v1
kind: Secret
metadata: {name: second}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("size: 1\ngone: here\nnested: {a: 1, b: 2}\n")
    (folder / "values.schema.json").write_text(
        '{"type": "object", "properties": {"size": {"type": "integer"}}}'
    )
    (folder / "templates" / "objects.yaml").write_text(TEMPLATE)
    (folder / "templates" / "NOTES.txt").write_text("{{ .Release.Name }} is {{ .Values.nested }}")
    return folder


def test_objects_know_their_template_and_the_release(chart: Path) -> None:
    config, secret = render(chart, release="rel", namespace="ns", kube_version="1.28.3")
    assert (config["metadata"], config["data"]["minor"]) == (
        {"name": "rel", "namespace": "ns"},
        "28",
    )
    assert (config.template, secret.name) == ("templates/objects.yaml", "second")


def test_values_files_and_set_expressions_are_merged_as_helm_does(
    chart: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    first.write_text("size: 2\nnested: {a: x}\n")
    second.write_text("gone: null\nnested: {c: [1]}\n")
    assert merged_values([first, second], ["size=3,nested.a=y"]) == {
        "size": 3,
        "gone": None,
        "nested": {"a": "y", "c": [1]},
    }
    data = render(chart, [first, second], release="rel", set_values=["size=98765432"])[0]["data"]
    assert data["size"] == "98765432"
    assert data["gone"] == "false"  # null takes the default away


def test_lookup_finds_the_given_objects_and_no_others(chart: Path) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "arc", "namespace": "arc-system"},
    }
    found = render(chart, release="rel", lookup=[deployment], kube_version="1.28.3")[0]["data"]
    assert (found["arc"], found["minor"]) == ("arc-system", "28")
    assert "arc" not in render(chart, release="rel", lookup=[])[0]["data"]
    assert "arc" not in render(chart, release="rel")[0]["data"]


def test_a_refusal_and_a_schema_violation_are_render_errors(chart: Path) -> None:
    with pytest.raises(RenderError, match="no, because of that"):
        render(chart, {"refuse": True}, release="rel")
    with pytest.raises(RenderError, match="size"):
        render(chart, {"size": "large"}, release="rel")
    with pytest.raises(RenderError):
        render(chart / "absent", release="rel")


def test_notes_and_single_templates(chart: Path) -> None:
    assert render_notes(chart, release="rel") == "rel is map[a:1 b:2]"
    *_, last = render(chart, release="rel", show=["objects.yaml"], notes=True)
    assert last == {"notes": "rel is map[a:1 b:2]"}
    assert render(chart, release="rel", show=["other.yaml"]) == []


def test_a_changed_chart_is_read_again(chart: Path) -> None:
    render(chart, release="rel")
    (chart / "templates" / "objects.yaml").write_text("kind: Changed\n")
    assert [d["kind"] for d in render(chart, release="rel")] == ["Changed"]


def test_objects_are_read_as_the_api_server_reads_them() -> None:
    assert parse("t", "a: 2020-01-01\nb: 1e+06\nc: yes") == [
        {"a": "2020-01-01", "b": 1000000.0, "c": True}
    ]
    with pytest.raises(RenderError, match="keys given twice: a"):
        parse("t", "a: 1\na: 2")
