"""A pod's names and what a job leaves behind lead nowhere outside of its own folder."""

import stat
from pathlib import Path
from typing import Any

import pytest

from runnerscale.core.clock import SystemClock
from runnerscale.fake_github.demo_runner import fresh_folder, remove_folder
from runnerscale.node.attempt_files import NodeFolder, PodRef
from runnerscale.node.config import NodeConfig
from runnerscale.node.processes import MountRequest, ProcessSpec, StartFailed, VolumeFile
from runnerscale.node.system_processes import SystemProcesses
from runnerscale.node.volume_files import write_volume
from tests.unit.apiserver.harness import PODS, Api, pod, serving

FILES = {"key": VolumeFile(b"new")}


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of the user's that must stay as it is."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o750)
    (folder / "thesis").write_text("precious")
    return folder


def untouched(folder: Path) -> bool:
    return (folder / "thesis").read_text() == "precious" and folder.stat().st_mode & 0o777 == 0o750


async def refused(api: Api, body: Any) -> bool:
    return (await api.create(PODS, body)).code == 422


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "/etc", "x\x00"])
async def test_names_that_become_folders_are_names_only(name: str) -> None:
    async with serving() as api:
        assert await refused(api, pod("p", volumes=[{"name": name, "emptyDir": {}}]))
        container = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": name}]}}
        assert await refused(api, container)
        assert (await api.create(PODS, pod(name))).code in (400, 422)


@pytest.mark.parametrize("target", ["/home", "../home", "..version_1/../../home", "..version_x"])
def test_a_link_in_the_place_of_a_volume_is_not_followed(
    tmp_path: Path, precious: Path, target: str
) -> None:
    volume = tmp_path / "volume"
    write_volume(volume, {"key": VolumeFile(b"old")})
    (volume / "..data").unlink()
    (volume / "..data").symlink_to(str(precious) if target == "/home" else target)
    assert write_volume(volume, FILES)
    assert (volume / "key").read_bytes() == b"new"
    assert untouched(precious)


@pytest.mark.parametrize("name", ["key", "..version_1", "..data", "..data_new", "other"])
@pytest.mark.parametrize("kind", ["link", "folder", "file"])
def test_whatever_a_job_put_in_the_way_gives_way(
    tmp_path: Path, precious: Path, name: str, kind: str
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    if kind == "link":
        (volume / name).symlink_to(precious)
    elif kind == "folder":
        (volume / name / "deep").mkdir(parents=True)
    else:
        (volume / name).write_text("in the way")
    assert write_volume(volume, FILES)
    assert (volume / "key").read_bytes() == b"new"
    assert {entry.name for entry in volume.iterdir() if entry.name[0] != "."} == {"key"}
    assert untouched(precious)


def test_removing_a_pod_follows_no_link_that_its_job_left(tmp_path: Path, precious: Path) -> None:
    folder = NodeFolder(tmp_path / "node")
    folder.admit(PodRef("ns", "p", "u1"), 5)
    work = folder.work("u1", "runner")
    work.mkdir(parents=True)
    (work / "link").symlink_to(precious)
    (work / "locked").mkdir()
    (work / "locked" / "inside").symlink_to(precious)
    (work / "locked").chmod(0o500)
    folder.remove("u1")
    assert not folder.pod("u1").exists() and not any((tmp_path / "node/removed").iterdir())
    assert untouched(precious)


def test_a_pod_folder_that_was_replaced_by_a_link_is_removed_as_a_link(
    tmp_path: Path, precious: Path
) -> None:
    folder = NodeFolder(tmp_path / "node")
    folder.pods.mkdir(parents=True)
    folder.pod("u1").symlink_to(precious)
    folder.remove("u1")
    assert untouched(precious)
    assert not any((tmp_path / "node/removed").iterdir())


def test_a_sub_path_through_a_link_does_not_leave_its_volume(
    tmp_path: Path, precious: Path
) -> None:
    processes = SystemProcesses(tmp_path / "node", config=NodeConfig(), clock=SystemClock())
    volume = NodeFolder(tmp_path / "node").volume("u1", "work")
    volume.mkdir(parents=True)
    (volume / "out").symlink_to(precious)
    (volume / "in").mkdir()
    (volume / "here").symlink_to("in")

    def binds(sub_path: str) -> list[str]:
        mount = MountRequest(volume="work", path="/mnt", sub_path=sub_path)
        pod_ref = PodRef("ns", "p", "u1")
        spec = ProcessSpec(pod=pod_ref, container="c", argv=("true",), env={}, mounts=(mount,))
        return [bind.source for bind in processes._binds(spec)]

    assert binds("here") == [str(volume / "in")]
    for sub_path in ("out", "out/new"):
        with pytest.raises(StartFailed) as caught:
            binds(sub_path)
        assert "leads out of volume" in caught.value.message
    assert untouched(precious)
    assert not (precious / "new").exists()


@pytest.mark.parametrize("wanted", ["../../etc", "_work", "", "/proc/no-such-place", "a/../../b"])
def test_a_work_folder_is_new_private_and_where_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    first, second = Path(fresh_folder(wanted)), Path(fresh_folder(wanted))
    assert first.parent == second.parent == tmp_path
    assert first != second  # nobody can put something there before
    assert stat.S_IMODE(first.stat().st_mode) == 0o700


def test_an_absolute_work_folder_gets_a_folder_of_its_own_in_it(tmp_path: Path) -> None:
    made = Path(fresh_folder(str(tmp_path / "work")))
    assert made.parent == tmp_path / "work"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_removing_a_work_folder_follows_no_link_that_its_job_left(
    tmp_path: Path, precious: Path
) -> None:
    folder = Path(fresh_folder(str(tmp_path)))
    (folder / "link").symlink_to(precious)
    (folder / "deep").mkdir()
    (folder / "deep" / "link").symlink_to(precious / "thesis")
    (folder / "deep" / "loop").symlink_to(folder)
    remove_folder(str(folder))
    assert not folder.exists()
    assert untouched(precious)
