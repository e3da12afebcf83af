"""Whether the API server can be used at all, and knows our kinds: asked before work begins.

A server that is down, credentials that are refused and CRDs that are missing heal by waiting: it
is asked again, at most every 30 s, and `trouble` says why meanwhile (readiness shows it). What
waiting cannot heal, such as an exec plugin that does not exist, ends the process. CRDs older than
ours do not keep us from working: what they drop is told, and looked for again now and then.
"""

from typing import Any

import msgspec
import structlog

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.reasons import Reason, trouble
from runnerscale.api.values import GROUP, VERSION
from runnerscale.controllers.reporting import Reporter, named
from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.client import KubeClient
from runnerscale.kube.errors import (
    ConfigError,
    Forbidden,
    KubeError,
    Unauthorized,
    Unreachable,
)
from runnerscale.kube.objects import ObjectReference
from runnerscale.kube.resource import Resource
from runnerscale.kube.served import Fields, served_fields, served_resources

log = structlog.get_logger(__name__)

OURS: tuple[Resource[Any], ...] = (
    AUTOSCALING_RUNNER_SETS,
    AUTOSCALING_LISTENERS,
    EPHEMERAL_RUNNER_SETS,
    EPHEMERAL_RUNNERS,
)
AGAIN = Backoff(first_s=1.0, cap_s=30.0)
LOOK_S = 600.0  # CRDs are upgraded by people
NAMES_MAX = 8  # of dropped fields in a message


class ApiCheck:
    """One for a process. `trouble`: why it cannot begin; "" once it can."""

    def __init__(
        self, client: KubeClient, *, reporter: Reporter, clock: Clock, random: Random
    ) -> None:
        """Nothing is asked yet."""
        self.trouble = "the API server has not been asked yet"
        self._client = client
        self._reporter = reporter
        self._clock = clock
        self._random = random

    async def until_usable(self) -> None:
        """Return once the server answers and serves our kinds.

        Raises:
            ConfigError: the way to the server cannot be used, and waiting will not change it.
        """
        attempt = 0
        while True:
            said = await self._why_not()
            if not said:
                self.trouble = ""
                return
            wait_s = AGAIN.delay_s(attempt, self._random)
            if said != self.trouble:  # an hour of the same is one line
                log.warning("cannot begin yet, trying again", why=said, again_s=round(wait_s, 1))
            self.trouble = said
            await self._clock.sleep(wait_s)
            attempt += 1

    async def run(self) -> None:
        """Tell of CRDs that are older than we are; until cancelled."""
        while True:
            await self._look_for_old()
            await self._clock.sleep(LOOK_S)

    async def _why_not(self) -> str:
        try:
            served = await served_resources(self._client, GROUP, VERSION)
        except ConfigError as error:
            if error.lasting:
                raise
            return f"{error}. {advice(error)}"
        except Forbidden as error:
            # Whoever may not look may still be able to work; the caches will say.
            log.info("installed CRDs cannot be looked at", error=str(error))
            return ""
        except KubeError as error:
            return f"{error}. {advice(error)}"
        missing = {crd_name(each): lack for each in OURS if (lack := what_is_missing(each, served))}
        for each in OURS:
            name = crd_name(each)
            self._report(name, Reason.CRD_MISSING, missing.get(name, ""))
        if not missing:
            return ""
        return f"{'; '.join(missing.values())}. {Reason.CRD_MISSING.what_you_can_do.rstrip('.')}"

    async def _look_for_old(self) -> None:
        try:
            kept = await served_fields(self._client, GROUP, VERSION)
        except KubeError as error:  # not worth a warning: nothing depends on it
            log.info("installed CRDs cannot be looked at", error=str(error))
            return
        for each in OURS:
            dropped = what_is_dropped(each, kept.get(each.kind))
            happened = ""
            if dropped:
                names = ", ".join(dropped[:NAMES_MAX]) + (
                    " ..." if len(dropped) > NAMES_MAX else ""
                )
                happened = (
                    f"the installed CRD {crd_name(each)} is older than this controller: "
                    f"the API server drops {names}"
                )
            self._report(crd_name(each), Reason.CRD_OUTDATED, happened)

    def _report(self, name: str, reason: Reason, happened: str) -> None:
        about = ObjectReference(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name, uid=""
        )
        found = [trouble(reason, about=named(about), happened=happened)] if happened else []
        self._reporter.report(about, name, found)


def crd_name(resource: Resource[Any]) -> str:
    """As `kubectl get crd` shows it."""
    return f"{resource.plural}.{resource.group}"


def what_is_missing(resource: Resource[Any], served: frozenset[str]) -> str:
    """Why the controllers cannot work with what is served; "" when they can."""
    if resource.plural not in served:
        return f"the CRD {crd_name(resource)} is not installed"
    if f"{resource.plural}/status" not in served:
        return f"the CRD {crd_name(resource)} has no status subresource: it is not one of ours"
    return ""


def what_is_dropped(resource: Resource[Any], kept: Fields | None) -> list[str]:
    """Members of ours that the installed CRD does not know; unknown to us: none."""
    if kept is None:
        return []
    dropped: list[str] = []
    for part in msgspec.structs.fields(resource.type):
        if part.name in ("spec", "status"):
            members = msgspec.structs.fields(part.type)
            dropped += kept.lost(part.name, frozenset(each.encode_name for each in members))
    return dropped


def advice(error: KubeError) -> str:
    """What a person can do about the first call that fails."""
    if isinstance(error, Unauthorized):
        return "Renew the credentials: the API server does not know them"
    if isinstance(error, Unreachable):
        return "See whether the API server runs, and can be reached from here"
    if isinstance(error, ConfigError):
        return "Run the command by hand, or see whether the file is there"
    return "See the API server's own log"
