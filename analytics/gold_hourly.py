"""Owns sums by hour: grouping rows by the hour in which something happened, and merging such sums. DataFrame to DataFrame, no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.sketches import PERCENTILES, merged, no_sketch, percentile_of
from analytics.tables import Table


@dataclass(frozen=True, slots=True)
class Hourly:
    """A gold table of sums and latencies by hour and some names."""

    table: Table
    names: tuple[str, ...]
    sums: tuple[str, ...]
    latencies: tuple[str, ...]
    """Each is a column `<latency>_sketch`, and percentiles that are read from it."""

    @property
    def keys(self) -> tuple[str, ...]:
        return ("date", "hour", *self.names)

    @property
    def sketches(self) -> tuple[str, ...]:
        return tuple(f"{latency}_sketch" for latency in self.latencies)

    def parts(self, rows: DataFrame, *, hour_of: Column, **given: Column) -> DataFrame:
        """Sums of these rows by the keys; what is not given is 0, or no latency."""
        hourly = rows.withColumn("hour", F.date_trunc("hour", hour_of)).withColumn("date", F.to_date("hour"))
        summed = hourly.groupBy(*self.keys).agg(*(value.alias(name) for name, value in given.items()))
        nothing = {**{name: F.lit(0).cast("bigint") for name in self.sums}, **{name: no_sketch() for name in self.sketches}}
        lacking = {name: value for name, value in nothing.items() if name not in given}
        return summed.withColumns(lacking).select(*self.keys, *self.sums, *self.sketches)

    def merged(self, parts: DataFrame) -> DataFrame:
        """One row for each of the keys, as the table has them."""
        summed = parts.groupBy(*self.keys).agg(
            *(F.sum(name).alias(name) for name in self.sums), *(merged(name).alias(name) for name in self.sketches)
        )
        percentiles = {
            f"{latency}_p{percent}_ms": percentile_of(f"{latency}_sketch", percent) for latency in self.latencies for percent in PERCENTILES
        }
        return summed.withColumns(percentiles).select(*(column.name for column in self.table.columns))

    def as_parts(self, stored: DataFrame) -> DataFrame:
        """What the table has, as what can be merged with more."""
        return stored.select(*self.keys, *self.sums, *self.sketches)
