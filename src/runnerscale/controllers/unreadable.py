"""Objects that a cache kept out are told about on themselves: Event, metric and log line.

For the kinds whose reconcilers never hear of such an object, because they see the cache only.
The EphemeralRunner's reconciler reports its own. Their last good state goes on working.
"""

from typing import Any

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.reporting import Reporter
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference, split_key
from runnerscale.kube.store import Change
from runnerscale.kube.watch import Poisoned


def report_unreadable(informer: Informer[Any], reporter: Reporter) -> None:
    """Report what `informer` keeps out, until it can be read again or is gone."""
    resource = informer.resource
    told: set[str] = set()

    def poisoned(found: Poisoned) -> None:
        if not found.key:
            return  # nothing to hang an Event on; the cache has logged it
        told.add(found.key)
        namespace, name = split_key(found.key)
        about = ObjectReference(resource.api_version, resource.kind, namespace, name, found.uid)
        why = trouble(
            Reason.OBJECT_UNREADABLE,
            about=f"{resource.kind} {found.key}",
            happened=found.reason,
        )
        reporter.report(about, _line(found.key), (why,))

    def changed(change: Change[Any]) -> None:
        if change.key in told:
            told.discard(change.key)
            reporter.forget(resource.kind, _line(change.key))

    informer.on_poison(poisoned)
    informer.on_change(changed)


def _line(key: str) -> str:
    # Not the key itself: what a pass over the last good state reports must not clear this.
    return f"{key} (unreadable)"
