"""What people with kubectl can see and do in the simulated cluster; and the cluster's own hand.

Part of `World`: no network lies between them and the API server's operations, so that what is
disturbed is our side alone. Conflicts do not concern them: each act is one read and one write.
"""

from collections.abc import Callable
from typing import Any

from runnerscale.apiserver.deletion import DeleteOptions
from runnerscale.apiserver.operations import SYSTEM, Caller
from runnerscale.apiserver.rbac import User
from runnerscale.apiserver.record import Json, Record
from runnerscale.apiserver.server import ApiServer
from runnerscale.app.manifests import Manifest
from runnerscale.core.clock import Clock
from tests.simulation.loop import Component
from tests.simulation.settlement import objects

PERSON = Caller(User("a-person", ("system:masters",)))
SETS = "autoscalingrunnersets.actions.github.com"
API_DOWN_MAX_S = 600.0
TOUCHED = "example.com/touched"


class Kubectl:
    """Administrator of the world's API server, whichever that is at the moment."""

    clock: Clock
    api: ApiServer | None
    api_component: Component | None
    sets_namespace = "demo"

    async def api_up(self) -> None:
        """Wait until an API server runs."""
        until_s = self.clock.monotonic_s() + API_DOWN_MAX_S
        while self.clock.monotonic_s() < until_s:
            if self.api_component is not None and not self.api_component.dead:
                return
            await self.clock.sleep(0.5)

    # -- looking -------------------------------------------------------------------------------

    def objects(self, resource: str) -> list[Json]:
        """All objects of a resource."""
        assert self.api is not None
        return objects(self.api, resource)

    def living(self, resource: str, mark: str) -> list[Json]:
        """Those that nobody has deleted yet, with that in their name."""
        return [
            o
            for o in self.objects(resource)
            if mark in o["metadata"]["name"] and not o["metadata"].get("deletionTimestamp")
        ]

    def has(self, resource: str, namespace: str, name: str) -> bool:
        """Whether it is there."""
        return self._find(resource, namespace, name) is not None

    # -- touching ------------------------------------------------------------------------------

    def put(self, manifest: Manifest) -> None:
        """Create an object as the administrator, at once."""
        assert self.api is not None
        resource = manifest.resource
        kind = self.api.registry.of_resource(f"{resource.plural}.{resource.group}".rstrip("."))
        assert kind is not None, resource
        self.api.operations.create(kind, manifest.namespace, dict(manifest.body), SYSTEM)

    def create_set(
        self, namespace: str, name: str, labels: dict[str, str], spec: dict[str, Any]
    ) -> None:
        """A runner set with that content."""
        assert self.api is not None
        kind = self.api.registry.of_resource(SETS)
        assert kind is not None
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        self.api.operations.create(kind, namespace, body, PERSON)

    def delete(
        self, resource: str, namespace: str, name: str, *, grace_s: int | None = None
    ) -> None:
        """Delete it if it is still there."""
        record = self._find(resource, namespace, name)
        if record is not None:
            assert self.api is not None
            kind = self.api.registry.of_resource(resource)
            assert kind is not None
            options = DeleteOptions(grace_period_s=grace_s)
            self.api.deletion.delete(kind, record, options, PERSON)

    def edit_spec(self, obj: Json, **fields: object) -> None:
        """Change fields of its spec."""
        self._edit(obj, lambda o: {**o, "spec": {**o["spec"], **fields}})

    def edit_data(self, secret: Json, **fields: str) -> None:
        """Change what a Secret holds."""
        self._edit(secret, lambda o: {**o, "data": {**(o.get("data") or {}), **fields}})

    def label(self, obj: Json, key: str, value: str) -> None:
        """Put a label on it."""
        labels = {**(obj["metadata"].get("labels") or {}), key: value}
        self._edit(obj, lambda o: _with_meta(o, labels=labels))

    def annotate(self, resource: str, namespace: str, name: str) -> None:
        """An annotation of somebody else: the object has another version then."""
        note = {TOUCHED: f"{self.clock.monotonic_s():.3f}"}

        def edited(present: Json) -> Json:
            kept = present["metadata"].get("annotations") or {}
            return _with_meta(present, annotations={**kept, **note})

        self._patch(resource, namespace, name, edited)

    def hold(self, resource: str, namespace: str, name: str, finalizer: str) -> None:
        """Somebody's finalizer on it."""
        self._patch(
            resource,
            namespace,
            name,
            lambda o: _with_meta(o, finalizers=[*_finalizers(o), finalizer]),
        )

    def let_go(self, resource: str, namespace: str, name: str, finalizer: str) -> None:
        """Take the finalizer off again."""
        self._patch(
            resource,
            namespace,
            name,
            lambda o: _with_meta(o, finalizers=[f for f in _finalizers(o) if f != finalizer]),
        )

    def disrupt(self, namespace: str, name: str, reason: str) -> None:
        """The cluster says why it is about to delete a pod."""
        assert self.api is not None
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": "by the cluster's own hand",
            "lastTransitionTime": self.api.operations.now(),
        }

        def edited(present: Json) -> Json:
            status = present.get("status") or {}
            others = [c for c in status.get("conditions") or () if c["type"] != condition["type"]]
            return {**present, "status": {**status, "conditions": [*others, condition]}}

        self._patch("pods", namespace, name, edited, subresource="status")

    # -- how -----------------------------------------------------------------------------------

    def _find(self, resource: str, namespace: str, name: str) -> Record | None:
        assert self.api is not None
        kind = self.api.registry.of_resource(resource)
        assert kind is not None, resource
        return self.api.operations.table(kind).get(namespace, name)

    def _edit(self, obj: Json, edited: Callable[[Json], Json]) -> None:
        meta = obj["metadata"]
        assert self.api is not None
        kind = self.api.registry.of_reference(obj["apiVersion"], obj["kind"])
        assert kind is not None
        if self.has(kind.resource, meta["namespace"], meta["name"]):
            self._patch(kind.resource, meta["namespace"], meta["name"], edited)

    def _patch(
        self,
        resource: str,
        namespace: str,
        name: str,
        edited: Callable[[Json], Json],
        *,
        subresource: str = "",
    ) -> None:
        """Nothing happens to an object that is not there."""
        if self._find(resource, namespace, name) is None:
            return
        assert self.api is not None
        kind = self.api.registry.of_resource(resource)
        assert kind is not None
        self.api.operations.patch(kind, namespace, name, edited, PERSON, subresource=subresource)


def _finalizers(obj: Json) -> list[str]:
    return list(obj["metadata"].get("finalizers") or ())


def _with_meta(obj: Json, **fields: object) -> Json:
    return {**obj, "metadata": {**obj["metadata"], **fields}}
