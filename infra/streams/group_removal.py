"""Owns removing a group with everything it has on the log, and saying what would be lost by that; one script per shard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import group_streams
from infra.streams.scripts import Argument, run_blocking

Act = Literal["count", "remove", "reap"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A group on all shards: what it would lose, and when it last showed a sign of life."""

    status: str
    """`counted`, `removed`, `alive` or `unknown`; the first that some shard answered of alive, removed, counted, unknown."""
    idle_ms: int | None
    """None when it never showed any."""
    pending: int
    undelivered: int | None
    """None when the server cannot tell, which is not 0."""
    waiting: int
    """Retries that wait for their time."""
    parked: int
    """Entries that wait for a worker which can read their version."""
    owed: int
    """Events that were taken off the log to make room, and are in the archive."""
    written: list[str]
    """What it wrote through `delivery.once`: `<kind>:<name>`, sorted."""


class GroupRemoval:
    """The groups of one log, for operators; blocking, raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> GroupRemoval:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def count(self, group: str, *, least_idle_ms: int) -> Standing:
        """What removing it would drop; `alive` when it showed a sign of life within that time."""
        return self._on_all_shards(group, act="count", least_idle_ms=least_idle_ms)

    def remove(self, group: str, *, least_idle_ms: int) -> Standing:
        """Removes it from every shard where it is idle for so long; doing it twice is harmless."""
        return self._on_all_shards(group, act="remove", least_idle_ms=least_idle_ms)

    def _on_all_shards(self, group: str, *, act: Act, least_idle_ms: int) -> Standing:
        with translated():
            calls = [
                removal_call(self._keys, shard=shard, group=group, act=act, least_idle_ms=least_idle_ms)
                for shard in self._keys.all_shards()
            ]
            return standing([run_blocking(self._client, "remove_group", keys=at, args=args) for at, args in calls])

    def close(self) -> None:
        self._client.close()


def removal_call(keys: Keys, *, shard: int, group: str, act: Act, least_idle_ms: int = 0) -> tuple[list[str], list[Argument]]:
    """KEYS and ARGV of the script, for either client. Pure."""
    *events, retry, replay = group_streams(keys, shard=shard, group=group)
    at = [keys.registry(shard), keys.delayed(shard), keys.delayed_bodies(shard), keys.lease(shard, group), retry, replay, *events]
    at += [keys.parked(shard, group), keys.once(shard, group), keys.owed(shard, group), keys.ledger(shard), keys.lost(shard, group)]
    at.append(keys.replays(shard, group))
    if shard == 0:
        at.append(keys.members(group))
    return at, [group, act, least_idle_ms]


def standing(replies: list[list[Any]]) -> Standing:
    """The shards' answers as one. Pure."""
    statuses = {reply[0].decode() for reply in replies}
    idle = [reply[1] for reply in replies if reply[1] >= 0]
    undelivered = [reply[3] for reply in replies]
    return Standing(
        status=next(status for status in ("alive", "removed", "counted", "unknown") if status in statuses),
        idle_ms=min(idle, default=None),
        pending=sum(reply[2] for reply in replies),
        undelivered=None if -1 in undelivered else sum(undelivered),
        waiting=sum(reply[4] for reply in replies),
        parked=sum(reply[5] for reply in replies),
        owed=sum(reply[6] for reply in replies),
        written=sorted({name.decode() for reply in replies for name in reply[7]}),
    )


async def reap_groups(pipeline: Pipeline, *, keys: Keys) -> list[str]:
    """Removes ephemeral groups that nobody has read for longer than their time to live; returns which, on some shard."""
    reaped: set[str] = set()
    for shard in keys.all_shards():
        fields = await pipeline.call("HGETALL", keys.registry(shard))
        kinds = dict(zip(fields[::2], fields[1::2], strict=True))
        for group in (name.decode()[6:] for name, kind in kinds.items() if name.startswith(b"group:") and kind.startswith(b"ephemeral:")):
            at, args = removal_call(keys, shard=shard, group=group, act="reap")
            status, *_ = await pipeline.run("remove_group", keys=at, args=args)
            reaped |= {group} if status == b"removed" else set()
    return sorted(reaped)
