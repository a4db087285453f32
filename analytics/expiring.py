"""Owns deleting rows that are past their retention, in whole days; the books have them as `expired`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from analytics.archive import following, move
from analytics.chains import Chain
from analytics.owners import of_rows, with_more
from analytics.settings import ArchiveSettings
from analytics.tables import EVENTS


def first_kept(settings: ArchiveSettings, *, table: str, now: datetime) -> date | None:
    """The first day of which rows stay; None for a table whose rows stay for ever. A day goes when all of it is past. Pure."""
    hours = settings.retention.get(table)
    return (now.astimezone(UTC) - timedelta(hours=int(hours.removesuffix("h")))).date() if hours else None


def expire(chain: Chain, *, before: date, dry_run: bool) -> int:
    """Deletes the rows of earlier days in one commit, which says whose they were; returns how many."""
    archive = chain.open()
    condition = F.col(chain.table.partitioned_by) < F.lit(before)
    going = archive.table.dataframe().where(condition)
    rows = going.count()
    if not rows or dry_run:
        return rows
    last = chain.last = chain.last or archive.start()
    expired = with_more(last.expired, of_rows(going)) if chain.table.name == EVENTS.name else {}
    commit = replace(following(last), lives=last.lives, expired=expired)
    table = DeltaTable.forPath(archive.spark, archive.table.location)
    archive.check_lease()
    chain.last = None  # Should it fail: whether it was committed only the table knows.
    chain.last = archive.table.change(lambda: table.delete(condition), commit=commit)
    move(archive.log, chain.last)
    return rows
