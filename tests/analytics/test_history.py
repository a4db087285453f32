"""A new group is handed every event once: those before it was made from the table, the others from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from analytics.counting import count
from analytics.history import is_before, wait_until_archived
from analytics.replay import with_history
from analytics.replayer import Plan, Replayer
from analytics.selection import Selection
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.history import Histories, Mark
from infra.streams.replays import Replay, Replays
from schemas.errors import TableUnavailable
from tests.analytics.conftest import OpenArchive, append
from tests.analytics.test_replay import archive_all, taken
from tests.events import an_event


@pytest.fixture
def replays(log: LogSettings, home: Path) -> Iterator[Replays]:
    opened = Replays.open(log, home=home)
    yield opened
    opened.close()


def begin(replays: Replays) -> Replay:
    return replays.begin("fresh", about=Plan(Selection(), is_counted=False, started_at="2026").to_json())


def test_a_new_group_is_handed_every_event_once_over_a_restart_of_the_log_too(
    spark: SparkSession, open_archive: OpenArchive, own_server: EmbeddedServer, location: str, home: Path
) -> None:
    log = LogSettings(url=own_server.url)
    events = [an_event() for _ in range(50)]
    append(log, home, *events[:10])
    archive_all(open_archive, log)
    own_server.kill()
    own_server.start()
    append(log, home, *events[10:20])  # of the next incarnation
    replays = Replays.open(log, home=home)
    replayer, begun = Replayer(spark, location, log, home, replays), begin(replays)
    histories = Histories.open(log, home=home)
    histories.begin("fresh", replay=begun.id)
    histories.close()
    append(log, home, *events[20:30])  # after the group was made, before the archive has them
    found = [event.id for _, event, _ in taken(log, home, group="fresh")]
    own_server.kill()
    own_server.start()
    append(log, home, *events[30:40])  # of a later one
    archive_all(open_archive, log)

    begun = with_history(begun, replayer=replayer)
    append(log, home, *events[40:])
    archive_all(open_archive, log)
    replayer.run(begun)

    found += [event.id for _, event, _ in taken(log, home, group="fresh")]
    assert Counter(found) == Counter(event.id for event in events)
    replays.close()


@pytest.mark.control("REPLAY")
def test_making_the_group_after_its_history_leaves_a_gap(
    spark: SparkSession, open_archive: OpenArchive, log: LogSettings, location: str, home: Path, replays: Replays
) -> None:
    """The control: what comes between the last look at the table and the group is in neither."""
    events = [an_event() for _ in range(20)]
    append(log, home, *events[:10])
    archive_all(open_archive, log)
    histories = Histories.open(log, home=home)
    replayer, begun = Replayer(spark, location, log, home, replays), begin(replays)
    early = Plan(Selection(), started_at="2026").with_counted(count(replayer.rows(Selection()), shards=log.shards))
    append(log, home, *events[10:])
    histories.begin("fresh", replay=begun.id)
    histories.close()

    replayer.run(replays.note(begun, about=early.to_json()))

    assert {event.id for _, event, _ in taken(log, home, group="fresh")} == {event.id for event in events[:10]}


MARK = Mark("0:default", "now", 5, known=("past", "now"), later=("next",))


@pytest.mark.parametrize(
    ("stream", "incarnation", "sequence", "expected"),
    [
        ("0:default", "now", 5, True),
        ("0:default", "now", 6, False),
        ("0:default", "past", 99, True),
        ("0:default", "older", 99, True),
        ("0:default", "next", 1, False),
        ("0:default", None, None, True),
        ("7:default", "now", 6, True),
    ],
)
def test_a_row_is_before_the_mark_of_its_stream(
    spark: SparkSession, stream: str, incarnation: str | None, sequence: int | None, expected: bool
) -> None:
    rows = spark.createDataFrame(
        [Row(stream=stream, incarnation=incarnation, sequence=sequence)], "stream string, incarnation string, sequence bigint"
    )

    assert (rows.where(is_before([MARK])).count() == 1) is expected


def test_an_archive_that_takes_nothing_is_not_waited_for_for_ever(log: LogSettings, home: Path) -> None:
    append(log, home, an_event())
    histories = Histories.open(log, home=home)
    marks = histories.begin("fresh", replay="r1")

    with pytest.raises(TableUnavailable, match="1 events wait for the archive"):
        wait_until_archived(histories, marks=marks, patience_s=0.3)
    histories.close()


def test_what_a_past_incarnation_has_unarchived_is_waited_for(own_server: EmbeddedServer, home: Path) -> None:
    log = LogSettings(url=own_server.url)
    append(log, home, *(an_event() for _ in range(10)))
    own_server.kill()
    own_server.start()
    with closing(Replays.open(log, home=home)) as replays, closing(Histories.open(log, home=home)) as histories:
        marks = histories.begin("fresh", replay=begin(replays).id)

        assert histories.unarchived(marks) == 10
