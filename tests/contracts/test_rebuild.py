"""A stream that is built anew in steps is the same afterwards, whatever is done between them, but for the bytes of what was deleted."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import rebuild
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import GroupReader, Lease
from infra.streams.rebuild import Rebuilding
from infra.streams.scripts import run_blocking
from infra.streams.stream import EventStream
from tests.contracts.test_erase import plain_dumps as plain_dumps
from tests.contracts.test_erase import state_of
from tests.events import an_event
from tests.infra.streams.deliveries import TOO_MANY, add_foreign, read_all, reader_of
from tests.processors.waiting import until

SECRET = b"what was erased"
MANY = 60
Between = Callable[[Callable[[int], object]], None]


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.fixture
def key(keys: Keys) -> str:
    return keys.events(0, "default")


@pytest.fixture
def rebuilding(log: LogSettings, home: Path, keys: Keys, key: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rebuilding]:
    """Each step copies a dozen entries."""
    monkeypatch.setattr(rebuild, "AT_ONCE", 5)
    with open_blocking(log, home=home) as client:
        yield Rebuilding(client, key, *keys.rebuilt(0, key), keys.ledger(0), log)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Does something before each step."""
    numbers = itertools.count(1)

    def acting(act: Callable[[int], object]) -> None:
        def run(client: Any, name: str, **call: Any) -> Any:
            if name == "rebuild":
                act(next(numbers))
            return run_blocking(client, name, **call)

        monkeypatch.setattr(rebuild, "run_blocking", run)

    return acting


@dataclass
class Users:
    """Those who go on with the stream: what they do is chosen by chance, and is what ours do to a stream."""

    client: Any
    key: str
    chance: random.Random
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    def begin(self) -> None:
        for group in ("g", "h"):
            self.client.xgroup_create(self.key, group, "0", mkstream=True)
        for number in range(MANY):
            body = SECRET if number % 3 == 0 else b"body %d" % number
            self.client.xadd(self.key, {"payload": body, "id": str(number)}, id=f"{next(self.numbers)}-0")
        self.read()
        self.remove([entry_id for entry_id, fields in self.client.xrange(self.key) if fields[b"payload"] == SECRET])

    def act(self) -> None:
        for _ in range(self.chance.randrange(6)):
            self.chance.choice((self.append, self.append, self.read, self.ack, self.trim, self.delete))()

    def append(self) -> None:
        self.client.xadd(self.key, {"payload": b"another", "id": "new", "more": "x"}, id=f"{next(self.numbers)}-0")

    def read(self) -> None:
        group, consumer = self.chance.choice("gh"), f"c{self.chance.randrange(3)}"
        self.client.xreadgroup(group, consumer, {self.key: ">"}, count=self.chance.randrange(1, 8))

    def ack(self) -> None:
        group = self.chance.choice("gh")
        if taken := self.pending(group):
            self.client.xack(self.key, group, self.chance.choice(taken))

    def trim(self) -> None:
        needed = {*self.pending("g"), *self.pending("h")}
        entries = [entry_id for entry_id, _ in self.client.xrange(self.key, count=5)]
        free = list(itertools.takewhile(lambda entry_id: entry_id not in needed, entries))
        if free:
            self.client.xtrim(self.key, minid=self.chance.choice(free))

    def delete(self) -> None:
        if entries := self.client.xrange(self.key):
            self.remove([self.chance.choice(entries)[0]])

    def remove(self, entry_ids: list[bytes]) -> None:
        for group in ("g", "h"):
            self.client.xack(self.key, group, *entry_ids)
        self.client.xdel(self.key, *entry_ids)

    def pending(self, group: str) -> list[bytes]:
        return [one["message_id"] for one in self.client.xpending_range(self.key, group, "-", "+", 1000)]


@pytest.fixture
def users(client: Any, key: str) -> Users:
    found = Users(client, key, random.Random(1))
    found.begin()
    return found


@pytest.mark.fault("F2")
@pytest.mark.usefixtures("plain_dumps")
@pytest.mark.parametrize("seed", range(8))
def test_a_stream_is_the_same_whatever_is_done_to_it_between_the_steps(
    client: Any, key: str, rebuilding: Rebuilding, users: Users, between: Between, seed: int
) -> None:
    users.chance.seed(seed)
    before: list[Any] = []

    def act(_: int) -> None:
        users.act()
        before[:] = state_of(client, key)

    between(act)
    assert SECRET in client.dump(key)

    assert rebuilding.run() == ""

    assert [*state_of(client, key)] == before
    assert SECRET not in client.dump(key)
    assert (client.ttl(key), client.exists(rebuilding.copy), client.exists(rebuilding.replaced)) == (-1, 0, 0)


@pytest.mark.fault("F2")
def test_what_is_deleted_while_a_stream_is_built_anew_does_not_come_back(
    client: Any, key: str, rebuilding: Rebuilding, users: Users, between: Between
) -> None:
    between(lambda step: users.remove([b"1004-0"]) if step == 2 else None)

    assert rebuilding.run() == ""

    assert client.xrange(key, "1004-0", "1004-0") == []
    assert client.xlen(key) == MANY * 2 // 3 - 1


@pytest.mark.fault("F2")
def test_another_stream_under_the_same_name_is_not_replaced_by_the_copy_of_the_first(
    client: Any, key: str, rebuilding: Rebuilding, users: Users, between: Between
) -> None:
    """It has as many entries as were copied, and older ids: a log that was wiped, and a clock that was set back."""

    def replace_stream(step: int) -> None:
        if step == 2:
            copied = client.xlen(rebuilding.copy)
            client.delete(key)
            for number in range(copied):
                client.xadd(key, {"payload": b"of another life"}, id=f"{number + 1}-0")

    between(replace_stream)

    assert rebuilding.run() == ""

    assert {fields[b"payload"] for _, fields in client.xrange(key)} == {b"of another life"}


def test_a_stream_in_whose_middle_entries_are_deleted_all_the_time_is_built_at_once(
    client: Any, key: str, rebuilding: Rebuilding, users: Users, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(lambda _: users.remove([client.xrange(key, count=2)[1][0]]))
    assert rebuilding.run() == ""
    monkeypatch.setattr(rebuild, "MOST_BUILT_AT_ONCE", 5)
    before = client.xrange(key)

    assert rebuilding.run() == "entries of it are deleted all the time"
    assert {entry_id for entry_id, _ in client.xrange(key)} < {entry_id for entry_id, _ in before}
    assert client.exists(rebuilding.copy) == 0


def test_a_stream_with_too_much_in_work_or_with_deliveries_of_nothing_is_left_as_it_is(
    client: Any, key: str, rebuilding: Rebuilding, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.xreadgroup("g", "c1", {key: ">"}, count=10)
    before = state_of(client, key)
    with monkeypatch.context() as few:
        few.setattr(rebuild, "MOST_IN_WORK", 3)
        assert rebuilding.run() == "too many deliveries are in work"
    assert state_of(client, key) == before
    client.xdel(key, users.pending("g")[0])
    before = state_of(client, key)

    assert rebuilding.run() == "entries are gone of which deliveries are in work"

    assert state_of(client, key) == before
    assert client.exists(rebuilding.copy) == 0


def test_a_stream_that_the_log_has_no_memory_for_twice_is_left_as_it_is(
    client: Any, key: str, rebuilding: Rebuilding, users: Users, log: LogSettings
) -> None:
    before, small = state_of(client, key), log.model_copy(update={"hard_cap": "1MiB", "soft_cap": "1MiB"})

    assert replace(rebuilding, log=small).run() == "the log has no memory for it twice"

    assert state_of(client, key) == before


def test_streams_that_are_empty_or_that_there_are_not_stay_so(client: Any, key: str, rebuilding: Rebuilding) -> None:
    assert rebuilding.run() == ""
    assert client.exists(key) == 0
    client.xgroup_create(key, "g", "0", mkstream=True)
    client.xdel(key, client.xadd(key, {"a": "b"}))
    before = state_of(client, key)

    assert rebuilding.run() == ""

    assert state_of(client, key) == before


async def test_whoever_waits_for_the_next_entry_gets_it_from_the_stream_that_was_built_anew(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, key: str, rebuilding: Rebuilding
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    await read_all(reader)
    waiting = asyncio.create_task(read_next(reader))
    if pipeline.one_keyspace:  # On a cluster nobody waits in the server.
        await until(lambda: int(client.info("clients")["blocked_clients"]) > 0)

    assert await asyncio.to_thread(rebuilding.run) == ""
    event = an_event()
    await stream.append(event)

    assert (await waiting).fields[b"id"].decode() == event.id
    assert client.xlen(key) == 2


async def read_next(reader: GroupReader) -> Lease:
    while not (taken := await reader.read(budget=1, block_ms=900)):
        pass
    return taken[0]


def test_an_entry_with_more_fields_than_can_be_passed_on_is_left_and_no_copy_of_its_neighbours(
    rebuilding: Rebuilding, client: Any, key: str
) -> None:
    add_foreign(client, key, {"before": "it"})
    add_foreign(client, key, {f"field{n}": "x" for n in range(TOO_MANY)})

    assert rebuilding.run() == "an entry has too many fields"
    assert not client.exists(rebuilding.copy)
    assert client.xlen(key) == 2
