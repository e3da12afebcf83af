"""A wrong configuration is one sentence with the field in it."""

from pathlib import Path

import pytest

from runnerscale.node.config import MountMode, NodeConfigError, decode_config, read_config


def test_yaml_becomes_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text("pods_max: 7\nmounts: rewrite\nimages:\n  - pattern: '*'\n    cmd: [sleep]\n")
    config = read_config(path)
    assert (config.pods_max, config.mounts) == (7, MountMode.REWRITE)
    assert config.images[0].cmd == ("sleep",)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"pods_max": 0}, "pods_max is 0"),
        ({"pods_max": "many"}, r"pods_max"),
        ({"podsMax": 1}, "podsMax"),
        ({"mounts": "magic"}, "mounts"),
        ({"images": [{"pattern": ""}]}, "no pattern"),
        ({"token_lifetime_s": 10}, "token_lifetime_s is 10"),
    ],
)
def test_what_is_wrong_is_named(document: object, said: str) -> None:
    with pytest.raises(NodeConfigError, match=said):
        decode_config(document)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeConfigError, match=r"absent\.yaml: cannot be read"):
        read_config(tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(NodeConfigError, match=r"bad\.yaml"):
        read_config(tmp_path / "bad.yaml")
