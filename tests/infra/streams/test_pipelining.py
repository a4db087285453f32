from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.pipelining import Pipeline
from schemas.errors import StreamUnavailable


async def test_concurrent_calls_get_their_own_replies(pipeline: Pipeline) -> None:
    replies = await asyncio.gather(*[pipeline.call("ECHO", str(n)) for n in range(500)])

    assert replies == [str(n).encode() for n in range(500)]


async def test_a_caller_that_gives_up_does_not_shift_the_replies_of_others(pipeline: Pipeline) -> None:
    await pipeline.call("PING")
    given_up = asyncio.ensure_future(pipeline.call("ECHO", "given up"))
    others = [asyncio.ensure_future(pipeline.call("ECHO", str(n))) for n in range(10)]
    await asyncio.sleep(0)

    given_up.cancel()

    assert await asyncio.gather(*others) == [str(n).encode() for n in range(10)]


async def test_an_error_reply_is_unavailable_and_the_connection_lives_on(pipeline: Pipeline) -> None:
    with pytest.raises(StreamUnavailable, match="unknown command"):
        await pipeline.call("NOSUCHCOMMAND")

    assert await pipeline.call("PING") == b"PONG"
    assert pipeline.generation == 1


async def test_a_hanging_server_is_given_up_and_found_again(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    pipeline = open_pipeline(own_log.model_copy(update={"timeout_ms": 200}), home=home)
    await pipeline.call("PING")
    os.kill(own_server.pid, signal.SIGSTOP)

    try:
        with pytest.raises(StreamUnavailable, match=r"no reply within 0\.2 s"):
            await pipeline.call("ECHO", "late")
    finally:
        os.kill(own_server.pid, signal.SIGCONT)

    assert await _eventually_echo(pipeline, "fresh") == b"fresh"
    assert pipeline.generation == 2
    await pipeline.close()


async def test_a_command_meant_for_a_lost_connection_is_not_sent_on_the_next(pipeline: Pipeline) -> None:
    await pipeline.call("PING")
    learnt_on = pipeline.generation
    await pipeline.close()
    await pipeline.call("PING")

    with pytest.raises(StreamUnavailable, match="before the command was sent"):
        await pipeline.run("trim", keys=["a", "b"], args=[], generation=learnt_on)


async def test_a_wrong_password_is_unavailable(log: LogSettings, home: Path) -> None:
    pipeline = open_pipeline(log.model_copy(update={"url": log.url.replace("a-test-password", "another")}), home=home)

    with pytest.raises(StreamUnavailable, match="WRONGPASS"):
        await pipeline.call("PING")


async def _eventually_echo(pipeline: Pipeline, text: str) -> bytes:
    async with asyncio.timeout(10):
        while True:
            try:
                reply: bytes = await pipeline.call("ECHO", text)
                return reply
            except StreamUnavailable:
                await asyncio.sleep(0.05)
