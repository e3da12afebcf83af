"""GitHub's REST half: from a credential to the address and token of the Actions service.

Installation token, registration token, runner registration (contract C2 2.2-2.4).
"""

import hmac
from urllib.parse import unquote, urlsplit

from runnerscale.core.secret import SecretText
from runnerscale.fake_github.addresses import moved, tenant_url
from runnerscale.fake_github.answers import Answer, Call, json_answer
from runnerscale.fake_github.app_jwt import check_app_jwt
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.refusals import Refused, rest
from runnerscale.fake_github.wire import rest_time_text

INSTALLATION_PREFIX = "ghs_"


async def installation_token(hub: Hub, call: Call) -> Answer:
    """A GitHub App exchanges its JWT for a token (C2 2.3)."""
    check_app_jwt(call.bearer(), hub.options, now_s=hub.shown_s())
    installation = call.number("installation")
    wanted = hub.options.app_installation_id
    if wanted and installation != wanted:
        raise rest(404, "Not Found")
    life_s = hub.options.installation_token_life_s
    token = hub.state.tokens.issue(
        "installation",
        str(installation),
        prefix=INSTALLATION_PREFIX,
        expires_s=hub.now_s() + life_s,
    )
    expires = rest_time_text(hub.shown_s() + life_s)
    return json_answer({"token": token, "expires_at": expires}, 201)


async def registration_token(hub: Hub, call: Call) -> Answer:
    """A PAT or installation token becomes a registration token (C2 2.2)."""
    check_access_token(hub, call.bearer())
    path = _tenant_path(call)
    if not owner_exists(hub.options, path):
        raise rest(404, "Not Found")
    life_s = hub.options.registration_token_life_s
    token = hub.state.tokens.issue(
        "registration", path.casefold(), prefix="AREG", expires_s=hub.now_s() + life_s
    )
    expires = rest_time_text(hub.shown_s() + life_s)
    return json_answer({"token": token, "expires_at": expires}, 201)


async def runner_registration(hub: Hub, call: Call) -> Answer:
    """A registration token becomes tenant URL and admin JWT (C2 2.4)."""
    path = hub.state.tokens.subject("registration", call.bearer("RemoteAuth"), now_s=hub.now_s())
    if path is None:
        raise rest(401, "Invalid registration token")
    body = call.json_object()
    if body.get("runner_event") != "register":
        raise rest(422, "runner_event must be 'register'")
    if config_path(body.get("url")) != path:
        raise rest(404, "Not Found")
    tenant = hub.state.tenant(path)
    url = tenant_url(call.scheme, call.host, tenant.id, hub.options.hosted_backend)
    url = moved(url, hub.options.public_url)
    token = hub.state.tokens.issue_jwt(
        "admin",
        tenant.id,
        now_s=hub.shown_s(),
        expires_s=hub.shown_s() + hub.options.admin_token_life_s,
    )
    return json_answer({"url": url, "token": token, "token_schema": "OAuthAccessToken"})


def check_access_token(hub: Hub, token: str) -> None:
    """Whether a PAT or installation token is let in.

    Raises:
        Refused: 401.
    """
    if token.startswith(INSTALLATION_PREFIX):
        known = hub.state.tokens.subject("installation", token, now_s=hub.now_s()) is not None
    elif hub.options.access_tokens:
        known = any(_same(token, each) for each in hub.options.access_tokens)
    else:
        known = bool(token)
    if not known:
        raise _bad_credentials()


def owner_exists(options: Options, path: str) -> bool:
    """Whether the organization, enterprise or owner of the repository exists."""
    if not options.owners:
        return True
    parts = path.casefold().split("/")
    owner = parts[1] if parts[0] == "enterprises" and len(parts) > 1 else parts[0]
    return owner in {each.casefold() for each in options.owners}


def config_path(url: object) -> str | None:
    """`org`, `org/repo` or `enterprises/slug` of a config URL, in lower case."""
    if not isinstance(url, str):
        return None
    try:
        path = unquote(urlsplit(url).path).strip("/").casefold()
    except ValueError:
        return None
    return path if 1 <= len(path.split("/")) <= 2 and path else None


def _tenant_path(call: Call) -> str:
    if "enterprise" in call.params:
        return f"enterprises/{call.params['enterprise']}"
    if "repo" in call.params:
        return f"{call.params['org']}/{call.params['repo']}"
    return call.params["org"]


def _same(token: str, known: SecretText) -> bool:
    return hmac.compare_digest(token.encode(errors="surrogateescape"), known.reveal().encode())


def _bad_credentials() -> Refused:
    return rest(401, "Bad credentials")
