"""Owns dead letters on the log, for operators: listing, showing and requeueing them. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.entries import Fields, decode
from infra.streams.keys import Keys
from infra.streams.scripts import run_blocking
from schemas.dead_letter import DeadLetter
from schemas.errors import MalformedEntry
from schemas.event import from_epoch_ms

CHUNK = 500


class DeadLetters:
    """The dead letters of all shards; raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> DeadLetters:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def letters(self, *, group: str = "", state: str = "") -> Iterator[DeadLetter]:
        """Newest first within each shard; empty filters let everything pass."""
        for shard in self._keys.all_shards():
            with translated():
                states: dict[bytes, bytes] = self._client.hgetall(self._keys.dead_state(shard))  # type: ignore[assignment]
            for entry_id, fields in self._newest_first(shard):
                if fields.get(b"record") != b"letter":
                    continue
                letter = read_letter(shard, entry_id, fields, state=states.get(entry_id.encode(), b"open").decode())
                if (not group or letter.group == group) and (not state or letter.state == state):
                    yield letter

    def _newest_first(self, shard: int) -> Iterator[tuple[str, Fields]]:
        before = "+"
        while True:
            with translated():
                found: Any = self._client.xrevrange(self._keys.dead(shard), max=before, min="-", count=CHUNK)
            yield from ((entry_id.decode(), fields) for entry_id, fields in found)
            if len(found) < CHUNK:
                return
            before = f"({found[-1][0].decode()}"

    def find(self, name: str) -> list[DeadLetter]:
        """The dead letters called so: by the dead letter's own id, or by the event's."""
        return [letter for letter in self.letters() if name in (letter.id, letter.event_id)]

    def requeue(self, letter: DeadLetter) -> str:
        """`requeued`, `already` or `gone`; doing it twice is harmless."""
        shard_text, _, entry_id = letter.id.partition("-")
        shard = int(shard_text)
        at = [self._keys.dead(shard), self._keys.dead_state(shard), self._keys.ledger(shard)]
        with translated():
            reply: bytes = run_blocking(self._client, "requeue", keys=at, args=[entry_id, self._keys.retry(shard, "")])
        return reply.decode()

    def close(self) -> None:
        self._client.close()


def read_letter(shard: int, entry_id: str, fields: Fields, *, state: str) -> DeadLetter:
    """Pure: the dead letter that an entry of the stream `dead` describes."""
    own = {name: fields.get(name.encode(), b"").decode(errors="replace") for name in ("group", "processor", "reason", "error", "traceback")}
    try:
        event, entry = decode(fields), {}
    except MalformedEntry:
        event, entry = None, {k.decode("latin-1"): v.decode("latin-1") for k, v in fields.items()}
    return DeadLetter(
        id=f"{shard}-{entry_id}",
        attempts=int(fields.get(b"attempts", b"0")),
        dead_at=from_epoch_ms(int(fields.get(b"dead_at", b"0"))),
        state=state,
        event_id=fields.get(b"id", b"").decode(errors="replace"),
        event=event,
        entry=entry,
        **own,
    )
