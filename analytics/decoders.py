"""Owns which decoder makes rows of the entries of which table's streams; used where Spark reads, and where ranges are counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa  # type: ignore[import-untyped]

from analytics import event_rows, record_rows
from analytics.tables import DEAD_LETTERS, EVENTS, OUTCOMES, QUARANTINE
from infra.streams.entries import Entry


class Batches(Protocol):
    """Entries of one stream as Arrow batches; never fails for one of them."""

    def __call__(self, entries: list[Entry], *, stream: str) -> Iterator[pa.RecordBatch]: ...


class RowsIn(Protocol):
    """How many rows an entry becomes."""

    def __call__(self, entry: Entry) -> int: ...


def one_row(entry: Entry) -> int:  # noqa: ARG001 - as others count
    return 1


@dataclass(frozen=True, slots=True)
class Decoder:
    """How the entries of one table's streams become rows."""

    ddl: str
    """The columns of its batches, as Spark writes them."""
    batches: Batches
    rows_in: RowsIn = one_row


DECODERS = {
    EVENTS.name: Decoder(event_rows.SPARK_SCHEMA, event_rows.record_batches),
    DEAD_LETTERS.name: Decoder(record_rows.ddl_of(DEAD_LETTERS), record_rows.batches_of(DEAD_LETTERS, record_rows.letter_rows)),
    OUTCOMES.name: Decoder(
        record_rows.ddl_of(OUTCOMES), record_rows.batches_of(OUTCOMES, record_rows.outcome_rows), record_rows.outcomes_in
    ),
    QUARANTINE.name: Decoder(record_rows.ddl_of(QUARANTINE), record_rows.batches_of(QUARANTINE, record_rows.request_rows)),
}
