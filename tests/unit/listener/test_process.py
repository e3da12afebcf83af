"""A whole listener process: configuration in, signals in, exit code out."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.labels import LISTENER_TROUBLE
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import PlaceTrouble
from runnerscale.listener.process import (
    EXIT_CONFIG,
    EXIT_STOPPED,
    Ended,
    owner_name,
    run_listener,
)
from runnerscale.scaleset.credentials import PersonalAccessToken, personal_access_token
from runnerscale.scaleset.errors import InvalidCertificate, ScaleSetError
from tests.unit.listener.conftest import FILE
from tests.unit.listener.fakes import FakeGitHub, FakeSession, TinyApi, clock

Run = Callable[[Coroutine[Any, Any, Any]], Any]
VAULT = {
    "vault_type": "azure_key_vault",
    "vault_lookup_key": "item",
    "azure_key_vault": {
        "tenant_id": "t",
        "client_id": "c",
        "url": "https://v",
        "certificate_path": "/c",
    },
}


class FakeWiring:
    def __init__(self) -> None:
        self.session = FakeSession()
        self.github = FakeGitHub(self.session)
        self.api = TinyApi()
        self.api.put(EPHEMERAL_RUNNER_SETS, "default", "set", spec={"patchID": 0})
        self.logging: list[tuple[str, str]] = []
        self.credentials: Any = None
        self.client_error: ScaleSetError | None = None
        self.vault: list[str | PlaceTrouble] = []

    def configure_logging(self, level: str, log_format: str) -> None:
        self.logging.append((level, log_format))

    @asynccontextmanager
    async def scale_set_client(self, config: Any, credentials: Any) -> AsyncIterator[Any]:
        if self.client_error is not None:
            raise self.client_error
        self.credentials = credentials
        yield self.github

    @asynccontextmanager
    async def kube_client(self) -> AsyncIterator[Any]:
        yield self.api

    async def vault_item(self, vault: Any, name: str) -> SecretText:
        assert name == "item"
        found = self.vault.pop(0) if len(self.vault) > 1 else self.vault[0]
        if isinstance(found, PlaceTrouble):
            raise found
        return SecretText(found)


def write(tmp_path: Path, **changes: Any) -> dict[str, str]:
    members = {k: v for k, v in (json.loads(FILE) | changes).items() if v is not None}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(members))
    return {"LISTENER_CONFIG_PATH": str(path)}


async def started(environ: dict[str, str], wiring: FakeWiring) -> asyncio.Task[Ended]:
    task = asyncio.get_running_loop().create_task(
        run_listener(
            environ,
            wiring,  # type: ignore[arg-type]
            clock=clock(),
            random=seeded(1),
            host_name=lambda: "the-pod",
        )
    )
    await asyncio.sleep(1)
    return task


async def ended(environ: dict[str, str], wiring: FakeWiring | None = None) -> Ended:
    return await (await started(environ, wiring or FakeWiring()))


async def cancelled(task: asyncio.Task[Ended]) -> None:
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.behaviour("C2 T193")
def test_without_the_variable_it_ends_and_names_it(run_virtual: Run) -> None:
    end = run_virtual(ended({}))
    assert end.code == EXIT_CONFIG and "LISTENER_CONFIG_PATH" in end.error


@pytest.mark.behaviour("C2 T170")
def test_a_missing_file_ends_it_with_its_name(run_virtual: Run) -> None:
    end = run_virtual(ended({"LISTENER_CONFIG_PATH": "/nowhere/config.json"}))
    assert end.code == EXIT_CONFIG and "/nowhere/config.json" in end.error


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"min_runners": 99}, 'MinRunners "99"'),
        ({"configure_url": "https://github.com"}, "invalid config URL"),
        ({"log_level": "loud"}, "invalid log level: loud"),
        ({"github_token": "two words"}, "the GitHub token contains a blank"),
    ],
)
def test_a_configuration_that_cannot_be_used_ends_it_with_one_sentence(
    changes: dict[str, Any], text: str, tmp_path: Path, run_virtual: Run
) -> None:
    end = run_virtual(ended(write(tmp_path, **changes)))
    assert end.code == EXIT_CONFIG and text in end.error and "two words" not in end.error


@pytest.mark.behaviour("C2 T176")
def test_a_root_certificate_that_is_none_ends_it(tmp_path: Path, run_virtual: Run) -> None:
    wiring = FakeWiring()
    wiring.client_error = InvalidCertificate("failed to parse root certificate")
    end = run_virtual(ended(write(tmp_path), wiring))
    assert end.code == EXIT_CONFIG and "failed to parse root certificate" in end.error


@pytest.mark.behaviour("C2 T194", "C2 T128")
async def test_sigterm_gives_the_session_back_and_ends_with_zero(tmp_path: Path) -> None:
    wiring = FakeWiring()
    task = await started(write(tmp_path), wiring)
    assert wiring.github.opened == [(7, "the-pod")]
    assert wiring.credentials == personal_access_token("t")
    assert wiring.logging == [("debug", "text")]
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(10):
        end = await task
    assert end == Ended(EXIT_STOPPED)
    assert wiring.session.did("close")


@pytest.mark.behaviour("C2 T128")
def test_without_a_host_name_the_owner_is_a_random_id() -> None:
    def nameless() -> str:
        raise OSError("no name")

    for host_name in (nameless, lambda: ""):
        name = owner_name(host_name, seeded(3))
        assert len(name) == 36 and name.count("-") == 4


def test_rotated_credentials_and_other_settings_reach_the_running_listener(
    tmp_path: Path, run_virtual: Run
) -> None:
    async def scene() -> None:
        wiring = FakeWiring()
        task = await started(write(tmp_path), wiring)
        write(tmp_path, github_token="new", log_level="info", max_runners=4)
        await asyncio.sleep(6)
        assert wiring.github.credentials == [personal_access_token("new")]
        assert wiring.logging == [("debug", "text"), ("info", "text")]
        await asyncio.sleep(60)
        assert wiring.session.did("poll")[-1] == (0, 4)
        assert len(wiring.github.opened) == 1
        write(tmp_path, github_token="bad token", max_runners=4)
        await asyncio.sleep(6)
        assert len(wiring.github.credentials) == 1  # the last good ones stay
        assert not task.done()
        await cancelled(task)

    run_virtual(scene())


def test_a_vault_is_read_at_the_start_and_every_minute(tmp_path: Path, run_virtual: Run) -> None:
    async def scene() -> None:
        wiring = FakeWiring()
        trouble = PlaceTrouble("VaultFailed", "the vault is down", "Wait")
        wiring.vault = [trouble, trouble, '{"github_token":"one"}', '{"github_token":"two"}']
        task = await started(write(tmp_path, github_token=None, **VAULT), wiring)
        await asyncio.sleep(10)  # the vault was down at first: waited for, not ended
        assert wiring.credentials == PersonalAccessToken(SecretText("one"))
        await asyncio.sleep(61)
        assert wiring.github.credentials[-1] == PersonalAccessToken(SecretText("two"))
        wiring.vault = [trouble]
        await asyncio.sleep(200)
        assert not task.done()
        await cancelled(task)

    run_virtual(scene())


@pytest.mark.parametrize("ours", [True, False])
def test_a_vault_that_is_waited_for_is_told_on_the_set(
    tmp_path: Path, run_virtual: Run, ours: bool
) -> None:
    # The controller may reach a vault that the listener's pod does not.
    async def scene() -> None:
        wiring = FakeWiring()
        trouble = PlaceTrouble("VaultFailed", "the vault is down", "Wait")
        wiring.vault = [trouble]
        environ = write(tmp_path, github_token=None, **VAULT)
        if ours:
            environ["RUNNERSCALE_CONTROLLER"] = "1"
        task = await started(environ, wiring)
        await asyncio.sleep(30)

        def said() -> str:
            metadata = wiring.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")["metadata"]
            return str((metadata.get("annotations") or {}).get(LISTENER_TROUBLE, ""))

        assert ("VaultFailed" in said(), "the vault is down" in said()) == (ours, ours)
        wiring.vault = ['{"github_token":"one"}']
        await asyncio.sleep(120)
        assert wiring.session.did("poll")
        assert said() == ""  # taken back by the first poll
        await cancelled(task)

    run_virtual(scene())


def test_an_app_is_taken_too(tmp_path: Path, run_virtual: Run) -> None:
    app = {
        "github_token": "",
        "github_app_id": "1",
        "github_app_installation_id": 2,
        "github_app_private_key": "no key",
    }
    end = run_virtual(ended(write(tmp_path, **app)))
    assert end.code == EXIT_CONFIG and "failed to parse RSA private key" in end.error


def test_metrics_that_cannot_be_served_do_not_end_the_listener(
    tmp_path: Path, run_virtual: Run
) -> None:
    async def scene() -> None:
        wiring = FakeWiring()
        # The virtual loop knows no such socket: the side task fails, the jobs go on.
        task = await started(write(tmp_path, metrics_addr="nohost.invalid:1"), wiring)
        await asyncio.sleep(100)
        assert not task.done() and len(wiring.session.did("poll")) >= 2
        await cancelled(task)

    run_virtual(scene())
