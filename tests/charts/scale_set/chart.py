"""The scale-set chart as its tests ask for it: the contract's base values, and one change each.

The contract (C3 4.2) names release `test-runners` and these base values; a test says only what
it adds. `refusal` is what a person reads when the chart refuses; Helm's own prefix is cut off.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from tests.charts.render import (
    SCALE_SET,
    Document,
    RenderError,
    render,
    render_notes,
    render_one,
)

RELEASE = "test-runners"
NAMESPACE = "test-ns"
GHA = "actions.github.com/"
K = "app.kubernetes.io/"
PROTECTION = [GHA + "cleanup-protection"]
DEFAULT_IMAGE = "ghcr.io/actions/actions-runner:latest"
DEFAULT_RUNNER = {"name": "runner", "image": DEFAULT_IMAGE, "command": ["/home/runner/run.sh"]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CONTROLLER = {"name": "arc", "namespace": "arc-system"}
BASE: dict[str, Any] = {
    "githubConfigUrl": "https://github.com/actions",
    "githubConfigSecret": {"github_token": "gh_token12345"},
    "controllerServiceAccount": CONTROLLER,
}
KUBERNETES = {"type": "kubernetes", "kubernetesModeWorkVolumeClaim": CLAIM}
NOVOLUME = {"type": "kubernetes-novolume"}
DIND = {"type": "dind"}
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "dind": {"containerMode": DIND},
    "kubernetes": {"containerMode": KUBERNETES},
    "kubernetes-novolume": {"containerMode": NOVOLUME},
}

Values = Mapping[str, Any]


def values(extra: Values | None = None, /, **more: Any) -> dict[str, Any]:
    """The base values with top-level keys replaced."""
    return deepcopy({**BASE, **(extra or {}), **more})


def objects(extra: Values | None = None, /, **options: Any) -> list[Document]:
    """All objects of a release with the base values and these."""
    return render(SCALE_SET, values(extra), **{"release": RELEASE, **options})


def one(kind: str, extra: Values | None = None, /, **options: Any) -> Document:
    """The only object of a kind."""
    return render_one(SCALE_SET, kind, values(extra), **{"release": RELEASE, **options})


def named(kind: str, name: str, extra: Values | None = None, /, **options: Any) -> Document:
    """The object of a kind with a name."""
    found = [d for d in objects(extra, **options) if d["kind"] == kind and d.name == name]
    assert len(found) == 1, f"{len(found)} objects {kind} {name}"
    return found[0]


def names(kind: str, extra: Values | None = None, /, **options: Any) -> list[str]:
    """The names of all objects of a kind."""
    return [d.name for d in objects(extra, **options) if d["kind"] == kind]


def runner_set(extra: Values | None = None, /, **options: Any) -> Document:
    """The AutoscalingRunnerSet."""
    return one("AutoscalingRunnerSet", extra, **options)


def spec(extra: Values | None = None, /, **options: Any) -> dict[str, Any]:
    """Its spec."""
    return dict(runner_set(extra, **options)["spec"])


def annotations(extra: Values | None = None, /, **options: Any) -> dict[str, str]:
    """Its annotations."""
    return dict(runner_set(extra, **options)["metadata"]["annotations"])


def pod(extra: Values | None = None, /, **options: Any) -> dict[str, Any]:
    """The spec of the runner pods."""
    return dict(spec(extra, **options)["template"]["spec"])


def template(**pod_spec: Any) -> dict[str, Any]:
    """Values with this pod spec."""
    return {"template": {"spec": pod_spec}}


def container(pod_spec: Values, name: str = "runner", *, among: str = "containers") -> Any:
    """The container of that name."""
    found = [c for c in pod_spec[among] if c["name"] == name]
    assert len(found) == 1, f"{len(found)} containers {name} among {among}"
    return found[0]


def runner(extra: Values | None = None, /, **options: Any) -> dict[str, Any]:
    """The runner container."""
    return dict(container(pod(extra, **options)))


def refusal(extra: Values | None = None, /, **options: Any) -> str:
    """Why the chart refuses these values."""
    chart = options.pop("chart", SCALE_SET)
    with pytest.raises(RenderError) as refused:
        render(chart, values(extra), **{"release": RELEASE, **options})
    return str(refused.value).partition("): ")[2] or str(refused.value)


def notes(extra: Values | None = None, /, **options: Any) -> str:
    """What is printed after an installation."""
    return render_notes(SCALE_SET, values(extra), **{"release": RELEASE, **options})
