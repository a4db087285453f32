"""A receiver that hangs for a while, and one whose clock is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.settings import LogSettings, load_settings
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from ingest.posting import sign_post
from ingest.sources import Sources
from tests.faults.clocks import MovingClock
from tests.faults.impatient import ACCEPTED, Impatient
from tests.faults.test_rolling_restart import FRESH_S, REAL, ready_receiver, request_with
from tests.ingest.receivers import SOURCES, RunningReceiver, post, post_push, start_receiver, wait_until, write_home

NOT_WAITED_FOR = "tests.faults.broken.receiver_is_not_waited_for"
BY_THE_CLOCK = "tests.faults.broken.receiver_believes_its_clock"
FORGIVES_NOBODY = "tests.faults.broken.receiver_forgives_nobody"
HANGS_FOR_S = 3.0
HEAD_MS = 2000
TEN_MINUTES_S = 600


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A10")),
        pytest.param(NOT_WAITED_FOR, False, id="control", marks=pytest.mark.control("A10")),
    ],
)
def test_a_receiver_that_hangs_answers_everybody_afterwards(log: LogSettings, home: Path, module: str, is_faithful: bool) -> None:
    running = ready_receiver(module, home=home, log=log)
    sender = Impatient(running.port, request_with, requests=500, fresh_s=FRESH_S)
    try:
        asyncio.run(_hang_while_sending(running, sender))
        in_log = entries_of(log, home=home)
    finally:
        running.stop()

    assert (set(sender.outcomes) == {ACCEPTED}) is is_faithful, sender.outcomes
    # What was answered is there; of what was not, each is there once or not at all.
    assert len(sender.accepted) <= in_log <= sender.outcomes.total()
    assert not is_faithful or in_log == len(sender.accepted)


async def _hang_while_sending(running: RunningReceiver, sender: Impatient) -> None:
    sending = asyncio.create_task(sender.run())
    await asyncio.to_thread(wait_until, lambda: sender.outcomes.total() > 100, what="requests are under way")
    (receiver,) = (line["pid"] for line in running.said("receiver started"))
    os.kill(receiver, signal.SIGSTOP)
    await asyncio.sleep(HANGS_FOR_S)
    with contextlib.suppress(ProcessLookupError):  # The control's is no more.
        os.kill(receiver, signal.SIGCONT)
    sender.is_enough = True
    await sending


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(("ingest",), True, id="real", marks=pytest.mark.fault("A10")),
        pytest.param(("tests.faults.receiver_of", FORGIVES_NOBODY), False, id="control", marks=pytest.mark.control("A10")),
    ],
)
def test_senders_that_stood_still_with_their_receiver_are_answered(
    log: LogSettings, home: Path, times: int, module: tuple[str, ...], is_faithful: bool
) -> None:
    write_home(home, log=log, ingest={"port": 0, "ops_port": 0, "head_timeout_ms": HEAD_MS, "body_timeout_ms": HEAD_MS})
    running = start_receiver(home, *module[1:], module=module[0])
    try:
        post_push(running.port)
        with ExitStack() as stack:
            senders = [stack.enter_context(socket.create_connection(("127.0.0.1", running.port), 30)) for _ in range(10 * times)]
            requests = [request_with(f"still-{number}") for number in range(len(senders))]
            # Every other one has said nothing yet, and the others all but the end of a body.
            cuts = [-1 if number % 2 else 0 for number in range(len(senders))]
            for sender, request, cut in zip(senders, requests, cuts, strict=True):
                sender.sendall(request[:cut])
            post_push(running.port)  # They came before it, and are accepted.
            stand_still(running, seconds=2 * HEAD_MS / 1000)
            for sender, request, cut in zip(senders, requests, cuts, strict=True):
                with contextlib.suppress(ConnectionError):
                    sender.sendall(request[cut:])
            answers = [answer_to(sender) for sender in senders]
    finally:
        running.stop()

    assert ({answer.split()[1] if answer else b"" for answer in answers} == {ACCEPTED.encode()}) is is_faithful, answers


def stand_still(running: RunningReceiver, *, seconds: float) -> None:
    """The receiver, and the senders, who find their turn a little later than it does."""
    (receiver,) = (line["pid"] for line in running.said("receiver started"))
    os.kill(receiver, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(receiver, signal.SIGCONT)
    time.sleep(0.3)


def answer_to(sender: socket.socket) -> bytes:
    """Empty for who was left."""
    try:
        return sender.recv(65536)
    except ConnectionError:
        return b""


def entries_of(log: LogSettings, *, home: Path) -> int:
    client, keys = open_blocking(log, home=home), Keys(log.prefix, log.shards)
    try:
        return sum(client.xlen(name) for shard in keys.all_shards() for name in keys.event_streams(shard))
    finally:
        client.close()


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(("ingest",), True, id="real", marks=pytest.mark.fault("A12")),
        pytest.param(("tests.faults.receiver_of", BY_THE_CLOCK), False, id="control", marks=pytest.mark.control("A12")),
    ],
)
def test_a_wrong_clock_refuses_by_the_window_and_ids_only_grow(
    log: LogSettings, home: Path, tmp_path: Path, module: tuple[str, ...], is_faithful: bool
) -> None:
    stripe = {"scheme": "stripe", "secrets": ["file:secrets/generic"]}
    write_home(home, log=log, tenants={"demo": {"sources": {**SOURCES, "stripe": stripe}}})
    clock = MovingClock(tmp_path)
    running = start_receiver(home, *module[1:], module=module[0], preload=clock.library)
    ids, statuses = [], []
    try:
        for step_s in (0, TEN_MINUTES_S, -TEN_MINUTES_S, 0):
            clock.step(step_s)
            ids += [post_push(running.port).json["event_id"] for _ in range(3)]
            statuses.append(send_stripe(running.port, home=home))
        refused = counted(running, code="bad_signature")
    finally:
        running.stop()

    assert (statuses, refused) == ([202, 401, 401, 202], 2)
    assert len(set(ids)) == 12
    assert (ids == sorted(ids)) is is_faithful


def send_stripe(port: int, *, home: Path) -> int:
    """Signed at the true time."""
    source = Sources.from_settings(load_settings(home)).by_route["demo", "stripe"]
    body = b'{"id":"evt_%d","type":"invoice.paid"}' % time.time_ns()
    signed = sign_post(source, event_type="stripe.invoice.paid", body=body, now=datetime.now(UTC))
    return post(port, body=signed.body, headers=signed.headers, path=signed.path).status


def counted(running: RunningReceiver, *, code: str) -> int:
    page = post(running.ops_port, body=b"", headers={}, path="/metrics", method="GET").body.decode()
    return sum(int(float(line.split()[-1])) for line in page.splitlines() if f'code="{code}"' in line and "_total{" in line)
