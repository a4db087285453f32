"""One process at a time keeps the log's house; when it leaves or dies, the next one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.sections import DeadLetterSettings
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.housekeeping import LEASE_MS, Housekeeping
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.telemetry import Telemetry
from schemas.errors import StreamUnavailable


@pytest.fixture
async def house(log: LogSettings, home: Path, pipeline: Pipeline, keys: Keys) -> AsyncIterator[Callable[[], Housekeeping]]:
    telemetry = Telemetry.start("test", TelemetrySettings(log_level="error"), home=home)
    yield lambda: Housekeeping(pipeline, keys=keys, log=log, dead_letters=DeadLetterSettings(), telemetry=telemetry, clock=Clock())
    telemetry.shutdown()


async def test_one_of_many_leads(house: Callable[[], Housekeeping]) -> None:
    many = [house() for _ in range(10)]

    for _ in range(2):
        await asyncio.gather(*(one.ask_to_lead() for one in many))

    assert sum(one.leads for one in many) == 1


async def test_whoever_leaves_hands_over_at_once(house: Callable[[], Housekeeping]) -> None:
    first, second = house(), house()
    await first.ask_to_lead()
    await first.end()
    await second.ask_to_lead()

    await first.end()  # it is no longer its lease to end

    assert (first.leads, second.leads) == (False, True)
    await first.ask_to_lead()
    assert not first.leads


async def test_the_lease_of_a_dead_one_runs_out(house: Callable[[], Housekeeping], keys: Keys, client: Any) -> None:
    dead, living = house(), house()
    await dead.ask_to_lead()
    assert 0 < client.pttl(keys.housekeeper()) <= LEASE_MS

    async with asyncio.timeout(30):
        while not living.leads:
            await living.ask_to_lead()
            await asyncio.sleep(0.05)

    assert not dead.leads  # by its own clock: it asked before the server took its word


async def test_who_does_not_lead_does_no_chore(
    house: Callable[[], Housekeeping], pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, other = house(), house()
    await leader.ask_to_lead()
    await other.ask_to_lead()
    sent: list[str] = []
    really = pipeline.run

    async def noted(name: str, **call: Any) -> Any:
        sent.append(name)
        return await really(name, **call)

    monkeypatch.setattr(pipeline, "run", noted)
    for name, chore, _ in other.chores():
        if name != "lead":
            await chore()
    assert sent == []
    for name, chore, _ in leader.chores():
        if name != "lead":
            await chore()
    assert {"promote", "trim", "weigh"} <= set(sent)


@asynccontextmanager
async def stopped(own_server: Any) -> AsyncIterator[None]:
    own_server.kill()
    yield
    own_server.start()


async def test_without_a_log_nobody_leads_and_the_end_is_quiet(
    own_server: Any, own_log: LogSettings, home: Path, own_pipeline: Pipeline
) -> None:
    telemetry = Telemetry.start("test", TelemetrySettings(log_level="error"), home=home)
    keys = Keys(own_log.prefix, own_log.shards)
    alone = Housekeeping(own_pipeline, keys=keys, log=own_log, dead_letters=DeadLetterSettings(), telemetry=telemetry, clock=Clock())
    await alone.ask_to_lead()
    async with stopped(own_server):
        with pytest.raises(StreamUnavailable):
            await alone.ask_to_lead()
        await alone.end()

    assert not alone.leads
    telemetry.shutdown()
