"""What is erased is gone from every file; whatever is killed on the way, all of it goes in the end, and the books balance."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics import erasing, shredding
from analytics.acts import Desk
from analytics.chains import Chains
from analytics.erase_selection import Selection
from analytics.gold import Gold
from analytics.gold_erasing import erase_from_gold
from analytics.requests import Requests, Result, Tell
from infra.clock import Clock
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.spools import SPOOL
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.erasing import Chosen, Erasing
from infra.streams.keys import Keys
from infra.streams.overview import read_overview
from infra.streams.replays import Replays
from infra.streams.rewriting import Rewritten
from infra.streams.settle import RetryLater
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.spool import Spool
from schemas.errors import ConfigError, RequestFailed, Unavailable
from schemas.event import StreamEvent
from tests.analytics.canary import a_canary, found_in
from tests.analytics.conftest import OpenChains, append
from tests.analytics.test_gold import DRIFT_RECIPE, TRAFFIC_RECIPE, table
from tests.contracts.test_quarantine import a_refused_request
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, read_all, reader_of, settle_as
from tests.infra.streams.raw import open_raw

GOES, STAYS = "goes", "stays"
OF_STAYS = {(type_, path): count for type_, count in (("github.push", 3), ("nothing.made", 2)) for path in ("$", "name", "nothing")}


@dataclass
class World:
    """A log with a server of its own, whose files are looked at, and the tables that are filled from it."""

    server: EmbeddedServer
    home: Path
    open_chains: OpenChains
    canary: str = field(default_factory=a_canary)

    @property
    def log(self) -> LogSettings:
        return LogSettings(url=self.server.url, shards=1)

    def an_event(self, tenant: str, *, is_of_own_type: bool = False) -> StreamEvent:
        """Names of members and types of events say something, too, and stand in gold."""
        said = self.canary if tenant == GOES else "nothing"
        payload, headers = f'{{"name": "{said}", "{said}": 1}}'.encode(), {"x-said": said}
        event_type = f"{said}.made" if is_of_own_type else "github.push"
        event = an_event(tenant_id=tenant, payload=payload, headers=headers, event_type=event_type)
        return event.model_copy(update={"delivery_id": f"{said}-{event.id}"})

    def chains(self) -> Chains:
        return self.open_chains(self.log)

    def fill(self) -> None:
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        """Of either tenant: a dead letter, a waiting retry, one in work, one that waits for its time, a refused request, two new ones."""
        stream, pipeline = EventStream.open(self.log, home=self.home), open_pipeline(self.log, home=self.home, wait_ms=1000)
        keys = Keys(self.log.prefix, 1)
        reader = await reader_of(pipeline, keys)
        for tenant in (GOES, STAYS) * 3:
            await stream.append(self.an_event(tenant))
        taken = await read_all(reader)
        for tenant in (GOES, STAYS):
            dead, waits, _ = (lease for lease in taken if lease.fields[b"tenant_id"] == tenant.encode())
            await settle_as(reader, pipeline, keys, (dead, GIVE_UP), (waits, RetryLater(3_600_000, 1)))
            await stream.append(self.an_event(tenant), deliver_at=datetime.now(UTC) + timedelta(hours=1))
            said = self.an_event(tenant)
            request = a_refused_request(tenant_id=tenant, body=said.payload, headers=said.headers)
            await stream.quarantine(request, cap=1000, cap_bytes=10**6)
            for _ in range(2):
                # Compared with the table before it is archived, by its delivery id, too.
                await stream.append(self.an_event(tenant, is_of_own_type=True), recheck=True)
        await pipeline.close()
        await stream.close()

    def refresh_gold(self, chains: Chains) -> None:
        archive = chains.events.open()
        gold = Gold(archive.spark, archive.log, archive.settings, archive.home, Clock(), archive.telemetry)
        for recipe in (TRAFFIC_RECIPE, DRIFT_RECIPE):
            gold.refresh(recipe)

    def traffic(self, spark: SparkSession) -> Counter[tuple[str, str | None]]:
        """How many events gold has counted, by tenant and type."""
        found: Counter[tuple[str, str | None]] = Counter()
        for row in table(spark, self.home, "traffic_hourly").collect():
            found.update({(row.tenant_id, row.event_type): row.events})  # Rows of no event, too.
        return found

    def drift(self, spark: SparkSession) -> dict[tuple[str, str], int]:
        return {(row.event_type, row.path): row.events for row in table(spark, self.home, "schema_drift").collect()}

    def erase(self, chains: Chains, **arguments: Any) -> Result:
        """As the archive does when it is asked."""
        requests = Requests(self.home)
        name = requests.ask("erase", arguments=arguments)
        result = erasing.act(chains, requests.read(name), lambda *_: None)
        requests.answer(name, content={"result": {}})
        return result

    def found(self, spark: SparkSession) -> list[str]:
        scratch = Path(spark.sparkContext.getConf().get("spark.local.dir") or "")
        return found_in(self.canary, self.home, self.server.directory, scratch)


@pytest.fixture
def world(own_server: EmbeddedServer, home: Path, open_chains: OpenChains, monkeypatch: pytest.MonkeyPatch) -> World:
    # Other tests of the same Spark may still hold on to what they shuffled, which is then waited for in vain.
    monkeypatch.setattr(shredding, "SCRATCH_WITHIN_S", 3.0)
    return World(own_server, home, open_chains)


def tenants_of(chains: Chains) -> dict[str, int]:
    rows = chains.events.open().table.dataframe().groupBy("tenant_id").count().collect()
    return {row.tenant_id: row["count"] for row in rows}


@pytest.mark.fault("F2")
@pytest.mark.control("F2")
def test_no_file_has_anything_of_what_was_erased_now_and_the_books_balance(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill()
    chains = world.chains()
    chains.drain()
    world.refresh_gold(chains)
    before = world.found(spark)
    assert {Path(path).suffix for path in before} >= {".aof", ".parquet", ".json"}, before
    assert tables_of(before, home=world.home) == {"events", "dead_letters", "quarantine", "traffic_hourly", "schema_drift"}
    # Gold has not seen this yet.
    append(world.log, world.home, event := world.an_event(GOES, is_of_own_type=True), event)

    counted = world.erase(chains, tenant=GOES, dry_run=True)
    with monkeypatch.context() as broken:
        # The control, in the same world since each costs a minute: neither are the log's files rewritten, nor is gold looked at.
        broken.setattr(erasing, "rewrite_files", lambda *_, **__: Rewritten([], []))
        broken.setattr(erasing, "erase_from_gold", lambda *_, **__: None)
        erased = world.erase(chains, tenant=GOES, now=True)
    left = world.found(spark)
    assert {Path(path).suffix for path in left if "/lake/" not in path} == {".aof"}
    assert tables_of(left, home=world.home) == {"traffic_hourly", "schema_drift"}

    world.erase(chains, tenant=GOES, now=True)

    # What everybody has settled is off the log already.
    assert counted["log"] == erased["log"] == {"events": 4, "delayed": 2, "dead": 1, "quarantine": 1}
    assert counted["tables"] == erased["tables"] == {"events": 6, "dead_letters": 1, "outcomes": 0, "quarantine": 1}
    assert world.found(spark) == []
    assert tenants_of(chains) == {STAYS: 5}
    books = read_overview(world.log, home=world.home)
    assert (books.accepted, books.archived_events, books.scheduled, books.erased, books.erased_scheduled) == (13, 5, 1, 6, 1)
    assert (books.lost, books.out_of_balance) == (0, 0)
    # The next run reads all that from the tables.
    again = world.chains()
    assert again.events.last is not None
    assert (again.events.last.erased, again.events.last.totals.rows) == ({f"{GOES}:github": 6}, 11)
    assert read_overview(world.log, home=world.home).out_of_balance == 0
    # Gold goes on where it was: it names nobody who is gone, and takes in what is new once.
    append(world.log, world.home, world.an_event(STAYS))
    again.drain()
    for _ in range(2):
        world.refresh_gold(again)
    assert world.drift(spark) == {key: count + (key[0] == "github.push") for key, count in OF_STAYS.items()}
    assert world.traffic(spark) == {(STAYS, None): 0, (STAYS, "github.push"): 4, (STAYS, "nothing.made"): 2}


def tables_of(found: list[str], *, home: Path) -> set[str]:
    """In which tables that is."""
    lake = home / "lake"
    return {path.relative_to(lake).parts[0] for path in map(Path, found) if path.is_relative_to(lake)}


class Killed(BaseException):
    """In the place of kill -9: nothing catches it."""


def dying_at(place: str) -> Callable[[str], None]:
    def reach(name: str) -> None:
        if name == place:
            raise Killed(place)

    return reach


@pytest.mark.fault("F2")
def test_an_erasure_that_dies_at_any_step_is_finished_by_the_next_beginning(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill()
    chains = world.chains()
    world.refresh_gold(chains)
    requests = Requests(world.home)
    request = requests.read(requests.ask("erase", arguments={"where": f"CAST(body AS STRING) LIKE '%{world.canary}%'"}))

    for step in ("log", "rows", "gold", "events", "rewrite", "bytes", "record"):
        monkeypatch.setattr(erasing, "reach", dying_at(f"erase.before_{step}"))
        with pytest.raises(Killed):
            erasing.act(chains, request, lambda *_: None)
    monkeypatch.undo()
    found = erasing.act(chains, request, lambda *_: None)

    assert found["tables"] == {"events": 5, "dead_letters": 1, "outcomes": 0, "quarantine": 0}
    assert tenants_of(chains) == {STAYS: 5}
    assert chains.events.last is not None
    assert chains.events.last.erased == {f"{GOES}:github": 5}
    with closing(Erasing.open(world.log, home=world.home)) as log:
        (record,) = log.history()
    assert record.facts["tables:events"] == "5"
    # Gold has what the others' events say, and no type that no event has any more; refusals are of a whole source, and stay.
    assert world.drift(spark) == OF_STAYS
    assert world.traffic(spark) == {(GOES, None): 0, (STAYS, None): 0, (STAYS, "github.push"): 3, (STAYS, "nothing.made"): 2}
    assert world.canary not in str(record)


def test_rows_that_went_before_gold_was_looked_at_would_be_counted_there_for_ever(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the gold step: what gold has of an event is found by its row, so the row goes last."""

    def rows_first(chains: Chains, *, selection: Selection, tell: Tell) -> None:
        tell("erasing", 0, 0)
        archive = chains.events.open()
        if erasing.erase_rows(chains.events, selection=selection, events=archive.table.dataframe()):
            raise Killed
        erase_from_gold(archive, selection=selection)

    world.fill()
    chains = world.chains()
    chains.drain()
    world.refresh_gold(chains)
    assert (before := world.drift(spark)) != OF_STAYS
    requests = Requests(world.home)
    request = requests.read(requests.ask("erase", arguments={"where": f"CAST(body AS STRING) LIKE '%{world.canary}%'"}))
    monkeypatch.setattr(erasing, "erase_from_tables", rows_first)
    with pytest.raises(Killed):
        erasing.act(chains, request, lambda *_: None)

    erasing.act(chains, request, lambda *_: None)

    assert world.drift(spark) == before


async def give_up_what_is_left(world: World) -> int:
    pipeline, keys = open_pipeline(world.log, home=world.home, wait_ms=1000), Keys(world.log.prefix, 1)
    reader = await reader_of(pipeline, keys, consumer="c9")
    of_tenant = [lease for lease in await read_all(reader) if lease.fields[b"tenant_id"] == GOES.encode()]
    await settle_as(reader, pipeline, keys, *((lease, GIVE_UP) for lease in of_tenant))
    await pipeline.close()
    return len(of_tenant)


def test_what_a_worker_gives_up_while_it_is_counted_goes_too_and_a_server_that_refuses_to_rewrite_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill()
    chains, really, given_up = world.chains(), erasing.counted, list[int]()

    def counted(*args: Any, **more: Any) -> Any:
        found = really(*args, **more)
        given_up.append(asyncio.run(give_up_what_is_left(world)))
        return found

    monkeypatch.setattr(erasing, "counted", counted)
    with open_raw(world.log, home=world.home) as operator:
        operator.execute_command("ACL", "SETUSER", "default", "-bgrewriteaof")

    result = world.erase(chains, tenant=GOES)

    assert given_up == [2]
    chains.drain()
    letters = chains.records[0].open().table.dataframe()
    assert {row.tenant_id for row in letters.select("tenant_id").distinct().collect()} == {STAYS}
    with closing(Erasing.open(world.log, home=world.home)) as log:
        assert log.count(Chosen(GOES)) == Counter()
    assert result["rewritten"] == []
    (sentence,) = result["left"]
    assert "refuses to be asked" in sentence


@pytest.fixture
def chains(open_chains: OpenChains) -> Chains:
    return open_chains()


def test_a_replay_that_is_not_finished_is_ended_first(chains: Chains, log: LogSettings, home: Path) -> None:
    append(log, home, an_event(tenant_id=GOES))
    asyncio.run(declare(log, home))
    requests = Requests(home)
    request = requests.read(requests.ask("erase", arguments={"tenant": GOES}))
    with closing(Replays.open(log, home=home)) as replays:
        begun = replays.begin("g", about={"started_at": "2026"})

        with pytest.raises(RequestFailed, match=f"replay cancel {begun.id}`, then ask again; nothing was erased"):
            erasing.act(chains, request, lambda *_: None)
        # One that was begun meanwhile is waited for: what it hands out goes with the next pass.
        with pytest.raises(Unavailable, match=begun.id):
            erasing.refuse_beside_replays(chains.events.open(), has_begun=True)
        replays.forget(begun)

    assert erasing.act(chains, request, lambda *_: None)["tables"]["events"] == 1


async def declare(log: LogSettings, home: Path) -> None:
    pipeline = open_pipeline(log, home=home)
    await groups.declare(pipeline, keys=Keys(log.prefix, log.shards), group="g")
    await pipeline.close()


@pytest.mark.parametrize("where", ["1 +", "no_such_column = 1", "id IN (SELECT id FROM parquet.`/etc`)", "1 = 1) UNION (SELECT 1"])
def test_a_condition_that_is_none_is_refused_and_nothing_goes(chains: Chains, home: Path, where: str) -> None:
    requests = Requests(home)
    request = requests.read(requests.ask("erase", arguments={"where": where}))

    with pytest.raises(ConfigError):
        erasing.act(chains, request, lambda *_: None)


def test_a_condition_that_fails_on_a_value_is_refused_at_once_and_nothing_goes(
    chains: Chains, home: Path, log: LogSettings, telemetry: Telemetry
) -> None:
    append(log, home, an_event(payload=b'{"n": 5}'), an_event(payload=b'{"n": "five"}'))
    requests = Requests(home)
    name = requests.ask("erase", arguments={"where": "payload:n::int = 5"})

    Desk(requests, telemetry).carry_out(name, chains=chains)

    with pytest.raises(ConfigError, match=r"the condition cannot be used: \[INVALID_VARIANT_CAST\]"):
        requests.take_answer(name)
    assert chains.events.open().table.dataframe().count() == 2


def test_each_step_that_reads_rows_by_a_condition_says_that_it_fails(chains: Chains, home: Path, log: LogSettings) -> None:
    """Rows that come while events are erased may be the first that it fails on."""
    append(log, home, an_event(payload=b'{"n": "five"}'))
    chains.drain()
    selection, events = Selection(where="payload:n::int = 5"), chains.events.open().table.dataframe()

    with closing(Erasing.open(log, home=home)) as erasing_log:
        steps: list[Callable[[], object]] = [
            lambda: erasing.chosen_in_log(erasing_log, chains=chains, selection=selection),
            lambda: erasing.counted(erasing_log, Chosen(event_ids=set()), chains=chains, selection=selection),
            lambda: erasing.erase_rows(chains.events, selection=selection, events=events),
        ]
        for step in steps:
            with pytest.raises(ConfigError, match="the condition cannot be used"):
                step()


def test_who_names_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="say what to erase"):
        Selection.of({"tenant": "", "where": None})


def test_the_record_of_a_condition_has_its_digest_only() -> None:
    assert Selection(tenant="t", where="body = 'secret'").described().keys() == {"tenant", "where_sha256"}


def test_events_in_a_spool_are_waited_for_and_then_refused(chains: Chains, home: Path) -> None:
    async def keep() -> None:
        spool = Spool.hold(home, max_bytes=10**6, clock=Clock())
        spool.start()
        await spool.keep([an_event()], shard=0)
        await spool.close()

    asyncio.run(keep())
    requests = Requests(home)
    request = requests.read(requests.ask("erase", arguments={"tenant": "demo"}))

    with pytest.raises(Unavailable, match="wait in the spool of receiver-0"):
        erasing.wait_for_spools(request, chains=chains)
    late = request.__class__(request.name, request.act, request.arguments, request.by, asked_ms=0)
    with pytest.raises(RequestFailed, match="run a receiver"):
        erasing.wait_for_spools(late, chains=chains)
    assert (home / SPOOL).is_dir()
