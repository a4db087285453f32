"""Owns gold: refreshes the tables that are made from the others, one at a time, between two batches of the archive.

A refresh takes in what is new since the last one, adds it to what the table has of the same dates, and puts the sums in their place in
one commit. That commit also says how far it has counted; so whatever dies, the next refresh continues exactly there.

Events that are removed when their time is over stay counted; what an erasure takes from gold is told in `gold_erasing.py`. A table whose
log no longer says how far it has counted is made anew from what there is; so is one that was made from a table of which somebody has
brought back an older state. One of which somebody has brought back an older version itself goes on from what that version had counted.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from analytics.gold_commits import GoldChain, GoldCommit, following
from analytics.gold_drift import drift_as_parts, merged_drift, news_of_drift
from analytics.gold_news import Batches, Committed, News, committed, counted_since, counters_of, last_batch_within
from analytics.gold_processors import PROCESSORS, news_of_processors
from analytics.gold_tables import PROCESSORS_HOURLY, SCHEMA_DRIFT, TRAFFIC_HOURLY
from analytics.gold_traffic import TRAFFIC, news_of_traffic
from analytics.settings import ArchiveSettings, table_location
from analytics.synced import first_line
from analytics.tables import Table
from infra.clock import Clock
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry
from schemas.errors import HooklakeError, NotTheArchive, TableUnavailable


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one gold table is made."""

    table: Table
    reads: tuple[str, ...]
    news: Callable[[News], list[DataFrame]]
    as_parts: Callable[[DataFrame], DataFrame]
    merged: Callable[[DataFrame], DataFrame]
    counts_ledger: bool = False


RECIPES = (
    Recipe(TRAFFIC_HOURLY, ("events", "outcomes"), news_of_traffic, TRAFFIC.as_parts, TRAFFIC.merged, counts_ledger=True),
    Recipe(PROCESSORS_HOURLY, ("outcomes", "dead_letters"), news_of_processors, PROCESSORS.as_parts, PROCESSORS.merged),
    Recipe(SCHEMA_DRIFT, ("events",), news_of_drift, drift_as_parts, merged_drift),
)


@dataclass(slots=True)
class Gold:
    """The gold tables of one archive, which alone writes them."""

    spark: SparkSession
    log: ArchiveLog
    settings: ArchiveSettings
    home: Path
    clock: Clock
    telemetry: Telemetry
    check_lease: Callable[[], None] = lambda: None
    """Raises NotTheArchive when somebody else fills the tables by now."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    _due: dict[str, float] = field(default_factory=dict)

    def serve(self) -> None:
        """Refreshes one table if one is due. What goes wrong with gold is logged and tried again, and never stops the archive.

        Raises NotTheArchive.
        """
        interval_s = self.settings.gold_interval_ms / 1000
        if not interval_s:
            return
        # Not at the start, when everybody waits for the first batch; and one after the other, so that no batch waits for all of them.
        self._due = self._due or {one.table.name: time.monotonic() + interval_s * place for place, one in enumerate(RECIPES, start=1)}
        recipe = min(RECIPES, key=lambda one: self._due[one.table.name])
        if time.monotonic() < self._due[recipe.table.name]:
            return
        has_more = False
        try:
            has_more = self.refresh(recipe)
        except NotTheArchive:
            raise
        except (HooklakeError, PySparkException, Py4JError) as error:
            self.telemetry.log.error("a gold table could not be refreshed", table=recipe.table.name, reason=first_line(error))
        finally:
            # Whatever else it was ends this round, which is logged; the next ones must come by here, to what else the archive does.
            self._due[recipe.table.name] = time.monotonic() + (0 if has_more else interval_s)

    def refresh(self, recipe: Recipe) -> bool:
        """Takes in what is new, up to a number of rows; returns whether there is more. Raises Unavailable, WriteSkipped, SchemaDrift."""
        began = time.monotonic()
        # Opened anew each time: an erasure, or looking after the table, may have moved its chain on since.
        chain = GoldChain(self.spark, table=recipe.table, location=self._location(recipe.table.name))
        last = chain.newest_commit(run=self.run)
        if is_older := chain.is_restored():
            self.telemetry.log.error("a gold table was restored, and what it lacks is counted again", table=recipe.table.name)
        try:
            found = {name: one for name in recipe.reads if (one := self._committed(name, last=last)) is not None}
            if any(one.is_restored for one in found.values()):
                self.telemetry.log.error("an older state was restored, and a gold table is made anew from it", table=recipe.table.name)
                last = GoldCommit(self.run, recipe.table.name, since=uuid.uuid4().hex)
            news, commit = self._news(recipe, last=last, found=found)
            if parts := recipe.news(news):
                last = self._write(chain, recipe, parts=reduce(DataFrame.unionByName, parts), commit=commit)
                seconds = round(time.monotonic() - began, 3)
                self.telemetry.log.info("gold refreshed", table=recipe.table.name, number=last.number, seconds=seconds)
            elif is_older:
                self.check_lease()
                chain.repeat(last)  # So that the next refresh finds a commit of ours on top, and says nothing again.
        except (PySparkException, Py4JError) as error:
            raise TableUnavailable(f"{chain.location} could not be refreshed: {first_line(error)}") from error
        return any(news.batches[name].to < one.batch for name, one in found.items())

    def _committed(self, table: str, *, last: GoldCommit) -> Committed | None:
        after, since = last.consumed.get(table, 0), last.versions.get(table, -1)
        return committed(self.spark, location=self._location(table), after=after, since=since)

    def _news(self, recipe: Recipe, *, last: GoldCommit, found: Mapping[str, Committed]) -> tuple[News, GoldCommit]:
        """What there is to take in, and the commit that will say so."""
        tables = {name: self.spark.read.format("delta").load(self._location(name)) for name in found}
        batches: dict[str, Batches] = {}
        for name, newest in found.items():
            after = last.consumed.get(name, 0)
            batches[name] = Batches(after, last_batch_within(tables[name], after=after, to=newest.batch), newest.at_ms)
        counters = counters_of(self.log.counts()) if recipe.counts_ledger else {}
        news = News(self.spark, tables, batches, counted_since(last.counters, counters), self.clock.now())
        consumed = {**last.consumed, **{name: of.to for name, of in batches.items()}}
        # Those that are not all taken in are looked through from the same version on once more.
        versions = {**last.versions, **{name: one.version for name, one in found.items() if batches[name].to == one.batch}}
        return news, replace(following(last), consumed=consumed, versions=versions, counters=counters)

    def _write(self, chain: GoldChain, recipe: Recipe, *, parts: DataFrame, commit: GoldCommit) -> GoldCommit:
        """The new sums and those that the table has of the same partitions, together; the first commit has nothing to continue."""
        by = recipe.table.partitioned_by
        new = parts.persist()
        try:
            self.check_lease()
            where = in_partitions(by, [row[0] for row in new.select(by).distinct().collect()])
            if commit.number == 1:
                return chain.replace_rows(recipe.merged(new).coalesce(1), where="", commit=commit)
            stored = recipe.as_parts(chain.dataframe().where(where))
            return chain.replace_rows(recipe.merged(stored.unionByName(new)).coalesce(1), where=where, commit=commit)
        finally:
            new.unpersist()

    def _location(self, table: str) -> str:
        return table_location(self.settings, home=self.home, table=table)


def in_partitions(column: str, values: Sequence[object]) -> str:
    """The condition that selects these partitions. Pure."""
    texts = sorted("'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values)
    return f"`{column}` IN ({', '.join(texts)})" if texts else "FALSE"
