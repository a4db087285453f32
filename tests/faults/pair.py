"""Owns a primary and its replica as an operator runs them: one address that leads to whoever is the primary, and a link that can be cut.

client ──► address (proxy) ──► primary ◄── link (proxy) ── replica
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.settings import LogSettings
from tests.contracts.replicas import ReplicatedServer
from tests.faults.proxy import Proxy
from tests.ports import free_port

PASSWORD = "a-test-password"


@dataclass(slots=True)
class Pair:
    """Both servers run; only the proxies live in the test's event loop, so whatever blocks has to go to a thread."""

    primary: ReplicatedServer
    replica: ReplicatedServer
    address: Proxy
    link: Proxy

    @property
    def log(self) -> LogSettings:
        """A short write is in doubt after half a second."""
        url = f"redis://:{PASSWORD}@127.0.0.1:{self.address.port}/0"
        return LogSettings(url=url, durability="replicated", timeout_ms=1500, shards=1)

    def cut(self) -> None:
        """The primary does not learn of it: its replica is only silent."""
        self.link.hold()

    async def fail_over(self) -> None:
        """kill -9 of the primary; the replica takes over with what it has, and so does the address."""
        await asyncio.to_thread(self.primary.kill)
        self.replica.take_over()
        self.address.lead_to(self.replica.port)

    async def bring_back(self) -> None:
        """The old primary returns with all it ever had, and becomes a replica of the new one."""
        await asyncio.to_thread(self.primary.start)
        await asyncio.to_thread(self.primary.copy, self.replica.port)


@asynccontextmanager
async def running_pair(
    directory: Path, *, replica: ReplicatedServer | None = None, options: dict[str, str] | None = None
) -> AsyncIterator[Pair]:
    """`options` are the servers'; `replica` is one of another make, not started yet."""
    primary = ReplicatedServer(directory / "primary", free_port(), PASSWORD, options=dict(options or {}))
    replica = replica or ReplicatedServer(directory / "replica", free_port(), PASSWORD, options=dict(options or {}))
    async with AsyncExitStack() as started:
        for server in (primary, replica):
            started.callback(server.kill)
            await asyncio.to_thread(server.start)
        address = await started.enter_async_context(Proxy(primary.port).running())
        link = await started.enter_async_context(Proxy(primary.port).running())
        await asyncio.to_thread(replica.copy, link.port)
        yield Pair(primary, replica, address, link)


def stored_on(server: ReplicatedServer, stream: str) -> dict[str, dict[bytes, bytes]]:
    """What the server has of a stream, by event id; an event that is there twice fails."""
    entries: list[Any] = [fields for _, fields in server.ask("XRANGE", stream, "-", "+")]
    found = {fields[b"id"].decode(): fields for fields in entries}
    assert len(found) == len(entries), "an event is in the stream twice"
    return found
