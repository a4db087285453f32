"""An entry that continues another one has an id above it, whatever the server's clock does: fence tokens are made of ids and only grow.

A clock that was set back cannot be had without harming every other test, so the entry that is continued gets an id of the future: for
the scripts it is the same.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.dead_letters import DeadLetters
from infra.streams.delayed import promote_due
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.positions import id_order
from infra.streams.reading import Lease
from infra.streams.settle import RetryLater, Settlement
from tests.infra.streams.deliveries import GIVE_UP, make_due, read_one, reader_of, settle_as

HOUR_MS = 3_600_000


@pytest.fixture
def ahead_ms() -> int:
    return time.time_ns() // 1_000_000 + HOUR_MS


async def take(pipeline: Pipeline, keys: Keys, client: Any, *, entry_id: str) -> Lease:
    client.xadd(keys.events(0, "default"), {"x": "y"}, id=entry_id)
    return await read_one(await reader_of(pipeline, keys))


async def continued(how: str, lease: Lease, *, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path) -> Lease:
    """The entry that comes after this one: tried again at once, promoted, or requeued."""
    reader = await reader_of(pipeline, keys)
    settlements: dict[str, Settlement] = {"at once": RetryLater(0, 1), "promoted": RetryLater(1000, 1), "requeued": GIVE_UP}
    assert await settle_as(reader, pipeline, keys, (lease, settlements[how])) == []
    if how == "promoted":
        make_due(client, keys.delayed(0))
        await promote_due(pipeline, keys=keys)
    if how == "requeued":
        dead_letters = DeadLetters.open(log, home=home)
        dead_letters.requeue(next(dead_letters.letters()))
        dead_letters.close()
    return await read_one(reader)


@pytest.mark.parametrize("how", ["at once", "promoted", "requeued"])
async def test_an_entry_above_the_servers_clock_is_continued_above_itself(
    pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path, how: str, ahead_ms: int
) -> None:
    lease = await take(pipeline, keys, client, entry_id=f"{ahead_ms}-7")

    second = await continued(how, lease, pipeline=pipeline, keys=keys, client=client, log=log, home=home)
    third = await continued(how, second, pipeline=pipeline, keys=keys, client=client, log=log, home=home)

    assert id_order(second.entry_id)[0] > ahead_ms
    assert id_order(third.entry_id)[0] > id_order(second.entry_id)[0]


async def test_a_retry_stream_that_is_further_still_goes_on_from_there(
    pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path, ahead_ms: int
) -> None:
    lease = await take(pipeline, keys, client, entry_id=f"{ahead_ms}-0")
    client.xadd(keys.retry(0, "g"), {"x": "z"}, id=f"{ahead_ms + HOUR_MS}-0")
    reader = await reader_of(pipeline, keys)
    await read_one(reader)

    again = await continued("at once", lease, pipeline=pipeline, keys=keys, client=client, log=log, home=home)

    assert id_order(again.entry_id) > (ahead_ms + HOUR_MS, 0)


async def test_the_servers_clock_gives_the_id_where_it_is_ahead(
    pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    lease = await take(pipeline, keys, client, entry_id="1000-7")

    again = await continued("at once", lease, pipeline=pipeline, keys=keys, client=client, log=log, home=home)

    assert abs(id_order(again.entry_id)[0] - time.time() * 1000) < 60_000


async def test_an_id_that_no_clock_ever_gave_loses_nothing(
    pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    lease = await take(pipeline, keys, client, entry_id=f"{2**64 - 1}-5")

    again = await continued("at once", lease, pipeline=pipeline, keys=keys, client=client, log=log, home=home)

    assert again.fields[b"x"] == b"y"
