"""Owns dead letters on the log, for operators: listing, showing and requeueing them. Blocking."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.entries import Fields, decode
from infra.streams.keys import Keys
from infra.streams.positions import id_order
from infra.streams.scripts import run_blocking
from infra.streams.settle import FIRST_FIELDS
from schemas.dead_letter import DeadLetter
from schemas.errors import MalformedEntry
from schemas.event import from_epoch_ms

# Letters carry whole bodies, so only a few are in memory at a time.
CHUNK = 50

WHY = ("processor", "reason", "error", "traceback", *FIRST_FIELDS)
OWN_FIELDS = ("record", "group", "from", "from_entry", "incarnation", "sequence", *WHY, "attempts", "dead_at")
"""What a letter says of itself; everything else was the entry's. A field of the entry with such a name is kept as `kept:<name>`."""


class DeadLetters:
    """The dead letters of all shards; raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> DeadLetters:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def letters(self, *, group: str = "", state: str = "", limit: int | None = None) -> Iterator[DeadLetter]:
        """Newest first over all shards, read as they are asked for; empty filters let everything pass."""
        shards = (self._newest_first(shard) for shard in self._keys.all_shards())
        merged = heapq.merge(*shards, key=_age_order, reverse=True)
        chosen = (letter for letter in merged if group in ("", letter.group) and state in ("", letter.state))
        return itertools.islice(chosen, limit)

    def _newest_first(self, shard: int) -> Iterator[DeadLetter]:
        before = "+"
        while True:
            with translated():
                found: Any = self._client.xrevrange(self._keys.dead(shard), max=before, min="-", count=CHUNK)
                ids = [entry_id for entry_id, _ in found]
                states: Any = self._client.hmget(self._keys.dead_state(shard), ids) if ids else []
            for (entry_id, fields), state in zip(found, states, strict=True):
                if fields.get(b"record") == b"letter":
                    yield read_letter(fields, shard=shard, entry_id=entry_id.decode(), state=(state or b"open").decode())
            if len(found) < CHUNK:
                return
            before = f"({ids[-1].decode()}"

    def find(self, name: str) -> list[DeadLetter]:
        """The dead letters called so: by the dead letter's own id, or by the event's."""
        return [letter for letter in self.letters() if name in (letter.id, letter.event_id)]

    def groups(self) -> list[str]:
        """The names of all groups that were ever declared on this log."""
        with translated():
            declared: Any = self._client.hkeys(self._keys.registry(0))
        return sorted(name.decode().removeprefix("group:") for name in declared if name.startswith(b"group:"))

    def requeue(self, letter: DeadLetter) -> str:
        """`requeued`, `already` or `gone`; doing it twice is harmless."""
        shard_text, _, entry_id = letter.id.partition("-")
        shard = int(shard_text)
        at = [self._keys.dead(shard), self._keys.dead_state(shard), self._keys.ledger(shard)]
        with translated():
            reply: bytes = run_blocking(self._client, "requeue", keys=at, args=[entry_id, self._keys.retry(shard, ""), *OWN_FIELDS])
        return reply.decode()

    def close(self) -> None:
        self._client.close()


def read_letter(fields: Fields, *, shard: int, entry_id: str, state: str) -> DeadLetter:
    """Pure: the dead letter that an entry of the stream `dead` describes."""
    own = {name: fields.get(name.encode(), b"").decode(errors="replace") for name in ("group", "from_entry", *WHY)}
    entry = {name.removeprefix(b"kept:"): value for name, value in fields.items() if name.decode("latin-1") not in OWN_FIELDS}
    try:
        event, raw = decode(entry), {}
    except MalformedEntry:
        event, raw = None, {name.decode("latin-1"): value.decode("latin-1") for name, value in entry.items()}
    return DeadLetter(
        id=f"{shard}-{entry_id}",
        from_stream=fields.get(b"from", b"").decode(errors="replace"),
        attempts=int(fields.get(b"attempts", b"0")),
        dead_at=from_epoch_ms(int(fields.get(b"dead_at", b"0"))),
        state=state,
        event_id=entry.get(b"id", b"").decode(errors="replace"),
        event=event,
        entry=raw,
        **own,
    )


def _age_order(letter: DeadLetter) -> tuple[int, int]:
    _, _, entry_id = letter.id.partition("-")
    return id_order(entry_id)
