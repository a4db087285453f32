"""Owns one replay from its beginning to its end: what it is, written on the log; its days, one after the other; and its last word.

A replay hands over a fixed set of events: those that are chosen among the rows of the batches up to the newest one at its start. Whoever
continues it reads the same rows in the same order, also after the table was compacted; what was erased meanwhile is not handed any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.counting import Counted, slices
from analytics.handing import Task, hand_all
from analytics.history import is_before
from analytics.rebuilding import Place
from analytics.selection import Selection, chosen
from infra.settings import LogSettings
from infra.streams.history import Mark
from infra.streams.replay import Limits, Progress
from infra.streams.replays import About, Replay, Replays
from schemas.errors import NotFound, StreamUnavailable, TableUnavailable


@dataclass(frozen=True, slots=True)
class Plan:
    """What a replay hands over, and how fast. It is stored as JSON."""

    selection: Selection
    batch: int = 0
    events: int = 0
    unreadable: int = 0
    slices: list[tuple[date, date]] = field(default_factory=list)
    shards: dict[int, int] = field(default_factory=dict)
    rate: float | None = None
    by: str = ""
    started_at: str = ""
    marks: list[Mark] = field(default_factory=list)
    """Where a group that begins with this replay reads by itself; empty for others."""
    is_counted: bool = True
    """False while a group that begins with this replay was made, and it is not known yet how much there is."""

    def with_counted(self, counted: Counted, *, marks: Sequence[Mark] = ()) -> Plan:
        return replace(
            self,
            batch=counted.batch,
            events=counted.events,
            unreadable=counted.unreadable,
            slices=slices(counted.days),
            shards=counted.shards,
            marks=list(marks),
            is_counted=True,
        )

    def to_json(self) -> About:
        return {
            "selection": self.selection.to_json(),
            "batch": self.batch,
            "events": self.events,
            "unreadable": self.unreadable,
            "slices": [[first.isoformat(), last.isoformat()] for first, last in self.slices],
            "shards": {str(shard): count for shard, count in self.shards.items()},
            "rate": self.rate,
            "by": self.by,
            "started_at": self.started_at,
            "marks": [mark.to_json() for mark in self.marks],
            "is_counted": self.is_counted,
        }

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> Plan:
        return cls(
            selection=Selection.from_json(about["selection"]),
            batch=about["batch"],
            events=about["events"],
            unreadable=about["unreadable"],
            slices=[(date.fromisoformat(first), date.fromisoformat(last)) for first, last in about["slices"]],
            shards={int(shard): count for shard, count in about["shards"].items()},
            rate=about["rate"],
            by=about["by"],
            started_at=about["started_at"],
            marks=[Mark.from_json(mark) for mark in about["marks"]],
            is_counted=about["is_counted"],
        )

    def rates(self) -> dict[int, float]:
        """Each shard's part of the rate, so that all end together. Pure."""
        if self.rate is None or not self.events:
            return {}
        return {shard: self.rate * count / self.events for shard, count in self.shards.items()}


@dataclass(frozen=True, slots=True)
class Replayer:
    """Carries replays out; raises Unavailable, and NotFound when a replay is no more."""

    spark: SparkSession
    location: str
    log: LogSettings
    home: Path
    replays: Replays
    limits: Limits = field(default_factory=Limits)
    patience_s: float = 300

    def rows(self, selection: Selection, *, marks: Sequence[Mark] = ()) -> DataFrame:
        """What is chosen of the table as it is now; with marks, of what came before them."""
        rows = chosen(self.spark.read.format("delta").load(self.location), selection=selection)
        return rows.where(is_before(marks)) if marks else rows

    def run(self, replay: Replay) -> None:
        """Hands over what is left of it; returns when the group's streams have it all, be it settled or not."""
        plan = Plan.from_json(replay.about)
        try:
            for first, last in plan.slices:
                self._hand(plan, replay=replay, first=first, last=last)
        except (PySparkException, Py4JError) as error:
            said = str(error).strip().partition("\n")[0][:300]
            raise TableUnavailable(f"the events could not be read from the table, or their reader died: {said}") from error
        self._end(replay)

    def _hand(self, plan: Plan, *, replay: Replay, first: date, last: date) -> None:
        behind = left_since(self._known(replay).progress, shards=plan.shards)
        if behind is None or behind.date() > last:
            return
        rows = self.rows(plan.selection, marks=plan.marks).where("decode_error IS NULL").where(F.col("batch") <= plan.batch)
        rows = rows.where(F.col("received_date").between(F.lit(first), F.lit(last))).where(F.col("received_at") >= F.lit(behind))
        task = Task(
            self.log.model_dump_json(), str(self.home), replay.group, replay.id, self.limits, plan.rates(), patience_s=self.patience_s
        )
        for said in hand_all(rows, task=task, shards=self.log.shards):
            self._known(replay)
            raise StreamUnavailable(said)

    def _end(self, replay: Replay) -> None:
        """A shard that has all of its events says so, and that is the end of the replay there."""
        stream = Task(self.log.model_dump_json(), str(self.home), replay.group, replay.id).open()
        try:
            for shard, progress in self._known(replay).progress.items():
                if not progress.is_done:
                    stream.hand(shard, events=[], since=progress, is_end=True)
        finally:
            stream.close()

    def _known(self, replay: Replay) -> Replay:
        found = next((one for one in self.replays.of(replay.group) if one.id == replay.id), None)
        if found is None:
            raise NotFound(f"replay {replay.id} is no more: its group {replay.group} was removed, or somebody cancelled it")
        return found


def left_since(progress: Mapping[int, Progress], *, shards: Mapping[int, int]) -> datetime | None:
    """No event that was received before this is left; None when none is left at all. Pure."""
    left = [one for shard, one in progress.items() if not one.is_done and one.count < shards.get(shard, 0)]
    if not left:
        return None
    first_us = min(Place.parse(one.place).received_us if one.place else 0 for one in left)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=first_us)


def same_unfinished(replays: list[Replay], *, selection: Selection) -> Replay | None:
    """A replay of the same choice that has not come to its end. Pure."""
    return next((one for one in replays if not one.is_done and one.about.get("selection") == selection.to_json()), None)
