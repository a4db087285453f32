"""Owns a sender that retries nothing: new and kept-alive connections mixed, bursts of them at once, every failure counted by its kind."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

ANSWER_WITHIN_S = 60.0
ACCEPTED = "202"


class Line(NamedTuple):
    """A connection, and since when nothing was said over it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float


@dataclass(slots=True)
class Impatient:
    """Sends `requests` and more until it is told that it is enough; `outcomes` has statuses and the names of errors."""

    port: int
    request: Callable[[str], bytes]
    """The bytes of a request with this delivery id."""
    requests: int
    seed: int = 0
    kept_alive: int = 16
    burst: int = 100
    fresh_s: float = math.inf
    """It uses no connection that was idle for longer: a receiver ends those by rights, and the sender may have stood still."""
    outcomes: Counter[str] = field(default_factory=Counter)
    accepted: set[str] = field(default_factory=set)
    """The event ids that were answered."""
    stale: int = 0
    """How many connections it did not use any more."""
    is_enough: bool = False
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def run(self) -> None:
        chance = random.Random(self.seed)
        # Half of them pause, some long enough to be idle when their receiver leaves.
        pauses = [0.0 if number % 2 else chance.uniform(0.05, 1.5) for number in range(self.kept_alive)]
        await asyncio.gather(*(self._keep_alive(pause_s) for pause_s in pauses), self._in_bursts())

    def _goes_on(self) -> bool:
        return not self.is_enough or self.outcomes.total() < self.requests

    async def _keep_alive(self, pause_s: float) -> None:
        while self._goes_on():
            line = await self._connect()
            while line is not None and self._goes_on():
                line = await self._send(line)
                await asyncio.sleep(pause_s)
            if line is not None:
                line.writer.close()

    async def _in_bursts(self) -> None:
        while self._goes_on():
            await self.send_burst()

    async def send_burst(self) -> None:
        """More connections at one moment than a receiver accepts in one go: the rest waits in the queue."""
        await asyncio.gather(*(self._once() for _ in range(self.burst)))

    async def _once(self) -> None:
        line = await self._connect()
        if line is not None and (line := await self._send(line)) is not None:
            line.writer.close()

    async def _connect(self) -> Line | None:
        begun = time.monotonic()  # The receiver may have it long before a sender that stands still hears of it.
        try:
            return Line(*await asyncio.open_connection("127.0.0.1", self.port), begun)
        except OSError as error:
            self.outcomes[type(error).__name__] += 1
            return None

    async def _fresh(self, line: Line | None) -> Line | None:
        """This connection, or another one where it has been idle for too long."""
        while line is not None and time.monotonic() - line.idle_since > self.fresh_s:
            self.stale += 1
            line.writer.close()
            line = await self._connect()
        return line

    async def _send(self, line: Line | None) -> Line | None:
        """Returns the connection if it may be used again."""
        line = await self._fresh(line)
        if line is None:
            return None
        begun = time.monotonic()  # As in `_connect`: for the receiver it may be idle long before a sender that stands still is answered.
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                line.writer.write(self.request(f"delivery-{self.seed}-{next(self._numbers)}"))
                head = await line.reader.readuntil(b"\r\n\r\n")
                body = await line.reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
        except (OSError, EOFError, TimeoutError) as error:
            self.outcomes[type(error).__name__] += 1
            line.writer.close()
            return None
        status = head.split()[1].decode()
        self.outcomes[status] += 1
        if status == ACCEPTED:
            self.accepted.add(body.partition(b'"event_id":"')[2].partition(b'"')[0].decode())
        if b"connection: close" in head.lower():
            line.writer.close()
            return None
        return line._replace(idle_since=begun)
