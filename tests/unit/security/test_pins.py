"""What is installed is what was looked at: exact pins with hashes, from nowhere in particular."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ["requirements.lock", "requirements-dev.lock", "image/requirements.lock"]
FLOORS = tomllib.loads((Path(__file__).parent / "known_advisories.toml").read_text())
PIN = re.compile(r"([a-z0-9][a-z0-9._-]*)==([^\s;]+)( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")


def entries(lock: str) -> list[str]:
    """One line for each entry, without comments."""
    text = re.sub(r"\s*\\\n\s*", " ", (ROOT / lock).read_text())
    lines = [re.sub(r"\s+#.*$", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def versions(lock: str) -> dict[str, Version]:
    found = {}
    for line in entries(lock):
        match = PIN.fullmatch(line)
        assert match is not None, line
        found[match[1]] = Version(match[2])
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_is_one_version_with_its_hashes_and_nothing_else(lock: str) -> None:
    # No index, no link, no path, no option: only what the hashes say can be installed.
    names = list(versions(lock))
    assert len(names) > 5
    assert len(names) == len(entries(lock)) == len(set(names))


def test_a_package_has_one_version_wherever_it_is_pinned() -> None:
    seen: dict[str, Version] = {}
    for lock in LOCKS:
        for name, version in versions(lock).items():
            assert seen.setdefault(name, version) == version, (lock, name)


@pytest.mark.parametrize("lock", LOCKS)
def test_no_pin_is_a_release_before_a_release(lock: str) -> None:
    assert [name for name, version in versions(lock).items() if version.is_prerelease] == []


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_no_pin_goes_back_below_a_known_advisory(name: str) -> None:
    floor = Version(FLOORS[name]["fixed"])
    pinned = [found[name] for lock in LOCKS if name in (found := versions(lock))]
    assert pinned, f"{name} is not pinned any more: take it out of the list"
    assert all(version >= floor for version in pinned), FLOORS[name]["why"]


def test_everything_that_installs_asks_for_hashes() -> None:
    places = [ROOT / "Makefile", ROOT / "Dockerfile", ROOT / ".ci/run"]
    places += [p for folder in ("image", "tools") for p in (ROOT / folder).iterdir() if p.is_file()]
    installing = {}
    for path in places:
        text = path.read_text().replace("\\\n", " ")
        lines = [line.strip() for line in text.splitlines() if "pip install" in line]
        if lines:
            installing[path.relative_to(ROOT).as_posix()] = lines
    assert set(installing) == {"Makefile", "image/build.sh"}
    for path, lines in installing.items():
        for line in lines:
            ours = re.search(r"--no-deps.* --editable \.$", line)
            assert "--require-hashes" in line or ours, (path, line)
