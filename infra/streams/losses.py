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
    """A delivery whose entry was gone when the group came to it; its row in the archive has this shard, stream and position."""

    shard: int
    stream: str
    """`events:default`, or the group's `retry:<group>`."""
    entry_id: str
    noticed_at: datetime


def read_losses(log: LogSettings, *, home: Path, group: str) -> list[Loss]:
    """Shard by shard, in the order of entries; the count in the ledger may be higher, since not endlessly many are named."""
    keys, client = Keys(log.prefix, log.shards), open_blocking(log, home=home)
    try:
        with translated():
            named: dict[int, Any] = {shard: client.hgetall(keys.lost(shard, group)) for shard in keys.all_shards()}
    finally:
        client.close()
    found = [_loss(shard, name.decode(), noticed_ms=int(value)) for shard, names in named.items() for name, value in names.items()]
    return sorted(found, key=lambda loss: (loss.shard, loss.stream, id_order(loss.entry_id)))


def _loss(shard: int, name: str, *, noticed_ms: int) -> Loss:
    stream, _, entry_id = name.partition("|")
    return Loss(shard, stream, entry_id, from_epoch_ms(noticed_ms))
