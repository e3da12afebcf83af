"""What people type, in the order in which they type it, and what is on standard input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tests.conformance import cases_kinds
from tests.conformance.cases_objects import config_map, pod, widget
from tests.conformance.transcript import Json


@dataclass(frozen=True, slots=True)
class Flow:
    """Commands in a fresh namespace; `{ns}` is replaced."""

    name: str
    commands: tuple[tuple[str, str], ...]  # the command line, and what it reads


def run(line: str, *documents: Any) -> tuple[str, str]:
    return line, "---\n".join(yaml.safe_dump(document) for document in documents)


def with_owner(document: Json, owner: str) -> Json:
    reference = {
        "apiVersion": "conformance.runnerscale.dev/v1",
        "kind": "Widget",
        "name": owner,
        "uid": "{uid}",
        "blockOwnerDeletion": True,
    }
    meta = {**document["metadata"], "ownerReferences": [reference]}
    return {**document, "metadata": meta}


def owned(cascade: str, *after: str) -> Sequence[tuple[str, str]]:
    """An owner with a dependent, deleted in one of the three ways."""
    return (
        run("apply -f -", widget("owner")),
        run("get wg owner -o jsonpath={.metadata.uid} # uid"),
        run("apply -f -", with_owner(config_map("child", a="1"), "owner")),
        run(f"delete wg owner --cascade={cascade} --timeout=60s"),
        *(run(line) for line in after),
    )


APPLY = "apply -f -"
RUNNER_SET = cases_kinds.runner_set(minRunners=1, maxRunners=5)
RUNNER = cases_kinds.runner()
BUSY_POD = pod("p", nodeName="n1", containers=[{"name": "main", "image": "busybox:1"}])

FLOWS = (
    Flow(
        "apply",
        (
            run(APPLY, widget("w", {"size": 1, "color": "red"}), config_map("c", a="1")),
            run(APPLY, widget("w", {"size": 1, "color": "red"}), config_map("c", a="1")),
            run(APPLY, widget("w", {"size": 2}), config_map("c", b="2")),
            run("get wg/w cm/c -o yaml"),
            run("apply --dry-run=server -f -", widget("w", {"size": 3})),
            run("get wg w -o jsonpath={.spec}"),
            run(APPLY, widget("w", {"size": 1000})),
            run(APPLY, widget("w", {"size": 1, "unknown": 1})),
            run("apply --validate=strict -f -", config_map("c") | {"odd": 1}),
            run("create -f -", config_map("c")),
            run("replace -f -", config_map("c", d="4")),
            run("replace -f -", config_map("none", d="4")),
            run("get cm c -o jsonpath={.data}"),
            run("apply view-last-applied wg/w"),
            run(APPLY, {**widget("w"), "kind": "Gadget"}),
            run("delete -f -", widget("w"), config_map("c")),
            run("delete -f -", widget("w")),
            run("delete wg w --ignore-not-found"),
        ),
    ),
    Flow(
        "get",
        (
            run(APPLY, widget("w1", {"size": 2}), widget("w2", {"size": 1, "color": "red"})),
            run(APPLY, config_map("c", a="1"), BUSY_POD),
            run("get wg"),
            run("get wg -o wide --show-labels"),
            run("get wg --sort-by=.spec.size"),
            run("get wg -o custom-columns=N:.metadata.name,S:.spec.size"),
            run("get wg -o name --chunk-size=1"),
            run("get wg,cm,po"),
            run("get wg w1 -o json"),
            run("get wg none"),
            run("get nonsense"),
            run("get cm -l a=b"),
            run("get po --field-selector spec.nodeName=n1"),
            run("get po -o wide"),
            run("get ns {ns}"),
            run("get sa default"),
            run("get --raw /readyz"),
        ),
    ),
    Flow(
        "our_kinds",
        (
            run(APPLY, RUNNER_SET, RUNNER),
            run("get ars,er"),
            run("get runners -o wide"),
            run(
                "patch er r --subresource=status --type=merge"
                ' -p {"status":{"phase":"Running","runnerId":5,"jobDisplayName":"build"}}'
            ),
            run("get er"),
            run("describe er r"),
            run("describe ars s"),
            run('patch ars s --type=merge -p {"spec":{"minRunners":9}}'),
            run('patch ars s --type=json -p [{"op":"remove","path":"/spec/minRunners"}]'),
            run(APPLY, cases_kinds.runner_set("no", minRunners=5, maxRunners=1)),
            run("scale ars s --replicas=2"),
            run("label er r a=b"),
            run("label er r a=c"),
            run("annotate er r a=b --overwrite"),
            run("get er -l a=b"),
            run("wait er/r --for=jsonpath={.status.phase}=Running --timeout=5s"),
            run("wait er/r --for=condition=Ready --timeout=1s"),
            run("delete er --all"),
            run("wait er/r --for=delete --timeout=5s"),
            run("get er"),
            run("explain ephemeralrunner.spec.runnerScaleSetId"),
            run("api-resources --api-group=actions.github.com --sort-by=name"),
        ),
    ),
    Flow(
        "describe",
        (
            run("create secret generic s --from-literal=a=b"),
            run("create configmap c --from-literal=a=b"),
            run("create serviceaccount a"),
            run("create role r --verb=get,list --resource=pods,pods/log"),
            run("create rolebinding b --role=r --serviceaccount={ns}:a"),
            run("create quota q --hard=pods=3,count/configmaps=9"),
            run("wait quota/q --for=jsonpath={.status.used.pods}=0 --timeout=30s"),
            run(APPLY, pod("p", serviceAccountName="a")),
            run("describe secret s"),
            run("describe cm c"),
            run("describe role r"),
            run("describe rolebinding b"),
            run("describe po p"),
            run("logs p"),
            run("logs none"),
            run("logs p -c none"),
            run("describe quota q"),
            run("get secret,sa,role,rolebinding"),
        ),
    ),
    Flow(
        "rights",
        (
            run("auth whoami"),
            run("auth can-i create pods"),
            run("auth can-i create pods --as=bob"),
            run("create role r --verb=get --resource=configmaps"),
            run("create rolebinding b --role=r --user=bob"),
            run("auth can-i get configmaps --as=bob"),
            run("auth can-i list configmaps --as=bob"),
            run("get cm --as=bob"),
            run("get er --as=bob"),
            run("get cm --token=wrong.token"),
        ),
    ),
    Flow(
        "delete_in_the_background",
        (
            *owned("background", "wait cm/child --for=delete --timeout=60s # waited"),
            run("get cm child"),
        ),
    ),
    Flow(
        "delete_in_the_foreground",
        tuple(owned("foreground", "get cm child")),
    ),
    Flow(
        "delete_and_orphan",
        tuple(owned("orphan", "get cm child -o jsonpath={.metadata.ownerReferences}")),
    ),
    Flow(
        "delete_pods",
        (
            run(APPLY, BUSY_POD),
            run("delete po p --wait=false"),
            run("get po p"),
            run("delete po p --force --grace-period=0"),
            run("get po p"),
            run(APPLY, pod("q")),
            run("delete po q --now"),
            run("delete po q"),
        ),
    ),
)
