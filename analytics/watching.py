"""Owns what the archive tells the outside about a batch: lag, counts, spans and log lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from analytics.commits import Commit
from analytics.plan import Range
from analytics.tables import EVENTS
from infra.streams.keys import ARCHIVE_GROUP, archived_path
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog, StreamEnd
from infra.telemetry import Telemetry

MOST_LINKS = 32


def lags(ends: Sequence[StreamEnd], *, archived: Mapping[StreamName, Position]) -> dict[StreamName, int]:
    """How many entries of each stream are not archived, by their numbers; nothing of a new incarnation is. Pure."""
    return {end.stream: max(0, end.last.sequence - _number(archived.get(end.stream), incarnation=end.incarnation)) for end in ends}


def _number(position: Position | None, *, incarnation: str) -> int:
    return position.sequence if position is not None and position.incarnation == incarnation else 0


def tell_lag(telemetry: Telemetry, *, ends: Sequence[StreamEnd], archived: Mapping[StreamName, Position]) -> None:
    for stream, lag in lags(ends, archived=archived).items():
        # Spelled as a worker spells it, so that one query shows both.
        telemetry.lag.set(lag, {"group": ARCHIVE_GROUP, "stream": f"{stream.shard}:{archived_path(stream.name)}"})


def tell_wiped(telemetry: Telemetry, *, commit: Commit, last: Commit) -> None:
    """The ledger counts fewer events than it did: what can be counted is, and what cannot is said."""
    if gone := commit.accepted_before - last.accepted_before:
        telemetry.log.error(
            "the log was wiped or replaced: events that came after the archive's last look at it are lost, and nobody knows how many",
            counted_before=gone,
            recheck_until_ms=commit.recheck_until_ms,
        )


@contextmanager
def batch(telemetry: Telemetry, *, log: ArchiveLog, ranges: Sequence[Range]) -> Iterator[Callable[[Commit], None]]:
    """The span of a batch, linked to some of its events; yields the function that tells how it ended."""
    began = time.monotonic()
    with telemetry.span("archive.batch", links=traceparents(log, ranges=ranges), streams=len(ranges)) as span:

        def told(commit: Commit) -> None:
            span.set(batch=commit.batch, rows=commit.rows, duplicates=commit.duplicates, lost=commit.missing)
            tell_batch(telemetry, commit=commit, seconds=time.monotonic() - began)

        yield told


def tell_batch(telemetry: Telemetry, *, commit: Commit, seconds: float) -> None:
    """One line for each batch; losing entries is an error, and is said of every batch that lost some."""
    if commit.table == EVENTS.name:
        telemetry.consumed.add(commit.rows, {"group": ARCHIVE_GROUP})
        telemetry.duration.record(seconds, group=ARCHIVE_GROUP)
    said = {"batch": commit.batch, "rows": commit.rows, "duplicates": commit.duplicates, "seconds": round(seconds, 3)}
    telemetry.log.info("batch archived", table=commit.table, **said)
    if commit.missing:
        telemetry.failed.add(commit.missing, {"group": ARCHIVE_GROUP})
        telemetry.log.error("entries are lost", table=commit.table, batch=commit.batch, lost=commit.missing, lost_in_all=commit.totals.lost)


def traceparents(log: ArchiveLog, *, ranges: Sequence[Range]) -> list[str]:
    """Where the first few events of a batch come from; not all, which would cost a second read of everything."""
    found: list[str] = []
    for one in ranges:
        if len(found) < MOST_LINKS:
            first = next(log.read(one.stream, after=one.after.entry_id, to=one.to.entry_id), [])
            found += [entry.fields.get(b"traceparent", b"").decode(errors="replace") for entry in first]
    return [text for text in dict.fromkeys(found) if text]
