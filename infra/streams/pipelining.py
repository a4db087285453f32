"""Owns the asyncio way to a log server: one connection that all calls share, made when needed and made again when lost.

Concurrent calls share one write, one fsync, one WAIT for replicas and one read; how, is in `wire.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hiredis
from redis.asyncio import SSLConnection
from redis.connection import parse_url

from infra.streams.framing import Command
from infra.streams.scripts import Argument, script
from infra.streams.wire import Confirmation, Wire
from schemas.errors import StreamUnavailable

# A server that just refused us is not asked again at once: every waiting request would try for itself.
REFUSED_FOR_S = 0.05
REPLICA_SAYS = ("READONLY", "MASTERDOWN")


class Pipeline(ABC):
    """The log as asyncio code sees it, on one server or on a cluster."""

    one_keyspace: bool
    """One command may ask for streams of several shards, and may block for them."""

    @property
    def open_generation(self) -> int | None:
        """That of the one connection that all commands use, if it is open; None also where there are several."""
        return None

    @abstractmethod
    async def connect(self, key: str = "", /) -> int:
        """Makes sure that there is a connection to where the key is, and tells its generation; raises StreamUnavailable.

        No two connections of a pipeline have the same generation.
        """

    @abstractmethod
    async def send(self, command: Command, *, generation: int | None = None, is_confirmed: bool = False) -> Any:
        """The reply, which may be a hiredis.ReplyError; raises StreamUnavailable when there is none.

        With `is_confirmed` only after replicas have what it wrote, if that is what the log's durability means.
        """

    @abstractmethod
    def sent(self, command: Command, *, generation: int, is_confirmed: bool = False) -> asyncio.Future[Any] | None:
        """What `send` would await, of a command that is on its way; None where it would have to wait for something first.

        It is written at once: the server can begin while this process goes on.
        """

    @abstractmethod
    async def close(self) -> None: ...

    async def call(self, *command: Argument) -> Any:
        """Sends one command and returns its reply; raises StreamUnavailable, also for an error reply."""
        return checked(await self.send(command))

    async def call_together(self, *commands: Sequence[Argument]) -> list[Any]:
        """The replies of several commands that are on their way before anything else of this process runs; raises StreamUnavailable."""
        return list(await asyncio.gather(*(self.call(*command) for command in commands)))

    async def run(self, name: str, *, keys: Sequence[str], args: Command, generation: int | None = None, is_confirmed: bool = False) -> Any:
        """Runs a Lua file by its digest, or by its text when the server has forgotten it.

        With `generation` only on that very connection: what was learnt on one must not be used on the next.
        """
        chosen = script(name)
        reply = await self.send(("EVALSHA", chosen.sha, len(keys), *keys, *args), generation=generation, is_confirmed=is_confirmed)
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT"):
            reply = await self.send(("EVAL", chosen.text, len(keys), *keys, *args), generation=generation, is_confirmed=is_confirmed)
        return checked(reply)

    def begin(self, name: str, *, keys: Sequence[str], args: Command, generation: int) -> asyncio.Future[Any] | None:
        """Begins what `run` does with `is_confirmed`; None where it would have to wait for something first.

        Nobody has looked at the reply yet: where it is an error `run` has to be called after all, which knows what to do.
        """
        return self.sent(("EVALSHA", script(name).sha, len(keys), *keys, *args), generation=generation, is_confirmed=True)


class ServerPipeline(Pipeline):
    """A connection to one server that is made when needed and made again when lost."""

    one_keyspace = True
    must_be_primary = False
    """Whether a server that is none is left before it is used, and not only when it refuses to write."""

    def __init__(
        self,
        address: Callable[[], str],
        *,
        timeout_ms: int,
        generations: Iterator[int] | None = None,
        confirmation: Confirmation | None = None,
    ) -> None:
        self._address = address
        self._confirmation = confirmation
        self._timeout_s = timeout_ms / 1000
        self._wire: Wire | None = None
        self._connecting = asyncio.Lock()
        self._refused_until = 0.0
        self._refusal = ""
        self._generations = generations or itertools.count(1)
        self._generation = 0

    @property
    def is_open(self) -> bool:
        return self._wire is not None and self._wire.is_open

    @property
    def open_generation(self) -> int | None:
        return self._generation if self._wire is not None and self._wire.is_open else None

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

    async def _dial(self) -> Wire:
        where: dict[str, Any] = parse_url(await self._find())  # type: ignore[no-untyped-call]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                if "path" in where:
                    _, wire = await loop.create_unix_connection(self._new_wire, where["path"])
                else:
                    host, port = where.get("host", "127.0.0.1"), where.get("port", 6379)
                    _, wire = await loop.create_connection(self._new_wire, host, port, ssl=_tls(where))
                await _introduce(wire, where=where, must_be_primary=self.must_be_primary)
        except (OSError, TimeoutError) as error:
            raise StreamUnavailable(f"the log cannot be reached: {str(error) or type(error).__name__}") from error
        return wire

    async def _find(self) -> str:
        """The server's address; raises StreamUnavailable."""
        return self._address()

    def _new_wire(self) -> Wire:
        return Wire(self._timeout_s, confirmation=self._confirmation)

    async def send(self, command: Command, *, generation: int | None = None, is_confirmed: bool = False) -> Any:
        if generation is None:
            await self.connect()
        wire = self._open_wire(generation)
        return self._heeded(await wire.send(command, is_confirmed=is_confirmed), wire=wire)

    def sent(self, command: Command, *, generation: int, is_confirmed: bool = False) -> asyncio.Future[Any] | None:
        wire = self._wire
        if wire is None or not wire.is_open or generation != self._generation:
            return None
        call = wire.send(command, is_confirmed=is_confirmed)
        if self._confirmation is None:  # Else all that is sent in this turn shares one word of the replicas.
            wire.write()
        return call

    async def call_together(self, *commands: Sequence[Argument]) -> list[Any]:
        await self.connect()
        wire = self._open_wire(None)
        sent = [wire.send(command) for command in commands]
        wire.write()
        return [checked(self._heeded(reply, wire=wire)) for reply in await asyncio.gather(*sent)]

    def _heeded(self, reply: Any, *, wire: Wire) -> Any:
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith(REPLICA_SAYS):
            # After a failover the address leads to another server, and this connection to one that will never write again. If
            # it does, it may lack entries that it had, so that its incarnation has to be asked anew.
            wire.discard("it leads to a replica now")
        return reply

    async def send_asking(self, command: Command) -> Any:
        """Sends a command for a slot that this server is only about to get; ASKING is good for the next command alone."""
        await self.connect()
        wire = self._open_wire(None)
        # Both in one turn of the event loop, so that no other command comes between them.
        _, reply = await asyncio.gather(wire.send(["ASKING"]), wire.send(command))
        return reply

    def _open_wire(self, generation: int | None) -> Wire:
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


async def _introduce(wire: Wire, *, where: dict[str, Any], must_be_primary: bool) -> None:
    with contextlib.ExitStack() as on_failure:  # a caller that gives up meanwhile included
        on_failure.callback(wire.discard, "it did not let us in")
        if where.get("password"):
            checked(await wire.send(["AUTH", *([where["username"]] if where.get("username") else []), where["password"]]))
        if where.get("db"):
            checked(await wire.send(["SELECT", where["db"]]))
        if must_be_primary and (reason := why_no_primary(checked(await wire.send(["ROLE"])))):
            raise StreamUnavailable(reason)
        on_failure.pop_all()


def why_no_primary(role: Sequence[Any]) -> str:
    """What a server's answer to ROLE says against it, or an empty text. Pure."""
    return "" if role[0] == b"master" else f"the server that should be the log's primary is a {role[0].decode()}"


def checked(reply: Any) -> Any:
    """The reply, unless it is an error."""
    if isinstance(reply, hiredis.ReplyError):
        raise StreamUnavailable(f"the log answered {reply}")
    return reply
