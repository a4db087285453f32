"""The testing kit: what a user's test sees is what a real worker did on a real server."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest

from infra.settings import LogSettings
from processors import Delivery, Reject, Retry, StreamEvent, processor
from processors.testing import log_server, processing
from schemas.errors import ConfigError
from tests.documents import ROOT
from tests.processors.endpoint import serving
from tests.processors.test_forward import forwarder


@pytest.fixture(scope="module")
def server() -> Iterator[LogSettings]:
    with log_server() as log:
        yield log


@processor("*")
async def keep(event: StreamEvent, delivery: Delivery) -> None:
    pass


@processor("*")
async def fail(event: StreamEvent, delivery: Delivery) -> None:
    raise ValueError("never")


@processor("*")
async def wait_a_day_once(event: StreamEvent, delivery: Delivery) -> None:
    if delivery.attempt == 1:
        raise Retry(after_ms=86_400_000)


async def test_what_is_sent_is_run(server: LogSettings) -> None:
    async with processing(keep, on=server) as lake:
        event = await lake.send("github.push", payload={"ref": "refs/heads/main"}, repository="octo/hello", tenant_id="acme")
        await lake.run_until_idle()

        assert [(run.event, run.attempt, run.error) for run in lake.runs] == [(event, 1, None)]
        assert (event.payload, event.repository, event.tenant_id, event.source) == (
            b'{"ref":"refs/heads/main"}',
            "octo/hello",
            "acme",
            "github",
        )
        assert lake.dead_letters == []
        assert await lake.waiting() == 0


async def test_a_hundred_events_are_run_before_it_is_idle(server: LogSettings) -> None:
    async with processing(keep, on=server) as lake:
        events = [await lake.send(f"github.type{number}") for number in range(100)]
        await lake.run_until_idle()

        assert {run.event.id for run in lake.runs} == {event.id for event in events}


async def test_an_event_that_keeps_failing_is_a_dead_letter_after_its_waits(server: LogSettings) -> None:
    async with processing(fail, on=server) as lake:
        event = await lake.send("github.push")
        await lake.run_until_idle()
        attempts_at_once, waiting = [run.attempt for run in lake.runs], await lake.waiting()
        for delay_ms in (1000, 2000):
            assert await lake.advance(delay_ms) == 1
            await lake.run_until_idle()

        assert (attempts_at_once, waiting) == ([1, 2], 1)
        assert [run.attempt for run in lake.runs] == [1, 2, 3, 4]
        assert [str(run.error) for run in lake.runs] == ["never"] * 4
        assert [(letter.event_id, letter.reason) for letter in lake.dead_letters] == [(event.id, "failed 4 times: ValueError: never")]


async def test_time_stands_still_until_it_is_advanced(server: LogSettings) -> None:
    async with processing(fail, on=server, retry_delays_ms=(1,)) as lake:
        await lake.send("github.push")
        await lake.run_until_idle()
        began = time.monotonic()
        while time.monotonic() - began < 0.3:  # More than two rounds of a worker's promotions.
            await lake.run_until_idle()

        assert ([run.attempt for run in lake.runs], await lake.waiting()) == ([1], 1)


async def test_a_day_passes_in_a_moment_and_not_a_second_too_early(server: LogSettings) -> None:
    async with processing(wait_a_day_once, on=server) as lake:
        await lake.send("github.push")
        await lake.run_until_idle()

        assert await lake.advance(86_000_000) == 0
        assert await lake.advance(400_000) == 1
        await lake.run_until_idle()
        assert [run.attempt for run in lake.runs] == [1, 2]


async def test_more_retries_than_one_promotion_moves_are_all_due(server: LogSettings) -> None:
    async with processing(wait_a_day_once, on=server) as lake:
        for _ in range(600):
            await lake.send("github.push")
        await lake.run_until_idle()

        assert await lake.advance(86_400_000) == 600
        await lake.run_until_idle()
        assert len(lake.runs) == 1200


async def test_dead_letters_are_listed_as_they_came(server: LogSettings) -> None:
    @processor("*")
    async def reject(event: StreamEvent, delivery: Delivery) -> None:
        raise Reject(event.event_type)

    async with processing(reject, on=server) as lake:
        for name in ("first", "second"):
            await lake.send(name)
            await lake.run_until_idle()

        assert [letter.reason for letter in lake.dead_letters] == ["rejected: first", "rejected: second"]


async def test_sync_processors_and_what_they_raise_are_recorded(server: LogSettings) -> None:
    async def later() -> None:
        raise ValueError("later")

    @processor("plain", max_attempts=1)
    def plain(event: StreamEvent, delivery: Delivery) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    @processor("failing", max_attempts=1)
    def failing(event: StreamEvent, delivery: Delivery) -> None:
        raise ValueError("at once")

    @processor("wrapping", max_attempts=1)
    def wrapping(event: StreamEvent, delivery: Delivery) -> Any:
        return later()

    async with processing(plain, failing, wrapping, on=server) as lake:
        for name in ("plain", "failing", "wrapping"):
            await lake.send(name)
        await lake.run_until_idle()

        errors = {run.event.event_type: str(run.error) for run in lake.runs}
        assert errors == {"plain": "None", "failing": "at once", "wrapping": "later"}


async def test_an_attempt_that_overstays_its_time_is_recorded(server: LogSettings) -> None:
    @processor("*", max_attempts=1, timeout_ms=50)
    async def hang(event: StreamEvent, delivery: Delivery) -> None:
        await asyncio.Event().wait()

    async with processing(hang, on=server) as lake:
        await lake.send("github.push")
        await lake.run_until_idle()

        assert isinstance(lake.runs[0].error, asyncio.CancelledError)
        assert "ran longer than its timeout_ms=50" in lake.dead_letters[0].reason


async def test_a_test_that_would_wait_for_ever_fails(server: LogSettings) -> None:
    @processor("*", max_attempts=1, timeout_ms=2000)
    async def hang(event: StreamEvent, delivery: Delivery) -> None:
        await asyncio.Event().wait()

    async with processing(hang, on=server) as lake:
        await lake.send("github.push")

        with pytest.raises(AssertionError, match="after 200 ms and 0 attempts there are events that nobody has settled"):
            await lake.run_until_idle(within_ms=200)


async def test_each_use_has_a_log_of_its_own(server: LogSettings) -> None:
    async with processing(fail, on=server, max_attempts=1) as one, processing(keep, on=server) as other:
        await one.send("github.push")
        await other.send("github.push")
        await one.run_until_idle()
        await other.run_until_idle()

        assert (len(one.runs), len(other.runs)) == (1, 1)
        assert (len(one.dead_letters), len(other.dead_letters)) == (1, 0)


async def test_modules_references_and_forwarders_can_be_processed(server: LogSettings, home: Path) -> None:
    module = ModuleType("of_a_user")
    vars(module)["keep"] = keep

    with serving() as endpoint:
        async with forwarder(endpoint.url, home) as spec:
            for given in (module, "processors.example", "processors.example:note", spec):
                async with processing(given, on=server) as lake:
                    await lake.send("github.push")
                    await lake.run_until_idle()

                    assert [run.error for run in lake.runs] == [None]

    assert len(endpoint.requests) == 1


async def test_what_no_worker_could_run_is_refused(server: LogSettings) -> None:
    with pytest.raises(ConfigError, match="is no function with @processor"):
        async with processing(print, on=server):
            pass
    with pytest.raises(ConfigError, match=r"groups.testing.max_atempts is not a setting; did you mean max_attempts\?"):
        async with processing(keep, on=server, max_atempts=1):
            pass


def test_the_server_and_its_files_are_gone_at_the_end() -> None:
    with log_server() as log:
        address = urlsplit(log.url)
        assert address.hostname is not None
        assert address.port is not None
        socket.create_connection((address.hostname, address.port), timeout=5).close()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port), timeout=5)


def test_it_works_without_a_test_runner_and_imports_none(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from processors import processor
from processors.testing import processing

@processor("*")
async def keep(event, delivery): ...

async def main():
    async with processing(keep) as lake:
        await lake.send("github.push")
        await lake.run_until_idle()
        print(len(lake.runs), "pytest" in sys.modules)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={"TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=120
    )

    assert (done.stdout, done.returncode) == ("1 False\n", 0), done.stderr
    assert list(tmp_path.iterdir()) == []
