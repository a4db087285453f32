"""Owns what processors write through `delivery.once`: the writes on their way to the settle script, and reading them back.

The settle script makes an attempt's writes in the step that acks its delivery (`lua/include/once.lua`), so they stand in the
shard of their event, and a reader puts the shards together. That is why there are three kinds only: sums, sets, and values of
which the latest event's wins come out the same in whatever order and on whichever shard events were processed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import Keys

Kind = Literal["counts", "values", "members"]

LARGEST_COUNT = 2**53 - 1
"""Up to here Lua counts exactly, and so does every reader of JSON."""
EVENT_ID_CHARACTERS = 36
CHUNK = 1000


class OnceWrite(NamedTuple):
    """One write: adds `value` to a count, sets a value, or adds the member that stands in `field`."""

    kind: Kind
    name: str
    field: str
    value: str


class OnceReader:
    """What the processors of one group have written, over all shards; blocking, raises StreamUnavailable.

    Shards are read one after the other: while workers run, the answer is not that of one moment.
    """

    def __init__(self, client: redis.Redis, *, keys: Keys, group: str) -> None:
        self._client: Any = client
        self._keys = keys
        self._group = group

    @classmethod
    def open(cls, log: LogSettings, *, home: Path, group: str) -> OnceReader:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards), group=group)

    def names(self) -> list[tuple[str, str]]:
        """Kind and name of everything that was ever written, sorted."""
        with translated():
            indexes = [self._client.smembers(self._keys.once(shard, self._group)) for shard in self._keys.all_shards()]
        return sorted({(kind, name) for index in indexes for kind, _, name in (one.decode().partition(":") for one in index)})

    def counts(self, name: str) -> dict[str, int]:
        """Field by field, summed over the shards."""
        total: Counter[str] = Counter()
        for fields in self._hashes("counts", name):
            total.update({field: int(value) for field, value in fields.items()})
        return dict(total)

    def values(self, name: str) -> dict[str, str]:
        """Field by field the value of the latest event, by event id."""
        latest: dict[str, str] = {}
        for fields in self._hashes("values", name):
            for field, stamped in fields.items():
                latest[field] = max(stamped, latest.get(field, ""))
        return {field: stamped[EVENT_ID_CHARACTERS:] for field, stamped in latest.items()}

    def members(self, name: str) -> set[str]:
        found: set[str] = set()
        for key in self._places("members", name):
            with translated():
                found |= {member.decode() for member in self._client.sscan_iter(key, count=CHUNK)}
        return found

    def _hashes(self, kind: Kind, name: str) -> Iterator[dict[str, str]]:
        """One dictionary per shard: a scan may show a field twice."""
        for key in self._places(kind, name):
            with translated():
                yield {field.decode(): value.decode() for field, value in self._client.hscan_iter(key, count=CHUNK)}

    def _places(self, kind: Kind, name: str) -> list[str]:
        return [self._keys.once_key(shard, self._group, kind=kind, name=name) for shard in self._keys.all_shards()]

    def close(self) -> None:
        self._client.close()
