"""Invariant 10: no secret in logs, Events, status, metrics, annotations or traces.

All secrets of this world can be told by a mark: what the pretended GitHub and the API server give
out by its form (`jit_`, `queue_`, `AREG`; JWTs and JIT configs: base64 of JSON begins with `eyJ`,
or with `eyI` where the first key is no word), the tokens that people hand out by a word in them,
keys by their PEM header. In base64 too. Secrets themselves, and what a runner's container is
started with, are where they belong.
"""

import re
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from tests.simulation.invariants.names import Json
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write

# How each begins, and what follows: the beginnings alone are looked for first, in a tenth of the
# time.
MARKS = (
    *((begins, r"[0-9a-f]{8}") for begins in ("jit_", "queue_", "AREG", "ghs_")),
    *((begins, r"[\w-]{12}") for begins in ("eyI", "eyJ")),
    *((begins, "") for begins in ("-token-of-", "PRIVATE KEY", "k" * 40)),
    *((begins, r"[\w+/]{8}") for begins in ("aml0X", "cXVldWVf", "QVJFR")),  # the first three
    *((begins, r"[\w+/]{12}") for begins in ("ZXlJ", "ZXlK")),  # a JWT, in base64 as these
    *((begins, "") for begins in ("LXRva2VuLW9mL", "tdG9rZW4tb2Yt", "10b2tlbi1vZi")),  # a token
)
BEGINNINGS = tuple(begins for begins, _ in MARKS)
MARK = re.compile("|".join(re.escape(begins) + follows for begins, follows in MARKS))
SHOWN = 6  # characters of what was found: enough to know which kind it is


class NoSecretIsTold(Rule):
    """Looks at everything that is written for somebody to read."""

    sentence = "no secret is told"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._told: set[str] = set()

    def hear(self, write: Write) -> Iterable[str]:
        """An object as it is stored: all of it, or all but the data of a Secret."""
        if write.after is None:
            return ()
        text = write.text
        if write.resource == "secrets":
            text = repr({key: write.after.get(key) for key in ("metadata", "type")})
        return self._look(f"{write.resource} {write.name}", text)

    def logged(self, component: str, line: Json) -> Iterable[str]:
        """A line with its fields, and the exception that goes with it."""
        text = repr(line)
        if line.get("exc_info"):
            text += _exception_text(line["exc_info"])
        return self._look(f"a log line of {component}: {line.get('event')}", text)

    def at_rest(self, world: Any) -> Iterable[str]:
        """What is only looked at in the end: metrics, the trace, last words of processes."""
        registries = {p.component.name: p.registry for p in world.controllers}
        registries |= world.listener_program.registries
        for name, registry in registries.items():
            yield from self._look(f"metrics of {name}", metrics_text(registry))
        yield from self._look("the trace", "\n".join(world.trace.lines))
        yield from self._look("what listeners said", "\n".join(world.listener_program.said))

    def _look(self, where: str, text: str) -> Iterable[str]:
        if not any(begins in text for begins in BEGINNINGS):
            return []
        found = MARK.search(text)
        if found is None or where in self._told:
            return []
        self._told.add(where)
        around = text[max(0, found.start() - 40) : found.start()]
        return [f"{where} has a secret: {around}{found.group()[:SHOWN]}..."]


def metrics_text(registry: CollectorRegistry) -> str:
    """As it is served."""
    return generate_latest(registry).decode()


def _exception_text(info: Any) -> str:
    error = sys.exc_info()[1] if info is True else info[1] if isinstance(info, tuple) else info
    return "".join(traceback.format_exception(error)) if error is not None else ""
