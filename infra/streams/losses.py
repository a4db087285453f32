"""Owns naming what was trimmed beneath a group, for operators. Blocking; raises StreamUnavailable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import Keys
from infra.streams.positions import id_order
from schemas.event import from_epoch_ms


@dataclass(frozen=True, slots=True)
class Loss:
    """What was gone when the group came to it: an entry that was in work, or numbers that it was never handed.

    Their rows in the archive have this shard and stream, and this position or incarnation and numbers.
    """

    shard: int
    stream: str
    """`events:default`, or the group's `retry:<group>`."""
    noticed_at: datetime
    entry_id: str | None = None
    incarnation: str | None = None
    first_number: int | None = None
    last_number: int | None = None

    def __str__(self) -> str:
        """Which of the stream's entries it means."""
        if self.entry_id is not None:
            return f"{self.entry_id}, in work"
        return f"numbers {self.first_number} to {self.last_number} of incarnation {self.incarnation}, never delivered"


def read_losses(log: LogSettings, *, home: Path, group: str) -> list[Loss]:
    """Shard by shard, what was never delivered first, then in the order of entries; not endlessly many are named, but all are counted."""
    keys, client = Keys(log.prefix, log.shards), open_blocking(log, home=home)
    try:
        with translated():
            named: dict[int, Any] = {shard: client.hgetall(keys.lost(shard, group)) for shard in keys.all_shards()}
    finally:
        client.close()
    found = [_loss(shard, name.decode(), noticed_ms=int(value)) for shard, names in named.items() for name, value in names.items()]
    return sorted(found, key=_order)


def _order(loss: Loss) -> tuple[int, str, tuple[int, int], str, int]:
    return loss.shard, loss.stream, id_order(loss.entry_id or "0"), loss.incarnation or "", loss.first_number or 0


def _loss(shard: int, name: str, *, noticed_ms: int) -> Loss:
    """`events:default|<entry id>`, or `events:default|<incarnation>:<first number>-<last>`."""
    stream, _, what = name.partition("|")
    incarnation, of_numbers, numbers = what.partition(":")
    if not of_numbers:
        return Loss(shard, stream, from_epoch_ms(noticed_ms), entry_id=what)
    first, _, last = numbers.partition("-")
    return Loss(shard, stream, from_epoch_ms(noticed_ms), incarnation=incarnation, first_number=int(first), last_number=int(last))
