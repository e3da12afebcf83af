"""tools/kube.py: where the real Kubernetes is kept, and what is said when it cannot be built."""

from pathlib import Path

import pytest
from tools import kube


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module for each program's, with its requirement only."""
    for program in kube.PROGRAMS:
        folder = tmp_path / "modules" / program.module
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "go.mod").open("a") as text:
            text.write(f"require {program.version_of} v1.2.3\n")
        (folder / "go.sum").write_text("")
    monkeypatch.setattr(kube, "MODULES", tmp_path / "modules")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RUNNERSCALE_KUBE_DIR", raising=False)
    return tmp_path / "modules"


def test_the_versions_are_those_of_the_modules() -> None:
    versions = {program.name: program.version() for program in kube.PROGRAMS}
    assert versions == {
        "etcd": "v3.6.16",
        "helm": "v3.22.0",
        "kube-apiserver": "v1.36.3",
        "kube-controller-manager": "v1.36.3",
    }


def test_a_binary_says_the_version_of_its_module(modules: Path) -> None:
    flags = {program.name: program.linker_flags() for program in kube.PROGRAMS}
    assert "component-base/version.gitVersion=v1.2.3 " in flags["kube-apiserver"]
    assert "component-base/version.gitMinor=2 " in flags["kube-apiserver"]
    assert "internal/version.version=v1.2.3 " in flags["helm"]


def test_changed_sources_are_another_folder_and_the_same_are_the_same(modules: Path) -> None:
    before = kube.bin_dir()
    assert before == kube.bin_dir()
    assert before.is_relative_to(modules.parent / "cache" / "runnerscale")
    (modules / "helm" / "go.sum").write_text("another sum\n")
    assert kube.bin_dir() != before


def test_the_folder_can_be_named(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNERSCALE_KUBE_DIR", "/somewhere")
    assert kube.bin_dir() == Path("/somewhere/bin")


def test_what_is_built_is_not_built_again(
    modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kube.bin_dir().mkdir(parents=True)
    for program in kube.PROGRAMS:
        (kube.bin_dir() / program.name).write_text("")
    monkeypatch.setenv("PATH", "")  # not even Go is needed then
    kube.build()
    assert capsys.readouterr().out.count("already built") == len(kube.PROGRAMS)


def test_without_go_it_says_what_is_missing(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(modules))
    with pytest.raises(SystemExit, match=r"cannot build etcd, helm, kube-apiserver, .*no `go`"):
        kube.build()


def test_a_go_that_is_too_old_is_named(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = modules / "go"
    go.write_text("#!/bin/sh\necho go1.19.8\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{modules}:/usr/bin:/bin")
    assert kube.no_toolchain() == f"{go} is go1.19.8: Go 1.26 or newer is needed"


def test_a_build_that_fails_leaves_nothing_that_looks_built(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = modules / "go"
    go.write_text('#!/bin/sh\ntest "$1" = env && echo go1.26.8 && exit 0\nexit 1\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{modules}:/usr/bin:/bin")
    with pytest.raises(SystemExit, match="etcd was not built"):
        kube.build()
    assert [program.name for program in kube.missing()] == [p.name for p in kube.PROGRAMS]
