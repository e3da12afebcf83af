"""`runnerscale rights` prints what the demo makes, and grants no more than the charts do."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml

from runnerscale.app.manifests import SYSTEM_NAMESPACE
from runnerscale.app.problem import UsageProblem
from runnerscale.app.rights import rights_yaml
from runnerscale.app.single_machine import NAMESPACE, Machine, free_ports

from . import render

Objects = list[dict[str, Any]]
Rights = dict[tuple[str, str], set[str]]
RBAC = "rbac.authorization.k8s.io"
# With a proxy's or GitHub's own authority, which the role of the single machine allows for.
SET = {
    "githubConfigUrl": "https://github.example.com/my-org",
    "githubConfigSecret": "github",
    "controllerServiceAccount": {"namespace": "arc-systems", "name": "arc-gha-rs-controller"},
    "githubServerTLS": {"certificateFrom": {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}}},
}


def printed(namespace: str) -> Objects:
    return list(yaml.safe_load_all(rights_yaml(namespace)))


def rights(rules: Iterable[Mapping[str, Any]]) -> Rights:
    """Verbs by group and resource: how they are written down does not matter."""
    found: Rights = defaultdict(set)
    for rule in rules:
        assert "resourceNames" not in rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found[group, resource] |= set(rule["verbs"])
    return dict(found)


def role(objects: Objects, kind: str, name: str) -> Rights:
    (found,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return rights(found["rules"])


async def test_what_is_printed_is_what_the_demo_makes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    made: Objects = []

    class Admin:
        async def create(self, resource: Any, namespace: str, body: dict[str, Any]) -> None:
            metadata = dict(body["metadata"]) | ({"namespace": namespace} if namespace else {})
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            made.append({**kind, **body, "metadata": metadata})

        async def close(self) -> None:
            pass

    class Enough(Exception):
        """Everything is made; what comes then are processes."""

    class Supervisor:
        started = 0

        async def start(self, _child: Any) -> None:
            self.started += 1
            if self.started > 2:  # API server and GitHub
                raise Enough

    async def at_once(*_: Any) -> None:
        pass

    machine = Machine(tmp_path, free_ports(), Supervisor(), None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(Machine, "_until_file", at_once)
    monkeypatch.setattr(Machine, "_until_ready", at_once)
    monkeypatch.setattr(Machine, "_open_admin", lambda _: Admin())
    with pytest.raises(Enough):
        await machine.start()
    assert printed(NAMESPACE) == made
    assert {o["kind"] for o in made} == {
        *("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
        *("Role", "RoleBinding"),
    }


def test_the_controller_has_the_rights_of_the_charts_and_no_others() -> None:
    objects = printed("team-a")
    chart = render.render(render.CONTROLLER, release="arc")
    theirs = [o for o in chart if o["kind"] == "ClusterRole"]
    assert role(objects, "ClusterRole", "runnerscale-controller") == rights(theirs[0]["rules"])
    home = [o for o in chart if o["kind"] == "Role" and "listener" in o["metadata"]["name"]]
    assert role(objects, "Role", "runnerscale-controller-home") == rights(home[0]["rules"])
    (in_set,) = [
        o for o in render.render(render.SCALE_SET, SET, release="linux") if o["kind"] == "Role"
    ]
    assert role(objects, "Role", "runnerscale-manager") == rights(in_set["rules"])


def test_every_role_is_bound_and_to_an_account_that_is_there() -> None:
    objects = printed("team-a")
    accounts = {o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount"}
    bindings = [o for o in objects if o["kind"].endswith("Binding")]
    assert {(b["roleRef"]["kind"], b["roleRef"]["name"]) for b in bindings} == {
        (o["kind"], o["metadata"]["name"]) for o in objects if o["kind"].endswith("Role")
    }
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert subject["namespace"] == SYSTEM_NAMESPACE and subject["name"] in accounts


@pytest.mark.parametrize("name", ["", "Team", "a/b", "-a", "a" * 64, "a\nb", SYSTEM_NAMESPACE])
def test_a_namespace_that_cannot_be_is_told(name: str) -> None:
    with pytest.raises(UsageProblem):
        rights_yaml(name)
