"""Where the listener's credentials, proxies and CA come from in this pass.

Read again in every pass: a rotated token must arrive without anybody's doing (W2). That they
cannot be had does not touch a listener that works: its last good configuration stays (W51).
How a place becomes credentials is `credentials/`.

Pure. Contract: resources-and-controllers 4.2 L8, 5.2.
"""

from urllib.parse import quote, urlsplit, urlunsplit

from runnerscale.api.reasons import Trouble
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    Look,
    ReadVaultProxy,
    ResolveMeans,
    Snapshot,
)
from runnerscale.controllers.places import place_of
from runnerscale.controllers.stages import Stage
from runnerscale.credentials.place import Resolved

UNREADABLE_AGAIN_S = 30.0  # a missing Secret is usually being created; the level pass is slower


def stage(seen: Snapshot) -> Stage[Action]:
    """Ask once in a pass; say what is wrong with the answer."""
    spec = seen.listener.spec
    actions: list[Action] = []
    if seen.means is None:
        namespace = spec.autoscaling_runner_set_namespace
        actions.append(ResolveMeans(place_of(spec, namespace=namespace)))
    secret_name = vault_proxy_secret(seen)
    if secret_name and seen.vault_proxy is Look.UNASKED:
        actions.append(ReadVaultProxy(spec.autoscaling_runner_set_namespace, secret_name))
    if isinstance(seen.means, Trouble):
        return Stage(tuple(actions), (seen.means,), again_s=UNREADABLE_AGAIN_S)
    return Stage(tuple(actions))


def resolved(seen: Snapshot) -> Resolved | None:
    """The answer, if it was a good one."""
    return seen.means if isinstance(seen.means, Resolved) else None


def vault_proxy_secret(seen: Snapshot) -> str:
    """The Secret with credentials for the proxy before the vault; "": none is needed."""
    vault = seen.listener.spec.vault_config
    proxy = vault.proxy if vault and vault.type else None
    servers = (proxy.https, proxy.http) if proxy else ()
    # One proxy stands before a vault; where both schemes name credentials, https is what is used.
    return next((s.credential_secret_ref for s in servers if s and s.credential_secret_ref), "")


def with_user(url: str, username: str, password: str) -> str:
    """A proxy URL with this user information instead of whatever it had."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = f"{quote(username, safe='')}:{quote(password, safe='')}@" if username else ""
    return urlunsplit(parts._replace(netloc=f"{user}{host}"))
