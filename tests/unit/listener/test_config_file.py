"""A configuration file that changes while the listener runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from runnerscale.core.clock import ManualClock
from runnerscale.listener.config import ConfigError, ListenerConfig, read_config
from runnerscale.listener.config_file import FILE_BYTES_MAX, ConfigFile, read_file
from tests.unit.listener.conftest import FILE, metrics, value


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "config.json"
        self.path.write_bytes(FILE)
        self.metrics = metrics()
        self.followed: list[ListenerConfig] = []
        self.file = ConfigFile(
            self.path, clock=ManualClock(), metrics=self.metrics, follow=self._follow
        )
        self.config = read_config(FILE)

    async def _follow(self, config: ListenerConfig) -> None:
        self.followed.append(config)

    def write(self, **changes: Any) -> None:
        self.path.write_text(json.dumps(json.loads(FILE) | changes))

    async def look(self) -> None:
        self.config = await self.file.look(self.config)

    def counted(self, result: str) -> float | None:
        return value(self.metrics, "runnerscale_listener_config_reloads_total", result=result)


async def test_a_changed_limit_is_followed_once(tmp_path: Path) -> None:
    this = Scene(tmp_path)
    await this.look()
    this.followed.clear()
    this.write(max_runners=3)
    await this.look()
    await this.look()
    assert [config.bounds.max_runners for config in this.followed] == [3]
    assert this.config.bounds.max_runners == 3


async def test_a_bad_file_is_told_once_and_the_last_good_one_stays(tmp_path: Path) -> None:
    this = Scene(tmp_path)
    await this.look()
    this.followed.clear()
    this.write(min_runners=99, github_token="ghp_secret")
    with structlog.testing.capture_logs() as lines:
        await this.look()
        await this.look()
    assert len(lines) == 1 and 'MinRunners "99"' in lines[0]["error"]
    assert "ghp_secret" not in str(lines)
    assert this.followed == [] and this.config.bounds.min_runners == 0
    assert this.counted("unusable") == 1


async def test_another_place_is_told_and_not_followed(tmp_path: Path) -> None:
    this = Scene(tmp_path)
    await this.look()
    this.followed.clear()
    this.write(runner_scale_set_id=8, max_runners=3)
    await this.look()
    assert this.followed == [] and this.config.scale_set_id == 7
    assert this.counted("other place") == 1


async def test_a_file_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    this = Scene(tmp_path)
    this.path.unlink()
    await this.look()
    assert this.followed == []


async def test_it_looks_every_few_seconds(tmp_path: Path) -> None:
    this = Scene(tmp_path)
    clock = ManualClock()
    looks = 0

    async def counting(config: ListenerConfig) -> None:
        raise StopIteration

    this.file = ConfigFile(this.path, clock=clock, metrics=this.metrics, follow=counting)
    this.write(max_runners=3)
    with pytest.raises(RuntimeError):  # StopIteration inside a coroutine
        await this.file.run(this.config, FILE)
    assert clock.slept_s == [5.0] and looks == 0


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*No such file"):
        read_file(tmp_path / "none.json")
    large = tmp_path / "large"
    large.write_bytes(b" " * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_file(large)
