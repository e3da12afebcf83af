"""HTTP/1.1 over a plain socket, for the demo runner: one server, one request at a time.

Because `urllib` triples the start time of a process that is started hundreds of times. Obeys
`http_proxy`, `https_proxy` and `no_proxy` as `urllib` does. Standard library only, and `ssl`
only where an address asks for it. Which calls there are is in `demo_runner.py`.
"""

from __future__ import annotations

import binascii
import json
import os
import socket

VERSION = "2.999.0"
ANSWER_MAX = 16 << 20
CA_VARIABLE = "NODE_EXTRA_CA_CERTS"


class Refused(Exception):
    """The server said no for good; `code` says why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Unavailable(Exception):
    """No usable answer this time."""


class Server:
    """HTTP/1.1 to one server, one request at a time, over a connection that is kept."""

    def __init__(self, url: str, secret: str) -> None:
        scheme, _, rest = url.partition("://")
        authority, _, path = rest.partition("/")
        self.tls = scheme == "https"
        self.authority = authority
        self.host, self.port = split_host(authority, 443 if self.tls else 80)
        self.root = f"/{path}".rstrip("/")
        self.secret = secret
        self.proxy = proxy_for(scheme, authority, self.host)
        self.connection: socket.socket | None = None

    def call(self, method: str, path: str, body: object, timeout_s: float) -> dict[str, object]:
        """The answer's JSON object, empty for none. Raises Refused or Unavailable."""
        data = json.dumps(body).encode() if body is not None else b""
        try:
            status, answer = self._exchange(method, self.root + path, data, timeout_s)
        except (OSError, ValueError) as problem:
            self.close()
            raise Unavailable(str(problem)) from None
        try:
            value = json.loads(answer) if answer else {}
        except ValueError:
            value = None
        if 200 <= status < 300 and isinstance(value, dict):
            return value
        if 400 <= status < 500 and status not in (408, 429):
            told = value if isinstance(value, dict) else {}
            message = str(told.get("message", f"status {status}"))
            raise Refused(status, str(told.get("code", "")), message)
        raise Unavailable(f"status {status}")

    def close(self) -> None:
        """Drop the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _exchange(self, method: str, path: str, data: bytes, timeout_s: float) -> tuple[int, bytes]:
        target = path
        if self.proxy and not self.tls:
            target = f"http://{self.authority}{path}"
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {self.authority}\r\n"
            f"Authorization: Bearer {self.secret}\r\nContent-Type: application/json\r\n"
            f"User-Agent: runnerscale-demo-runner/{VERSION}\r\n"
            f"Content-Length: {len(data)}\r\n{self._proxy_header()}\r\n"
        )
        fresh = self.connection is None
        connection = self._connect(timeout_s)
        connection.settimeout(timeout_s)
        try:
            connection.sendall(head.encode() + data)
            return self._read_answer(connection)
        except (ConnectionError, EOFError):
            self.close()
            if fresh:
                raise ConnectionError("the connection broke") from None
        # The kept connection had been closed by the server: once more on a new one. Every
        # call of this protocol may be repeated.
        return self._exchange(method, path, data, timeout_s)

    def _connect(self, timeout_s: float) -> socket.socket:
        if self.connection is not None:
            return self.connection
        address = (self.host, self.port) if not self.proxy else self.proxy[:2]
        made = socket.create_connection(address, timeout=timeout_s)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            import ssl

            if self.proxy:
                self._tunnel(made)
            context = ssl.create_default_context()
            if os.environ.get(CA_VARIABLE):  # as the real runner: beside the usual ones
                context.load_verify_locations(os.environ[CA_VARIABLE])
            made = context.wrap_socket(made, server_hostname=self.host)
        self.connection = made
        return made

    def _tunnel(self, connection: socket.socket) -> None:
        to = f"{self.host}:{self.port}"
        connection.sendall(
            f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{self._proxy_header(True)}\r\n".encode()
        )
        status, _ = self._read_answer(connection, body=False)
        if status != 200:
            raise ConnectionError(f"the proxy answered {status}")

    def _proxy_header(self, tunnel: bool = False) -> str:
        if not self.proxy or not self.proxy[2] or (self.tls and not tunnel):
            return ""
        return f"Proxy-Authorization: Basic {self.proxy[2]}\r\n"

    def _read_answer(self, connection: socket.socket, body: bool = True) -> tuple[int, bytes]:
        buffer = b""
        while b"\r\n\r\n" not in buffer:
            buffer += receive(connection, len(buffer))
        head, _, rest = buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = dict(line.lower().split(":", 1) for line in lines[1:] if ":" in line)
        if not body or status in (204, 304):
            return status, b""
        if "chunked" in headers.get("transfer-encoding", ""):
            answer = read_chunks(connection, rest)
        else:
            length = int(headers.get("content-length", "0"))
            while len(rest) < length:
                rest += receive(connection, len(rest))
            answer = rest[:length]
        if "close" in headers.get("connection", ""):
            self.close()
        return status, answer


def receive(connection: socket.socket, so_far: int) -> bytes:
    """More bytes; an end in the middle is an EOFError."""
    data = connection.recv(65536)
    if not data:
        raise EOFError("the connection ended early")
    if so_far > ANSWER_MAX:
        raise ValueError("the answer is too large")
    return data


def read_chunks(connection: socket.socket, buffer: bytes) -> bytes:
    """A body in chunks, as some proxies send it."""
    answer = b""
    while True:
        while b"\r\n" not in buffer:
            buffer += receive(connection, len(buffer))
        line, _, buffer = buffer.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        while len(buffer) < size + 2:
            buffer += receive(connection, len(buffer) + len(answer))
        answer += buffer[:size]
        buffer = buffer[size + 2 :]
        if size == 0:
            return answer


def split_host(authority: str, port: int) -> tuple[str, int]:
    """Host and port of `host`, `host:port` or `[v6]:port`."""
    host, colon, number = authority.rpartition(":")
    if not colon or "]" in number:
        return authority.strip("[]"), port
    return host.strip("[]"), int(number)


def proxy_for(scheme: str, authority: str, host: str) -> tuple[str, int, str] | None:
    """Host, port and credentials of the proxy, by the variables that `urllib` looks at."""
    found = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
    without = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    for entry in (part.strip().lstrip(".").lower() for part in without.split(",")):
        if entry == "*" or (entry and _ends_with(authority, host, entry)):
            return None
    if not found:
        return None
    rest = found.partition("://")[2] or found
    credentials, at, address = rest.rstrip("/").rpartition("@")
    proxy_host, port = split_host(address, 3128 if "://" not in found else 80)
    return (
        proxy_host,
        port,
        binascii.b2a_base64(credentials.encode(), newline=False).decode() if at else "",
    )


def _ends_with(authority: str, host: str, entry: str) -> bool:
    return any(
        name.lower() == entry or name.lower().endswith("." + entry) for name in (authority, host)
    )
