"""Fixtures of the workers' tests: a small log, a stream to append to, and workers that run while a test's block runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from processors.registry import ATTRIBUTE, Registry
from processors.settings import GroupSettings
from processors.worker import Worker
from tests.processors.waiting import DEADLINE_S

Starter = Callable[..., Any]


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 2})


@pytest.fixture
async def stream(log: LogSettings, home: Path) -> AsyncIterator[EventStream]:
    opened = EventStream.open(log, home=home)
    yield opened
    await opened.close()


@pytest.fixture
def working(log: LogSettings, home: Path) -> Starter:
    """Runs a worker with the given processors while the test's block runs, then drains it."""

    @asynccontextmanager
    async def run(
        *functions: Callable[..., Any],
        consumer: str = "c1",
        on_log: LogSettings = log,
        clock: Clock | None = None,
        stopping_s: float = DEADLINE_S,
        **options: Any,
    ) -> AsyncIterator[Worker]:
        telemetry = Telemetry.start("test", TelemetrySettings(log_level="error"), home=home)
        settings = GroupSettings(**{"block_ms": 50, "lease_ms": 1000, "retry_delays_ms": (0, 20, 40), **options})
        registry = Registry(getattr(function, ATTRIBUTE) for function in functions)
        worker = Worker(
            "g", consumer=consumer, registry=registry, settings=settings, log=on_log, home=home, telemetry=telemetry, clock=clock
        )
        stop = asyncio.Event()
        task = asyncio.create_task(worker.run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await asyncio.wait_for(task, stopping_s)
            telemetry.shutdown()

    return run
