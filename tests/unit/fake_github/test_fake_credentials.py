"""Who is let in: PATs, app JWTs, the tokens made from them, and how often they may ask."""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from runnerscale.core.secret import SecretText
from runnerscale.fake_github.app_jwt import check_app_jwt
from runnerscale.fake_github.options import Options, RateLimitForm
from runnerscale.fake_github.refusals import Refused
from runnerscale.fake_github.rest_api import config_path
from tests.unit.fake_github.http_world import Client, Reply, github

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]
NOW_S = 1_800_000_000.0


@pytest.fixture(scope="module")
def keys() -> tuple[str, str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


def app_jwt(key: str, **changes: Any) -> str:
    claims = {"iat": int(NOW_S) - 60, "exp": int(NOW_S) + 480, "iss": "Iv1.client"} | changes
    return jwt.encode({k: v for k, v in claims.items() if v is not None}, key, algorithm="RS256")


def test_a_jwt_as_the_contract_has_it_is_let_in(keys: tuple[str, str]) -> None:
    options = Options(app_public_key_pem=keys[1], app_issuer="Iv1.client")
    assert check_app_jwt(app_jwt(keys[0]), options, now_s=NOW_S) == "Iv1.client"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"exp": int(NOW_S) - 1}, "in the past"),
        ({"exp": int(NOW_S) + 601}, "too far in the future"),
        ({"iat": int(NOW_S) + 120}, "'iat'"),
        ({"exp": None}, "numeric"),
        ({"exp": NOW_S + 400.5}, "numeric"),
        ({"iss": ""}, "'iss'"),
        ({"iss": "other"}, "no known app"),
    ],
)
def test_a_jwt_with_wrong_claims_is_refused(
    keys: tuple[str, str], changes: dict[str, Any], says: str
) -> None:
    options = Options(app_public_key_pem=keys[1], app_issuer="Iv1.client")
    with pytest.raises(Refused, match=says) as refused:
        check_app_jwt(app_jwt(keys[0], **changes), options, now_s=NOW_S)
    assert refused.value.status == 401


def test_a_signature_is_checked_where_a_key_is_known(keys: tuple[str, str]) -> None:
    forged = app_jwt(keys[0])[:-12] + "AAAAAAAAAAAA"
    with pytest.raises(Refused, match="could not be decoded"):
        check_app_jwt(forged, Options(app_public_key_pem=keys[1]), now_s=NOW_S)
    assert check_app_jwt(forged, Options(), now_s=NOW_S) == "Iv1.client"


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c",
        "ä.ö.ü",
        f"{part([])}.{part({})}.x",
        f"{part({'alg': 'none'})}.{part({})}.x",
        f"{part({'alg': 'HS256'})}.{part({})}.x",
        "x" * 10_000,
        f"{part({'alg': 'RS256'})}.{'[' * 3000}.x",
    ],
)
def test_what_is_no_jwt_is_refused(token: str) -> None:
    with pytest.raises(Refused, match="could not be decoded"):
        check_app_jwt(token, Options(), now_s=NOW_S)


async def ask(client: Client, token: str, path: str = "orgs/my-org") -> Reply:
    return await client.send(
        "POST",
        f"/api/v3/{path}/actions/runners/registration-token",
        headers={"Authorization": f"Bearer {token}"},
    )


def test_an_app_goes_from_jwt_to_installation_token_to_registration_token(
    run_virtual: RunVirtual, keys: tuple[str, str]
) -> None:
    async def story() -> None:
        options: dict[str, Any] = {
            "app_public_key_pem": keys[1],
            "app_installation_id": 77,
            "installation_token_life_s": 3_600,
            "access_tokens": (SecretText("the-pat"),),
        }
        async with github(**options) as client:
            headers = {"Authorization": f"Bearer {app_jwt(keys[0])}"}
            path = "/api/v3/app/installations/{}/access_tokens"
            made = await client.send("POST", path.format(77), headers=headers)
            assert made.status == 201
            assert made.json["expires_at"] == "2027-01-15T09:00:00Z"
            assert (await ask(client, made.json["token"])).status == 201
            assert (await ask(client, "ghs_guess")).status == 401
            assert (await client.send("POST", path.format(78), headers=headers)).status == 404
            assert (await client.send("POST", path.format(77))).status == 401
            await asyncio.sleep(3_601)
            assert (await ask(client, made.json["token"])).status == 401

    run_virtual(story())


def test_only_known_access_tokens_are_let_in_where_some_are_named(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(access_tokens=(SecretText("one"), SecretText("two"))) as client:
            assert (await ask(client, "two")).status == 201
            for wrong in ("three", "", "twö"):
                reply = await ask(client, wrong)
                assert (reply.status, reply.json["message"]) == (401, "Bad credentials")

    run_virtual(story())


@pytest.mark.behaviour("C2 T22")
@pytest.mark.parametrize(
    ("kind", "path", "tenant"),
    [
        ("orgs", "My-Org", "my-org"),
        ("repos", "my-org/App", "my-org/app"),
        ("enterprises", "enterprises/Big", "enterprises/big"),
    ],
)
def test_each_scope_has_its_path_and_its_tenant(
    run_virtual: RunVirtual, kind: str, path: str, tenant: str
) -> None:
    async def story() -> None:
        async with github() as client:
            assert (await client.register(path, kind)).status == 200
            assert list(client.fake.state.tenants) == [tenant]

    run_virtual(story())


def test_an_owner_that_does_not_exist_is_not_found(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(owners=("My-Org", "big")) as client:
            assert (await ask(client, "x")).status == 201
            assert (await ask(client, "x", "repos/my-org/any")).status == 201
            assert (await ask(client, "x", "enterprises/big")).status == 201
            assert (await ask(client, "x", "orgs/other")).status == 404

    run_virtual(story())


def test_a_registration_token_is_for_its_scope_and_its_time(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(registration_token_life_s=600) as client:
            token = (await ask(client, "x")).json["token"]

            async def register(url: object, **more: Any) -> int:
                reply = await client.send(
                    "POST",
                    "/api/v3/actions/runner-registration",
                    headers={"Authorization": f"RemoteAuth {token}"},
                    json={"url": url, "runner_event": "register", **more},
                )
                return reply.status

            assert await register("https://github.com/my-org") == 200
            assert await register("https://github.com/My-Org/") == 200
            assert await register("https://github.com/other") == 404
            assert await register(7) == 404
            assert await register("https://github.com/my-org", runner_event="leave") == 422
            await asyncio.sleep(600)
            assert await register("https://github.com/my-org") == 401

    run_virtual(story())


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://github.com/Org", "org"),
        ("https://user:pw@h:1/org/repo?x=1#f", "org/repo"),
        ("https://h/enterprises/e", "enterprises/e"),
        ("https://h/", None),
        ("https://h/a/b/c", None),
        ("https://[bad", None),
        (None, None),
    ],
)
def test_the_scope_of_a_config_url(url: object, path: str | None) -> None:
    assert config_path(url) == path


@pytest.mark.parametrize(
    ("form", "status", "header"),
    [
        (RateLimitForm.PRIMARY, 403, "x-ratelimit-reset"),
        (RateLimitForm.SECONDARY, 403, "Retry-After"),
        (RateLimitForm.TOO_MANY, 429, "Retry-After"),
    ],
)
def test_too_many_calls_are_refused_in_each_of_githubs_forms(
    run_virtual: RunVirtual, form: RateLimitForm, status: int, header: str
) -> None:
    async def story() -> None:
        limits: dict[str, Any] = {
            "rate_limit_calls": 2,
            "rate_limit_window_s": 60,
            "rate_limit_form": form,
        }
        async with github(**limits) as client:
            first = await ask(client, "one")
            assert first.headers["x-ratelimit-remaining"] == "1"
            await ask(client, "one")
            refused = await ask(client, "one")
            assert refused.status == status
            assert header in refused.headers
            if header == "Retry-After":
                assert refused.headers[header] == "60"
            else:
                assert refused.headers["x-ratelimit-remaining"] == "0"
                assert float(refused.headers[header]) == client.fake.hub.now_s() + 60
            assert (await ask(client, "another")).status == 201
            await asyncio.sleep(61)
            assert (await ask(client, "one")).status == 201

    run_virtual(story())


def test_no_secret_shows_in_the_options() -> None:
    options = replace(
        Options(), control_token=SecretText("hush"), access_tokens=(SecretText("hush"),)
    )
    assert "hush" not in repr(options)
