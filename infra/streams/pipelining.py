"""Owns the asyncio connection to a log server: concurrent calls share one write, one fsync and one read.

Commands are packed by hiredis and written together once per turn of the event loop; replies come back in the order of
the commands. A connection whose replies are late or cut is thrown away with all its unanswered calls: a reply must
never be matched to another call. Whoever gets StreamUnavailable does not know whether the command was carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import hiredis
from redis.asyncio import SSLConnection
from redis.connection import parse_url

from infra.streams.scripts import Argument, script
from schemas.errors import StreamUnavailable

# A server that just refused us is not asked again at once: every waiting request would try for itself.
REFUSED_FOR_S = 0.05
REPLICA_SAYS = ("READONLY", "MASTERDOWN")


class _Wire(asyncio.Protocol):
    """One TCP connection: a FIFO of futures and whatever was not yet written or read."""

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._unwritten: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.TimerHandle | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's, only the same in all they do.
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def send(self, command: Sequence[Argument]) -> asyncio.Future[Any]:
        """Queues a command; the future gets its reply, which may be a hiredis.ReplyError."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._unwritten:
            self._loop.call_soon(self._write)
        self._unwritten.append(hiredis.pack_command(tuple(command)))  # type: ignore[arg-type]  # its stub allows one argument only
        self._waiting.append((future, self._loop.time() + self._timeout_s))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._check_head)
        return future

    def _write(self) -> None:
        if self._transport is not None and self.is_open:
            self._transport.write(b"".join(self._unwritten))
        self._unwritten.clear()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                future, _ = self._waiting.popleft()
                # A caller that gave up has cancelled its future; its reply is still taken off the line.
                if not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.discard(f"its reply makes no sense: {error!r}")

    def _check_head(self) -> None:
        self._watch = None
        if not self._waiting:
            return
        late_by = self._loop.time() - self._waiting[0][1]
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
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(StreamUnavailable(f"the log did not answer: {why}"))


class Pipeline(ABC):
    """The log as asyncio code sees it, on one server or on a cluster."""

    one_keyspace: bool
    """One command may ask for streams of several shards, and may block for them."""

    @property
    @abstractmethod
    def newest_generation(self) -> int:
        """Of all connections that were made so far, the latest; 0 before the first."""

    @abstractmethod
    async def connect(self, key: str = "", /) -> int:
        """Makes sure that there is a connection to where the key is, and tells its generation; raises StreamUnavailable.

        No two connections of a pipeline have the same generation.
        """

    @abstractmethod
    async def send(self, command: Sequence[Argument], *, generation: int | None = None) -> Any:
        """The reply, which may be a hiredis.ReplyError; raises StreamUnavailable when there is none."""

    @abstractmethod
    async def close(self) -> None: ...

    async def call(self, *command: Argument) -> Any:
        """Sends one command and returns its reply; raises StreamUnavailable, also for an error reply."""
        return checked(await self.send(command))

    async def run(self, name: str, *, keys: Sequence[str], args: Sequence[Argument], generation: int | None = None) -> Any:
        """Runs a Lua file by its digest, or by its text when the server has forgotten it.

        With `generation` only on that very connection: what was learnt on one must not be used on the next.
        """
        chosen = script(name)
        reply = await self.send(("EVALSHA", chosen.sha, len(keys), *keys, *args), generation=generation)
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT"):
            reply = await self.send(("EVAL", chosen.text, len(keys), *keys, *args), generation=generation)
        return checked(reply)


class ServerPipeline(Pipeline):
    """A connection to one server that is made when needed and made again when lost."""

    one_keyspace = True

    def __init__(self, address: Callable[[], str], *, timeout_ms: int, generations: Iterator[int] | None = None) -> None:
        self._address = address
        self._timeout_s = timeout_ms / 1000
        self._wire: _Wire | None = None
        self._connecting = asyncio.Lock()
        self._refused_until = 0.0
        self._refusal = ""
        self._generations = generations or itertools.count(1)
        self._generation = 0

    @property
    def is_open(self) -> bool:
        return self._wire is not None and self._wire.is_open

    @property
    def newest_generation(self) -> int:
        return self._generation

    async def connect(self, _key: str = "", /) -> int:
        if self.is_open:
            return self._generation
        async with self._connecting:
            if self.is_open:
                return self._generation
            loop = asyncio.get_running_loop()
            if loop.time() < self._refused_until:
                raise StreamUnavailable(self._refusal)
            try:
                self._wire = await self._dial()
            except StreamUnavailable as error:
                self._refused_until, self._refusal = loop.time() + REFUSED_FOR_S, str(error)
                raise
            self._generation = next(self._generations)
            return self._generation

    async def _dial(self) -> _Wire:
        where: dict[str, Any] = parse_url(self._address())  # type: ignore[no-untyped-call]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                if "path" in where:
                    _, wire = await loop.create_unix_connection(lambda: _Wire(self._timeout_s), where["path"])
                else:
                    host, port = where.get("host", "127.0.0.1"), where.get("port", 6379)
                    _, wire = await loop.create_connection(lambda: _Wire(self._timeout_s), host, port, ssl=_tls(where))
                await _introduce(wire, where=where)
        except (OSError, TimeoutError) as error:
            raise StreamUnavailable(f"the log cannot be reached: {str(error) or type(error).__name__}") from error
        return wire

    async def send(self, command: Sequence[Argument], *, generation: int | None = None) -> Any:
        if generation is None:
            await self.connect()
        wire = self._open_wire(generation)
        reply = await wire.send(command)
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith(REPLICA_SAYS):
            # After a failover the address leads to another server, and this connection to one that will never write again. If
            # it does, it may lack entries that it had, so that its incarnation has to be asked anew.
            wire.discard("it leads to a replica now")
        return reply

    async def send_asking(self, command: Sequence[Argument]) -> Any:
        """Sends a command for a slot that this server is only about to get; ASKING is good for the next command alone."""
        await self.connect()
        wire = self._open_wire(None)
        # Both in one turn of the event loop, so that no other command comes between them.
        _, reply = await asyncio.gather(wire.send(["ASKING"]), wire.send(command))
        return reply

    def _open_wire(self, generation: int | None) -> _Wire:
        if self._wire is None or not self._wire.is_open or generation not in (None, self._generation):
            raise StreamUnavailable("the connection to the log was lost before the command was sent")
        return self._wire

    async def close(self) -> None:
        if self._wire is not None:
            self._wire.discard("this process closed it")


def _tls(where: dict[str, Any]) -> ssl.SSLContext | None:
    """What the address says about TLS, understood as the blocking client does; None for a plain connection."""
    if not where.get("connection_class", object).__name__.startswith("SSL"):
        return None
    return SSLConnection(**{name: value for name, value in where.items() if name.startswith("ssl_")}).ssl_context.get()


async def _introduce(wire: _Wire, *, where: dict[str, Any]) -> None:
    with contextlib.ExitStack() as on_failure:  # a caller that gives up meanwhile included
        on_failure.callback(wire.discard, "it did not let us in")
        if where.get("password"):
            checked(await wire.send(["AUTH", *([where["username"]] if where.get("username") else []), where["password"]]))
        if where.get("db"):
            checked(await wire.send(["SELECT", where["db"]]))
        on_failure.pop_all()


def checked(reply: Any) -> Any:
    """The reply, unless it is an error."""
    if isinstance(reply, hiredis.ReplyError):
        raise StreamUnavailable(f"the log answered {reply}")
    return reply
