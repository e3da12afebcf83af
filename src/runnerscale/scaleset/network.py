"""How to get to GitHub; nothing in it is about who we are.

A file of its own so that whoever says how (`credentials/`, `app/`, a test) loads no network for
it. Which transport then serves is `route.py`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from runnerscale.core.http_dial import Dial
from runnerscale.scaleset.proxy import ProxyRules
from runnerscale.scaleset.transport import BODY_MAX_BYTES

CONNECT_S = 10.0  # within an attempt's 30: a dead address is then known to have got nothing
KEEP_ALIVE_S = 90.0  # an idle connection is kept so long

# Host and port: the IP addresses to try. Raises OSError where there are none.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class NetworkOptions:
    """Where names lead, through whom, and whom we trust.

    `resolver`: None: the machine's. `dial`: makes the direct connections in place of our own;
    `resolver` is then its affair. `body_max_bytes`: of an answer, unpacked.
    """

    proxies: ProxyRules = field(default_factory=ProxyRules)
    root_ca_pem: str = ""
    verify_tls: bool = True
    resolver: Resolver | None = None
    dial: Dial | None = None
    body_max_bytes: int = BODY_MAX_BYTES
