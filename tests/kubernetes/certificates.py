"""The keys and certificates of one test cluster: an authority, its server, its users.

Everything is made at start in the cluster's own folder and gone with it.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=2)
Key = ec.EllipticCurvePrivateKey


def _pem_of_key(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Authority:
    """Signs in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name("test cluster")
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
        certificate = (
            self._builder(self._subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = self._write("ca.crt", certificate.public_bytes(_PEM))

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + LIFETIME)
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path

    def _issue(
        self, file_name: str, builder: x509.CertificateBuilder, key: Key
    ) -> tuple[Path, Path]:
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)
        return (
            self._write(f"{file_name}.crt", certificate),
            self._write(f"{file_name}.key", _pem_of_key(key)),
        )

    def server(self, names: Sequence[str], addresses: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key files of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName(
            [
                *(x509.DNSName(name) for name in names),
                *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
            ]
        )
        builder = self._builder(_name(names[0]), key.public_key())
        builder = builder.add_extension(alternatives, critical=False)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._issue("server", builder.add_extension(usage, critical=False), key)

    def client(self, user: str, groups: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key files of a user of the API."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(user, groups), key.public_key())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        file_name = "client-" + "".join(c if c.isalnum() else "-" for c in user)
        return self._issue(file_name, builder.add_extension(usage, critical=False), key)

    def signing_key(self) -> Path:
        """The key file that service account tokens are signed with."""
        return self._write("service-accounts.key", _pem_of_key(ec.generate_private_key(_CURVE)))


_PEM = serialization.Encoding.PEM
_CURVE = ec.SECP256R1()
