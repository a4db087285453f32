"""Owns duplicate suppression's names: which marker stands for a delivery, and in which buckets it is looked for. Pure.

Markers live in hashes small enough to stay packed, one set of buckets per period. A bucket that is full gets four children,
which `include/seen.lua` finds by the marker's further bytes, so that every bucket stays packed however many events a period has.
A period is a quarter of the window; this period and the four before it
are looked at, so that a delivery id is remembered for at least the window and at most five quarters of it. The period to
come is looked at too: another receiver's clock may be ahead, or ours was set back.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

from infra.streams.keys import Keys
from schemas.event import StreamEvent

BUCKETS = 4096
MARKER_BYTES = 12
DIGEST_BYTES = 8
PERIODS_IN_WINDOW = 4
HOUR_MS = 3_600_000


def marker_of(event: StreamEvent) -> bytes:
    """Twelve bytes that stand for (tenant, source, delivery id); an event without a delivery id stands for itself.

    Two deliveries with one marker would still need one body to pass for one: the record has eight bytes of its digest.
    """
    parts = (event.tenant_id, event.source, event.delivery_id or event.id)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=MARKER_BYTES).digest()


def digest_of(event: StreamEvent) -> bytes:
    """Eight bytes that stand for its body."""
    return bytes.fromhex(event.body_sha256[: 2 * DIGEST_BYTES])


def bucket_of(marker: bytes) -> int:
    """The last number of the names of its buckets, in all periods."""
    return int.from_bytes(marker[:4]) % BUCKETS


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """How long delivery ids are remembered."""

    window_ms: int
    name: str = ""
    """Of buckets apart from the log's own: their periods have another length, so the same numbers stand for other times."""

    @classmethod
    def parse(cls, hours: str) -> SeenWindow:
        return cls(int(hours.removesuffix("h")) * HOUR_MS)

    @classmethod
    def of_source(cls, hours: str, *, log: str) -> SeenWindow:
        """A source's own; what is as long as the log's shares its buckets, however it is written."""
        own, shared = cls.parse(hours), cls.parse(log)
        return shared if own == shared else cls(own.window_ms, name=f"{own.window_ms // HOUR_MS}h")

    @property
    def period_ms(self) -> int:
        return self.window_ms // PERIODS_IN_WINDOW

    @property
    def ttl_s(self) -> int:
        return (self.window_ms + self.period_ms) // 1000

    def stems(self, keys: Keys, *, shard: int, now_ms: int) -> list[str]:
        """What the buckets that may hold a marker now are called, but for their number at the end; the one to write first."""
        return _stems(keys, self.name, shard, now_ms // self.period_ms)

    def keys(self, keys: Keys, *, shard: int, marker: bytes, now_ms: int) -> list[str]:
        """The buckets that may hold the marker, or have a child that does; the one to write first."""
        bucket = str(bucket_of(marker))
        return [stem + bucket for stem in self.stems(keys, shard=shard, now_ms=now_ms)]


# They change with the period, hours later, and are asked for with every call.
@functools.lru_cache(maxsize=1024)
def _stems(keys: Keys, window: str, shard: int, newest: int) -> list[str]:
    return keys.seen(shard, window=window, periods=[newest, newest + 1, *(newest - age for age in range(1, PERIODS_IN_WINDOW + 1))])
