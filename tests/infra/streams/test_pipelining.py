from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.pipelining import Pipeline, ServerPipeline
from schemas.errors import StreamUnavailable
from tests.ports import free_port


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
    assert await pipeline.connect() == 1


async def test_a_command_meant_for_a_lost_connection_is_not_sent_on_the_next(pipeline: Pipeline) -> None:
    await pipeline.call("PING")
    learnt_on = await pipeline.connect()
    await pipeline.close()
    await pipeline.call("PING")

    with pytest.raises(StreamUnavailable, match="before the command was sent"):
        await pipeline.run("trim", keys=["a", "b"], args=[], generation=learnt_on)


async def test_what_is_sent_at_once_is_written_before_this_turn_is_over(log_server: EmbeddedServer, tmp_path: Path) -> None:
    pipeline = open_pipeline(LogSettings(url=log_server.url), home=tmp_path)
    generation = await pipeline.connect()
    assert isinstance(pipeline, ServerPipeline)
    assert pipeline._wire is not None

    replied = pipeline.sent(["PING"], generation=generation)

    assert replied is not None
    assert pipeline._wire._unwritten == []
    assert await replied == b"PONG"
    await pipeline.close()


async def test_what_cannot_be_sent_at_once_on_that_very_connection_is_not_sent(pipeline: Pipeline) -> None:
    learnt_on = await pipeline.connect()
    await pipeline.close()
    await pipeline.call("PING")
    newest = await pipeline.connect()

    assert pipeline.sent(["PING"], generation=learnt_on) is None
    assert await (pipeline.sent(["PING"], generation=newest) or asyncio.sleep(0)) == b"PONG"


async def test_a_wrong_password_is_unavailable(log: LogSettings, home: Path) -> None:
    pipeline = open_pipeline(log.model_copy(update={"url": log.url.replace("a-test-password", "another")}), home=home)

    with pytest.raises(StreamUnavailable, match="WRONGPASS"):
        await pipeline.call("PING")


async def test_a_user_is_authenticated(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    admin = open_pipeline(own_log, home=home)
    await admin.call("ACL", "SETUSER", "bob", "on", ">p@ss", "~*", "+@all")
    pipeline = open_pipeline(LogSettings(url=f"redis://bob:p%40ss@127.0.0.1:{own_server.port}/3"), home=home)

    assert await pipeline.call("ACL", "WHOAMI") == b"bob"
    assert b"db=3" in await pipeline.call("CLIENT", "INFO")
    await pipeline.close()
    await admin.close()


async def test_a_lost_connection_is_told_at_once_and_not_when_time_is_up(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    pipeline = open_pipeline(own_log.model_copy(update={"timeout_ms": 60_000}), home=home)
    await pipeline.call("PING")
    waiting = [asyncio.ensure_future(pipeline.call("BLPOP", "nothing comes", 0)) for _ in range(3)]
    await asyncio.sleep(0)

    own_server.kill()

    async with asyncio.timeout(10):
        failures = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(failure, StreamUnavailable) and "the connection was lost" in str(failure) for failure in failures)
    await pipeline.close()


async def test_a_hundred_calls_at_a_closed_port_dial_once() -> None:
    port, dials = free_port(), []

    def address() -> str:
        dials.append(port)
        return f"redis://127.0.0.1:{port}"

    pipeline = ServerPipeline(address, timeout_ms=1000)
    failures = await asyncio.gather(*[pipeline.call("PING") for _ in range(100)], return_exceptions=True)

    assert {type(failure) for failure in failures} == {StreamUnavailable}
    assert len(dials) == 1


async def test_a_dial_that_is_given_up_leaves_no_connection_behind() -> None:
    accepted, closed = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        try:
            await reader.read()  # until the other side closes
        except ConnectionResetError:
            pass
        finally:
            writer.close()
            closed.set()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        pipeline = ServerPipeline(lambda: f"redis://:a-test-password@127.0.0.1:{port}", timeout_ms=60_000)
        calling = asyncio.ensure_future(pipeline.call("PING"))
        async with asyncio.timeout(10):
            await accepted.wait()
            calling.cancel()
            await closed.wait()

    assert calling.cancelled()
