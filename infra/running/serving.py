"""Owns serving HTTP: one listening socket, connections that cannot be held for ever, and a drain that drops nobody.

The socket may be inherited from a supervisor that keeps it open, so that connections wait in its queue while one
server stops and the next one starts. A server that is told to go stops accepting, finishes what it has, and tells
keep-alive clients to reconnect. What differs is how long idle connections are left open for one more request:

    SIGTERM, SIGINT    `drain_ms`: whoever stops it waits
    SIGUSR1            as long as ever, up to `idle_timeout_ms`: others serve meanwhile, and nobody waits. Closing one sooner could
                       meet a request that is on its way, and would be a reset that no restart is worth
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import orjson
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from infra.running.corking import Corked
from infra.running.serving_limits import LEAVE, WHOLE_BODY, ServingLimits
from infra.running.sockets import BACKLOG
from schemas.errors import HeadersTooLarge, MalformedRequest, Overloaded, Refused, TooSlow

# How long the rest of a request is read after its answer. Closing before would reset the connection under the answer.
LINGER_S = 2.0
# So many connections above the limit are waited for, which takes a file each, and no longer than this.
AWAITED_ABOVE_LIMIT = 12
AWAITED_FOR_S = 1.0


def serve(app: ASGIApp, *, listener: socket.socket, limits: ServingLimits, on_drain: Callable[[], None] = lambda: None) -> None:
    """Serves until SIGTERM, SIGINT or SIGUSR1, then drains, and returns; `on_drain` is called when nothing more is accepted."""
    server = _Server(_Config(app, limits=limits), on_drain=on_drain)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    # While it serves uvicorn has handlers of its own; afterwards it raises the signal again for whoever was there
    # before. That is this one, so that a drained process ends with 0 and not by the signal.
    earlier = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    earlier[LEAVE] = signal.signal(LEAVE, lambda *_: server.leave())
    try:
        server.run(sockets=[listener])
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    config: _Config

    def __init__(self, config: _Config, *, on_drain: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_drain = on_drain
        self._loop: asyncio.AbstractEventLoop | None = None

    def leave(self) -> None:
        """Stops with all the time that idle connections have."""
        if not self.should_exit:
            self.config.is_patient = True
            self.config.timeout_graceful_shutdown = self.config.limits.leave_within_ms // 1000
            self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self.config.is_patient and self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurry)

    def _hurry(self) -> None:
        """Everything stops now: who is idle has the little time that it would have had from the start."""
        self.config.is_patient = False
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.config.is_draining = True
        self._on_drain()
        await super().shutdown(sockets)


class _Config(uvicorn.Config):
    def __init__(self, app: ASGIApp, *, limits: ServingLimits) -> None:
        self.limits = limits
        self.is_draining = False
        self.is_patient = False
        super().__init__(
            app,
            http=Connection,
            loop="uvloop",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            # A sender could write any address into X-Forwarded-For.
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=max(1, limits.idle_timeout_ms // 1000),
            timeout_graceful_shutdown=max(1, limits.grace_ms // 1000),
        )


class Connection(HttpToolsProtocol):
    """One client's connection: uvicorn's, with an end to everything that a client could drag out."""

    config: _Config

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reads_head = True
        self._head_bytes = 0
        self._reads_body = False
        self._deadline: asyncio.TimerHandle | None = None
        self._is_one_too_many = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # uvicorn waits for ever for the first byte.
        self._arm(self.config.limits.head_timeout_ms / 1000)
        if (above := len(self.connections) - self.config.limits.max_connections) > 0:
            self._leave(above)

    def _leave(self, above: int) -> None:
        """Waits for the first bytes before it says 503, as far as there is room: who is answered before he has asked may miss it."""
        self._is_one_too_many = True
        if above > AWAITED_ABOVE_LIMIT:
            self._refuse_connection()
        else:
            self._arm(AWAITED_FOR_S)

    def _refuse_connection(self) -> None:
        if not self.transport.is_closing():
            said = f"{self.config.limits.max_connections} connections are open here already; send it again"
            self._refuse(Overloaded(said, retry_after_s=1), status=503)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)
        # uvicorn lets it run on where the client reset the connection: for the idle time it would keep the last request in memory.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self._is_one_too_many:
            self._refuse_connection()
            return
        super().data_received(data)
        if self._reads_head and not self.transport.is_closing():
            self._head_goes_on(len(data))

    def _head_goes_on(self, more_bytes: int) -> None:
        """The parser keeps an unfinished header in memory, however long it is: count here, and set a deadline."""
        self._head_bytes += more_bytes
        if self._head_bytes > self.config.limits.max_head_bytes:
            self._refuse(HeadersTooLarge("the request's headers are longer than this server reads"), status=431)
        elif self._deadline is None:
            self._arm(self.config.limits.head_timeout_ms / 1000)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reads_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._reads_head = False
        self._reads_body = True
        self._disarm()
        super().on_headers_complete()
        # Its application begins in the next turn of the event loop, so nothing was written yet.
        # Of an answer to HEAD uvicorn writes the head only, which must not wait for anything.
        if self.scope["method"] != "HEAD":
            self.cycle.transport = cast(asyncio.Transport, Corked(self.transport))
        if self.config.is_draining:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._reads_body = False
        self._disarm()
        # Most bodies come with their head, before the application begins: it need not set a deadline for them.
        self.scope[WHOLE_BODY] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._reads_body and not self.transport.is_closing():
            # Answered before its end, as a body that is too large: read on for a moment and drop it.
            self._arm(LINGER_S)

    def shutdown(self) -> None:
        """One that brings a request from now on is closed with its answer; one that brings none is closed in time."""
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]  # None before the first request.
            # Of requests that were sent without waiting for answers, the newest: it is answered last.
            self.cycle.keep_alive = False
        elif not self.config.is_patient:
            self._arm(self.config.limits.drain_ms / 1000)

    def send_400_response(self, msg: str) -> None:
        self._refuse(MalformedRequest(msg), status=400)

    def _unsupported_upgrade_warning(self) -> None:
        """Said by the application, which refuses such a request."""

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._expired)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expired(self) -> None:
        self._deadline = None
        if self._reads_head and self._head_bytes and not self.transport.is_closing():
            self._refuse(TooSlow("the request's headers did not arrive in time"), status=408)
        else:
            self.transport.close()

    def _refuse(self, error: Refused | Overloaded, *, status: int) -> None:
        """Answers what is no request for the application; the connection ends, since its framing is lost."""
        body = orjson.dumps({"error": {"code": error.code, "message": str(error)}})
        again = b"retry-after: %d\r\n" % error.retry_after_s if isinstance(error, Overloaded) else b""
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%b\r\n" % (len(body), again)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


__all__ = ["Connection", "serve"]
