"""Owns a group that begins with the whole history and then continues live, without a gap or an overlap.

The group is made at the end of each stream, and the place is written down in the same step. What lies at or below it, and everything
of incarnations that were past by then, is replayed from the table once the archive has come so far; the rest the group reads itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from infra.streams.history import Histories, Mark
from schemas.errors import TableUnavailable

LOOK_EVERY_S = 0.2
PATIENCE_S = 60.0


def is_before(marks: Sequence[Mark]) -> Column:
    """Whether a row came before its stream's mark; a stream without one is of a log that is gone, and all of it came before."""
    return reduce(Column.__and__, [(F.col("stream") != mark.stream) | _is_before(mark) for mark in marks])


def _is_before(mark: Mark) -> Column:
    # An entry that is no event may have neither; it is counted with the others that cannot be replayed.
    incarnation, number = F.coalesce("incarnation", F.lit("")), F.coalesce("sequence", F.lit(0))
    is_past = ~incarnation.isin(mark.incarnation, *mark.later)
    return is_past | ((incarnation == mark.incarnation) & (number <= mark.number))


def newest_batch(rows: DataFrame) -> int:
    """The newest batch of the table as it is now."""
    found = rows.agg(F.max("batch")).collect()[0][0]
    return int(found or 0)


def wait_until_archived(
    histories: Histories, *, marks: Sequence[Mark], told: Callable[[int], None] = lambda _: None, patience_s: float = PATIENCE_S
) -> None:
    """Returns when the table has everything up to the marks; raises TableUnavailable when the archive makes no progress for so long."""
    left = histories.unarchived(marks)
    until = time.monotonic() + patience_s
    while left:
        told(left)
        time.sleep(LOOK_EVERY_S)
        before, left = left, histories.unarchived(marks)
        if left < before:
            until = time.monotonic() + patience_s
        if left and time.monotonic() >= until:
            raise TableUnavailable(
                f"{left} events wait for the archive, which takes none: start it with `hooklake up` or `hooklake archive`"
            )
