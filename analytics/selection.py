"""Owns which archived events are meant, as a person chooses them: by time, tenant, source, type, id, and a condition in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True)
class Selection:
    """Everything that is said must hold; of several names, one. An empty one means all events."""

    since: datetime | None = None
    until: datetime | None = None
    """Up to, and without."""
    tenants: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """`github.push`, or `github.*`."""
    events: tuple[str, ...] = ()
    where: str = ""

    def to_json(self) -> dict[str, Any]:
        """Without what is not said; the same choice gives the same JSON."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: _plain(value) for name, value in found.items() if value}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Selection:
        since, until = (datetime.fromisoformat(found[name]) if name in found else None for name in ("since", "until"))
        tenants, sources, types, events = (tuple(found.get(name, ())) for name in ("tenants", "sources", "types", "events"))
        return cls(since, until, tenants, sources, types, events, found.get("where", ""))


def _plain(value: datetime | tuple[str, ...] | str) -> str | list[str]:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def chosen(rows: DataFrame, *, selection: Selection) -> DataFrame:
    """The rows that are meant, those among them that are no events too. Whole days are left out by the table's partitions."""
    for condition in _conditions(selection):
        rows = rows.where(condition)
    return rows.where(F.expr(selection.where)) if selection.where else rows


def _conditions(selection: Selection) -> list[Column]:
    found: list[Column] = []
    if selection.since is not None:
        since = selection.since.astimezone(UTC)
        found += [F.col("received_date") >= F.lit(since.date()), F.col("received_at") >= F.lit(since)]
    if selection.until is not None:
        until = selection.until.astimezone(UTC)
        found += [F.col("received_date") <= F.lit(until.date()), F.col("received_at") < F.lit(until)]
    for column, names in (("tenant_id", selection.tenants), ("source", selection.sources), ("id", selection.events)):
        if names:
            found.append(F.col(column).isin(*names))
    if selection.types:
        found.append(reduce(Column.__or__, [_is_type(pattern) for pattern in selection.types]))
    return found


def _is_type(pattern: str) -> Column:
    if not pattern.endswith("*"):
        return F.col("event_type") == pattern
    return F.startswith(F.col("event_type"), F.lit(pattern.removesuffix("*")))
