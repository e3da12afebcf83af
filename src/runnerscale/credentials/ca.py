"""Extra root certificates: from a config map's key to PEM text that was found readable.

Reading the config map is `source.py`; trusting the certificates is `scaleset/trust.py`.

Pure. Contract: resources-and-controllers 5.5.
"""

import base64
import binascii

from runnerscale.credentials.place import CertificateFrom
from runnerscale.kube.builtin import ConfigMap
from runnerscale.scaleset.errors import InvalidCertificate
from runnerscale.scaleset.trust import check_root_ca


def check_reference(certificate: CertificateFrom) -> None:
    """Both names are there.

    Raises:
        InvalidCertificate: one is missing.
    """
    if not certificate.name or not certificate.key:
        raise InvalidCertificate(
            "githubServerTLS is set, but certificateFrom.configMapKeyRef not specified with "
            "name and key"
        )


def certificates_in(config_map: ConfigMap, certificate: CertificateFrom) -> str:
    """The PEM text under the key.

    Raises:
        InvalidCertificate: the key is missing, or holds no certificate.
    """
    text = (config_map.data or {}).get(certificate.key, "")
    if not text:
        text = _binary(config_map, certificate.key)
    if not text.strip():
        raise InvalidCertificate(
            f'the config map has no key "{certificate.key}", or nothing is in it'
        )
    try:
        check_root_ca(text)
    except InvalidCertificate as error:
        raise InvalidCertificate(f"failed to parse certificate: {error}") from error
    return text


def _binary(config_map: ConfigMap, key: str) -> str:
    try:
        return base64.b64decode((config_map.binary_data or {}).get(key, "")).decode("latin-1")
    except binascii.Error:
        return ""
