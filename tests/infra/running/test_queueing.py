"""Who sends without waiting for answers is answered in order, and may not make others pay for what waits."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from infra.running import queueing
from infra.running.queueing import MOST_ON_ONE, Queue, Queues
from tests.infra.running.a_connection import BOTH_WAYS, REQUEST, Client, Serving, eventually


class Pausing(Client):
    """A client whose transport notes whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


@pytest.fixture
def client() -> Pausing:
    return Pausing()


@BOTH_WAYS
async def test_all_that_one_read_brings_is_answered_in_its_turn(is_short: bool) -> None:
    serving = Serving(is_short=is_short)

    serving.connection.data_received(REQUEST * 200)

    await eventually(lambda: len(serving.client.statuses) == 200)
    assert (set(serving.client.statuses), serving.client.is_closed) == ({202}, False)
    assert serving.connection.config.queues.size_bytes == 0


@BOTH_WAYS
async def test_what_is_too_much_to_wait_is_refused_after_the_answers_to_all_before(is_short: bool) -> None:
    serving = Serving(is_short=is_short)
    serving.may_answer.clear()

    serving.connection.data_received(REQUEST * 10_000)
    held = serving.connection.config.queues.size_bytes
    serving.may_answer.set()

    await eventually(lambda: serving.client.is_closed)
    assert serving.client.statuses == [202] * (1 + MOST_ON_ONE) + [503]
    assert b"retry-after: 1\r\n" in serving.client.written
    assert MOST_ON_ONE * queueing.REQUEST_BYTES < held < queueing.MOST_BYTES
    assert serving.connection.config.queues.size_bytes == 0


@BOTH_WAYS
async def test_nothing_more_is_read_while_anything_waits(is_short: bool, client: Pausing) -> None:
    serving = Serving(is_short=is_short, client=client)
    serving.may_answer.clear()
    read: list[bool] = []
    serving.on_answer = lambda: read.append(client.is_read)

    serving.connection.data_received(REQUEST * 4)
    was_read = client.is_read
    serving.may_answer.set()

    await eventually(lambda: len(client.statuses) == 4 and client.is_read)
    assert (was_read, set(read[:2])) == (False, {False})


@BOTH_WAYS
async def test_of_a_connection_that_is_lost_nothing_waits_any_more(is_short: bool) -> None:
    serving = Serving(is_short=is_short)
    serving.may_answer.clear()
    serving.connection.data_received(REQUEST * 50)
    queues, waiting = serving.connection.config.queues, weakref.ref(serving.connection.pipeline[0][0])
    await asyncio.sleep(0)
    gc.disable()

    serving.connection.connection_lost(None)
    found = waiting()

    gc.enable()
    assert (found, queues.size_bytes) == (None, 0)


def test_all_connections_share_what_may_wait() -> None:
    queues = Queues()
    many = [Queue(queues) for _ in range(queueing.MOST_BYTES // (queueing.REQUEST_BYTES + 256 * 1024))]
    entered = {queue.enter(read_bytes=256 * 1024) for queue in many}
    is_above = Queue(queues).enter(read_bytes=256 * 1024)

    many[0].clear()

    assert (entered, is_above, Queue(queues).enter(read_bytes=256 * 1024)) == ({True}, False, True)


def test_what_came_at_once_is_counted_once() -> None:
    queues = Queues()
    queue = Queue(queues)

    for _ in range(3):
        queue.enter(read_bytes=1000)

    assert queues.size_bytes == 3 * queueing.REQUEST_BYTES + 1000
