"""Receivers that are replaced under load: nobody is refused, reset or told anything but 202.

The control's receivers share the port and not the socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra.settings import LogSettings
from tests.faults.impatient import ACCEPTED, Impatient
from tests.ingest.receivers import PATH, PUSH, RunningReceiver, signed_headers, start_receiver, wait_until, write_home
from tests.ports import is_listening

REAL, BROKEN = "ingest", "tests.faults.broken.receiver_listens_alone"
IN_USE = "new settings are in use"
RECEIVERS = 2
"""Of those that are replaced under load: what one leaves another takes, of the old ones and of the new."""
IDLE_S, FRESH_S = 5, 4.0
"""After how long a receiver ends an idle connection, and until when a sender uses it: twice as long as any of its pauses."""


@pytest.fixture
def size(pytestconfig: pytest.Config) -> tuple[int, int]:
    """Requests, and restarts among them."""
    return (100_000, 10) if pytestconfig.getoption("--full-size") else (3_000, 2)


@pytest.mark.fault("A9")
def test_nobody_is_refused_or_reset_while_receivers_are_replaced(log: LogSettings, home: Path, size: tuple[int, int]) -> None:
    sender, exit_code = restarted_under_load(home, log=log, requests=size[0], restarts=size[1])

    assert (set(sender.outcomes), exit_code) == ({ACCEPTED}, 0), sender.outcomes
    assert len(sender.accepted) == sender.outcomes[ACCEPTED] >= size[0]


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A9")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("A9")),
    ],
)
def test_what_waits_to_be_accepted_by_a_receiver_that_leaves_is_answered_by_the_next(
    log: LogSettings, home: Path, module: str, is_faithful: bool
) -> None:
    running = ready_receiver(module, home=home, log=log)
    sender = Impatient(running.port, request_with, requests=0, burst=200)
    try:
        asyncio.run(_burst_before_it_leaves(running, sender))
    finally:
        running.stop()

    assert (set(sender.outcomes) == {ACCEPTED}) is is_faithful, sender.outcomes
    assert sender.outcomes.total() == 200


@pytest.mark.fault("A9")
def test_whose_body_is_on_its_way_when_all_receivers_are_told_to_end_is_answered(log: LogSettings, home: Path, times: int) -> None:
    running = ready_receiver(REAL, home=home, log=log, receivers=RECEIVERS)
    with ExitStack() as stack:
        senders = [stack.enter_context(in_the_middle(running.port, delivery_id=f"d{number}")) for number in range(100 * times)]

        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_listening(running.port), what="nobody listens any more")
        for sender in senders:
            sender.sendall(PUSH)
        answers = [sender.recv(65536) for sender in senders]

    assert {answer.split()[1] for answer in answers} == {ACCEPTED.encode()}
    assert all(b"connection: close" in answer for answer in answers)
    assert running.stop() == 0


def in_the_middle(port: int, *, delivery_id: str) -> socket.socket:
    """A sender that was told to go on with its body."""
    sender = socket.create_connection(("127.0.0.1", port), timeout=30)
    head = request_with(delivery_id).partition(b"\r\n\r\n")[0]
    sender.sendall(head + b"\r\nexpect: 100-continue\r\n\r\n")
    assert b" 100 " in sender.recv(65536)
    return sender


async def _burst_before_it_leaves(running: RunningReceiver, sender: Impatient) -> None:
    (receiver,) = (line["pid"] for line in running.said("receiver started"))
    os.kill(receiver, signal.SIGSTOP)
    burst = asyncio.create_task(sender.send_burst())
    await asyncio.sleep(0.2)  # The kernel takes the connections; nobody accepts them.
    running.process.send_signal(signal.SIGHUP)
    await asyncio.to_thread(wait_until, lambda: "receiver-0 is told to stop" in said(running), what="its successor is ready")
    os.kill(receiver, signal.SIGCONT)
    await burst


def restarted_under_load(home: Path, *, log: LogSettings, requests: int, restarts: int) -> tuple[Impatient, int]:
    running = ready_receiver(REAL, home=home, log=log, receivers=RECEIVERS)
    sender = Impatient(running.port, request_with, requests=requests, fresh_s=FRESH_S)
    try:
        asyncio.run(_restart_while_sending(running, sender, restarts=restarts))
    finally:
        exit_code = running.stop()
    return sender, exit_code


def ready_receiver(module: str, *, home: Path, log: LogSettings, receivers: int = 1) -> RunningReceiver:
    write_home(home, log=log, ingest={"port": 0, "ops_port": 0, "idle_timeout_ms": 1000 * IDLE_S, "receivers": receivers})
    running = start_receiver(home, module=module)
    try:
        wait_until(lambda: sum("is ready" in sentence for sentence in said(running)) == receivers, what="all are ready")
    except BaseException:
        running.process.kill()
        running.process.wait()
        raise
    return running


def said(running: RunningReceiver) -> list[str]:
    return [line["said"] for line in running.said("receivers")]


async def _restart_while_sending(running: RunningReceiver, sender: Impatient, *, restarts: int) -> None:
    sending = asyncio.create_task(sender.run())
    for number in range(1, restarts + 1):
        running.process.send_signal(signal.SIGHUP)
        await asyncio.to_thread(wait_until, lambda: said(running).count(IN_USE) >= number, what=IN_USE, deadline_s=120)  # noqa: B023 - awaited
    sender.is_enough = True
    await sending


SIGNED = {**signed_headers(PUSH), "host": "x", "content-length": str(len(PUSH))}


def request_with(delivery_id: str) -> bytes:
    headers = "".join(f"{name}: {value}\r\n" for name, value in {**SIGNED, "x-github-delivery": delivery_id}.items())
    return f"POST {PATH} HTTP/1.1\r\n{headers}\r\n".encode() + PUSH
