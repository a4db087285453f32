"""Each table is filled from its own streams, by its own chain of commits; events never wait for long."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from analytics import synced
from analytics.archive import Archive
from analytics.chains import MANY, Chain, Chains
from analytics.commits import Commit, Totals
from analytics.tables import EVENTS, OUTCOMES, TABLES, Table
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_blocking
from infra.streams.keys import RECORD_STREAMS, Keys
from infra.streams.overview import read_overview
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog, Look, StreamEnd
from infra.telemetry import Telemetry
from schemas.errors import NotTheArchive, SchemaDrift, TableUnavailable, WriteSkipped
from tests.analytics.conftest import OpenArchive, append
from tests.analytics.living import live
from tests.events import an_event


@dataclass
class World:
    """A log whose server may be restarted, and what fills its tables."""

    server: EmbeddedServer
    home: Path
    telemetry: Telemetry
    open_archive: OpenArchive
    log: LogSettings = field(init=False)

    def __post_init__(self) -> None:
        self.log = LogSettings(url=self.server.url, shards=1)

    def chains(self) -> Chains:
        """Another run of the archive over the same tables."""

        def opens(table: Table) -> Archive:
            return self.open_archive(self.log, table=table)

        return Chains(ArchiveLog.open(self.log, home=self.home), opens=opens, interval_ms=60_000, telemetry=self.telemetry)

    def rows(self, chains: Chains, table: str, *columns: str) -> list[tuple[Any, ...]]:
        (chain,) = (chain for chain in (chains.events, *chains.records) if chain.table.name == table)
        return [tuple(row) for row in chain.open().table.dataframe().select(*columns).collect()]

    def xlen(self, name: str) -> int:
        with open_blocking(self.log, home=self.home) as client:
            return int(client.xlen(Keys(self.log.prefix, 1).archived(0, name)))


@pytest.fixture
def world(own_server: EmbeddedServer, home: Path, telemetry: Telemetry, open_archive: OpenArchive) -> World:
    return World(own_server, home, telemetry, open_archive)


def test_every_stream_fills_its_own_table_and_a_restart_of_the_log_repeats_nothing(world: World) -> None:
    live(world.log, home=world.home)
    first = world.chains()
    first.drain()
    live(world.log, home=world.home)  # not archived before the restart
    world.server.kill()
    world.server.start()
    live(world.log, home=world.home)

    chains = world.chains()
    chains.drain()

    assert Counter(world.rows(chains, "dead_letters", "record", "state")) == {("letter", None): 6, ("state", "discarded"): 3}
    assert Counter(world.rows(chains, "outcomes", "kind", "step")) == {("outcome", "ack"): 6, ("alias", None): 3}
    assert Counter(world.rows(chains, "quarantine", "record", "because")) == {("request", None): 3, ("state", "a scan"): 3}
    for table, lost in (("events", 0), ("dead_letters", 0), ("outcomes", 0), ("quarantine", 0)):
        places = world.rows(chains, table, "stream", "incarnation", "sequence", *(["place"] if table == "outcomes" else []))
        assert len(places) == len(set(places)), table
        assert len({incarnation for _, incarnation, *_ in places}) == 2, table
        (chain,) = (chain for chain in (chains.events, *chains.records) if chain.table.name == table)
        assert chain.last is not None
        assert chain.last.totals.lost == lost, table
        assert {stream.name for stream in chain.last.positions} <= set(chain.table.streams), table
    assert read_overview(world.log, home=world.home).out_of_balance == 0


def test_records_that_vanished_from_the_log_are_counted_by_their_entries(world: World) -> None:
    live(world.log, home=world.home)
    chains = world.chains()
    chains.drain()
    live(world.log, home=world.home, events=8)
    with open_blocking(world.log, home=world.home) as client:
        keys = Keys(world.log.prefix, 1)
        client.xtrim(keys.outcomes(0), maxlen=1, approximate=False)  # the alias stays, the settled batches go
        client.delete(keys.quarantine(0))

    chains.drain()

    lost = {chain.table.name: chain.last.totals.lost for chain in chains.records if chain.last}
    assert lost["dead_letters"] == 0
    assert lost["quarantine"] == 2
    assert lost["outcomes"] >= 1
    with open_blocking(world.log, home=world.home) as client:
        assert client.hget(keys.ledger(0), "missing:quarantine") == b"2"
    assert read_overview(world.log, home=world.home).lost == 0  # no event is


def test_an_idle_archive_looks_once_a_round_and_commits_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    live(world.log, home=world.home)
    chains = world.chains()
    chains.drain()
    before = [chain.last for chain in (chains.events, *chains.records)]
    looks: list[Look] = []
    really = ArchiveLog.look

    def look(log: ArchiveLog) -> Look:
        looks.append(really(log))
        return looks[-1]

    monkeypatch.setattr(ArchiveLog, "look", look)

    for _ in range(5):
        assert not chains.step()

    assert [chain.last for chain in (chains.events, *chains.records)] == before
    assert all(chain.last is last for chain, last in zip((chains.events, *chains.records), before, strict=True))
    assert len(looks) == 5


def test_a_table_of_records_that_cannot_be_filled_keeps_no_event_waiting(world: World) -> None:
    chains = world.chains()
    refused: list[str] = []

    def refuse(table: Table) -> Archive:
        refused.append(table.name)
        raise SchemaDrift("a column has another type") if len(refused) % 2 else TableUnavailable("the disk is full")

    chains.begin()
    for chain in chains.records:
        chain.opens, chain.due_at = refuse, 0.0
    append(world.log, world.home, an_event(), an_event())

    for _ in range(4):
        chains.step()

    assert chains.events.last is not None
    assert chains.events.last.totals == Totals(rows=2)
    assert refused == ["dead_letters", "outcomes", "quarantine"]  # each once, and not again at once


def test_a_commit_that_somebody_elses_lies_upon_is_found_by_the_next_try(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    chains = world.chains()
    chains.begin()
    archive, reached = chains.events.open(), list[str]()

    def reach(name: str) -> None:
        reached.append(name)
        if name == "archive.before_read_back" and reached.count(name) == 1:
            archive.spark.sql(f"ALTER TABLE delta.`{archive.table.location}` SET TBLPROPERTIES ('x' = 'y')")

    append(world.log, world.home, an_event())
    monkeypatch.setattr(synced, "reach", reach)
    with pytest.raises(WriteSkipped):
        chains.step()
    append(world.log, world.home, an_event())

    chains.step()

    assert chains.events.last is not None
    assert chains.events.last.totals == Totals(rows=2)
    assert len(world.rows(chains, "events", "id")) == 2


def test_who_is_no_longer_the_archive_stops_whatever_table_says_so(world: World) -> None:
    chains = world.chains()
    chains.begin()

    def refuse(_: Table) -> Archive:
        raise NotTheArchive("another one holds the lease")

    assert not chains.step()  # They are not due so soon after the start.
    for chain in chains.records:
        chain.opens, chain.due_at = refuse, 0.0

    with pytest.raises(NotTheArchive):
        chains.step()


def never(_: Table) -> Archive:
    raise AssertionError("nothing is opened here")


def a_look(waiting: int) -> Look:
    return Look([StreamEnd(StreamName(0, "outcomes"), Position("a", "9-0", waiting))], accepted={})


@pytest.mark.parametrize(
    ("waiting", "now", "failed", "is_due"),
    [(1, 9.0, False, False), (1, 10.0, False, True), (MANY, 1.0, False, True), (MANY, 1.0, True, False), (0, 10.0, True, True)],
)
def test_records_are_due_after_their_time_or_when_they_are_many(waiting: int, now: float, failed: bool, is_due: bool) -> None:
    chain = Chain(OUTCOMES, never, last=Commit("run", "outcomes", 1, {}), due_at=10.0, failed=failed)

    assert chain.is_due(look=a_look(waiting), now=now) is is_due


def test_a_look_at_some_streams_counts_what_was_accepted_only_for_events() -> None:
    ends = [StreamEnd(StreamName(0, name), Position("a", "0-0", 0)) for name in ("default", "dead", "outcomes")]
    look = Look(ends, accepted={0: 5})

    assert [end.stream.name for end in look.of(EVENTS.streams).ends] == ["default"]
    assert look.of(EVENTS.streams).accepted == {0: 5}
    assert ([end.stream.name for end in look.of(OUTCOMES.streams).ends], look.of(OUTCOMES.streams).accepted) == (["outcomes"], {})


def test_every_stream_that_is_archived_fills_exactly_one_table() -> None:
    streams = [stream for table in TABLES for stream in table.streams]

    assert len(streams) == len(set(streams))
    assert set(RECORD_STREAMS) < set(streams)
