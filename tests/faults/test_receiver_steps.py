"""A receiver is killed at each step of an append: what was not answered was not promised, and the sender's repeat makes it one event."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.spools import read_spools
from tests.faults.outage import Outage, outage, stored_on
from tests.faults.proxy import Proxy
from tests.faults.receiver_process import REAL, post, receiver_process
from tests.infra.running.processes import until
from tests.ports import free_port

FORGETS, LATER = "tests.faults.broken.receiver_forgets_deliveries", "tests.faults.broken.receiver_appends_later"


def send_until_accepted(at: Outage, delivery: str) -> httpx.Response:
    """As a sender does: again when the connection broke, until somebody has answered 202."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            (answer,) = at.send(delivery)
            if answer.status_code == 202:
                return answer
        time.sleep(0.05)
    raise AssertionError(f"{delivery} was not accepted in time")


@pytest.mark.parametrize(
    ("module", "failpoint", "is_there"),
    [
        pytest.param(REAL, "receiver.before_append", 0, id="before it is sent", marks=pytest.mark.fault("A1")),
        pytest.param(REAL, "receiver.before_answer", 1, id="before the answer", marks=pytest.mark.fault("A3")),
        pytest.param(FORGETS, "receiver.before_answer", 1, id="control", marks=pytest.mark.control("A3")),
    ],
)
def test_a_delivery_whose_receiver_was_killed_is_one_event_when_it_is_sent_again(
    tmp_path: Path, module: str, failpoint: str, is_there: int
) -> None:
    # The second time: the next receiver has the same environment, and serves the sender's repeat first.
    with outage(module, folder=tmp_path, FAILPOINT=f"{failpoint}=kill@2") as at:
        at.send("first")
        with pytest.raises(httpx.TransportError):
            at.send("second")
        before = at.stored()["second"]

        answer = send_until_accepted(at, "second")

        assert before == is_there
        assert at.stored() == {"first": 1, "second": 1 if module == REAL else 2}
        assert answer.json()["duplicate"] is (module == REAL and is_there == 1)


@pytest.mark.control("A1")
def test_a_receiver_that_answers_before_it_appends_loses_what_it_accepted(tmp_path: Path) -> None:
    with outage(LATER, folder=tmp_path, FAILPOINT="broken.before_append=kill") as at:
        (answer,) = at.send("accepted")
        time.sleep(0.5)  # it dies after a fifth of a second, and the next one starts

        assert (answer.status_code, at.stored()["accepted"]) == (202, 0)


@pytest.mark.parametrize(
    ("module", "copies"),
    [
        pytest.param(REAL, 1, id="real", marks=pytest.mark.fault("A2")),
        pytest.param(FORGETS, 2, id="control", marks=pytest.mark.control("A2")),
    ],
)
async def test_a_receiver_that_is_killed_between_append_and_reply_is_asked_again_for_the_same_event(
    tmp_path: Path, module: str, copies: int
) -> None:
    home, server = tmp_path / "home", EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    initialise(home)
    server.start()
    try:
        async with Proxy(server.port).running() as proxy:
            url = server.url.replace(str(server.port), str(proxy.port))
            running = receiver_process(module, home=home, log_url=url, settings={"LOG__TIMEOUT_MS": "20000"})
            at = await asyncio.to_thread(running.__enter__)
            try:
                await asyncio.to_thread(post, at.hook, home=home, delivery="first")
                proxy.hold_replies()
                sending = asyncio.ensure_future(asyncio.to_thread(post, at.hook, home=home, delivery="second"))
                await asyncio.to_thread(until, lambda: stored_on(server, home=home)["second"] == 1, what="the entry is there")
                os.kill(at.process.pid, signal.SIGKILL)
                with pytest.raises(httpx.TransportError):
                    await sending
            finally:
                await asyncio.to_thread(running.__exit__, None, None, None)
            proxy.heal()
        with outage(module, folder=tmp_path, server=server) as again:
            (answer,) = await asyncio.to_thread(again.send, "second")
            assert (answer.status_code, answer.json()["duplicate"]) == (202, copies == 1)
            assert again.stored() == {"first": 1, "second": copies}
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("module", "harm"),
    [
        pytest.param(REAL, "reset_peer", id="reset", marks=pytest.mark.fault("B6")),
        pytest.param(REAL, "limit_data", id="cut", marks=pytest.mark.fault("B7")),
        pytest.param(FORGETS, "limit_data", id="control", marks=pytest.mark.control("B6", "B7")),
    ],
)
async def test_events_whose_reply_was_cut_on_its_way_are_accepted_and_are_there_once(tmp_path: Path, module: str, harm: str) -> None:
    home, server = tmp_path / "home", EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    initialise(home)
    server.start()
    deliveries = [f"d{number}" for number in range(12)]
    async with Proxy(server.port).running() as proxy:
        running = receiver_process(module, home=home, log_url=server.url.replace(str(server.port), str(proxy.port)), settings={})
        at = await asyncio.to_thread(running.__enter__)
        try:
            answers = []
            for number, delivery in enumerate(deliveries):
                # The replies to what a new connection asks first take some hundred bytes: it ends somewhere in those of an append.
                proxy.harm(**{harm: 150 + 37 * number})
                proxy.lead_to(server.port)
                answers.append(await asyncio.to_thread(post, at.hook, home=home, delivery=delivery))
            proxy.heal()
            proxy.lead_to(server.port)
            spools = functools.partial(read_spools, home)
            await asyncio.to_thread(until, lambda: not any(state.events for state in spools()), what="the spool is emptied")
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)
    stored = stored_on(server, home=home)
    server.kill()

    assert {answer.status_code for answer in answers} == {202}
    assert any(answer.json().get("spooled") for answer in answers)
    assert (stored == dict.fromkeys(deliveries, 1)) is (module == REAL)
