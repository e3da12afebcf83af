import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from runnerscale.scaleset.credentials import app_credentials, personal_access_token
from runnerscale.scaleset.errors import InvalidCredentials

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(form: serialization.PrivateFormat, *, password: bytes | None = None) -> str:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    return KEY.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


PKCS1 = pem(serialization.PrivateFormat.TraditionalOpenSSL)
PKCS8 = pem(serialization.PrivateFormat.PKCS8)


@pytest.mark.behaviour("C2 T21", "C2 T20")
@pytest.mark.parametrize("key", [PKCS1, PKCS8])
def test_both_forms_of_an_rsa_key_sign(key: str) -> None:
    now_s = 1_800_000_000.7
    token = app_credentials("Iv23f8doAlphaNumer1c", 10, key).jwt(now_s=now_s)
    header = jwt.get_unverified_header(token)
    claims = jwt.decode(
        token,
        KEY.public_key(),
        algorithms=["RS256"],
        options={"verify_exp": False, "verify_iat": False},
    )
    assert header == {"alg": "RS256", "typ": "JWT"}
    # iat is a minute back, exp nine minutes after it, both whole seconds (contract 0).
    assert claims == {"iat": 1_799_999_940, "exp": 1_800_000_480, "iss": "Iv23f8doAlphaNumer1c"}


@pytest.mark.behaviour("C2 T21")
@pytest.mark.parametrize(
    "key",
    [
        "garbage",
        "-----BEGIN RSA PRIVATE KEY-----\nhush\n-----END RSA PRIVATE KEY-----",
        pem(serialization.PrivateFormat.PKCS8, password=b"x"),
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode(),
    ],
)
def test_what_is_no_rsa_key_is_told_so_without_being_quoted(key: str) -> None:
    with pytest.raises(InvalidCredentials, match="failed to parse RSA private key") as caught:
        app_credentials("1", 10, key)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_key_pasted_on_one_line_is_mended() -> None:
    mended = app_credentials(" 1 \n", 10, PKCS8.replace("\n", "\\n"))
    assert mended == app_credentials("1", 10, PKCS8)


@pytest.mark.parametrize(
    ("client_id", "installation_id", "key", "said"),
    [
        ("", 10, PKCS8, "client id is missing"),
        ("1 2", 10, PKCS8, "client id contains"),
        ("1", 0, PKCS8, "installation id is 0"),
        ("1", -4, PKCS8, "installation id is -4"),
        ("1", 10, " \n", "private key is missing"),
    ],
)
def test_incomplete_app_credentials_are_refused(
    client_id: str, installation_id: int, key: str, said: str
) -> None:
    with pytest.raises(InvalidCredentials, match=said):
        app_credentials(client_id, installation_id, key)


def test_a_token_is_trimmed_and_never_shown() -> None:
    token = personal_access_token("\tghp_hush\n")
    assert token.token.reveal() == "ghp_hush"
    assert "hush" not in repr(token) + str(token)


@pytest.mark.parametrize("text", ["", "  \n", "two words", "ghp_\nhush", "ghp_\x00", "ghp_é"])
def test_a_token_that_cannot_be_one_is_refused(text: str) -> None:
    with pytest.raises(InvalidCredentials) as caught:
        personal_access_token(text)
    assert "hush" not in str(caught.value)


def test_fingerprints_tell_credentials_apart() -> None:
    several = [
        personal_access_token("a"),
        personal_access_token("b"),
        app_credentials("a", 10, PKCS8),
        app_credentials("a", 11, PKCS8),
        app_credentials("b", 10, PKCS8),
    ]
    assert len({one.fingerprint for one in several}) == len(several)
    assert personal_access_token("a").fingerprint == personal_access_token(" a").fingerprint
