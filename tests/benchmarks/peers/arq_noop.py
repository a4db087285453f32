"""Owns arq's side: many jobs at once, a short poll, no results kept."""

from __future__ import annotations

import asyncio
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

from tests.benchmarks.peers.server import BODY, url
from tests.benchmarks.progress import Progress

progress = Progress.of_this_process()


async def noop(context: dict[str, Any], body: dict[str, str]) -> None:
    progress.one_more()


class WorkerSettings:
    functions = (noop,)
    redis_settings = RedisSettings.from_dsn(url())
    max_jobs = 200
    keep_result = 0
    poll_delay = 0.01


def enqueue(count: int) -> None:
    asyncio.run(_enqueue(count))


async def _enqueue(count: int) -> None:
    pool = await create_pool(WorkerSettings.redis_settings)
    for _ in range(count):
        await pool.enqueue_job("noop", BODY)
    await pool.aclose()
