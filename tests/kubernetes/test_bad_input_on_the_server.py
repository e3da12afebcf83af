"""Bad input on the real API server: the same sentences, and a controller that begins late.

What `tests/system/test_bad_input.py` shows on the embedded server, where the real one could differ:
its words when it refuses a value, discovery and OpenAPI while CRDs come and go, and a restart. A
cluster of its own, because CRDs are taken away.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster
from tests.system.bad_input_world import Json
from tests.system.test_bad_input import REFUSED
from tests.system.test_bad_kubeconfig import controller, until, until_ready

pytestmark = pytest.mark.timeout(300)
CRDS = Path(__file__).resolve().parents[2] / "charts" / "gha-runner-scale-set-controller" / "crds"
NAME = "ephemeralrunners.actions.github.com"


@pytest.fixture(scope="module")
def bare() -> Iterator[Cluster]:
    """A cluster without our CRDs."""
    with Cluster() as started:
        yield started


def test_a_controller_begins_when_the_crds_are_there(bare: Cluster, tmp_path: Path) -> None:
    with controller(bare.kubeconfig(), tmp_path) as readiness:
        said = until(readiness, "is not installed")
        assert said.count("is not installed") == 4
        assert f"the CRD {NAME} is not installed" in said
        bare.apply_crds(CRDS)
        until_ready(readiness)
        time.sleep(5)  # OpenAPI is published a moment after the kinds are served
        log = (tmp_path / "log").read_text()
        assert "CrdOutdated" not in log
        # Said anew only when others are missing than before, and they come one by one.
        assert log.count("cannot begin yet, trying again") <= 4


def test_an_older_crd_is_named_with_what_it_drops(bare: Cluster, tmp_path: Path) -> None:
    bare.apply_crds(CRDS)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions"
    patch = json.dumps([{"op": "remove", "path": path}])
    bare.kubectl("patch", "crd", NAME, "--type=json", "-p", patch)
    time.sleep(5)
    with controller(bare.kubeconfig(), tmp_path) as readiness:
        until_ready(readiness)
        deadline_s = time.monotonic() + 20
        words = f"the installed CRD {NAME} is older than this controller: the API server drops"
        while words not in (log := (tmp_path / "log").read_text()):
            assert time.monotonic() < deadline_s, log
            time.sleep(0.2)
        assert "drops status.conditions." in log
        assert log.count("CrdOutdated") == 1  # the other three are current
        found = ""
        while "CrdOutdated" not in found:
            assert time.monotonic() < deadline_s, found
            found = bare.kubectl("get", "events", "-n", "default").stdout
        assert f"customresourcedefinition/{NAME}" in found
    bare.apply_crds(CRDS)


@pytest.mark.parametrize("row", REFUSED)
def test_the_real_server_refuses_a_wrong_value_in_the_same_words(bare: Cluster, row: str) -> None:
    bare.apply_crds(CRDS)
    name, wish, words = REFUSED[row]
    document: Json = {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": "AutoscalingRunnerSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": wish,
    }
    kubectl = Path(__file__).resolve().parents[2] / ".venv" / "bin" / "kubectl"
    done = subprocess.run(
        [str(kubectl), "--kubeconfig", str(bare.kubeconfig()), "create", "--dry-run=server",
         "--validate=false", "-f", "-"],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert words in done.stderr


def test_an_api_server_that_restarts_is_followed_again(bare: Cluster, tmp_path: Path) -> None:
    bare.apply_crds(CRDS)
    with controller(bare.kubeconfig(), tmp_path) as readiness:
        until_ready(readiness)
        bare.stop_api()
        time.sleep(3)
        assert readiness() == "ok"
        bare.start_api()
        time.sleep(5)
        until_ready(readiness)
