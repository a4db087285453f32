"""Owns one connection to a log server: frames out, replies in, deadlines, and the word of replicas.

Commands are written together when a turn of the event loop ends, or sooner by who asks for it; replies come back in the order of
the commands. A connection whose replies are late or cut is thrown away with all its unanswered calls: a reply must
never be matched to another call. Whoever gets StreamUnavailable does not know whether the command was carried out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple, cast

import hiredis

from infra.streams.framing import Command, pack
from schemas.errors import StreamUnavailable


class Confirmation(NamedTuple):
    """How many replicas must have what was written, and how long they may take to say so."""

    replicas: int
    within_ms: int


class _Call(NamedTuple):
    """A command whose reply is to come."""

    future: asyncio.Future[Any]
    deadline: float
    is_confirmed: bool
    """Its reply is not believed before replicas have it."""


class Wire(asyncio.Protocol):
    """One connection: a FIFO of calls and whatever was not yet written or read.

    Calls that are to be confirmed share one WAIT for each write. The server carries out nothing of this connection while it
    waits, so what comes meanwhile is held here, and is the next write: a WAIT for each turn of the event loop would queue up
    behind a replica that is gone.
    """

    def __init__(self, timeout_s: float, *, confirmation: Confirmation | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._confirmation = confirmation
        self._reader = hiredis.Reader()
        self._waiting: deque[_Call] = deque()
        self._unwritten: list[bytes] = []
        self._asks_replicas = False
        self._replicas_say: asyncio.Future[Any] | None = None
        self._unconfirmed: list[tuple[asyncio.Future[Any], Any]] = []
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.TimerHandle | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's, only the same in all they do.
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def send(self, command: Command, *, is_confirmed: bool = False) -> asyncio.Future[Any]:
        """Queues a command; the future gets its reply, which may be a hiredis.ReplyError.

        One that `is_confirmed` gets it when replicas have what was written, if this connection asks any.
        """
        if not self._unwritten:
            self._loop.call_soon(self.write)
        is_confirmed = is_confirmed and self._confirmation is not None
        self._asks_replicas |= is_confirmed
        return self._queue(command, is_confirmed=is_confirmed)

    def _queue(self, command: Command, *, is_confirmed: bool = False) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._unwritten.append(pack(command))
        self._waiting.append(_Call(future, self._loop.time() + self._timeout_s, is_confirmed))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._check_head)
        return future

    def write(self) -> None:
        """Sends what is queued at once, unless replicas are being asked; otherwise it is sent at the end of this turn."""
        if self._replicas_say is not None or not self._unwritten:
            return
        if self._asks_replicas and self._confirmation is not None:
            self._asks_replicas = False
            self._replicas_say = self._queue(["WAIT", *self._confirmation])
        if self._transport is not None and self.is_open:
            self._transport.write(b"".join(self._unwritten))
        self._unwritten.clear()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._answer(self._waiting.popleft(), reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.discard(f"its reply makes no sense: {error!r}")

    def _answer(self, call: _Call, reply: Any) -> None:
        if call.future is self._replicas_say:
            self._heed_replicas(reply)
        elif call.is_confirmed:
            self._unconfirmed.append((call.future, reply))
        elif not call.future.done():  # A caller that gave up has cancelled its future; its reply is still taken off the line.
            call.future.set_result(reply)

    def _heed_replicas(self, reply: Any) -> None:
        assert self._confirmation is not None
        if not isinstance(reply, int) or reply < self._confirmation.replicas:
            # Everything since the last word of replicas is in doubt, and this may be a primary that was replaced.
            said = reply if isinstance(reply, hiredis.ReplyError) else f"{reply} of {self._confirmation.replicas}"
            self.discard(f"replicas did not confirm within {self._confirmation.within_ms} ms what was appended ({said})")
            return
        confirmed, self._unconfirmed, self._replicas_say = self._unconfirmed, [], None
        for future, held_reply in confirmed:
            if not future.done():
                future.set_result(held_reply)
        if self._unwritten:
            self.write()

    def _check_head(self) -> None:
        self._watch = None
        if not self._waiting:
            return
        late_by = self._loop.time() - self._waiting[0].deadline
        if late_by >= 0:
            self.discard(f"no reply within {self._timeout_s:g} s")
        else:
            self._watch = self._loop.call_later(-late_by, self._check_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self.discard(f"the connection was lost: {exc or 'closed by the server'}")

    def discard(self, why: str) -> None:
        """Closes the connection at once; every unanswered call learns that its fate is unknown."""
        self.is_open = False
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()
        doubtful = [*(future for future, _ in self._unconfirmed), *(call.future for call in self._waiting)]
        self._unconfirmed.clear()
        self._waiting.clear()
        for future in doubtful:
            if future is not self._replicas_say and not future.done():  # nobody waits for that one itself
                future.set_exception(StreamUnavailable(f"the log did not answer: {why}"))
