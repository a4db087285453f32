"""Owns posting by a timetable: each request is due when it is due, whether the receiver keeps up or not. Prints latencies as JSON.

`python -m tests.benchmarks.post_trickle PORT SECRET PER_SECOND SECONDS [PATH BODY_BYTES]`: a process of its own, apart from who looks on.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, cast

import uvloop

from tests.benchmarks.wrk import PATH, body_of, headers_of

BODY_BYTES = 10_000
CONNECTIONS = 32


class Answers(asyncio.Protocol):
    """One kept-alive connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class.

    def data_received(self, data: bytes) -> None:
        # An answer of ours is small, and comes in one piece or in two: head and body.
        if self._answered is not None and not self._answered.done() and data.startswith(b"HTTP/1.1 "):
            self._answered.set_result(data[9:12])

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionError("the receiver closed the connection"))

    async def send(self, request: bytes) -> bytes:
        """The status."""
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answered


async def post_all(
    port: int, *, secret: bytes, per_second: float, seconds: float, path: str = PATH, body_bytes: int = BODY_BYTES
) -> list[float]:
    """Milliseconds from when each was due to its 202; the first second is left out. Raises ConnectionError for any other answer."""
    body = body_of(body_bytes)
    fixed = "".join(f"{name}: {value}\r\n" for name, value in headers_of(body, secret=secret).items())
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n{fixed}X-GitHub-Delivery: trickle-%d\r\n\r\n"
    begin, count = time.monotonic() + 0.2, round(per_second * (1 + seconds))
    numbers, latencies_ms = iter(range(count)), [0.0] * count

    async def post() -> None:
        _, connection = await asyncio.get_running_loop().create_connection(Answers, "127.0.0.1", port)
        for number in numbers:
            due = begin + number / per_second
            await asyncio.sleep(due - time.monotonic())
            if (status := await connection.send((head % number).encode() + body)) != b"202":
                raise ConnectionError(f"request {number} was answered {status.decode()}")
            latencies_ms[number] = (time.monotonic() - due) * 1000

    await asyncio.gather(*(post() for _ in range(CONNECTIONS)))
    return latencies_ms[round(per_second) :]


if __name__ == "__main__":
    port, secret, per_second, seconds, *where = sys.argv[1:]
    more: dict[str, Any] = {"path": where[0], "body_bytes": int(where[1])} if where else {}
    posted = post_all(int(port), secret=secret.encode(), per_second=float(per_second), seconds=float(seconds), **more)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(posted)))
