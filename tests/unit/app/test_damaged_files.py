"""Files of the data folder that a crash or a person damaged: named, with what to do, never used."""

import os
import sqlite3
from pathlib import Path

import pytest

from runnerscale.api.crds import crd_documents
from runnerscale.apiserver.certificates import UnusableFile, ensure_certificates
from runnerscale.apiserver.credentials import (
    IdentityRequest,
    ensure_identities,
    ensure_signing_key,
)
from runnerscale.apiserver.server import ApiServerOptions, CannotServe, run_api_server
from runnerscale.apiserver.sqlite_journal import open_sqlite_store
from runnerscale.apiserver.store import StoreError
from runnerscale.app.api_server import ensure_token
from runnerscale.app.fake_github import read_tokens
from runnerscale.app.problem import Problem
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.fake_github.options import Options, OptionsInvalid
from runnerscale.listener.config import ConfigError, read_config
from runnerscale.listener.config_file import read_file

WANTED = (IdentityRequest("admin"),)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"short", bytes(range(128, 192)), b"a" * 20 + b"\x00b"]
)
def test_a_token_file_without_a_token_lets_nobody_in(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "node.token"
    path.write_bytes(content)
    with pytest.raises(Problem, match="holds no token"):
        ensure_token(path)
    assert path.read_bytes() == content  # nothing is lost


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xff\xfe"])
def test_a_file_of_tokens_without_one_would_let_everybody_in(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "tokens"
    with pytest.raises(Problem, match="cannot be read"):
        read_tokens(path)
    path.write_bytes(content)
    with pytest.raises(Problem, match="holds no token"):
        read_tokens(path)
    with pytest.raises(Problem, match="it is a device"):
        read_tokens(Path("/dev/zero"))
    path.write_bytes(b"x" * 65_537)
    with pytest.raises(Problem, match="larger than 65536 bytes"):
        read_tokens(path)
    path.write_text("one\n two\n")
    assert read_tokens(path) == (SecretText("one"), SecretText("two"))


def test_a_token_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    token = ensure_token(tmp_path / "new" / "node.token")
    assert ensure_token(tmp_path / "new" / "node.token").reveal() == token.reveal()
    assert (tmp_path / "new" / "node.token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"[" * 5000, b"{", b"[]", b"\xff", b'{"admin": 5}'])
def test_damaged_tokens_are_not_replaced_behind_anybodys_back(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(content)
    with pytest.raises(UnusableFile, match=r"tokens\.json"):
        ensure_identities(path, WANTED)


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 40])
def test_nobody_signs_with_an_empty_key(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "service-account.key"
    path.write_bytes(content)
    with pytest.raises(UnusableFile, match="no signing key"):
        ensure_signing_key(path)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
async def test_a_damaged_authority_is_one_sentence(tmp_path: Path, name: str) -> None:
    await open_sqlite_store(tmp_path / "objects.sqlite").close()
    ensure_certificates(tmp_path / "certificates", now_s=1_800_000_000)
    (tmp_path / "certificates" / name).write_text("garbage")
    options = ApiServerOptions(data_dir=tmp_path, crds=crd_documents(), identities=WANTED)
    with pytest.raises(CannotServe, match=f"{name} holds no .* restore it, or delete it"):
        await run_api_server(options, clock=SystemClock(), random=seeded(1))


async def test_a_database_with_a_garbled_version_or_object_names_it(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    store = open_sqlite_store(path)
    obj = {"kind": "Pod", "metadata": {"name": "a"}}
    store.put(store.table("pods"), "ns", "a", obj, {})
    await store.settled()
    await store.close()

    def change(sql: str) -> None:
        with sqlite3.connect(path) as db:
            db.execute(sql)
        db.close()

    change("UPDATE objects SET data = replace(data, 'Pod', 'Pad')")  # still JSON, still an object
    with pytest.raises(StoreError, match="pods/ns/a is damaged"):
        open_sqlite_store(path)
    # A row of an older layout has no checksum: found when it is looked at.
    change("UPDATE objects SET data = x'ff00', checksum = NULL")
    store = open_sqlite_store(path)
    with pytest.raises(StoreError, match="pods/ns/a is damaged"):
        store.table("pods")
    await store.close()
    change("UPDATE meta SET value = 'x' WHERE key = 'version'")
    with pytest.raises(StoreError, match="not a usable database"):
        open_sqlite_store(path)


def test_a_listener_is_not_held_by_a_pipe_nor_ended_by_brackets(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="it is a pipe, not a file"):
        read_file(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_config(b'{"metrics":' * 5000)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_times_of_the_pretended_github_are_numbers(value: float) -> None:
    with pytest.raises(OptionsInvalid, match="poll_hold_s"):
        Options(poll_hold_s=value)
