"""`runnerscale values check` on real files: exit codes, and one sentence for each bad file."""

import os
from pathlib import Path

import pytest

from runnerscale.cli.main import run

NOBODY = 65534
GOOD = "githubConfigUrl: https://github.com/my-org\ngithubConfigSecret: credentials\n"


def values_check(*words: str) -> int:
    return run("runnerscale", ["values", "check", *words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_good_values_are_one_line_and_exit_0(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "values.yaml").write_text(GOOD)
    assert values_check("values.yaml") == 0
    assert capsys.readouterr() == (
        "1 file as values of gha-runner-scale-set: 0 problems, 0 notes\n",
        "",
    )


def test_a_problem_is_exit_1_and_a_note_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "values.yaml").write_text(GOOD + "maxRuners: 5\n")
    assert values_check("values.yaml") == 1
    assert capsys.readouterr().out == (
        "values.yaml:3: maxRuners is not a value of this chart and changes nothing. "
        "Did you mean maxRunners?\n"
        "1 file as values of gha-runner-scale-set: 1 problem, 0 notes\n"
    )
    (folder / "values.yaml").write_text(GOOD + "nameOverride: x\n")
    assert values_check("values.yaml") == 0
    assert "0 problems, 1 note\n" in capsys.readouterr().out


def test_several_files_are_merged_in_either_spelling(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.yaml").write_text(GOOD + "minRunners: 3\n")
    (folder / "two.yaml").write_text("maxRunners: 2\n")
    assert values_check("one.yaml", "two.yaml") == 1
    first = capsys.readouterr().out
    assert values_check("-f", "one.yaml", "--values", "two.yaml") == 1
    assert capsys.readouterr().out == first
    assert first.startswith("one.yaml:3: minRunners is 3 and maxRunners 2")
    assert first.endswith("2 files as values of gha-runner-scale-set: 1 problem, 0 notes\n")
    (folder / "three.yaml").write_text("minRunners: 1\n")
    assert values_check("one.yaml", "two.yaml", "three.yaml") == 0
    assert values_check("three.yaml", "one.yaml", "two.yaml", "three.yaml") == 0


def test_the_chart_the_release_and_the_namespace_can_be_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "values.yaml").write_text("labels: {a: b}\n")
    assert values_check("values.yaml") == 1
    assert "Say which is meant with --chart" in capsys.readouterr().out
    assert values_check("values.yaml", "--chart", "controller") == 0
    (folder / "values.yaml").write_text(GOOD)
    assert values_check("values.yaml", "--release", "a" * 46) == 1
    assert values_check("values.yaml", "--namespace", "a" * 64) == 1
    capsys.readouterr()
    assert values_check("values.yaml", "--chart", "both") == 2
    assert "both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("absent.yaml", None, "the values file absent.yaml cannot be read: No such file"),
        (".", None, "the values file . cannot be read: Is a directory"),
        ("a\0b", None, "cannot be read"),
        ("list.yaml", b"- a\n", "list.yaml:1: the file holds a list at the top"),
        ("binary.yaml", bytes(range(256)), "binary.yaml:"),
        ("broken.yaml", b"a: [\n", "broken.yaml:2: this is not YAML"),
        ("huge.yaml", b"a: 1\n" * 1_000_000, "huge.yaml:1: the file is larger than"),
        ("empty.yaml", b"", "empty.yaml:1: no value is given"),
    ],
    ids=lambda part: str(part)[:20].replace("\0", "0"),
)
def test_a_bad_file_is_a_sentence_and_never_a_traceback(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    says: str,
) -> None:
    if content is not None:
        (folder / name).write_bytes(content)
    assert values_check(name) == 1
    said = capsys.readouterr()
    text = said.out + said.err
    assert says in text
    assert "Traceback" not in text
    assert "internal error" not in text


def test_an_endless_file_is_read_no_further_than_allowed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert values_check("/dev/zero") == 1
    assert "larger than" in capsys.readouterr().out


def test_a_file_that_may_not_be_read_is_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "values.yaml").write_text(GOOD)
    (folder / "values.yaml").chmod(0)
    user = os.geteuid()
    if user == 0:  # root may read everything: for a moment we are somebody else
        os.seteuid(NOBODY)
    try:
        assert values_check("values.yaml") == 1
    finally:
        os.seteuid(user)
    assert "Permission denied" in capsys.readouterr().err


def test_no_file_and_too_many_files_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert values_check() == 2
    assert "no values file is given" in capsys.readouterr().err
    assert values_check(*["v.yaml"] * 101) == 2


def test_a_terminal_is_told_nothing_it_would_obey(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "values.yaml").write_text(GOOD + '"\\e[2J\\nx": 1\n')
    assert values_check("values.yaml") == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def test_very_many_lines_are_counted_instead_of_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "values.yaml").write_text(GOOD + "".join(f"zz{n}: 1\n" for n in range(500)))
    assert values_check("values.yaml") == 1
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 201
    assert shown[-1].endswith("500 problems, 0 notes; the last 300 not shown")


def test_nothing_is_written(folder: Path) -> None:
    (folder / "values.yaml").write_text(GOOD)
    values_check("values.yaml")
    assert [path.name for path in folder.iterdir()] == ["values.yaml"]
    assert (folder / "values.yaml").read_text() == GOOD
