"""Owns serving HTTP: one listening socket, and a drain that drops nobody. What a connection may do is in `connections.py`.

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

import uvicorn
from starlette.types import ASGIApp

from infra.running.connections import Connection, Serving
from infra.running.direct import Direct
from infra.running.pulse import Pulse
from infra.running.queueing import Queues
from infra.running.serving_limits import LEAVE, ServingLimits
from infra.running.shares import Shares
from infra.running.sockets import BACKLOG


def serve(
    app: ASGIApp,
    *,
    listener: socket.socket,
    limits: ServingLimits,
    direct: Direct | None = None,
    is_proxy: Callable[[str], bool] = lambda _: False,
    on_drain: Callable[[], None] = lambda: None,
) -> None:
    """Serves until SIGTERM, SIGINT or SIGUSR1, then drains, and returns; `on_drain` is called when nothing more is accepted.

    `direct` is asked first about every POST that is here whole; the application answers the rest.
    `is_proxy` says of an address whether it stands for many clients, and so may have all connections that there are.
    """
    server = _Server(_Config(app, limits=limits, direct=direct, is_proxy=is_proxy), on_drain=on_drain)

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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.pulse.begin(asyncio.get_running_loop())
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.config.is_draining = True
        self._on_drain()
        await super().shutdown(sockets)


class _Config(Serving):
    def __init__(
        self, app: ASGIApp, *, limits: ServingLimits, direct: Direct | None, is_proxy: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.limits = limits
        self.pulse = Pulse()
        self.direct = direct
        self.shares = Shares(limits.share, is_exempt=is_proxy)
        self.queues = Queues()
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


__all__ = ["serve"]
