"""A forward proxy for scenarios: tunnels (CONNECT) and plain requests, counted, with a password.

It alone knows where the pretended GitHub's name leads: whoever reaches that name came through.
"""

import base64
import select
import socket
import socketserver
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

HEAD_MAX_BYTES = 64 * 1024
IDLE_S = 60.0


@dataclass(slots=True)
class Proxy:
    """`with Proxy({"host:443": port}) as proxy:`; every other target is refused."""

    targets: dict[str, int]  # authority to a port of this machine
    user: str = ""
    password: str = ""
    tunnels: list[str] = field(default_factory=list)  # authority, one for each that was let
    refused: int = 0  # for want of the right password
    strangers: list[str] = field(default_factory=list)  # targets that nobody should ask for
    _server: Any = None

    def __enter__(self) -> "Proxy":
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                proxy._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """For `proxy.https.url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(IDLE_S)
        head = b""
        while b"\r\n\r\n" not in head:
            more = client.recv(65536)
            if not more or len(head) > HEAD_MAX_BYTES:
                return
            head += more
        words, headers = _parsed(head)
        if not self._is_let_in(headers):
            self.refused += 1
            client.sendall(
                b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                b'Proxy-Authenticate: Basic realm="scenario"\r\nContent-Length: 0\r\n'
                b"Connection: close\r\n\r\n"
            )
            return
        is_tunnel = words[0] == "CONNECT"
        authority = words[1] if is_tunnel else urlsplit(words[1]).netloc
        port = self.targets.get(authority)
        if port is None:
            self.strangers.append(authority)
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        self.tunnels.append(authority)
        with socket.create_connection(("127.0.0.1", port), timeout=IDLE_S) as server:
            if is_tunnel:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(head)  # our servers take the absolute form as well
            _pump(client, server)

    def _is_let_in(self, headers: dict[str, str]) -> bool:
        if not self.user:
            return True
        wanted = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return headers.get("proxy-authorization", "") == f"Basic {wanted}"


def _parsed(head: bytes) -> tuple[list[str], dict[str, str]]:
    lines = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    return lines[0].split(" "), {name.lower(): value.strip() for name, _, value in pairs}


def _pump(one: socket.socket, other: socket.socket) -> None:
    """Bytes in both directions until either side ends or nothing comes any more."""
    peer = {one: other, other: one}
    while True:
        readable, _, _ = select.select(list(peer), [], [], IDLE_S)
        if not readable:
            return
        for side in readable:
            try:
                data = side.recv(65536)
                if not data:
                    return
                peer[side].sendall(data)
            except OSError:
                return
