"""Where each reason was shown during a demo: condition, Event, metric, log.

A stuck thing must say why in all four places, and with the same word (design, idea 8). This only
looks; the expected word of each fault stands in `demo_faults.py`.
"""

import contextlib
import re
from collections.abc import Iterable, Mapping

import aiohttp

from runnerscale.api.reasons import Reason
from runnerscale.app.manifests import SYSTEM_NAMESPACE
from runnerscale.app.single_machine import MANAGER, NAMESPACE, Machine
from runnerscale.kube.builtin import EVENTS, PODS
from runnerscale.kube.errors import KubeError

PLACES = ("condition", "Event", "metric", "log")
REASONS = frozenset(reason.value for reason in Reason)
TROUBLE_METRICS = ("runnerscale_trouble", "runnerscale_listener_")
METRIC = re.compile(r"^(?P<name>[a-z_]+)\{(?P<labels>.*)\} (?P<value>\S+)$")
LABEL = re.compile(r'\w+="([^"]*)"')
LOG_WORDS = re.compile(r'"?reason"?[:=] ?"?(\w+)')
TIMEOUT_S = 2.0
LOG_LINES = 2000
LOG_BYTES = 1 << 20


class Shown:
    """Collects, over the whole run, which reason was seen where."""

    def __init__(self, machine: Machine) -> None:
        """Nothing seen yet."""
        self._machine = machine
        self._seen: dict[str, set[str]] = {}

    def note(self, place: str, words: Iterable[str]) -> None:
        """Words of the catalogue seen in one place; others are passed over."""
        for word in words:
            if word in REASONS:
                self._seen.setdefault(word, set()).add(place)

    def by_reason(self) -> Mapping[str, tuple[str, ...]]:
        """The places of each reason, in their order."""
        return {
            reason: tuple(place for place in PLACES if place in places)
            for reason, places in sorted(self._seen.items())
        }

    async def look(self) -> None:
        """One look at metrics, Events and the listener's log: any of them may be gone later."""
        ports = self._machine.ports
        for port in (ports.metrics, ports.listener_metrics):
            self.note("metric", metric_words(await _text(f"http://127.0.0.1:{port}/metrics")))
        admin = self._machine.admin
        with contextlib.suppress(KubeError):
            for namespace in (NAMESPACE, SYSTEM_NAMESPACE):
                events = await admin.list(EVENTS, namespace)
                self.note("Event", (event.reason or "" for event in events.items))
            for pod in (await admin.list(PODS, SYSTEM_NAMESPACE)).items:
                name = str(pod.metadata.name)
                text = await admin.pod_logs(
                    SYSTEM_NAMESPACE, name, tail_lines=LOG_LINES, limit_bytes=LOG_BYTES
                )
                self.note("log", LOG_WORDS.findall(text))

    def read_logs(self) -> None:
        """The controller's whole log, once at the end."""
        path = self._machine.supervisor.child(MANAGER).log_path
        with contextlib.suppress(OSError):
            self.note("log", LOG_WORDS.findall(path.read_text(errors="replace")))


def metric_words(text: str) -> list[str]:
    """Label values of trouble metrics that stand above zero."""
    words: list[str] = []
    for line in text.splitlines():
        match = METRIC.match(line)
        if match and match["name"].startswith(TROUBLE_METRICS) and float(match["value"]) > 0:
            words += LABEL.findall(match["labels"])
    return words


async def _text(url: str) -> str:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return await answer.text()
    except (aiohttp.ClientError, TimeoutError):
        return ""
