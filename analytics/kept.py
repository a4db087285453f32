"""Owns what looking after a table, and clearing it of old versions, have to know of it, whoever fills it.

How far a table has come stands in its newest commit, and nowhere else. So whoever takes files and log entries from a table has that said
once more, and spares the version that says it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from analytics.archive import Archive
from analytics.chains import Chain, Chains
from analytics.delta_log import is_table
from analytics.expiring import expire
from analytics.gold_commits import GoldChain
from analytics.gold_tables import GOLD_TABLES
from analytics.settings import ArchiveSettings, table_location
from analytics.tables import Table


@dataclass(frozen=True, slots=True)
class Kept:
    """One table; what is done to it raises TableUnavailable."""

    name: str
    location: str
    spark: SparkSession
    settings: ArchiveSettings
    check_lease: Callable[[], None]
    repeat: Callable[[], object]
    """Makes the newest version one that adds nothing, and says how far the table has come."""
    told_at: Callable[[], int]
    """The newest version that says it."""
    expire: Callable[..., int] = lambda **_: 0
    """Deletes the rows from before a day; sums have no retention."""
    is_split_by_text: bool = False
    """Whether its partitions, and so the paths of its files, are named by what senders said, and not by dates."""


def kept(chains: Chains) -> list[Kept]:
    """All tables that there are."""
    return [*map(kept_chain, existing(chains)), *existing_gold(chains.events.open())]


def existing(chains: Chains) -> list[Chain]:
    """The tables that are filled from the log, `events` first; one of records appears with its first batch."""
    archive = chains.events.open()
    return [chain for chain in (chains.events, *chains.records) if is_there(archive, chain.table)]


def existing_gold(archive: Archive) -> list[Kept]:
    return [kept_gold(archive, table) for table in GOLD_TABLES if is_there(archive, table)]


def kept_chain(chain: Chain) -> Kept:
    archive = chain.open()

    def repeat() -> None:
        chain.last = archive.warm(chain.last or archive.start())

    name, table = chain.table.name, archive.table
    return Kept(name, table.location, archive.spark, archive.settings, archive.check_lease, repeat, table.told_at, partial(expire, chain))


def kept_gold(archive: Archive, table: Table) -> Kept:
    def repeat() -> None:
        chain = open_gold(archive, table)
        chain.repeat(chain.newest_commit(run=uuid.uuid4().hex))

    def told_at() -> int:
        return open_gold(archive, table).told_at()

    is_split_by_text = table.schema[table.partitioned_by].dataType.typeName() == "string"
    own = (archive.spark, archive.settings, archive.check_lease)
    return Kept(table.name, location_of(archive, table), *own, repeat, told_at, is_split_by_text=is_split_by_text)


def open_gold(archive: Archive, table: Table) -> GoldChain:
    """Opened anew each time, as a refresh does it: so nobody holds on to what another has moved on since."""
    return GoldChain(archive.spark, table=table, location=location_of(archive, table))


def is_there(archive: Archive, table: Table) -> bool:
    return is_table(archive.spark, location=location_of(archive, table))


def location_of(archive: Archive, table: Table) -> str:
    return table_location(archive.settings, home=archive.home, table=table.name)
