"""Owns the raw client of these tests: to look at what is stored, and to do what an operator should not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.log_address import is_cluster, node_address, seed_nodes
from infra.settings import LogSettings
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys


def open_raw(log: LogSettings, *, home: Path) -> Any:
    """Untyped on purpose: redis-py's types allow every reply of every protocol at once.

    A log of one shard is on one node of a cluster, the first: whoever changes or fills the server means that one.
    """
    if is_cluster(log.url) and log.shards == 1:
        log = log.model_copy(update={"url": node_address(log.url, node=seed_nodes(log.url)[0])})
    return open_blocking(log, home=home)


def lives_of(client: Any, keys: Keys, *, lives: dict[str, int]) -> list[str]:
    """Writes so many entries of each incarnation, a second apart; the last incarnation is the present one."""
    ids: list[str] = []
    for incarnation, entries in lives.items():
        for number in range(1, entries + 1):
            ids.append(f"{1000 * (len(ids) + 1)}-0")
            client.xadd(keys.events(0, "default"), {"incarnation": incarnation, "sequence": number}, id=ids[-1])
        client.hset(keys.ledger(0), mapping={"incarnation": incarnation, f"sequence:default:{incarnation}": entries})
    return ids
