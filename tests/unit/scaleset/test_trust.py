import os
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.aiohttp_transport import AiohttpTransport
from runnerscale.scaleset.errors import InvalidCertificate, InvalidProxy
from runnerscale.scaleset.httptools_transport import HttptoolsTransport
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.proxy import ProxyRules
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.trust import check_root_ca, tls_context

TRANSPORTS = [AiohttpTransport, HttptoolsTransport, open_transport]
ROOT = trustme.CA().cert_pem.bytes().decode()


@pytest.mark.behaviour("C2 T176")
@pytest.mark.parametrize(
    "pem",
    [
        "garbage",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        # A tenant's config map: it ended every pass over his runner set as an unexpected error.
        "-----BEGIN CERTIFICATE-----\nAAé=\n-----END CERTIFICATE-----",
    ],
)
def test_a_root_certificate_that_is_none_is_told_before_any_call(pem: str) -> None:
    for attempt in (
        lambda: check_root_ca(pem),
        lambda: tls_context(root_ca_pem=pem),
        *(partial(kind, NetworkOptions(root_ca_pem=pem)) for kind in TRANSPORTS),
    ):
        with pytest.raises(InvalidCertificate, match="failed to parse root certificate"):
            attempt()


def test_no_extra_root_is_fine() -> None:
    check_root_ca("  \n")
    assert tls_context().verify_mode is ssl.CERT_REQUIRED


def test_one_good_certificate_among_others_and_comments_is_enough() -> None:
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    bundle = f"# café\n{broken}\nissuer: me\n{ROOT}"
    check_root_ca(bundle)
    before = len(tls_context().get_ca_certs())
    assert len(tls_context(root_ca_pem=bundle).get_ca_certs()) == before + 1


@pytest.mark.behaviour("C2 T80")
@pytest.mark.parametrize("kind", TRANSPORTS)
def test_without_verification_everybody_is_trusted(kind: Any) -> None:
    context = tls_context(verify=False)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    assert kind(NetworkOptions(verify_tls=False))


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_an_unusable_proxy_is_told_before_any_call(kind: Any) -> None:
    rules = ProxyRules(http=SecretText("socks5://user:hush@p"))
    with pytest.raises(InvalidProxy) as caught:
        kind(NetworkOptions(proxies=rules))
    assert "hush" not in str(caught.value)


def test_the_systems_store_is_read_once_and_again_when_it_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = tmp_path / "roots.pem"
    store.write_text(ROOT)
    monkeypatch.setenv("SSL_CERT_FILE", str(store))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    before = tls_context()
    assert tls_context() is before
    store.write_text(ROOT + trustme.CA().cert_pem.bytes().decode())
    os.utime(store, (1.0, 1.0))  # however coarse the file system's clock is
    assert len(tls_context().get_ca_certs()) == 2
    assert tls_context(root_ca_pem=ROOT) is not tls_context(root_ca_pem=ROOT)
