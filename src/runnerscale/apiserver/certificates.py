"""The server's own CA and certificate, made at first start and kept in the data folder.

kubectl and the service accounts trust the CA; the server certificate is renewed when less than
half of its life is left, at a start and while the server runs: whoever is connected notices
nothing. Keys never leave the folder (mode 0600).
"""

import ipaddress
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runnerscale.core.private_folder import make_private

CA_DAYS = 3650
SERVER_DAYS = 365
NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADDRESSES = ("127.0.0.1", "::1")


class UnusableFile(Exception):
    """A file of the data folder is there, and not what it should be; the text names it."""

    def __init__(
        self, happened: str, remedy: str = "restore it, or delete it and a new one is made"
    ) -> None:
        """What is wrong with which file, and what to do."""
        super().__init__(happened)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the files are, and the CA as text."""

    ca_pem: str
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """For the listening socket."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """The certificate for connections that are made from now on."""
        context.load_cert_chain(self.certificate, self.key)


def ensure_certificates(folder: Path, *, now_s: float) -> Certificates:
    """Read them, or make what is missing or too old.

    Raises:
        OSError: the folder cannot be written.
        UnusableFile: a file in it was damaged.
    """
    make_private(folder)
    ca_path, ca_key_path = folder / "ca.crt", folder / "ca.key"
    now = datetime.fromtimestamp(now_s, UTC)
    if ca_path.exists() and ca_key_path.exists():
        ca, ca_key = _read_ca(ca_path, ca_key_path)
        _check_times(ca_path, ca, now)
    else:
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca = _make_ca(ca_key, now)
        _write(ca_key_path, _key_pem(ca_key), secret=True)
        _write(ca_path, ca.public_bytes(serialization.Encoding.PEM), secret=False)
    certificate, key_path = folder / "server.crt", folder / "server.key"
    if not _still_good(certificate, key_path, ca, now):
        key = ec.generate_private_key(ec.SECP256R1())
        made = _make_server(key, ca, ca_key, now)
        _write(key_path, _key_pem(key), secret=True)
        _write(certificate, made.public_bytes(serialization.Encoding.PEM), secret=False)
    return Certificates(ca_path.read_text(), certificate, key_path)


def _read_ca(path: Path, key_path: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        ca = x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise UnusableFile(f"{path} holds no certificate") from None
    try:
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnusableFile(f"{key_path} holds no key of ours")
    return ca, key


def _check_times(path: Path, ca: x509.Certificate, now: datetime) -> None:
    begin, end = ca.not_valid_before_utc, ca.not_valid_after_utc
    if now < begin:
        raise UnusableFile(
            f"{path} is valid from {begin:%Y-%m-%d %H:%M} UTC only, and by the clock of this"
            f" machine it is {now:%Y-%m-%d %H:%M} UTC",
            "correct the clock, then start again",
        )
    if now >= end:
        raise UnusableFile(f"{path} has expired on {end:%Y-%m-%d}")


def _still_good(path: Path, key_path: Path, ca: x509.Certificate, now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(ca)
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is made
        return False
    if key.public_key() != certificate.public_key():
        return False  # one of the two was written when the machine went down
    # Not valid yet: made under a clock that was ahead.
    begun = certificate.not_valid_before_utc <= now
    return begun and certificate.not_valid_after_utc - now > timedelta(days=SERVER_DAYS / 2)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _make_ca(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _name("runnerscale-ca")
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _make_server(
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    alternatives += [x509.IPAddress(ipaddress.ip_address(a)) for a in ADDRESSES]
    return (
        x509.CertificateBuilder()
        .subject_name(_name("kube-apiserver"))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=SERVER_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
            critical=False,
        )
        .sign(ca_key, hashes.SHA256())
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, data: bytes, *, secret: bool) -> None:
    """Whole or not at all, so that a crash leaves no half file."""
    temporary = path.with_name(path.name + ".new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if secret else 0o644)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # a name on the disk without its bytes would be an empty token
    temporary.replace(path)


def write_secret_file(path: Path, data: bytes) -> None:
    """A file only its owner may read."""
    _write(path, data, secret=True)
