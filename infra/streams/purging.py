"""Owns dropping what waits for a group, and the record of who did so; one script per shard. Blocking."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import Keys
from infra.streams.positions import id_order
from infra.streams.reading import group_streams
from infra.streams.scripts import Argument, run_blocking
from schemas.event import from_epoch_ms

COUNTS = ("pending", "undelivered", "waiting", "parked", "owed")
MOST_RECORDS = 1000


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for a group on all shards; `undelivered` is None when the server cannot tell, which is not 0."""

    pending: int
    undelivered: int | None
    waiting: int
    """Retries that wait for their time."""
    parked: int
    owed: int


@dataclass(frozen=True, slots=True)
class Purge:
    """One purge, as its records tell it."""

    at: datetime
    group: str
    by: str
    dropped: Backlog


class Purging:
    """The groups of one log, for operators; raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> Purging:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def count(self, group: str) -> Backlog | None:
        """What would be dropped now; None when there is no such group."""
        return self._on_all_shards(group, act="count")

    def purge(self, group: str, *, by: str) -> Backlog | None:
        """Drops it, and returns what it was."""
        return self._on_all_shards(group, act="purge", by=by)

    def _on_all_shards(self, group: str, *, act: Literal["count", "purge"], by: str = "") -> Backlog | None:
        args: list[Argument] = [group, act, by, secrets.token_hex(8)]
        with translated():
            replies = [
                run_blocking(self._client, "purge", keys=self._keys_of(shard, group=group), args=args) for shard in self._keys.all_shards()
            ]
        known = [reply[1:] for reply in replies if reply[0] != b"unknown"]
        return together(known) if known else None

    def _keys_of(self, shard: int, *, group: str) -> list[str]:
        keys, (*events, retry, replay) = self._keys, group_streams(self._keys, shard=shard, group=group)
        about = [keys.registry(shard), keys.ledger(shard), keys.delayed(shard), keys.delayed_bodies(shard)]
        return [*about, keys.owed(shard, group), keys.parked(shard, group), keys.audit(shard), retry, replay, *events]

    def history(self) -> list[Purge]:
        """Who purged what, the newest first."""
        found: dict[str, Purge] = {}
        for shard in self._keys.all_shards():
            with translated():
                records: Any = self._client.xrevrange(self._keys.audit(shard), count=MOST_RECORDS)
            for entry_id, fields in records:
                if fields.get(b"act") != b"purge":
                    continue
                name, one = fields[b"name"].decode(), read_record(entry_id.decode(), fields)
                earlier = found.get(name)
                found[name] = (
                    one if earlier is None else replace(one, at=min(one.at, earlier.at), dropped=_sum(one.dropped, earlier.dropped))
                )
        return sorted(found.values(), key=lambda purge: purge.at, reverse=True)

    def close(self) -> None:
        self._client.close()


def together(counts: Iterable[list[int]]) -> Backlog:
    """The shards' counts as one. Pure."""
    pending, undelivered, waiting, parked, owed = zip(*counts, strict=True)
    return Backlog(sum(pending), None if -1 in undelivered else sum(undelivered), sum(waiting), sum(parked), sum(owed))


def read_record(entry_id: str, fields: dict[bytes, bytes]) -> Purge:
    """One shard's record of a purge. Pure."""
    dropped = together([[int(fields[name.encode()]) for name in COUNTS]])
    at = from_epoch_ms(id_order(entry_id)[0])
    return Purge(at, fields[b"group"].decode(), fields[b"by"].decode(errors="replace"), dropped)


def _sum(one: Backlog, other: Backlog) -> Backlog:
    return together([[_number(getattr(backlog, name)) for name in COUNTS] for backlog in (one, other)])


def _number(count: int | None) -> int:
    return -1 if count is None else count
