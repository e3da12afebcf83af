"""Caches that do not follow the API server are told as metric, Event and log line.

The condition is the readiness of the controller's pod (`Manager.why_not_ready`). No object of ours
can carry it: what fails is the way to all of them. It is told about the controller's namespace.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.reporting import Reporter, named
from runnerscale.core.clock import Clock
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference

LOOK_EVERY_S = 10.0
PATIENCE_S = 45.0  # with the looks in between: told within a minute


async def watch_caches(
    informers: Sequence[Informer[Any]], *, namespace: str, reporter: Reporter, clock: Clock
) -> None:
    """Until cancelled."""
    about = ObjectReference("v1", "Namespace", "", namespace, uid="")
    while True:
        await clock.sleep(LOOK_EVERY_S)
        reporter.report(about, "caches", stale(informers, about=named(about)))


def stale(informers: Iterable[Informer[Any]], *, about: str) -> list[Trouble]:
    """What is to be told of the caches as they are."""
    stuck = {i.resource.plural: i.trouble for i in informers if i.troubled_s >= PATIENCE_S}
    if not stuck:
        return []
    said = "; ".join(sorted({text for text in stuck.values() if text}))
    names = ", ".join(sorted(stuck))
    return [trouble(Reason.CACHE_STALE, about=about, happened=f"no changes of {names}: {said}")]
