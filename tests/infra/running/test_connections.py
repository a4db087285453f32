"""What one connection does with what comes over it: which way a request takes, what is said when, and how long nobody has to read it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest

from infra.running.connections import Connection
from tests.infra.running.a_connection import BOTH_WAYS, CLOSING, DEADLINE_S, HEAD, LONG_REQUEST, REQUEST, Serving, eventually


async def test_a_request_that_is_whole_takes_the_short_way() -> None:
    serving = Serving()

    serving.connection.data_received(REQUEST)

    assert serving.ways == ["short: {}"]


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda connection: connection.flow.pause_writing(), id="who reads no answers"),
        pytest.param(lambda connection: connection.data_received(REQUEST[:-1]), id="a body in pieces"),
    ],
)
async def test_what_has_to_be_waited_for_is_the_application_s(happens: Callable[[Connection], None]) -> None:
    serving = Serving()
    happens(serving.connection)

    serving.connection.data_received(REQUEST if serving.connection.flow.write_paused else REQUEST[-1:])
    serving.connection.flow.resume_writing()
    async with asyncio.timeout(DEADLINE_S):
        await serving.is_answered.wait()

    assert serving.ways == ["long"]


@BOTH_WAYS
@pytest.mark.parametrize("cut", [0, 1000], ids=["at once", "in two pieces"])
async def test_a_long_body_does_not_count_as_part_of_the_head_behind_it(is_short: bool, cut: int) -> None:
    serving = Serving(is_short=is_short)
    serving.connection.data_received(LONG_REQUEST[:cut])

    serving.connection.data_received(LONG_REQUEST[cut:] + REQUEST[:40])
    serving.connection.data_received(REQUEST[40:])

    await eventually(lambda: len(serving.client.statuses) == 2)
    assert serving.client.statuses == [202, 202]
    assert not serving.client.is_closed


@BOTH_WAYS
async def test_a_head_without_an_end_is_cut_off_behind_another_request_too(is_short: bool) -> None:
    serving = Serving(is_short=is_short)

    serving.connection.data_received(REQUEST + HEAD)
    serving.connection.data_received(b"x-endless: " + b"x" * 70_000)

    await eventually(lambda: serving.client.is_closed)
    assert serving.client.statuses == [202, 431]


@BOTH_WAYS
@pytest.mark.parametrize(
    ("next_bytes", "status"),
    [
        pytest.param([HEAD, b"x-endless: " + b"x" * 70_000], 431, id="head without an end"),
        pytest.param([b"\x16\x03\x01\x02"], 400, id="no request"),
        pytest.param([HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n"], 400, id="broken chunk"),
        pytest.param([HEAD + b"transfer-encoding: chunked\r\n\r\n", b"zz\r\n"], 400, id="broken chunk, later"),
        pytest.param([b"POST http://a HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n"], 400, id="no path"),
        pytest.param([b"POST http://a HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"], 400, id="no path, whole"),
        pytest.param([HEAD], 408, id="slow head"),
    ],
)
async def test_a_refusal_waits_for_the_answer_to_the_request_before(is_short: bool, next_bytes: list[bytes], status: int) -> None:
    serving = Serving(is_short=is_short, head_timeout_ms=20)
    serving.may_answer.clear()

    serving.connection.data_received(REQUEST + next_bytes[0])
    for more in next_bytes[1:]:
        serving.connection.data_received(more)
    await asyncio.sleep(0.2)  # Ten times what a head may take: the time itself is what is tried.
    serving.connection.data_received(b"more of it")
    before = (serving.client.statuses, serving.client.is_closed)
    serving.may_answer.set()
    await eventually(lambda: serving.client.is_closed)

    assert before == ([], False)
    assert serving.client.statuses == [202, status]
    assert len(serving.ways) == 1


async def test_a_broken_request_that_the_application_has_begun_is_refused_at_once() -> None:
    serving = Serving()
    serving.connection.data_received(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    await eventually(lambda: serving.ways == ["long"])

    serving.connection.data_received(b"zz\r\n")

    assert (serving.client.statuses, serving.client.is_closed) == ([400], True)


@pytest.mark.parametrize("method", [b"POST", b"HEAD"])
async def test_all_requests_of_a_lost_connection_are_told(method: bytes, caplog: pytest.LogCaptureFixture) -> None:
    serving = Serving(is_short=False)
    serving.may_answer.clear()
    serving.connection.data_received(REQUEST.replace(b"POST", method) + REQUEST)
    await eventually(lambda: serving.ways == ["long"])

    serving.connection.connection_lost(None)
    serving.may_answer.set()
    async with asyncio.timeout(DEADLINE_S):
        await serving.is_answered.wait()

    assert (serving.client.written, serving.ways, caplog.messages) == (b"", ["long"], [])


@BOTH_WAYS
@pytest.mark.parametrize("requests", [1, 2])
async def test_a_client_that_has_said_everything_is_answered_first(is_short: bool, requests: int) -> None:
    serving = Serving(is_short=is_short)
    serving.may_answer.clear()
    serving.connection.data_received(REQUEST * requests)

    is_kept = serving.connection.eof_received()
    serving.may_answer.set()

    await eventually(lambda: serving.client.is_closed)
    assert is_kept
    assert serving.client.statuses == [202] * requests
    assert serving.client.written.count(b"connection: close") == 1


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(REQUEST, id="what is answered"),
        pytest.param(REQUEST[:-1], id="a part of a body"),
        pytest.param(HEAD, id="a part of a head"),
    ],
)
async def test_a_client_that_will_be_told_nothing_more_is_let_go(said: bytes) -> None:
    serving = Serving()
    serving.connection.data_received(said)

    assert not serving.connection.eof_received()


async def test_a_client_that_says_no_more_and_reads_no_answers_has_as_long_as_an_idle_one() -> None:
    serving = Serving(idle_timeout_ms=20)
    serving.connection.data_received(REQUEST)

    if not serving.connection.eof_received():
        serving.client.close()  # As a transport does, which then waits until everything is read.

    await eventually(lambda: serving.client.is_aborted)


async def test_a_client_that_reads_no_answers_has_as_long_as_an_idle_one() -> None:
    serving = Serving(idle_timeout_ms=20)
    serving.connection.data_received(REQUEST)

    serving.connection.pause_writing()

    await eventually(lambda: serving.client.is_aborted)


async def test_a_client_that_reads_late_because_we_stood_still_stays() -> None:
    serving = Serving(idle_timeout_ms=20)
    pulse, now_s = serving.connection.config.pulse, asyncio.get_running_loop().time()
    serving.connection.pause_writing()

    pulse.beat(now_s - 60.0)
    pulse.beat(now_s)
    await asyncio.sleep(0.2)  # Ten times what it had: the time itself is what is tried.
    assert not serving.client.is_closed


async def test_a_client_that_reads_on_stays() -> None:
    serving = Serving(idle_timeout_ms=20)
    serving.connection.pause_writing()

    serving.connection.resume_writing()
    await asyncio.sleep(0.2)  # Ten times what it had: the time itself is what is tried.

    assert not serving.client.is_closed


@BOTH_WAYS
@pytest.mark.parametrize("last", [pytest.param(CLOSING, id="an answer"), pytest.param(b"no request\r\n\r\n", id="a refusal")])
@pytest.mark.parametrize("is_held_up", [False, True])
async def test_nobody_waits_for_ever_until_the_last_answer_is_read(is_short: bool, last: bytes, is_held_up: bool) -> None:
    serving = Serving(is_short=is_short, idle_timeout_ms=20)
    if is_held_up:
        serving.may_answer.clear()
        serving.connection.data_received(REQUEST)

    serving.connection.data_received(last)
    serving.may_answer.set()

    await eventually(lambda: serving.client.is_aborted)


async def test_a_connection_that_is_lost_is_not_remembered() -> None:
    serving = Serving(idle_timeout_ms=20)
    serving.connection.pause_writing()

    serving.connection.connection_lost(None)
    await asyncio.sleep(0.2)  # Ten times what it had: the time itself is what is tried.

    assert not serving.client.is_aborted


@BOTH_WAYS
async def test_a_connection_that_is_lost_leaves_no_garbage(is_short: bool) -> None:
    serving = Serving(is_short=is_short)
    serving.connection.data_received(REQUEST)
    await eventually(lambda: serving.client.statuses == [202])
    found = weakref.ref(serving.connection)
    gc.disable()

    serving.connection.connection_lost(None)
    del serving.connection
    await asyncio.sleep(0)

    gc.enable()
    assert found() is None


async def test_a_head_that_nobody_reads_on_is_not_too_slow() -> None:
    serving = Serving(head_timeout_ms=20)
    serving.may_answer.clear()
    serving.connection.data_received(REQUEST + REQUEST + HEAD)
    await asyncio.sleep(0.2)  # Ten times what a head may take: the time itself is what is tried.

    serving.may_answer.set()
    await eventually(lambda: len(serving.client.statuses) == 2)
    serving.connection.data_received(REQUEST.removeprefix(HEAD))

    await eventually(lambda: len(serving.client.statuses) == 3)
    assert serving.client.statuses == [202, 202, 202]
