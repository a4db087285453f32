"""Owns finding the primary that sentinels watch, for either client: whom most of them name, and proof that it is one.

All sentinels are asked at once. One that was cut off may name a primary that was replaced, so the word with the newest
configuration counts, as soon as more than half have answered or the time is up. A server that is named has to say itself
that it is a primary: one that was demoted a moment ago would show old data and refuse every write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import redis
from redis.connection import parse_url
from redis.sentinel import SentinelConnectionPool

from infra.log_address import primary_address, sentinel_addresses, service_name
from infra.streams.pipelining import ServerPipeline, why_no_primary
from infra.streams.wire import Confirmation
from schemas.errors import StreamUnavailable


class Word(NamedTuple):
    """What one sentinel says of the primary."""

    epoch: int
    """Of its configuration; each failover has a higher one."""
    host: str
    port: int

    @property
    def node(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class SentinelPipeline(ServerPipeline):
    """A connection to whichever server is the primary when it is made."""

    must_be_primary = True

    def __init__(
        self, url: str, *, timeout_ms: int, generations: Iterator[int] | None = None, confirmation: Confirmation | None = None
    ) -> None:
        super().__init__(lambda: url, timeout_ms=timeout_ms, generations=generations, confirmation=confirmation)
        self._timeout_ms = timeout_ms

    async def _find(self) -> str:
        url = self._address()
        return primary_address(url, node=(await find_primary(url, within_ms=self._timeout_ms // 2)).node)


async def find_primary(url: str, *, within_ms: int) -> Word:
    """Raises StreamUnavailable when no sentinel knows the primary."""
    addresses = sentinel_addresses(url)
    asking = [asyncio.ensure_future(_ask(address, service=service_name(url), within_ms=within_ms)) for address in addresses]
    words: list[Word] = []
    reason = ""
    try:
        for answered in asyncio.as_completed(asking, timeout=within_ms / 1000):
            try:
                words.append(await answered)
            except (StreamUnavailable, TimeoutError) as error:
                reason = str(error) or "no reply in time"
            if len(words) > len(addresses) // 2:
                break
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    if not words:
        raise StreamUnavailable(f"no sentinel of the log knows the primary {service_name(url)}: {reason}")
    return newest(words)


def newest(words: Iterable[Word]) -> Word:
    return max(words, key=lambda word: word.epoch)


async def _ask(address: str, *, service: str, within_ms: int) -> Word:
    sentinel = ServerPipeline(lambda: address, timeout_ms=within_ms)
    try:
        # During a failover the first names the new primary already; only the second knows the epoch.
        named, state = await asyncio.gather(
            sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service), sentinel.call("SENTINEL", "MASTER", service)
        )
    finally:
        await sentinel.close()
    return read_word(named, state, service=service)


def read_word(named: Sequence[bytes] | None, state: Sequence[bytes], *, service: str) -> Word:
    """What a sentinel's two replies say; raises StreamUnavailable when it watches no such service. Pure."""
    if named is None:
        raise StreamUnavailable(f"a sentinel does not know {service}")
    facts = dict(zip(state[::2], state[1::2], strict=True))
    return Word(int(facts.get(b"config-epoch", 0)), named[0].decode(), int(named[1]))


class _Sentinels:
    """What redis-py asks for the primary: the same question, the same answer."""

    def __init__(self, url: str, *, within_ms: int) -> None:
        self._url = url
        self._within_ms = within_ms

    def discover_master(self, _service: str) -> tuple[str, int]:
        # In a thread of its own: the caller's may be running an event loop.
        with ThreadPoolExecutor(1) as thread:
            word = thread.submit(asyncio.run, find_primary(self._url, within_ms=self._within_ms)).result()
        return word.host, word.port


def blocking_client(url: str, *, timeout_ms: int, options: dict[str, Any]) -> redis.Redis:
    """A client that looks for the primary whenever it connects."""
    where: dict[str, Any] = parse_url(primary_address(url, node="primary:1"))  # type: ignore[no-untyped-call]
    is_encrypted = "connection_class" in where
    for found_later in ("host", "port", "connection_class"):
        where.pop(found_later, None)
    pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
        service_name(url),
        _Sentinels(url, within_ms=timeout_ms // 2),
        ssl=is_encrypted,
        redis_connect_func=_prove_primary,
        **where,
        **options,
    )
    return redis.Redis.from_pool(pool)


def _prove_primary(connection: Any) -> None:
    connection.on_connect()
    connection.send_command("ROLE")
    if reason := why_no_primary(connection.read_response()):
        raise redis.ConnectionError(reason)
