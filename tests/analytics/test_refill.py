"""What was spilled is given back by the archive, by itself: a thousand at a time, each once, and what is owed shrinks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics.erase_selection import Selection
from analytics.erasing import erase_rows
from analytics.giving_back import Portion
from analytics.owed_numbers import note_owed
from analytics.raw_rows import raw_entry
from analytics.refill import Refill, in_calls, is_wanted, raw_fields
from infra.running.status import needs_of, owed_sentences
from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.erasing import Erasing
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.overview import Overview, read_overview
from infra.streams.owed import Owed, OwedEntry, Step
from infra.streams.replay import Limits
from infra.streams.spill import spill
from infra.telemetry import Telemetry
from tests.analytics.conftest import OpenArchive, OpenChains, append
from tests.analytics.test_replay import archive_all, taken
from tests.events import an_event
from tests.infra.streams.raw import open_raw


@pytest.fixture
def refill(spark: SparkSession, location: str, log: LogSettings, home: Path, telemetry: Telemetry) -> Iterator[Refill]:
    owed = Owed.open(log, home=home)
    yield Refill(lambda: spark.read.format("delta").load(location), owed, log, home, telemetry)
    owed.close()


def declare_and_spill(log: LogSettings, home: Path, *, spills: bool) -> None:
    async def act() -> None:
        pipeline, keys = open_pipeline(log, home=home), Keys(log.prefix, log.shards)
        try:
            await groups.declare(pipeline, keys=keys, group="g")
            for shard in keys.all_shards() if spills else ():
                for name in EVENT_STREAMS:
                    await spill(pipeline, keys=keys, shard=shard, name=name)
        finally:
            await pipeline.close()

    asyncio.run(act())


def look(log: LogSettings, home: Path) -> Overview:
    return read_overview(log, home=home)


def owed_now(log: LogSettings, home: Path) -> int:
    return next(state.owed for state in look(log, home).groups if state.group == "g")


def test_everything_that_was_spilled_comes_back_once_and_never_too_much_of_it(
    open_archive: OpenArchive, refill: Refill, log: LogSettings, home: Path
) -> None:
    refill = replace(refill, limits=Limits(entries=40))
    declare_and_spill(log, home, spills=False)
    events = [an_event(priority="low" if number % 5 == 0 else "default") for number in range(300)]
    append(log, home, *events)
    in_work = {event.id for _, event, _ in taken(log, home, settles=False)}
    assert len(in_work) == 300
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    archive_all(open_archive, log)
    declare_and_spill(log, home, spills=True)
    later = [an_event() for _ in range(10)]
    append(log, home, *later)
    counts, found = [owed_now(log, home)], list[Any]()

    while refill.step() or owed_now(log, home):
        assert max(client.xlen(keys.replay(shard, "g")) for shard in keys.all_shards()) <= 40
        counts.append(owed_now(log, home))
        found += taken(log, home)

    assert counts[0] == 300
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert sorted(event.id for _, event, _ in found) == sorted(event.id for event in (*events, *later))
    assert {mark for _, _, mark in found} == {b""}
    assert {event.retry_count for _, event, _ in found} == {0}
    client.close()


@pytest.mark.fault("F2")
@pytest.mark.control("F2")
def test_what_is_owed_and_erased_is_no_loss_unless_nobody_writes_its_numbers_down(
    open_chains: OpenChains, refill: Refill, log: LogSettings, home: Path
) -> None:
    declare_and_spill(log, home, spills=False)
    append(log, home, *(an_event(tenant_id=tenant) for tenant in ("noted", "forgotten", "stays") * 4))
    chains = open_chains()
    chains.drain()
    declare_and_spill(log, home, spills=True)
    assert owed_now(log, home) == 12

    with closing(Erasing.open(log, home=home)) as erasing:
        note_owed(erasing, archive=chains.events.open(), selection=Selection(tenant="noted"))
    for tenant in ("noted", "forgotten"):
        erase_rows(chains.events, selection=Selection(tenant=tenant), events=chains.events.open().table.dataframe())
    found = list[Any]()
    while refill.step() or owed_now(log, home):
        found += taken(log, home)

    assert {event.tenant_id for _, event, _ in found} == {"stays"}
    assert len(found) == 4
    assert [state.lost for state in look(log, home).groups if state.group == "g"] == [4]


def test_thousands_of_entries_that_were_in_work_are_found_by_one_condition(spark: SparkSession) -> None:
    orders = {shard: [Portion(OwedEntry("default", "a", f"{n}-0", n, 1), n) for n in range(1, 1001)] for shard in range(4)}
    rows = spark.createDataFrame(
        [("0:default", "a", 7, "7-0"), ("3:default", "a", 1000, "1-0"), ("0:default", "b", 7, "7-0"), ("0:low", "a", 7, "7-0")],
        "stream STRING, incarnation STRING, sequence LONG, entry_id STRING",
    )

    assert [(row.stream, row.sequence) for row in rows.where(is_wanted(orders)).collect()] == [("0:default", 7), ("3:default", 1000)]


def test_nothing_is_read_from_the_table_while_nothing_is_owed_or_the_group_has_enough(
    open_archive: OpenArchive, refill: Refill, log: LogSettings, home: Path
) -> None:
    looks: list[DataFrame] = []

    def watched() -> DataFrame:
        looks.append(refill.dataframe())
        return looks[-1]

    watching = replace(refill, dataframe=watched, limits=Limits(entries=4))
    declare_and_spill(log, home, spills=False)
    assert watching.step() == 0
    append(log, home, *(an_event(key="one shard") for _ in range(10)))
    archive_all(open_archive, log)
    declare_and_spill(log, home, spills=True)

    assert (watching.step(), watching.step()) == (4, 0)

    assert len(looks) == 1


def test_what_is_owed_is_shown_and_asks_for_nobody(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    declare_and_spill(log, home, spills=False)
    append(log, home, *(an_event() for _ in range(3)))
    archive_all(open_archive, log)
    declare_and_spill(log, home, spills=True)

    found = look(log, home)

    assert owed_sentences(found.groups) == ["group g is owed 3 events that the log has no longer; the archive gives them back"]
    assert [need for need in needs_of(found, processes={}) if "owed" in need] == []


def test_a_refill_that_fails_is_said_and_keeps_nobody_from_archiving(
    open_archive: OpenArchive, refill: Refill, log: LogSettings, home: Path
) -> None:
    declare_and_spill(log, home, spills=False)
    append(log, home, an_event())
    archive_all(open_archive, log)
    declare_and_spill(log, home, spills=True)
    broken = replace(refill, dataframe=lambda: refill.dataframe().where("no_such_column"))

    assert broken.step() == 0
    assert owed_now(log, home) == 1


def test_the_fields_of_an_entry_that_is_no_event_come_back_but_for_the_logs_own() -> None:
    fields = {b"foreign": b"\xff\x00", b"x": b"", b"sequence": b"7", b"incarnation": b"a"}

    assert raw_fields(raw_entry(fields)) == ["foreign", b"\xff\x00", "x", b""]


def test_steps_are_made_in_calls_of_a_bounded_size() -> None:
    small = [Step("f", "a", "b", 1, fields=["x", b"y"])] * 450
    large = [Step("f", "a", "b", 1, fields=["x", b"y" * 600_000])] * 5

    assert [len(call) for call in in_calls(small)] == [200, 200, 50]
    assert [len(call) for call in in_calls(large)] == [2, 2, 1]
