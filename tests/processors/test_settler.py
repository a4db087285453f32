"""When decisions are carried out: few at a time gather for a moment, unless somebody waits for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, processor
from processors.settler import ENOUGH
from tests.events import an_event
from tests.infra.streams.raw import open_raw
from tests.processors.conftest import Starter
from tests.processors.waiting import take_and_die, unsettled, until

LONGER_THAN_ANY_TEST_S = 3600.0


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("processors.worker.TOGETHER_S", LONGER_THAN_ANY_TEST_S)


@processor("*")
async def nothing(event: StreamEvent, delivery: Delivery) -> None:
    pass


def calls(client: Any, command: str) -> int:
    return int(client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


@pytest.mark.usefixtures("patience")
async def test_the_first_is_settled_at_once_and_the_next_ones_when_enough_have_gathered(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    client: Any = open_raw(log, home=home)
    async with working(nothing):
        before = calls(client, "xack")
        await stream.append(an_event())
        await until(lambda: calls(client, "xack") - before == 1)
        for _ in range(ENOUGH):
            await stream.append(an_event())
        await until(lambda: unsettled(log, home) == 0)

        # One for the first, and then one for each stream.
        assert calls(client, "xack") - before <= 1 + log.shards
    client.close()


@processor("*", key=True)
async def in_order(event: StreamEvent, delivery: Delivery) -> None:
    pass


@pytest.mark.usefixtures("patience")
async def test_where_order_is_kept_nothing_gathers_since_the_next_one_of_a_lane_waits(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    for _ in range(5):
        await stream.append(an_event(key="one lane"))

    async with working(in_order) as worker:
        await until(lambda: worker.makes_progress and unsettled(log, home) == 0)


@pytest.mark.usefixtures("patience")
async def test_what_is_taken_over_one_at_a_time_is_settled_one_at_a_time(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    await take_and_die(stream, log, home, events=[an_event() for _ in range(3)], consumer="c1")

    async with working(nothing):
        await until(lambda: unsettled(log, home) == 0)
