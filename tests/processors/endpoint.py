"""Owns the endpoint that forwarding tests send to: a real HTTP server that keeps what it gets and answers as it is told."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6

CERTIFICATE = Path(__file__).parent.parent / "infra" / "streams" / "certificates" / "localhost.pem"


@dataclass(frozen=True)
class Request:
    """What the endpoint got."""

    method: str
    target: str
    headers: dict[str, str]
    """Lower-case names."""
    body: bytes


@dataclass(frozen=True)
class Response:
    """What it answers."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    hangs: str = ""
    """`head` answers nothing until the test ends, `body` announces a body that does not come, `endless` never stops."""
    cut: bool = False
    """Closes the connection instead of answering."""


@dataclass
class Endpoint:
    """The running server."""

    url: str
    requests: list[Request] = field(default_factory=list)
    answers: deque[Response] = field(default_factory=deque)
    """One per request; then 200."""
    connections: set[tuple[str, int]] = field(default_factory=set)
    endless_bytes: int = 0
    """How much of endless bodies was written."""
    closed: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: Endpoint

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.endpoint.connections.add(self.client_address[:2])
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.endpoint.answers.popleft() if self.endpoint.answers else Response()
        self.endpoint.requests.append(Request(self.command, self.path, headers, body))
        if answer.hangs == "head":
            self.endpoint.closed.wait()
        if answer.cut or answer.hangs == "head":
            self.close_connection = True
            return
        self._write(answer)

    def _write(self, answer: Response) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        length = len(answer.body) + (2**40 if answer.hangs else 0)
        self.send_header("content-length", str(length))
        self.end_headers()
        self.wfile.write(answer.body)
        if answer.hangs == "body":
            self.endpoint.closed.wait()
        while answer.hangs == "endless" and not self.endpoint.closed.is_set():
            try:
                self.wfile.write(b"x" * 65_536)
                self.endpoint.endless_bytes += 65_536
            except OSError:
                break
        self.close_connection = bool(answer.hangs)

    do_POST = do_PUT = do_PATCH = do_GET = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True


class _IPv6Server(_Server):
    address_family = AF_INET6


@contextmanager
def serving(*, host: str = "127.0.0.1", tls: bool = False) -> Iterator[Endpoint]:
    """Runs an endpoint on a free port of this machine while the block runs."""
    handler = type("Handler", (_Handler,), {})
    server = (_IPv6Server if ":" in host else _Server)((host, 0), handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    shown = f"[{host}]" if ":" in host else host
    endpoint = handler.endpoint = Endpoint(f"{'https' if tls else 'http'}://{shown}:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()
