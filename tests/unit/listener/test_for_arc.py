"""Our listener under a controller of ARC's: its file, its words, and none that it does not know.

Which controller it is the listener sees by a variable that only ours puts into its pod.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.labels import LISTENER_TROUBLE
from runnerscale.kube.errors import Forbidden
from runnerscale.listener.config import ConfigError, read_config
from runnerscale.scaleset.errors import ScaleSetError, SessionConflict
from runnerscale.scaleset.model import JobEvent, JobEventKind, Message, Statistics
from tests.arc.objects import Arc
from tests.unit.listener.test_process import FakeWiring, cancelled, started

Run = Callable[[Coroutine[Any, Any, Any]], Any]
ARC = Arc(name="set", namespace="default")
OURS = {"RUNNERSCALE_CONTROLLER": "runnerscale"}


def written(tmp_path: Path, **members: Any) -> dict[str, str]:
    path = tmp_path / "config.json"
    path.write_bytes(ARC.config(**members))
    return {"LISTENER_CONFIG_PATH": str(path)}


def wiring(*replies: Message | ScaleSetError | float, assigned: int = 0) -> FakeWiring:
    found = FakeWiring()
    found.session.statistics = Statistics(assigned_jobs=assigned)
    found.session.replies.extend(replies)
    found.api.put(EPHEMERAL_RUNNERS, "default", "runner-1", status={"phase": "Pending"})
    return found


def specs(found: FakeWiring) -> list[dict[str, Any]]:
    return [body["spec"] for body in found.api.bodies("ephemeralrunnersets") if "spec" in body]


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.behaviour("C1 T106")
def test_the_file_of_arcs_controller_is_understood() -> None:
    read = read_config(ARC.config())
    assert (read.config_url, read.namespace, read.set_name) == (ARC.url, "default", "set")
    assert (read.bounds.min_runners, read.bounds.max_runners) == (0, 2147483647)
    assert (read.scale_set_id, read.scale_set_name) == (7, "set")
    assert read.record is not None and read.record.token is not None
    assert read.record.token.reveal() == "github-token"
    assert (read.metrics_addr, read.metrics) == ("", None)


def test_an_app_a_certificate_and_metrics_are_understood_with_gos_escapes() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nAA+/=\n-----END CERTIFICATE-----\n"
    key = "-----BEGIN RSA PRIVATE KEY-----\n<&>\n-----END RSA PRIVATE KEY-----\n"
    content = ARC.config(
        configure_url="https://ghes.example.com/org?a=1&b=<2>",
        github_token="",
        github_app_id="Iv1.abc",
        github_app_installation_id=98765432,
        github_app_private_key=key,
        server_root_ca=pem,
        log_level="info",
        log_format="json",
        metrics_addr=":8080",
        metrics_endpoint="/metrics",
        metrics={
            "counters": {"gha_started_jobs_total": {"labels": ["job_name"]}},
            "gauges": {},
            "histograms": {"gha_job_startup_duration_seconds": {"labels": [], "buckets": [0.5, 1]}},
        },
    )
    assert rb"\u0026b=\u003c2\u003e" in content
    read = read_config(content)
    assert read.config_url == "https://ghes.example.com/org?a=1&b=<2>"
    assert read.server_root_ca == pem
    assert read.record is not None and read.record.app_private_key is not None
    assert read.record.app_private_key.reveal() == key
    assert read.metrics is not None and (read.metrics_addr, read.metrics_path) == (
        ":8080",
        "/metrics",
    )


def test_a_vault_means_that_the_four_keys_are_not_there_at_all() -> None:
    members = {
        "vault_type": "azure_key_vault",
        "vault_lookup_key": "item",
        "azure_key_vault": {
            "tenant_id": "t",
            "client_id": "c",
            "url": "https://v.vault.azure.net",
            "certificate_path": "/c",
        },
    }
    content = json.loads(ARC.config(**members))
    for name in [key for key in content if key.startswith("github_")]:
        del content[name]
    read = read_config(json.dumps(content).encode())
    assert read.record is None
    assert (read.vault_type, read.vault_lookup_key) == ("azure_key_vault", "item")


def test_keys_that_nobody_here_knows_are_passed_over_and_old_ones_are_not_read() -> None:
    assert read_config(ARC.config(something_new={"a": [1]})).scale_set_id == 7
    with pytest.raises(ConfigError, match="AppConfig validation failed"):
        read_config(ARC.config(github_token="", token="old", app_id=3))


# --- its words ------------------------------------------------------------------------------------


def event(kind: JobEventKind) -> JobEvent:
    return JobEvent(kind, 0, runner_name="runner-1", job_id="job", request_id=5)


@pytest.mark.behaviour("C2 T148")
@pytest.mark.parametrize("ours", [True, False])
def test_an_exact_number_above_the_minimum_is_for_a_controller_of_ours(
    run_virtual: Run, tmp_path: Path, ours: bool
) -> None:
    # ARC's would fill the place of a runner that ended, as long as the number is exact (C1 W49).
    async def scene() -> None:
        found = wiring(50.0, assigned=3)  # three jobs, then a poll that passes empty
        environ = written(tmp_path) | (OURS if ours else {})
        task = await started(environ, found)
        await asyncio.sleep(60)
        assert [(spec["replicas"], spec["patchID"]) for spec in specs(found)] == (
            [(3, 0), (3, 0)] if ours else [(3, 0), (3, 1)]
        )
        await cancelled(task)

    run_virtual(scene())


@pytest.mark.parametrize("ours", [True, False])
def test_at_the_minimum_the_number_is_exact_for_both(
    run_virtual: Run, tmp_path: Path, ours: bool
) -> None:
    async def scene() -> None:
        found = wiring(50.0)
        task = await started(written(tmp_path, min_runners=1) | (OURS if ours else {}), found)
        await asyncio.sleep(60)
        assert [(spec["replicas"], spec["patchID"]) for spec in specs(found)] == [(1, 0), (1, 0)]
        await cancelled(task)

    run_virtual(scene())


@pytest.mark.parametrize("ours", [True, False])
def test_runners_that_are_no_longer_counted_are_named_to_a_controller_of_ours(
    run_virtual: Run, tmp_path: Path, ours: bool
) -> None:
    async def scene() -> None:
        ended = Message(1, Statistics(assigned_jobs=0), (event(JobEventKind.COMPLETED),))
        found = wiring(ended, assigned=1)
        task = await started(written(tmp_path) | (OURS if ours else {}), found)
        await asyncio.sleep(5)
        named = [spec.get("settledRunners") for spec in specs(found)]
        assert named == ([None, ["runner-1"]] if ours else [None, None])
        await cancelled(task)

    run_virtual(scene())


@pytest.mark.parametrize("ours", [True, False])
def test_trouble_is_told_on_the_set_of_a_controller_of_ours_only(
    run_virtual: Run, tmp_path: Path, ours: bool
) -> None:
    # ARC compares the set's annotations exactly and never gets past one that it does not know:
    # a corrected Secret's name would never reach the listener that waits for it (C1 W6).
    async def scene() -> None:
        found = wiring()
        found.github.sessions.clear()
        found.github.sessions.append(SessionConflict("409"))
        task = await started(written(tmp_path) | (OURS if ours else {}), found)
        await asyncio.sleep(20)
        item = found.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")
        assert (LISTENER_TROUBLE in item["metadata"].get("annotations", {})) is ours
        await cancelled(task)

    run_virtual(scene())


def test_what_was_said_to_a_controller_of_ours_is_taken_away_for_arcs(
    run_virtual: Run, tmp_path: Path
) -> None:
    # Controller and listener go back one after the other; ARC's must not find the annotation.
    async def scene() -> None:
        found = wiring()
        left = {"annotations": {LISTENER_TROUBLE: "{}", "kept": "x"}}
        found.api.put(EPHEMERAL_RUNNER_SETS, "default", "set", spec={"patchID": 0}, meta=left)
        task = await started(written(tmp_path), found)
        await asyncio.sleep(5)
        item = found.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")
        assert item["metadata"]["annotations"] == {"kept": "x"}
        await cancelled(task)

    run_virtual(scene())


@pytest.mark.behaviour("C1 T179")
def test_an_older_role_without_get_costs_the_phase_and_nothing_else(
    run_virtual: Run, tmp_path: Path
) -> None:
    async def scene() -> None:
        begun = Message(1, Statistics(assigned_jobs=1), (event(JobEventKind.STARTED),))
        found = wiring(begun)

        def before(verb: str, path: str) -> None:
            if verb == "get":
                raise Forbidden(403, "Forbidden", 'cannot get resource "ephemeralrunners"')

        found.api.before = before
        task = await started(written(tmp_path), found)
        await asyncio.sleep(5)
        status = found.api.raw(EPHEMERAL_RUNNERS, "default", "runner-1")["status"]
        assert (status["phase"], status["jobId"], status["jobRequestId"]) == ("Pending", "job", 5)
        assert found.session.did("acknowledge") == [1]
        await cancelled(task)

    run_virtual(scene())
