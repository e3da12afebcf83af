"""Whom we trust over TLS: the machine's own store, and root certificates added to it.

Contract: github-service-and-listener 3.3, 3.4 (T80, T176).
"""

import re
import ssl
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import structlog

from runnerscale.scaleset.errors import InvalidCertificate

log = structlog.get_logger(__name__)

_BEGIN = re.compile(r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----")
_END = re.compile(r"-----END (?:TRUSTED )?CERTIFICATE-----")


def tls_context(*, root_ca_pem: str = "", verify: bool = True) -> ssl.SSLContext:
    """A client's TLS context.

    Args:
        root_ca_pem: certificates trusted beside the system's. Blocks that cannot be read are
            skipped as long as one can; an intermediate alone is enough for what it signed.
        verify: False trusts everybody. For experiments only.

    Raises:
        InvalidCertificate: there is a text, but no certificate in it.
    """
    if verify and not root_ca_pem.strip():
        return _of_the_system(_store())
    context = _new()
    if root_ca_pem.strip():
        _add(context, root_ca_pem)
    if not verify:
        log.warning("GitHub's certificate is not checked", asked_by="verify_tls=False")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _new() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # Private CAs often lack extensions that newer Pythons insist on; Go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@lru_cache(maxsize=1)
def _of_the_system(_read_from: tuple[tuple[str, float], ...]) -> ssl.SSLContext:
    """The context of all who add nothing: reading the store takes 30 ms and a megabyte each."""
    return _new()


def _store() -> tuple[tuple[str, float], ...]:
    """Where the machine's own certificates are, and when they were changed last."""
    paths = ssl.get_default_verify_paths()
    places = [Path(place) for place in (paths.cafile, paths.capath) if place]
    return tuple((str(place), place.stat().st_mtime) for place in places if place.exists())


def check_root_ca(root_ca_pem: str) -> None:
    """Say now, not at the first call, that a text holds no certificate.

    Raises:
        InvalidCertificate: there is a text, but no certificate in it.
    """
    if root_ca_pem.strip():
        _add(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), root_ca_pem)


def _blocks(pem: str) -> Iterator[str]:
    """From each BEGIN to the next END; a text of many BEGINs and no END is read only once."""
    position = 0
    while begin := _BEGIN.search(pem, position):
        end = _END.search(pem, begin.end())
        if end is None:
            return
        yield pem[begin.start() : end.end()]
        position = end.end()


def _add(context: ssl.SSLContext, pem: str) -> None:
    added, why = 0, "no BEGIN CERTIFICATE line"
    for block in _blocks(pem):
        try:
            context.load_verify_locations(cadata=block)
            added += 1
        except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
            why = str(error)
    if not added:
        raise InvalidCertificate(
            f"failed to parse root certificate: {why}. Give one or more certificates in PEM form"
        )
