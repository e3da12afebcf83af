"""The list of what is inside: a CycloneDX 1.5 document from the lock files. No network.

Names, versions and hashes come from the locks; a licence is told where the package is installed
here and says one. The document is the same for the same locks: no time, its number from content.
"""

import argparse
import hashlib
import importlib.metadata
import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "requirements.lock": "required",
    "image/requirements.lock": "required",  # the image has the vault's client besides
    "requirements-dev.lock": "excluded",
}
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
LICENCE_CHARS_MAX = 60  # longer is a whole text and no name


def pins(text: str) -> dict[tuple[str, str], list[str]]:
    """Hashes by name and version."""
    found: dict[tuple[str, str], list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        pin = PIN.match(line)
        if pin:
            current = found.setdefault((normal(pin[1]), pin[2]), [])
        current += HASH.findall(line)
    return found


def normal(name: str) -> str:
    """One spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(name: str, version: str) -> str:
    """The licence that the installed package of that version names; empty: not told."""
    try:
        said = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    if said["Version"] != version:
        return ""
    text = (said["License-Expression"] or said["License"] or "").strip()
    if text and "\n" not in text and len(text) <= LICENCE_CHARS_MAX:
        return text
    classes = [c for c in said.get_all("Classifier") or () if c.startswith("License ::")]
    return classes[0].rpartition(":: ")[2] if classes else ""


def component(name: str, version: str, hashes: list[str], scope: str) -> dict[str, Any]:
    """One package."""
    purl = f"pkg:pypi/{name}@{version}"
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": scope,
        "purl": purl,
        # Of the files that may be installed: a package has one for each kind of machine.
        "properties": [
            {"name": "runnerscale:lock:sha256", "value": value} for value in sorted(hashes)
        ],
    }
    licence = licence_of(name, version)
    if licence:
        made["licenses"] = [{"license": {"name": licence}}]
    return made


def document(folder: Path = ROOT) -> dict[str, Any]:
    """The whole list."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    parts: dict[str, dict[str, Any]] = {}
    for lock, scope in LOCKS.items():
        for (name, version), hashes in pins((folder / lock).read_text()).items():
            made = component(name, version, hashes, scope)
            parts.setdefault(made["purl"], made)
    components = [parts[purl] for purl in sorted(parts)]
    content = json.dumps(components, sort_keys=True).encode()
    number = uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)
    ours = f"pkg:pypi/{project['name']}@{project['version']}"
    required = [part["purl"] for part in components if part["scope"] == "required"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": project["name"],
                "version": project["version"],
                "purl": ours,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": ours, "dependsOn": required}],
    }


def main() -> int:
    """Write it to a file, or to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="the file; without it, standard output")
    output = parser.parse_args().output
    text = json.dumps(document(), indent=2) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
