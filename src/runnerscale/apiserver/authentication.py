"""Who asks: static tokens of the wiring, and service account tokens that this server signs.

A service account token is a JWT that names the account and its uid; it dies with its expiry,
with the account, and with the pod it is bound to. No token ever reaches a log or an error.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from runnerscale.apiserver.failures import unauthorized
from runnerscale.apiserver.rbac import User
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.store import Store
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random, uuid_text
from runnerscale.core.secret import SecretText

Json = dict[str, Any]

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCE = ISSUER
EXPIRATION_S_MIN = 600
EXPIRATION_S_MAX = 2**32
_VERIFIED_MAX = 10_000
AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with a static token, given by the wiring."""

    name: str
    token: SecretText
    groups: tuple[str, ...] = ()


class Authenticator:
    """From the Authorization header to a user."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: Random,
        identities: Sequence[Identity],
        signing_key: SecretText,
    ) -> None:
        """`signing_key`: at least 32 bytes of text; tokens outlive a restart with it."""
        self._store = store
        self._clock = clock
        self._random = random
        self._key = signing_key
        self._static = tuple(
            (i.token.reveal().encode(), User(i.name, (*i.groups, AUTHENTICATED)))
            for i in identities
        )
        self._verified: dict[bytes, Json] = {}  # by digest: a look-up tells nothing of a token

    def user_of(self, header: str | None) -> User:
        """The user of a request.

        Raises:
            ApiFailure: 401, a token that is no (longer a) good one.
        """
        if not header:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        return self.user_of_token(token.strip())

    def user_of_token(self, token: str) -> User:
        """The user of a token.

        Raises:
            ApiFailure: 401.
        """
        given = token.encode(errors="surrogateescape")  # a header may hold any bytes
        user = self._static_user(given)
        if user is not None:
            return user
        digest = hashlib.sha256(given).digest()
        claims = self._claims(given, digest)
        now_s = self._clock.now_s()
        if not claims["nbf"] - 60 <= now_s < claims["exp"]:
            self._verified.pop(digest, None)
            raise unauthorized()
        return self._account_user(claims["kubernetes.io"], claims["jti"])

    def _static_user(self, given: bytes) -> User | None:
        """Every token is compared to its end, also after one has fitted."""
        found = None
        for token, user in self._static:
            if hmac.compare_digest(given, token):
                found = user
        return found

    def _claims(self, token: bytes, digest: bytes) -> Json:
        """What a token says, its signature checked once."""
        kept = self._verified.get(digest)
        if kept is not None:
            return kept
        try:
            claims: Json = jwt.decode(
                token,
                self._key.reveal(),
                algorithms=["HS256"],
                audience=AUDIENCE,
                issuer=ISSUER,
                options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            raise unauthorized() from None
        if len(self._verified) >= _VERIFIED_MAX:
            self._verified.clear()
        self._verified[digest] = claims
        return claims

    def _account_user(self, private: Json, token_id: str) -> User:
        namespace, account = private["namespace"], private["serviceaccount"]
        record = self._store.table("serviceaccounts").get(namespace, account["name"])
        if record is None or record.uid != account["uid"]:
            raise unauthorized()
        pod = private.get("pod")
        extra: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("authentication.kubernetes.io/credential-id", (f"JTI={token_id}",)),
        )
        if pod is not None:
            found = self._store.table("pods").get(namespace, pod["name"])
            if found is None or found.uid != pod["uid"]:
                raise unauthorized()
            extra += (
                ("authentication.kubernetes.io/pod-name", (pod["name"],)),
                ("authentication.kubernetes.io/pod-uid", (pod["uid"],)),
            )
        return service_account_user(namespace, account["name"], record.uid, extra)

    def issue(
        self,
        account: Record,
        *,
        expiration_s: int,
        pod: Record | None = None,
        audiences: Sequence[str] = (AUDIENCE,),
    ) -> tuple[str, float]:
        """A new token of a service account, and when it ends.

        Only a token for our own audience is accepted here.
        """
        now_s = int(self._clock.now_s())
        expires_s = now_s + min(expiration_s, EXPIRATION_S_MAX)
        private: Json = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        if pod is not None:
            private["pod"] = {"name": pod.name, "uid": pod.uid}
        claims = {
            "aud": list(audiences),
            "exp": expires_s,
            "iat": now_s,
            "nbf": now_s,
            "iss": ISSUER,
            "jti": uuid_text(self._random),
            "kubernetes.io": private,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        return jwt.encode(claims, self._key.reveal(), algorithm="HS256"), float(expires_s)


def service_account_user(
    namespace: str,
    name: str,
    uid: str = "",
    extra: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> User:
    """The user that a service account is."""
    groups = (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        AUTHENTICATED,
    )
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra)
