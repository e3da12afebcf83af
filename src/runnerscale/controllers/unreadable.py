"""Objects that a cache kept out are told about on themselves: Event, metric, log line, condition.

Event, metric and log line here for the kinds whose reconcilers never hear of such an object,
because they see the cache only; the EphemeralRunner's reconciler reports its own. The condition
here for all four kinds, written beside any pass. Their last good state goes on working.
"""

from typing import Any

from runnerscale.api.conditions import READABLE
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.condition_writer import ConditionWriter, Verdict
from runnerscale.controllers.conditions import find
from runnerscale.controllers.reporting import Reporter
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference, split_key
from runnerscale.kube.resource import Resource
from runnerscale.kube.store import Change
from runnerscale.kube.watch import Poisoned


def report_unreadable(informer: Informer[Any], reporter: Reporter) -> None:
    """Report what `informer` keeps out, until it can be read again or is gone."""
    resource = informer.resource

    def poisoned(found: Poisoned) -> None:
        if not found.key:
            return  # nothing to hang an Event on; the cache has logged it
        about = _reference(resource, found.key, found.uid)
        reporter.report(about, _line(found.key), (unreadable(resource, found),))

    def ended(key: str) -> None:
        reporter.forget(resource.kind, _line(key))

    informer.on_poison(poisoned)
    informer.on_poison_end(ended)


def mark_unreadable(informer: Informer[Any], writer: ConditionWriter) -> None:
    """Have the condition written, and taken back: also one of an earlier process."""
    resource = informer.resource

    def poisoned(found: Poisoned) -> None:
        if found.key:
            why = unreadable(resource, found)
            about = _reference(resource, found.key, found.uid)
            word = Verdict(about, READABLE, good=False, reason=why.reason, message=why.message)
            writer.say(resource, word)

    def changed(change: Change[Any]) -> None:
        new = change.new
        stored = None if new is None else find(new.status.conditions, READABLE)
        if new is not None and stored is not None and stored.status == "False":
            about = _reference(resource, change.key, new.metadata.uid or "")
            writer.say(resource, Verdict(about, READABLE, good=True, reason="Recovered"))

    informer.on_poison(poisoned)
    informer.on_change(changed)


def unreadable(resource: Resource[Any], found: Poisoned) -> Trouble:
    """What is told of it."""
    about = f"{resource.kind} {found.key}"
    return trouble(Reason.OBJECT_UNREADABLE, about=about, happened=found.reason)


def _reference(resource: Resource[Any], key: str, uid: str) -> ObjectReference:
    namespace, name = split_key(key)
    return ObjectReference(resource.api_version, resource.kind, namespace, name, uid)


def _line(key: str) -> str:
    # Not the key itself: what a pass over the last good state reports must not clear this.
    return f"{key} (unreadable)"
