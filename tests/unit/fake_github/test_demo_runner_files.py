"""What a step left in its files: taken over, or one sentence."""

import os
from pathlib import Path

import pytest

from runnerscale.fake_github.demo_runner_files import (
    FILE_MAX,
    BadFile,
    read_env,
    read_path,
    write_fresh,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("A=1\n\nB=x=y\n", [("A", "1"), ("B", "x=y")]),
        ("A=\nC=a<<b", [("A", ""), ("C", "a<<b")]),
        ("L<<END\none\n\n  two\nEND\nB=2", [("L", "one\n\n  two"), ("B", "2")]),
        ("L<<END\nEND\n", [("L", "")]),
        ("A=1\r\nL<<END\r\nx\r\nEND\r\n", [("A", "1"), ("L", "x")]),
        ("A=\u2028 no end of a line", [("A", "\u2028 no end of a line")]),
    ],
)
def test_variables_are_lines_or_blocks(
    tmp_path: Path, text: str, expected: list[tuple[str, str]]
) -> None:
    file = tmp_path / "env"
    file.write_bytes(text.encode())
    assert read_env(str(file)) == expected


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"A=1\nnonsense", "has neither name=value nor name<<END in line 2"),
        (b"=1", "has neither name=value nor name<<END in line 1"),
        (b"<<END\nx\nEND", "has neither name=value nor name<<END in line 1"),
        (b"\nL<<END\nx\n", "no line 'END' that ends the value of line 2"),
        (b"A=1\nB=x\0y", "a NUL character in line 2"),
        (b"A=" + b"x" * FILE_MAX, "larger than 1024 KiB"),
    ],
)
def test_what_is_no_list_of_variables_is_refused_in_words(
    tmp_path: Path, data: bytes, says: str
) -> None:
    file = tmp_path / "env"
    file.write_bytes(data)
    with pytest.raises(BadFile, match=says):
        read_env(str(file))


def test_folders_are_lines_and_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "path"
    assert read_path(str(file)) == []  # removed: nothing was said
    file.write_bytes(b"/a b\n\n/c\r\n/\xff\n")
    assert read_path(str(file)) == ["/a b", "/c", "/\ufffd"]


def put_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def put_folder(path: Path) -> None:
    (path / "inner").mkdir(parents=True)


@pytest.mark.parametrize("put", [put_link, put_folder, os.mkfifo])
def test_what_is_no_plain_file_is_neither_waited_for_nor_kept(tmp_path: Path, put: object) -> None:
    assert callable(put)
    file = tmp_path / "file"
    put(file)
    with pytest.raises(BadFile, match="cannot be read"):
        read_path(str(file))
    write_fresh(str(file), "/x")
    assert read_path(str(file)) == ["/x"]
    assert file.is_file()
    assert not file.is_symlink()
