from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.seen import PERIODS_IN_WINDOW, SeenWindow
from infra.streams.stream import EventStream
from tests.events import an_event

WINDOW = SeenWindow.parse("80h")
EDGE_MS = 20_000 * WINDOW.period_ms
"""Where one period ends and the next begins."""


async def append_at(now_ms: int, *, log: LogSettings, home: Path) -> bool:
    """Sends the same delivery to a receiver whose clock says so; True when it was a duplicate."""
    stream = EventStream.open(log, home=home, clock=Clock(wall_ns=lambda: now_ms * 1_000_000))
    receipt = await stream.append(an_event(delivery_id="d1"))
    await stream.close()
    return receipt.duplicate


@pytest.mark.parametrize("begun_ms", [0, 1, WINDOW.period_ms // 2, WINDOW.period_ms - 1])
async def test_a_delivery_is_a_duplicate_until_the_window_ends(log: LogSettings, home: Path, begun_ms: int) -> None:
    assert not await append_at(EDGE_MS + begun_ms, log=log, home=home)

    assert await append_at(EDGE_MS + begun_ms + WINDOW.window_ms - 1, log=log, home=home)


@pytest.mark.parametrize("age", range(PERIODS_IN_WINDOW + 1))
async def test_every_period_of_the_window_is_searched(log: LogSettings, home: Path, age: int) -> None:
    await append_at(EDGE_MS - age * WINDOW.period_ms, log=log, home=home)

    assert await append_at(EDGE_MS, log=log, home=home)


async def test_a_delivery_is_accepted_again_long_after_the_window(log: LogSettings, home: Path) -> None:
    await append_at(EDGE_MS, log=log, home=home)

    assert not await append_at(EDGE_MS + WINDOW.window_ms + WINDOW.period_ms, log=log, home=home)


@pytest.mark.parametrize("behind_ms", [10, WINDOW.period_ms // 2])
async def test_a_receiver_whose_clock_is_behind_knows_what_another_one_saw(log: LogSettings, home: Path, behind_ms: int) -> None:
    await append_at(EDGE_MS + 5, log=log, home=home)

    assert await append_at(EDGE_MS + 5 - behind_ms, log=log, home=home)


async def test_markers_are_forgotten_by_the_server_after_the_window_and_not_before(log: LogSettings, home: Path, client: Any) -> None:
    await append_at(EDGE_MS, log=log, home=home)

    (bucket,) = client.keys(f"{log.prefix}*seen:*")
    # A marker may be written when its bucket is a whole period old.
    assert (WINDOW.window_ms + WINDOW.period_ms) // 1000 - 60 <= client.ttl(bucket) <= (WINDOW.window_ms + WINDOW.period_ms) // 1000
