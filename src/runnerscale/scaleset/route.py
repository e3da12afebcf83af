"""Which transport a request takes: straight to its host, or through a proxy.

The one place that decides. Proxies are few and aiohttp is large (10 MiB, a seventh of a second
of a listener's start): it is loaded by the first request that a proxy has to carry.

Contract: github-service-and-listener 3.4.
"""

from runnerscale.scaleset.httptools_transport import HttptoolsTransport
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.transport import Request, Response, Transport


def open_transport(options: NetworkOptions | None = None) -> Transport:
    """The transport for these options. Nothing is opened yet; close it in the end.

    Raises:
        InvalidCertificate: `root_ca_pem` holds none.
        InvalidProxy: a proxy's URL cannot be used.
    """
    options = options or NetworkOptions()
    direct = HttptoolsTransport(options)
    if options.proxies.http or options.proxies.https:
        return _TwoWays(options, direct)
    return direct


class _TwoWays:
    """Directly where the rules say so, else through aiohttp."""

    def __init__(self, options: NetworkOptions, direct: HttptoolsTransport) -> None:
        self._options = options
        self._direct = direct
        self._proxied: Transport | None = None
        self.has_proxy = direct.has_proxy
        self.has_root_ca = direct.has_root_ca

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        way = self._direct if self._direct.goes_direct(request.url) else self._through_proxy()
        return await way.send(request, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._direct.close()
        if self._proxied is not None:
            await self._proxied.close()

    def _through_proxy(self) -> Transport:
        if self._proxied is None:
            from runnerscale.scaleset.aiohttp_transport import AiohttpTransport  # large

            self._proxied = AiohttpTransport(self._options)
        return self._proxied
