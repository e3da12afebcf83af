"""A body that came packed although nobody asked for it, as some gateways send it.

We ask for no packing: answers are small. A request that says nothing about it may be answered
with any (RFC 9110, 12.5.3), so what nearly everybody can send is read; never more than the bound.

Pure.
"""

import zlib

_ZLIB_OR_GZIP = 47  # `wbits` for either, told apart by the head


def unpacked(body: bytes, encoding: str, *, bytes_max: int) -> tuple[bytes, str]:
    """The body, and what kept us from unpacking it: one of the two empty.

    `encoding`: the `Content-Encoding` of the answer, empty where it has none.
    """
    encoding = encoding.strip().lower()
    if not body or encoding in ("", "identity"):
        return body, ""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return b"", "the body is packed in a way that was not asked for"
    unpacker = zlib.decompressobj(wbits=_ZLIB_OR_GZIP)
    try:
        found = unpacker.decompress(body, bytes_max + 1)
    except zlib.error:
        return b"", "the packed body cannot be unpacked"
    if len(found) > bytes_max:
        return b"", f"the body is larger than {bytes_max} bytes"
    if not unpacker.eof or unpacker.unused_data:
        return b"", "the packed body does not end where it should"
    return found, ""
