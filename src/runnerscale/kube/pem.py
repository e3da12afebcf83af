"""A client certificate with its key, as text."""

from dataclasses import dataclass

from runnerscale.core.secret import SecretText


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """PEM of the certificate chain, and of its private key."""

    certificate_pem: str
    key: SecretText
