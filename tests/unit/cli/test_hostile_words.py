"""What a person is told stays one line, whatever is in it, and never moves the terminal."""

import msgspec
import pytest

from runnerscale.app.problem import Problem
from runnerscale.cli.boundary import guarded, sentence
from runnerscale.kube.errors import ConfigError


def test_control_characters_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise Problem('the URL "https://h/a\r\nX: y\x1b[2J" is not one', "Write another")

    assert guarded("runnerscale", work, debug=False) == 1
    said = capsys.readouterr().err
    assert said == (
        'runnerscale: the URL "https://h/a\\r\\nX: y\\x1b[2J" is not one. Write another.\n'
    )


def test_a_kubeconfig_that_cannot_be_used_comes_with_what_to_do() -> None:
    code, text = sentence(ConfigError("cannot read kubeconfig /nope: No such file or directory"))
    assert code == 1
    assert text.endswith("Correct it, or name another with --kubeconfig.")


def test_a_value_without_end_is_no_internal_error() -> None:
    with pytest.raises(RecursionError) as caught:
        msgspec.json.decode(b"[" * 5000)
    code, text = sentence(caught.value)
    assert code == 1
    assert "nested too deeply" in text
