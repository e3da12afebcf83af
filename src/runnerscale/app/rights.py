"""What `runnerscale rights` prints: the demo's namespaces, accounts and rights, for kubectl.

The objects themselves are `manifests.py`; here they become a file, for a namespace of one's own.
"""

import re
from typing import Any

import yaml

from runnerscale.app.manifests import (
    SYSTEM_NAMESPACE,
    Manifest,
    set_namespace_manifests,
    system_manifests,
)
from runnerscale.app.problem import UsageProblem


def rights_yaml(namespace: str) -> str:
    """What has to be there before the controller starts, with runner sets in `namespace`.

    Raises:
        UsageProblem: no namespace can have that name, or it is the one of the parts themselves.
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", namespace):
        raise UsageProblem(
            f"--namespace {namespace!r} is no name of a namespace",
            "Give up to 63 lower-case letters, digits and hyphens, such as team-a",
        )
    if namespace == SYSTEM_NAMESPACE:
        raise UsageProblem(
            f"the namespace {namespace} is for controller and listeners",
            "Give runner sets one of their own, such as team-a",
        )
    manifests = [*system_manifests(), *set_namespace_manifests(namespace)]
    return "---\n".join(yaml.safe_dump(document(each), sort_keys=False) for each in manifests)


def document(manifest: Manifest) -> dict[str, Any]:
    """The whole object, with its kind and its place."""
    place = {"namespace": manifest.namespace} if manifest.namespace else {}
    kind = {"apiVersion": manifest.resource.api_version, "kind": manifest.resource.kind}
    return {**kind, **manifest.body, "metadata": {**manifest.body["metadata"], **place}}
