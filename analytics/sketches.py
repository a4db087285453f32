"""Owns how latencies are kept: as sketches that can be merged, from which any percentile can be read later.

A sketch is what Spark's `kll_*_double` functions read and write (Apache DataSketches, KLL): some kilobytes for any number of values. The
value it gives for a percentile lies within about two thirds of a percent of the rank that was asked for.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

ACCURACY = 400
PERCENTILES = (50, 95, 99)


def sketch_of(value: Column) -> Column:
    """Aggregates values; NULL when there is none, since an empty sketch has no percentile."""
    return F.when(F.count(value) > 0, F.kll_sketch_agg_double(value.cast("double"), ACCURACY))


def merged(sketch: str) -> Column:
    """Aggregates sketches of that column into one; NULL when there is none."""
    return F.when(F.count(sketch) > 0, F.kll_merge_agg_double(sketch))


def percentile_of(sketch: str, percent: int) -> Column:
    return F.kll_sketch_get_quantile_double(F.col(sketch), F.lit(percent / 100))


def no_sketch() -> Column:
    return F.lit(None).cast("binary")
