"""Owns Celery's side: the solo pool, no results kept, and a prefetch that does not hold it back."""

from __future__ import annotations

from celery import Celery

from tests.benchmarks.peers.server import BODY, url
from tests.benchmarks.progress import Progress

app = Celery("bench", broker=url())
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=200)
progress = Progress.of_this_process()


@app.task(name="noop")
def noop(body: dict[str, str]) -> None:
    progress.one_more()


def enqueue(count: int) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            noop.apply_async((BODY,), producer=producer)
