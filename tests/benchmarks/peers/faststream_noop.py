"""Owns FastStream's side: a stream subscriber in a consumer group that reads a hundred at once."""

from __future__ import annotations

import asyncio

from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub

from tests.benchmarks.peers.server import BODY, url
from tests.benchmarks.progress import Progress

STREAM = "noop"
broker = RedisBroker(url())
app = FastStream(broker)
progress = Progress.of_this_process()


@broker.subscriber(stream=StreamSub(STREAM, group="g", consumer="c", polling_interval=100, max_records=100, last_id=">"))
async def noop(body: dict[str, str]) -> None:
    progress.one_more()


def enqueue(count: int) -> None:
    asyncio.run(_enqueue(count))


async def _enqueue(count: int) -> None:
    async with broker:
        # Created here: by itself it would begin at the end of what is there already.
        client = broker._connection
        await client.xgroup_create(STREAM, "g", "0", mkstream=True)
        for _ in range(count):
            await broker.publish(BODY, stream=STREAM)
