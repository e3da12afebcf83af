"""Going away in the right order, the wrong one, and all at once: nothing hangs unexplained."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.world import ScaleSet, World, condition, until

pytestmark = pytest.mark.timeout(300)
Json = dict[str, Any]
GONE_WITHIN_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


def test_a_busy_scale_set_is_uninstalled_after_its_job(world: World) -> None:
    """The right order under a job: it is told what is waited for, and the job ends well."""
    world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace())
    scale_set.wait_listener()
    jobs = world.github.queue(scale_set.name, seconds=8)
    until("it runs", lambda: world.github.jobs(jobs)[0]["state"] == "running", within_s=60)
    scale_set.uninstall()

    def told() -> Json | None:
        found = condition(scale_set.runner_set(), "DeletionBlocked")
        return found if found.get("reason") == "DeletionWaits" else None

    assert "runners" in until("it is told what is waited for", told)["message"]
    scale_set.wait_jobs(jobs)
    until("it is gone", lambda: world.get(scale_set.path) is None, within_s=GONE_WITHIN_S)
    until("nothing is left", lambda: not scale_set.left_overs())
    assert world.github.scale_sets(scale_set.name) == []


def test_a_namespace_is_deleted_with_its_scale_set(world: World) -> None:
    """No helm, no order: the namespace goes, and GitHub's scale set with it."""
    world.cluster_wide_controller()
    namespace = world.namespace()
    scale_set = world.install_set(namespace, minRunners=1)
    scale_set.wait_listener()
    until("an idle runner", lambda: len(scale_set.runner_pods()) == 1)
    world.delete(f"/api/v1/namespaces/{namespace}")
    gone = f"/api/v1/namespaces/{namespace}"
    until("the namespace is gone", lambda: world.get(gone) is None, within_s=GONE_WITHIN_S)
    until("its listener is gone", lambda: not scale_set.listeners())
    assert world.github.scale_sets(scale_set.name) == []


def test_what_earlier_values_made_goes_with_the_scale_set(world: World) -> None:
    """Helm deletes it on upgrade; it waits for the controller, and so would its namespace."""
    world.cluster_wide_controller()
    namespace = world.namespace()
    scale_set = world.install_set(namespace, containerMode={"type": "kubernetes-novolume"})
    scale_set.wait_listener()
    world.secret(namespace, "mine", github_token="ghp_of-the-scenario")
    scale_set.helm("upgrade", {"githubConfigSecret": "mine"})
    scale_set.wait_listener()
    scale_set.uninstall_cleanly()
    for kind in ("secrets", "serviceaccounts"):
        left = world.items(f"/api/v1/namespaces/{namespace}/{kind}")
        assert not [one for one in left if scale_set.name in one["metadata"]["name"]]


def test_the_controller_first_and_installed_again(world: World) -> None:
    """The wrong order: everything hangs on its finalizers; a controller that returns cleans up."""
    controller = world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace(), minRunners=1)
    scale_set.wait_listener()
    until("an idle runner", lambda: len(scale_set.runner_pods()) == 1)
    controller.uninstall()
    scale_set.uninstall()
    assert scale_set.runner_set()["metadata"]["deletionTimestamp"]
    world.cluster_wide_controller()
    until("it is gone", lambda: world.get(scale_set.path) is None, within_s=GONE_WITHIN_S)
    until("nothing is left", lambda: not scale_set.left_overs())
    assert world.github.scale_sets(scale_set.name) == []


def test_the_controller_first_and_cleaned_up_by_force(world: World) -> None:
    """The documented forced clean-up: every finalizer of ours is taken away by hand."""
    controller = world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace(), minRunners=1)
    scale_set.wait_listener()
    until("an idle runner", lambda: len(scale_set.runner_pods()) == 1)
    controller.uninstall()
    scale_set.uninstall()
    by_the_book(scale_set, controller.namespace)
    until("nothing is left", lambda: not scale_set.left_overs(), within_s=60)
    # GitHub was not told. Whoever installs the set again finds its scale set and takes it over.
    known = [each["id"] for each in world.github.scale_sets(scale_set.name)]
    assert len(known) == 1
    world.cluster_wide_controller()
    again = world.install_set(scale_set.namespace, scale_set.name)
    again.wait_listener()
    assert [each["id"] for each in world.github.scale_sets(again.name)] == known
    again.run_jobs()
    again.uninstall_cleanly()


def by_the_book(scale_set: ScaleSet, controller: str) -> None:
    """The very script that docs/operations.md gives for this case."""
    page = (ROOT / "docs" / "operations.md").read_text()
    (script,) = re.findall(r"forced-clean-up:begin -->\n```bash\n(.*?)```", page, re.DOTALL)
    script = script.replace("=arc-runners", f"={scale_set.namespace}")
    script = script.replace("=arc-systems", f"={controller}")
    cluster = scale_set.world.cluster
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig())}
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
