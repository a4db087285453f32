"""Owns what a report asks of the gold tables, and what it makes of the answers.

Everything is asked by hour, or by day where the time is longer than some weeks: a plot of a year needs no hours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from analytics.parameters import Value, bound

DAYS_FROM = timedelta(days=14)
MOST_SOURCES = 6
MOST_ROWS = 50
OTHERS = "all others"
Rows = Sequence[Any]
Ask = Callable[[str], Rows]
"""Asks one question; the rows."""

_PERCENTILES = ", ".join(
    f"kll_sketch_get_quantile_double(sketch, {percent / 100}) AS p{percent}" for percent in (50, 95, 99)
)  # fmt: skip
_IN_TIME = "date BETWEEN DATE(:since) AND DATE(:until) AND hour >= :since AND hour < :until"

TRAFFIC = f"""
SELECT date_trunc(:unit, hour) AS at, coalesce(tenant_id, '?') AS tenant_id, coalesce(source, '?') AS source,
  sum(events) AS events, sum(bytes) AS bytes, sum(duplicates) AS duplicates, sum(refusals) AS refusals, sum(conflicts) AS conflicts
FROM traffic_hourly WHERE {_IN_TIME} GROUP BY ALL ORDER BY at
"""
TYPES = f"""
SELECT tenant_id, source, event_type, sum(events) AS events, sum(bytes) AS bytes
FROM traffic_hourly WHERE {_IN_TIME} AND events > 0 GROUP BY ALL ORDER BY events DESC LIMIT {MOST_ROWS}
"""
LATENCY = f"""
SELECT at, {_PERCENTILES} FROM (
  SELECT date_trunc(:unit, hour) AS at, kll_merge_agg_double(%s) AS sketch
  FROM traffic_hourly WHERE {_IN_TIME} AND %s IS NOT NULL GROUP BY ALL
) ORDER BY at
"""
ARCHIVE_LATENCY = LATENCY % ("archive_sketch", "archive_sketch")
PROCESSING_LATENCY = LATENCY % ("processing_sketch", "processing_sketch")
FAILURES = f"""
SELECT date_trunc(:unit, hour) AS at, sum(retried) AS retried, sum(dead) AS dead
FROM processors_hourly WHERE {_IN_TIME} GROUP BY ALL ORDER BY at
"""
PROCESSORS = f"""
SELECT group_name, processor, attempts, acked, retried, dead,
  CASE WHEN runs > 0 THEN kll_sketch_get_quantile_double(sketch, 0.95) END AS p95
FROM (
  SELECT group_name, coalesce(processor, '') AS processor, sum(attempts) AS attempts, sum(acked) AS acked, sum(retried) AS retried,
    sum(dead) AS dead, count(run_sketch) AS runs, kll_merge_agg_double(run_sketch) AS sketch
  FROM processors_hourly WHERE {_IN_TIME} GROUP BY ALL
) ORDER BY dead DESC, retried DESC, attempts DESC LIMIT {MOST_ROWS}
"""
# New is what began in this time, of types of events that are older: a type that is new as a whole has not drifted.
DRIFT = f"""
SELECT event_type, path, type, events, first_seen, first_event, last_seen, first_seen >= :since AS is_new
FROM (SELECT *, min(first_seen) OVER (PARTITION BY event_type) AS begun, max(last_seen) OVER (PARTITION BY event_type) AS lasted
      FROM schema_drift)
WHERE (first_seen >= :since AND first_seen < :until AND begun < :since)
   OR (last_seen < :since AND lasted >= :since AND last_seen >= :since - INTERVAL 30 DAYS)
ORDER BY is_new DESC, first_seen DESC LIMIT {MOST_ROWS}
"""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that a report shows."""

    since: datetime
    until: datetime
    traffic: Rows
    types: Rows
    archive_latency: Rows
    processing_latency: Rows
    failures: Rows
    processors: Rows
    drift: Rows

    @property
    def times(self) -> list[datetime]:
        """Every hour, or day, from the first to the last: one in which nothing happened has no row, and must be seen."""
        return times_between(self.since, self.until)


def find(ask: Ask, *, since: datetime, until: datetime) -> Findings:
    answers = {name: ask(sql) for name, sql in questions(since=since, until=until).items()}
    return Findings(since, until, **answers)


def questions(*, since: datetime, until: datetime) -> dict[str, str]:
    """Each by the name of what it finds. Pure."""
    period: dict[str, Value] = {"since": since, "until": until}
    by_time: dict[str, Value] = {**period, "unit": unit_of(since, until)}
    return {
        "traffic": bound(TRAFFIC, values=by_time),
        "types": bound(TYPES, values=period),
        "archive_latency": bound(ARCHIVE_LATENCY, values=by_time),
        "processing_latency": bound(PROCESSING_LATENCY, values=by_time),
        "failures": bound(FAILURES, values=by_time),
        "processors": bound(PROCESSORS, values=period),
        "drift": bound(DRIFT, values=period),
    }


def unit_of(since: datetime, until: datetime) -> str:
    return "day" if until - since > DAYS_FROM else "hour"


def times_between(since: datetime, until: datetime) -> list[datetime]:
    """Pure."""
    is_daily = unit_of(since, until) == "day"
    at = since.replace(hour=0 if is_daily else since.hour, minute=0, second=0, microsecond=0)
    step, found = timedelta(days=1) if is_daily else timedelta(hours=1), []
    while at < until:
        found.append(at)
        at += step
    return found


def moment(value: datetime) -> datetime:
    """As Spark hands it out: of the process's zone, which is UTC here."""
    return value.replace(tzinfo=value.tzinfo or UTC)


def by_source(rows: Rows, *, times: Sequence[datetime]) -> dict[str, list[float]]:
    """Events at each time, of the sources with the most and of all others together. Pure."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[_named(row)] = totals.get(_named(row), 0) + row["events"]
    kept = sorted((name for name in totals if totals[name]), key=lambda name: -totals[name])[:MOST_SOURCES]
    places = {at: place for place, at in enumerate(times)}
    found: dict[str, list[float]] = {name: [0.0] * len(times) for name in kept}
    for row in rows:
        if row["events"] and (place := places.get(moment(row["at"]))) is not None:
            name = _named(row) if _named(row) in kept else OTHERS
            found.setdefault(name, [0.0] * len(times))[place] += row["events"]
    return found


def _named(row: Any) -> str:
    return f"{row['tenant_id']} / {row['source']}"


def column(rows: Rows, name: str, *, times: Sequence[datetime], missing: float | None) -> list[float | None]:
    """The values of one column at each time. Pure."""
    found = {moment(row["at"]): row[name] for row in rows}
    return [missing if found.get(at) is None else float(found[at]) for at in times]
