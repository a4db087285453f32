"""Owns dramatiq's side: its default middleware and eight threads, the default number."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.benchmarks.peers.server import BODY, url
from tests.benchmarks.progress import Progress

dramatiq.set_broker(RedisBroker(url=url()))
progress = Progress.of_this_process()


@dramatiq.actor
def noop(body: dict[str, str]) -> None:
    progress.one_more()


def enqueue(count: int) -> None:
    for _ in range(count):
        noop.send(BODY)
