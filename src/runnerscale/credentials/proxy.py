"""From the proxies of a spec, and the Secrets with their logins, to URLs that can be used.

The flattened form (`http_proxy`, `https_proxy`, `no_proxy`) is what the controller's own
client, the listener's environment and the runners' proxy Secret all get, so it is made
once, here. Which request takes which of them is `scaleset/proxy.py`.

Pure. Contract: resources-and-controllers 3.6, 5.5.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import Proxy, ProxyServer
from runnerscale.credentials.record import InvalidRecord, decoded, json_object
from runnerscale.scaleset.errors import InvalidProxy
from runnerscale.scaleset.proxy import ProxyRules, parse_proxy

USERNAME = "username"
PASSWORD = "password"  # noqa: S105 - the name of a key


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are to a proxy."""

    username: str
    password: SecretText


def login_of_secret(data: Mapping[str, str]) -> Login:
    """The login in a Secret's `data` (base64 values).

    Raises:
        InvalidRecord: a key is missing or no text.
    """
    return _login(decoded(data, USERNAME), decoded(data, PASSWORD))


def login_of_vault(item: SecretText) -> Login:
    """The login in a vault item: one JSON object with both keys.

    Raises:
        InvalidRecord: no such object.
    """
    members = json_object(item)
    username, password = members.get(USERNAME), members.get(PASSWORD)
    if not isinstance(username, str) or not isinstance(password, str):
        raise InvalidRecord(f"it has no {USERNAME} and {PASSWORD} as strings")
    return _login(username, password)


def references(proxy: Proxy | None) -> tuple[str, ...]:
    """The names of the Secrets that must be read first."""
    servers = (proxy.http, proxy.https) if proxy else ()
    return tuple(dict.fromkeys(s.credential_secret_ref for s in servers if s and _refers(s)))


def flattened(proxy: Proxy | None, logins: Mapping[str, Login]) -> ProxyRules:
    """Both URLs, with `user:password@` where a login was asked for, and what goes direct.

    Raises:
        InvalidProxy: a URL that cannot be used.
    """
    if proxy is None:
        return ProxyRules()
    return ProxyRules(
        http=_flat(proxy.http, logins, "http"),
        https=_flat(proxy.https, logins, "https"),
        no_proxy=proxy.no_proxy,
    )


def _flat(
    server: ProxyServer | None, logins: Mapping[str, Login], scheme: str
) -> SecretText | None:
    if server is None:
        return None
    try:
        parsed = parse_proxy(server.url.strip())
    except InvalidProxy as error:
        raise InvalidProxy(f"proxy.{scheme}.url: {error}") from error
    login = logins.get(server.credential_secret_ref)
    if login is None:
        return SecretText(server.url.strip())
    head, _, rest = parsed.url.partition("://")
    user, password = quote(login.username, safe=""), quote(login.password.reveal(), safe="")
    return SecretText(f"{head}://{user}:{password}@{rest}")


def _login(username: str, password: str) -> Login:
    # A line break at the end is how such files are made; inside it no proxy takes it.
    login = Login(username.strip("\r\n"), SecretText(password.strip("\r\n")))
    if not login.username:
        raise InvalidRecord(f"its {USERNAME} is empty")
    if not login.password:
        raise InvalidRecord(f"its {PASSWORD} is empty")
    return login


def _refers(server: ProxyServer) -> bool:
    return bool(server.credential_secret_ref)
