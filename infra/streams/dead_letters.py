"""Owns dead letters on the log, for operators: listing, showing, requeueing and discarding them. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from infra.streams.connection import translated
from infra.streams.decided import OPEN, DecidedEntries, Decision, Stored, place_of
from infra.streams.entries import Fields, decode
from infra.streams.letter_filter import LetterFilter
from infra.streams.settle import FIRST_FIELDS
from schemas.dead_letter import DeadLetter
from schemas.errors import MalformedEntry
from schemas.event import from_epoch_ms

WHY = ("processor", "reason", "error", "traceback", *FIRST_FIELDS)
OWN_FIELDS = ("record", "group", "from", "from_entry", "incarnation", "sequence", *WHY, "attempts", "dead_at")
"""What a letter says of itself; everything else was the entry's. A field of the entry with such a name is kept as `kept:<name>`."""


class DeadLetters(DecidedEntries[DeadLetter]):
    """The dead letters of all shards; raises StreamUnavailable."""

    record = b"letter"

    def _stream(self, shard: int) -> str:
        return self._keys.dead(shard)

    def _state(self, shard: int) -> str:
        return self._keys.dead_state(shard)

    def _read(self, stored: Stored) -> DeadLetter:
        return read_letter(stored.fields, shard=stored.shard, entry_id=stored.entry_id, state=stored.state)

    def _with(self, letter: DeadLetter, decision: Decision) -> DeadLetter:
        return letter.model_copy(update={"decided_at": decision.at, "decided_by": decision.by, "because": decision.because})

    def letters(
        self, *, group: str = "", state: str = "", limit: int | None = None, chosen: LetterFilter | None = None
    ) -> Iterator[DeadLetter]:
        """Newest first over all shards, read as they are asked for; empty filters let everything pass."""
        return self.entries(chosen or LetterFilter(group=group, state=state), limit=limit)

    def groups(self) -> list[str]:
        """The groups that are declared on this log, and those that were and have left dead letters."""
        with translated():
            declared: Any = self._client.hkeys(self._keys.registry(0))
            counted: Any = [field for shard in self._keys.all_shards() for field in self._client.hkeys(self._keys.ledger(shard))]
        with_letters = {name.removeprefix(b"dead:") for name in counted if name.startswith(b"dead:")}
        names = {name.removeprefix(b"group:") for name in declared if name.startswith(b"group:")} | with_letters
        return sorted(name.decode() for name in names)

    def requeue(self, letter: DeadLetter | str, *, by: str = "") -> str:
        """`requeued`, `already`, `discarded` (before, so it was not requeued) or `gone`; doing it twice is harmless."""
        shard, entry_id = _place_of(letter)
        return self._decide("requeue", shard=shard, args=[entry_id, by, self._keys.retry(shard, ""), *OWN_FIELDS])

    def discard(self, letter: DeadLetter | str, *, by: str, because: str) -> str:
        """`discarded`, or why it was refused: `already`, `requeued` before, or `gone`."""
        shard, entry_id = _place_of(letter)
        return self._decide("discard", shard=shard, args=[entry_id, by, because])


def _place_of(letter: DeadLetter | str) -> tuple[int, str]:
    return place_of(letter if isinstance(letter, str) else letter.id)


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


__all__ = ["OPEN", "DeadLetters", "read_letter"]
