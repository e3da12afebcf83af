import base64

import pytest
import trustme

from runnerscale.credentials.ca import certificates_in, check_reference
from runnerscale.credentials.place import CertificateFrom
from runnerscale.kube.builtin import ConfigMap
from runnerscale.scaleset.errors import InvalidCertificate

PEM = trustme.CA().cert_pem.bytes()
SOURCE = CertificateFrom("roots", "ca.crt")


def test_certificates_may_be_kept_as_text_or_as_bytes() -> None:
    assert certificates_in(ConfigMap(data={"ca.crt": PEM.decode()}), SOURCE) == PEM.decode()
    binary = ConfigMap(binary_data={"ca.crt": base64.b64encode(PEM).decode()})
    assert certificates_in(binary, SOURCE) == PEM.decode()


@pytest.mark.parametrize(
    ("config_map", "said"),
    [
        (ConfigMap(), 'has no key "ca.crt"'),
        (ConfigMap(data={"other": "x"}), 'has no key "ca.crt"'),
        (ConfigMap(binary_data={"ca.crt": "%"}), 'has no key "ca.crt"'),
        (ConfigMap(data={"ca.crt": "garbage"}), "failed to parse certificate"),
    ],
)
def test_what_holds_no_certificate_is_told(config_map: ConfigMap, said: str) -> None:
    with pytest.raises(InvalidCertificate, match=said):
        certificates_in(config_map, SOURCE)


@pytest.mark.parametrize("source", [CertificateFrom("", "k"), CertificateFrom("n", "")])
def test_a_reference_has_a_name_and_a_key(source: CertificateFrom) -> None:
    with pytest.raises(InvalidCertificate, match="not specified"):
        check_reference(source)
    check_reference(SOURCE)
