"""A folder goes with all that is in it: deep, without rights, with links that lead elsewhere."""

import os
from pathlib import Path

import pytest

from runnerscale.core.tree_removal import remove_tree

DEEP = 1_100  # `shutil.rmtree` ends in a RecursionError below a thousand


def dig(top: Path, levels: int, name: str = "d") -> None:
    """Folders in folders; by handles, as the path would be too long for the kernel."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("name", "levels"), [("d", DEEP), ("d" * 200, 40)])  # no path that long
def test_a_folder_of_many_levels_goes(tmp_path: Path, name: str, levels: int) -> None:
    before = open_files()
    dig(tmp_path / "x", levels, name)
    (tmp_path / "x" / "file").write_text("x")
    assert remove_tree(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    assert open_files() == before


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    (kept / "file").write_text("x")
    doomed = tmp_path / "doomed"
    (doomed / "inner").mkdir(parents=True)
    (doomed / "folder").symlink_to(kept)
    (doomed / "inner" / "file").symlink_to(kept / "file")
    (doomed / "inner" / "up").symlink_to("..")
    os.link(kept / "file", doomed / "hard")
    os.mkfifo(doomed / "pipe")
    assert remove_tree(doomed)
    assert (kept / "file").read_text() == "x"
    assert kept.stat().st_mode & 0o777 == 0o755
    (tmp_path / "link").symlink_to(kept)
    assert remove_tree(tmp_path / "link")
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_the_right_to_change_a_folder_is_taken_back(tmp_path: Path) -> None:
    for name, mode in (("none", 0), ("read", 0o500), ("write", 0o300)):
        (tmp_path / "x" / name / "inner").mkdir(parents=True)
        (tmp_path / "x" / name / "inner" / "file").write_text("x")
        (tmp_path / "x" / name / "inner").chmod(mode)
        (tmp_path / "x" / name).chmod(mode)
    (tmp_path / "x").chmod(0)
    assert remove_tree(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_gone_and_a_file_goes(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "nothing" / "at all")
    (tmp_path / "file").write_text("x")
    assert remove_tree(str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_told_and_the_rest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.unlink

    def unlink(name: str, *, dir_fd: int) -> None:
        if name == "held":
            raise PermissionError(1, "held")
        real(name, dir_fd=dir_fd)

    for name in ("a", "b"):
        (tmp_path / "x" / name).mkdir(parents=True)
        (tmp_path / "x" / name / "file").write_text("x")
    (tmp_path / "x" / "a" / "held").write_text("x")
    monkeypatch.setattr(os, "unlink", unlink)
    assert not remove_tree(tmp_path / "x")
    assert [each.relative_to(tmp_path).as_posix() for each in sorted(tmp_path.rglob("*"))] == [
        "x",
        "x/a",
        "x/a/held",
    ]
