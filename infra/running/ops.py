"""Owns a process's ops port: `/metrics` for Prometheus, `/healthz` (alive) and `/readyz` (does its work)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from infra.running.sockets import listen
from infra.telemetry import METRICS_CONTENT_TYPE, Telemetry
from schemas.errors import HooklakeError


class OpsServer:
    """Serves from threads of its own, so that it answers while the process's loop is busy."""

    def __init__(
        self, listener: socket.socket, *, page: Callable[[], bytes], is_ready: Callable[[], bool], remark: Callable[[], str] = lambda: ""
    ) -> None:
        """Serves `page` as the metrics, on a socket that listens already; `remark` is what a person should know, ready or not."""
        self._server = _Server(listener.getsockname(), _Pages, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        self._server.page = page
        self._server.is_ready = is_ready
        self._server.remark = remark
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="ops", daemon=True)

    @classmethod
    def bound(cls, port: int, *, telemetry: Telemetry, is_ready: Callable[[], bool], setting: str, host: str = "127.0.0.1") -> OpsServer:
        """On a port of its own; raises ConfigError naming `setting` when the port is taken. Port 0 takes a free one."""
        return cls(listen_for_ops(host, port=port, setting=setting), page=telemetry.metrics_page, is_ready=is_ready)

    @property
    def port(self) -> int:
        return int(self._server.socket.getsockname()[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Idempotent; also frees the port of a server that was never started."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    page: Callable[[], bytes]
    is_ready: Callable[[], bool]
    remark: Callable[[], str]

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the library's signature
        # A scraper that hangs up is no news; the default prints a traceback to stderr.
        return


class _Pages(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10  # A client that sends nothing must not hold a thread for ever.

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, self.server.page(), content_type=METRICS_CONTENT_TYPE)
        elif path == "/healthz":
            self._answer(200, b"alive\n")
        elif path == "/readyz":
            ready = self._is_ready()
            remark = f"{remark}\n" if (remark := self.server.remark()) else ""
            self._answer(200 if ready else 503, f"{'ready' if ready else 'not ready'}\n{remark}".encode())
        else:
            self._answer(404, b"no such page: /metrics, /healthz, /readyz\n")

    def _is_ready(self) -> bool:
        try:
            return self.server.is_ready()
        except HooklakeError:
            return False

    def _answer(self, status: int, body: bytes, *, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: ARG002 - the library's signature
        return


def listen_for_ops(host: str, *, port: int, setting: str) -> socket.socket:
    """A socket for an ops port; raises ConfigError naming `setting` when the address cannot be had."""
    consequence = "this process would have no metrics and no health"
    return listen(host, port=port, setting=setting, host_setting="telemetry.ops_host", consequence=consequence)
