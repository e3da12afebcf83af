"""Looking at a cluster for `runnerscale migrate check`: lists, one document, and no write at all.

What may not be looked at is named, and the rest is judged without it. The rules are `migration/`.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.values import GROUP, VERSION
from runnerscale.app.api_check import OURS, crd_name, what_is_dropped, what_is_missing
from runnerscale.app.logs import Style, configure_logging
from runnerscale.app.manifests import RBAC
from runnerscale.app.process import run_process
from runnerscale.app.versions import COMPATIBLE_VERSION, SYSTEM
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.kube.errors import ApiError, BadAnswer, NotFound
from runnerscale.kube.served import served_fields, served_resources
from runnerscale.migration import snapshot as snap
from runnerscale.migration.check import Report, check
from runnerscale.migration.snapshot import Ours, Snapshot

IMAGE = f"ghcr.io/runnerscale/runnerscale:{COMPATIBLE_VERSION}"
PAGE = 500
PAGES_MAX = 400  # 200,000 objects of a kind
LIST_S = 60.0


def run_check(*, kubeconfig: str, namespace: str, ours: Ours) -> Report:
    """Look once and judge.

    Raises:
        KubeError: the cluster cannot be reached at all.
    """
    clock, found = SystemClock(), []
    # Beside the report, never in it; and no trace that shows the values of variables.
    configure_logging("warn", "text", style=Style.CONTROLLER, clock=clock, stream=sys.stderr)

    async def work() -> int:
        client = open_client(
            load_config(kubeconfig or os.environ.get("KUBECONFIG", ""), os.environ),
            clock=clock,
            random=system_random(),
            user_agent=f"{SYSTEM}/{COMPATIBLE_VERSION} migrate",
            environ=os.environ,
        )
        try:
            seen = await look(client, namespace=namespace, ours=ours, now_s=clock.now_s())
            found.append(check(seen))
        finally:
            await client.close()
        return 0

    run_process(work)
    (report,) = found
    return report


async def look(client: KubeClient, *, namespace: str, ours: Ours, now_s: float) -> Snapshot:
    """Everything the rules want to see. `namespace`: only of this one; "": of all.

    Raises:
        KubeError: no answer, or none that can be understood.
    """
    served = await served_resources(client, GROUP, VERSION)
    if any(what_is_missing(each, served) for each in OURS):
        return Snapshot(now_s, ours, {}, installed=False)
    found: dict[str, list[dict[str, Any]]] = {}
    unseen: dict[str, str] = {}
    if namespace and not await _is_there(client, namespace):
        return Snapshot(now_s, ours, {}, namespace=namespace, namespace_there=False)
    for what, path, query in _paths(namespace):
        try:
            found[what] = await _listed(client, path, query)
        except ApiError as error:
            unseen[what] = error.message or error.reason
    dropped: dict[str, list[str]] = {}
    try:
        kept = await served_fields(client, GROUP, VERSION)
        dropped = {
            crd_name(each): fields
            for each in OURS
            if (fields := what_is_dropped(each, kept.get(each.kind)))
        }
    except (ApiError, BadAnswer) as error:
        unseen[snap.SCHEMAS] = str(error)
    return Snapshot(now_s, ours, found, unseen, dropped=dropped, namespace=namespace)


async def _is_there(client: KubeClient, namespace: str) -> bool:
    try:
        await client.get_raw(f"/api/v1/namespaces/{namespace}", timeout_s=LIST_S)
    except NotFound:
        return False
    except ApiError:  # who may not read it may still list what is in it
        return True
    return True


def _paths(namespace: str) -> list[tuple[str, str, Mapping[str, str]]]:
    """What is listed, where, and with which selector."""
    inside = f"/namespaces/{namespace}" if namespace else ""
    own = f"/apis/{GROUP}/{VERSION}{inside}"
    rbac = f"/apis/{RBAC}/v1"
    controllers = {"labelSelector": f"{keys.PART_OF}=gha-rs-controller"}
    return [
        (snap.DEPLOYMENTS, "/apis/apps/v1/deployments", controllers),
        (snap.RUNNER_SETS, f"{own}/{snap.RUNNER_SETS}", {}),
        # Listeners live with the controller, wherever that is.
        (snap.LISTENERS, f"/apis/{GROUP}/{VERSION}/{snap.LISTENERS}", {}),
        (snap.SETS, f"{own}/{snap.SETS}", {}),
        (snap.RUNNERS, f"{own}/{snap.RUNNERS}", {}),
        (snap.ROLES, f"{rbac}{inside}/roles", {"labelSelector": keys.LISTENER_NAME}),
        (snap.CLUSTER_ROLES, f"{rbac}/clusterroles", {}),
        (snap.CLUSTER_ROLE_BINDINGS, f"{rbac}/clusterrolebindings", {}),
    ]


async def _listed(client: KubeClient, path: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    token = ""
    for _ in range(PAGES_MAX):
        asked = {**query, "limit": str(PAGE)} | ({"continue": token} if token else {})
        try:
            answer = await client.get_raw(path, query=asked, timeout_s=LIST_S)
        except NotFound:
            return items
        if not isinstance(answer, dict):
            raise BadAnswer(f"{path} did not answer with a list")
        items += [item for item in answer.get("items") or () if isinstance(item, dict)]
        token = str((answer.get("metadata") or {}).get("continue") or "")
        if not token:
            break
    return items
