"""Owns how each table is filled: what becomes of its entries, how rows that it has are told, and whether entries are counted first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame

from analytics.tables import EVENTS, RECORDS, Table
from analytics.transforms import to_events, to_records, without_archived, without_positions


class ToRows(Protocol):
    """From raw entries to the table's rows."""

    def __call__(self, raw: DataFrame, *, batch: int, archived_at: datetime) -> DataFrame: ...


class WithoutArchived(Protocol):
    """The rows that `archived` has not."""

    def __call__(self, rows: DataFrame, *, archived: DataFrame) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Feed:
    """One table's."""

    table: Table
    to_rows: ToRows
    without_archived: WithoutArchived
    is_surveyed: bool
    """Whether entries are counted before each batch: where one may be many rows, rows cannot tell what is missing."""


FEEDS = {
    EVENTS.name: Feed(EVENTS, to_events, without_archived, is_surveyed=False),
    **{table.name: Feed(table, partial(to_records, table=table), without_positions, is_surveyed=True) for table in RECORDS},
}
