"""The list of what is inside says what the locks say, and nothing else."""

import importlib.util
import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def document() -> Any:
    return tool().document()


def pinned(lock: str) -> set[tuple[str, str]]:
    found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE)
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in found}


def test_every_pin_is_a_component_and_every_component_a_pin(document: Any) -> None:
    listed = {(part["name"], part["version"]) for part in document["components"]}
    shipped = pinned("requirements.lock") | pinned("image/requirements.lock")
    assert listed == shipped | pinned("requirements-dev.lock")
    required = {p["name"] for p in document["components"] if p["scope"] == "required"}
    assert required == {name for name, _ in shipped}


def test_the_shape_is_that_of_cyclonedx(document: Any) -> None:
    assert (document["bomFormat"], document["specVersion"], document["version"]) == (
        *("CycloneDX", "1.5"),
        1,
    )
    assert uuid.UUID(document["serialNumber"].removeprefix("urn:uuid:"))
    references = [part["bom-ref"] for part in document["components"]]
    assert len(set(references)) == len(references)
    (ours,) = document["dependencies"]
    assert ours["ref"] == document["metadata"]["component"]["bom-ref"]
    assert set(ours["dependsOn"]) <= set(references)
    for part in document["components"]:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert part["properties"], part["name"]  # an unhashed pin could be anything
        assert all(re.fullmatch("[0-9a-f]{64}", p["value"]) for p in part["properties"])


def test_the_same_locks_give_the_same_bytes() -> None:
    command = [sys.executable, str(ROOT / "tools" / "sbom.py")]
    first, second = (subprocess.run(command, capture_output=True, check=True) for _ in range(2))
    assert first.stdout == second.stdout
    assert json.loads(first.stdout) == tool().document()
