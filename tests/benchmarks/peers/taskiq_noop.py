"""Owns taskiq-redis's side: its stream broker, which acknowledges as we do, and no result backend."""

from __future__ import annotations

import asyncio

from taskiq_redis import RedisStreamBroker

from tests.benchmarks.peers.server import BODY, url
from tests.benchmarks.progress import Progress

broker = RedisStreamBroker(url())
progress = Progress.of_this_process()


@broker.task(task_name="noop")
async def noop(body: dict[str, str]) -> None:
    progress.one_more()


def enqueue(count: int) -> None:
    asyncio.run(_enqueue(count))


async def _enqueue(count: int) -> None:
    await broker.startup()
    for _ in range(count):
        await noop.kiq(BODY)
    await broker.shutdown()
