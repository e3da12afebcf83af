"""Which proxy a request takes, and which go direct.

A file of its own because the `no_proxy` grammar is Go's, not Python's, and must read the
same in controller, listener and runner. Whose proxies these are (a resource, Secrets, the
environment) is not decided here.

Pure. Contract: github-service-and-listener 3.4, resources-and-controllers 5.5.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from runnerscale.core.secret import SecretText
from runnerscale.core.whole_number import whole_number
from runnerscale.scaleset.errors import InvalidProxy

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ProxyServer:
    """One proxy; the URL has no user info."""

    url: str
    username: str = ""
    password: SecretText | None = None


@dataclass(frozen=True, slots=True)
class ProxyRules:
    """Proxies by scheme of the target. The URLs may hold `user:password@`."""

    http: SecretText | None = None
    https: SecretText | None = None
    no_proxy: tuple[str, ...] = ()

    @property
    def configured(self) -> bool:
        """Somebody said something about proxies, if only what goes direct."""
        return bool(self.http or self.https or self.no_proxy)

    def checked(self) -> "ProxyRules":
        """Itself, once both URLs were found readable.

        Raises:
            InvalidProxy: one of them is not.
        """
        for url in (self.http, self.https):
            if url:
                parse_proxy(url.reveal())
        return self

    def server_for(self, url: str) -> ProxyServer | None:
        """The proxy that a request to `url` takes; None: it goes direct.

        Raises:
            InvalidProxy: the proxy's URL cannot be used.
        """
        parts = urlsplit(url)
        proxy = self.https if parts.scheme == "https" else self.http
        host = (parts.hostname or "").lower()
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        if not proxy or goes_direct(host, port, self.no_proxy):
            return None
        return parse_proxy(proxy.reveal())


def proxies_in(environ: Mapping[str, str]) -> ProxyRules:
    """What `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case, say."""

    def value(name: str) -> str:
        return (environ.get(name.upper()) or environ.get(name) or "").strip()

    http, https = value("http_proxy"), value("https_proxy")
    return ProxyRules(
        http=SecretText(http) if http else None,
        https=SecretText(https) if https else None,
        no_proxy=split_no_proxy(value("no_proxy")),
    )


def split_no_proxy(text: str) -> tuple[str, ...]:
    """The entries of a comma-separated list."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def parse_proxy(url: str) -> ProxyServer:
    """A proxy URL taken apart; one without a scheme is an http one, as Go has it.

    Raises:
        InvalidProxy: no host, or a scheme other than http and https.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidProxy("the proxy's URL cannot be read. Write http://HOST:PORT") from error
    if not all(c.isprintable() and not c.isspace() for c in url):
        raise InvalidProxy("the proxy's URL holds a blank or a line break. Write http://HOST:PORT")
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise InvalidProxy(
            f"the proxy's URL has scheme {parts.scheme!r} and host {host!r}. "
            "Write http://HOST:PORT or https://HOST:PORT"
        )
    username = unquote(parts.username or "")
    if ":" in username:
        raise InvalidProxy("the proxy's user name contains a colon. HTTP does not allow one")
    name = f"[{host}]" if ":" in host else host
    authority = name if port is None else f"{name}:{port}"
    password = None if parts.password is None else SecretText(unquote(parts.password))
    return ProxyServer(f"{parts.scheme}://{authority}", username=username, password=password)


def goes_direct(host: str, port: int, no_proxy: Iterable[str]) -> bool:
    """Whether a target is exempt from proxying; the machine itself always is."""
    host = host.rstrip(".").lower()
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_covers(entry.strip().lower(), host, port, address) for entry in no_proxy)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _covers(entry: str, host: str, port: int, address: _Address | None) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _in_network(address, entry)
    entry, wanted_port = _split_port(entry)
    if wanted_port and wanted_port != port:
        return False
    own = _address(entry)
    if own is not None:
        return own == address
    if entry.startswith("*."):
        entry = entry[1:]
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith(f".{entry}")


def _split_port(entry: str) -> tuple[str, int]:
    if _address(entry) is not None:  # an IPv6 address is full of colons
        return entry, 0
    name, colon, digits = entry.rpartition(":")
    port = whole_number(digits)
    if not colon or port is None:
        return entry, 0
    return name, port


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _in_network(address: _Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
