"""What a config URL names: which enterprise, organization or repository, on which GitHub.

The only parser of such URLs in the project: labels, metrics, cache keys and traffic all
ask here, so that they can never disagree (weaknesses W40-W44). Which calls are then made
is `requests.py`.

Pure. Contract: github-service-and-listener 1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote, unquote, urlsplit

from runnerscale.scaleset.errors import InvalidConfigUrl

FORCE_GHES_VARIABLE = "GITHUB_ACTIONS_FORCE_GHES"

_HOSTED_NAMES = {
    "github.com": "api.github.com",
    "www.github.com": "api.github.com",
    "github.localhost": "api.github.localhost",
}
_HOSTED_SUFFIX = ".ghe.com"
_DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_CHARS_MAX = 253  # of a name in DNS
_HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_REMEDY = "Use https://github.com/ORG, https://github.com/ORG/REPO or .../enterprises/NAME"


class Scope(StrEnum):
    """What kind of thing the URL names."""

    ENTERPRISE = "enterprise"
    ORGANIZATION = "organization"
    REPOSITORY = "repository"


@dataclass(frozen=True, slots=True)
class ConfigUrl:
    """A parsed config URL. `str()` is fit for logs: no user info, query or fragment."""

    text: str = field(repr=False)  # as given, without outer slashes: what registration sends
    scheme: str
    host: str  # lower case, without port and brackets
    port: int | None  # None: the scheme's own
    scope: Scope
    hosted: bool  # github.com or ghe.com; else a GitHub Enterprise Server
    enterprise: str = ""
    organization: str = ""
    repository: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{_authority(self.host, self.port)}/{self.slug}"

    @property
    def slug(self) -> str:
        """`enterprises/NAME`, `ORG` or `ORG/REPO`."""
        if self.scope is Scope.ENTERPRISE:
            return f"enterprises/{self.enterprise}"
        if self.scope is Scope.REPOSITORY:
            return f"{self.organization}/{self.repository}"
        return self.organization

    def api_url(self, path: str) -> str:
        """Where GitHub's REST API answers `path` (which begins with a slash)."""
        if not self.hosted:
            return f"{self.scheme}://{_authority(self.host, self.port)}/api/v3{path}"
        api_host = _HOSTED_NAMES.get(self.host, f"api.{self.host}")
        return f"{self.scheme}://{_authority(api_host, self.port)}{path}"

    @property
    def runners_path(self) -> str:
        """The REST path of this place's runners: `/orgs/ORG/actions/runners` and so on."""
        if self.scope is Scope.ENTERPRISE:
            return f"/enterprises/{quote(self.enterprise, safe='')}/actions/runners"
        organization = quote(self.organization, safe="")
        if self.scope is Scope.REPOSITORY:
            return f"/repos/{organization}/{quote(self.repository, safe='')}/actions/runners"
        return f"/orgs/{organization}/actions/runners"


def force_ghes_in(environ: Mapping[str, str]) -> bool:
    """Whether the environment says that no host is GitHub's own; even an empty value does."""
    return FORCE_GHES_VARIABLE in environ


def parse_config_url(text: str, *, force_ghes: bool = False) -> ConfigUrl:
    """Read a config URL. `force_ghes`: read once at start by `force_ghes_in`.

    Raises:
        InvalidConfigUrl: not a URL, no scheme or host, or it names none of the three.
    """
    trimmed = text.strip().strip("/")
    scheme, host, port, path = _split(trimmed)
    parts = unquote(path).strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts) or len(parts) > 2:
        raise InvalidConfigUrl(
            "invalid config URL, should point to an enterprise, org, or repository: "
            f'"{without_secrets(trimmed)}". {_REMEDY}'
        )
    hosted = not force_ghes and (host in _HOSTED_NAMES or host.endswith(_HOSTED_SUFFIX))
    place = ConfigUrl(trimmed, scheme, host, port, Scope.ORGANIZATION, hosted)
    return _with_names(place, parts)


def without_secrets(url: str) -> str:
    """A URL fit for logs and errors: no user info, no query, no fragment."""
    head, slashes, rest = url.partition("://")
    if not slashes:
        head, rest = "", url
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    return f"{head}{slashes}{authority.rpartition('@')[2]}{slash}{path}"


def _with_names(place: ConfigUrl, parts: list[str]) -> ConfigUrl:
    first, second = parts[0], parts[1] if len(parts) == 2 else ""
    names: dict[str, str] = {"organization": first}
    scope = Scope.ORGANIZATION
    if second and first.lower() == "enterprises":
        scope, names = Scope.ENTERPRISE, {"enterprise": second}
    elif second:
        scope, names["repository"] = Scope.REPOSITORY, second
    return ConfigUrl(place.text, place.scheme, place.host, place.port, scope, place.hosted, **names)


def _split(text: str) -> tuple[str, str, int | None, str]:
    """Scheme, host, port and path, all checked: urllib lets too much pass."""
    if any(ord(letter) <= 0x20 or ord(letter) == 0x7F for letter in text):
        raise _unparseable(text, "it contains a blank or a control character")
    try:
        url = urlsplit(text)
        host, port = (url.hostname or "").lower(), url.port
    except ValueError as error:
        raise _unparseable(text, str(error)) from error
    if text and (url.scheme not in _DEFAULT_PORTS or not host):
        raise _unparseable(text, "it must begin with https:// (or http://) and a host")
    if text and (len(host) > HOST_CHARS_MAX or not _HOST.fullmatch(host)):
        raise _unparseable(text, "its host is not a host name or address")
    if _BAD_ESCAPE.search(url.path):
        raise _unparseable(text, "it has a % that begins no escape")
    return url.scheme, host, None if port == _DEFAULT_PORTS.get(url.scheme) else port, url.path


def _unparseable(text: str, why: str) -> InvalidConfigUrl:
    return InvalidConfigUrl(
        f'invalid config URL "{without_secrets(text)}": failed to parse URL: {why}. {_REMEDY}'
    )


def _authority(host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"
