"""What an operator's slip takes away comes back where it can, is counted where it cannot, and is never a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import groups, janitor, leases
from infra.streams.connection import open_pipeline
from infra.streams.delayed import promote_due
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack, RetryLater
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, read_one, reader_of, settle_as
from tests.infra.streams.raw import open_raw

Slip = Callable[[Any, Keys], None]
Act = Callable[[], Awaitable[object]]


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


def delete_the_stream(client: Any, keys: Keys) -> None:
    client.delete(keys.events(0, "default"))


def destroy_the_group(client: Any, keys: Keys) -> None:
    client.xgroup_destroy(keys.events(0, "default"), "g")


def delete_everything(client: Any, keys: Keys) -> None:
    """What FLUSHALL does to this log; the server is shared."""
    client.delete(*client.keys(f"{keys.prefix}*"))


@pytest.mark.parametrize(
    ("slip", "comes_back"), [(delete_the_stream, ["after"]), (delete_everything, ["after"]), (destroy_the_group, ["before", "after"])]
)
@pytest.mark.fault("D10")
async def test_a_group_that_vanished_comes_back_at_the_start_of_what_there_is(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, slip: Slip, comes_back: list[str]
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event(repository="before"))
    await settle_as(reader, pipeline, keys, (await read_one(reader), Ack()))
    slip(client, keys)
    await stream.append(an_event(repository="after"))

    with pytest.raises(StreamUnavailable, match="NOGROUP"):
        await reader.read(budget=100, block_ms=50)
    await groups.declare(pipeline, keys=keys, group="g")

    taken = await reader.read(budget=100, block_ms=1000)
    assert [lease.fields[b"repository"].decode() for lease in taken] == comes_back


async def test_a_group_that_vanished_comes_back_when_the_servers_memory_is_full(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys = Keys(own_log.prefix, 1)
    await stream.append(an_event())
    await groups.declare(pipeline, keys=keys, group="g")
    client.xgroup_destroy(keys.events(0, "default"), "g")
    client.config_set("maxmemory", 1)

    assert await groups.declare(pipeline, keys=keys, group="g") == 1

    (group,) = client.xinfo_groups(keys.events(0, "default"))
    assert (group["name"], group["last-delivered-id"]) == (b"g", b"0-0")  # at the start of what there is, never at `$`
    client.close()
    await stream.close()
    await pipeline.close()


@pytest.mark.fault("D10")
async def test_a_flushed_log_goes_on_in_a_new_incarnation(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    stream, client, archive_log = EventStream.open(own_log, home=home), open_raw(own_log, home=home), ArchiveLog.open(own_log, home=home)
    lost = an_event(delivery_id="d1")
    before = await stream.append(lost)
    archive_log.move({end.stream: end.last for end in archive_log.ends()})
    client.flushall()

    after, again = await stream.append(an_event()), await stream.append(lost)
    ends = {end.stream.name: end.last for end in archive_log.ends()}

    await stream.close()
    archive_log.close()
    client.close()
    assert after.incarnation == again.incarnation == ends["default"].incarnation != before.incarnation
    assert (after.sequence, again.sequence, again.duplicate, ends["default"].sequence) == (1, 2, False, 2)


async def test_numbers_go_on_after_a_stream_was_deleted_so_that_the_gap_tells_how_many_are_gone(
    stream: EventStream, keys: Keys, client: Any
) -> None:
    receipts = [await stream.append(an_event()) for _ in range(3)]
    delete_the_stream(client, keys)

    after = await stream.append(an_event())

    assert (after.incarnation, after.sequence) == (receipts[0].incarnation, 4)


@pytest.mark.fault("D12")
async def test_every_delivery_that_was_trimmed_beneath_a_group_is_counted_as_lost_once(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(10):
        await stream.append(an_event())
    taken = await reader.read(budget=100, block_ms=1000)
    client.xtrim(taken[0].stream, maxlen=2, approximate=False)

    await settle_as(reader, pipeline, keys, (taken[0], RetryLater(0, 1)), (taken[1], GIVE_UP))
    claimed = await leases.claim_idle(pipeline, keys=keys, reader=reader, lease_ms=0)

    assert client.hget(keys.ledger(0), "lost:g") == b"8"
    assert claimed is not None
    assert claimed.entry_id == taken[8].entry_id
    (group,) = (await overview(pipeline, keys=keys)).groups
    assert (group.lost, group.pending) == (8, 2)
    assert {name.decode() for name in client.hkeys(keys.lost(0, "g"))} == {f"events:default|{lease.entry_id}" for lease in taken[:8]}


@pytest.fixture
async def acts(stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog) -> dict[str, Act]:
    """Everything that touches a log, each to be done again and again; claiming before there is something to claim elsewhere."""
    reader = await reader_of(pipeline, keys)

    async def of_archive(act: Callable[[], object]) -> object:
        return act()

    return {
        "append": lambda: stream.append(an_event()),
        "claim": lambda: leases.claim_idle(pipeline, keys=keys, reader=reader, lease_ms=0),
        "read": lambda: reader.read(budget=100, block_ms=50),
        "promote": lambda: promote_due(pipeline, keys=keys),
        "declare": lambda: groups.declare(pipeline, keys=keys, group="g"),
        "lag": lambda: read_lag(pipeline, keys=keys, group="g"),
        "overview": lambda: overview(pipeline, keys=keys),
        "trim": lambda: janitor.trim(pipeline, keys=keys),
        "archive ends": lambda: of_archive(archive_log.ends),
        "archive trim": lambda: of_archive(archive_log.trim),
    }


WRONG_TYPE = {
    "events:default": {"append", "read", "claim", "declare", "lag", "overview", "trim", "archive ends", "archive trim"},
    "retry:g": {"read", "claim", "declare", "lag", "overview"},
    "delayed": {"promote", "overview"},
    "ledger": {"append", "declare", "overview", "trim", "archive ends", "archive trim"},
    "registry": {"declare", "overview", "trim", "archive ends", "archive trim"},
}
"""Which acts cannot be done while a key is a string that nobody of us wrote."""


@pytest.mark.parametrize("replaced", WRONG_TYPE)
@pytest.mark.fault("D11")
async def test_a_key_that_was_replaced_by_a_string_is_unavailable_until_it_is_gone(
    acts: dict[str, Act], keys: Keys, client: Any, replaced: str
) -> None:
    await acts["append"]()
    key = f"{keys.prefix}{{0}}:{replaced}"
    client.set(key, "a string")

    failed = {name: error for name, act in acts.items() if (error := await _error_of(act)) is not None}
    client.delete(key)
    await acts["declare"]()

    assert {type(error) for error in failed.values()} == {StreamUnavailable}
    assert all("WRONGTYPE" in str(error) for error in failed.values())
    assert set(failed) == WRONG_TYPE[replaced]
    assert [name for name, act in acts.items() if await _error_of(act) is not None] == []


@pytest.mark.fault("B14")
async def test_a_flush_of_the_scripts_is_survived_by_both_clients(stream: EventStream, archive_log: ArchiveLog, client: Any) -> None:
    await stream.append(an_event())
    archive_log.ends()
    client.script_flush()

    assert not (await stream.append(an_event())).duplicate
    client.script_flush()
    assert {end.last.sequence for end in archive_log.ends()} == {0, 2}
    assert archive_log.trim() == 0


async def _error_of(act: Act) -> Exception | None:
    try:
        await act()
    except Exception as error:  # whatever it is: the test says what it may be
        return error
    return None
