"""Connections that never end, and more of them than there are files for: others are answered, and it heals by itself."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from tests.faults.genuine import REFUSED, initialise_two_tenants, measured, send_signed
from tests.faults.receiver_process import ReceiverProcess, receiver_process
from tests.infra.running.processes import until

REAL = "ingest"
NO_DEADLINE = "tests.faults.broken.receiver_waits_for_ever"
NO_COUNT = "tests.faults.broken.receiver_counts_no_files"
TIMEOUTS = {"INGEST__HEAD_TIMEOUT_MS": "1000", "INGEST__BODY_TIMEOUT_MS": "1000"}
NO_SHARES = "tests.faults.broken.receiver_shares_nothing"
FILES = 64
ELSEWHERE = "127.0.0.2"
UNFINISHED = (b"", b"POST /hooks/demo/github HTTP/1.1\r\nHost: x\r\n", b"POST /hooks/demo/github HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A6")),
        pytest.param(NO_DEADLINE, False, id="control", marks=pytest.mark.control("A6")),
    ],
)
def test_requests_that_never_end_lose_their_connections_and_hold_nobody_up(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    initialise_two_tenants(tmp_path)
    # Fewer than those whose bodies never end: they must not count as work.
    settings = {**settings_of(tmp_path), "INGEST__MAX_IN_FLIGHT": "20"}
    with receiver_process(module, home=tmp_path, log_url=log_server.url, settings=settings) as running:
        before = measured(running, sends=[send_signed], home=tmp_path, count=10)
        with unfinished(running, count=200 * times) as connections:
            statuses = {send_signed(running, home=tmp_path) for _ in range(10)}
            during = measured(running, sends=[send_signed], home=tmp_path, count=10)
            are_freed = ended_within(10 if is_faithful else 3, connections=connections)

    assert statuses | before.statuses | during.statuses == {202}
    # That it can be otherwise, and the same for bodies in pieces, is shown in `test_slow_bodies.py`.
    assert not during.is_held_up(before=before), f"{before.median_s} s before, {during.median_s} s during"
    assert are_freed is is_faithful


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A11")),
        pytest.param(NO_COUNT, False, id="control", marks=pytest.mark.control("A11")),
    ],
)
def test_a_receiver_that_may_open_no_more_files_says_503_and_heals(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    initialise(tmp_path)
    with receiver_process(module, home=tmp_path, log_url=log_server.url, files=FILES, settings=settings_of(tmp_path)) as running:
        with unfinished(running, count=2 * FILES):
            statuses = {send_signed(running, home=tmp_path) for _ in range(20 * times)}
            # The senders hold on; it is the receiver that lets go of them.
            until(lambda: send_signed(running, home=tmp_path) == 202, what="it takes events again")
        assert running.is_alive

    assert (REFUSED not in statuses) is is_faithful
    assert not is_faithful or 503 in statuses


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A6")),
        pytest.param(NO_SHARES, False, id="control", marks=pytest.mark.control("A6")),
    ],
)
def test_one_address_that_opens_all_it_can_leaves_room_for_others(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    initialise(tmp_path)
    # Long enough that nothing ends before the others were answered.
    patient = {"INGEST__HEAD_TIMEOUT_MS": "60000", "INGEST__BODY_TIMEOUT_MS": "60000"}
    settings = {**settings_of(tmp_path), **patient, "INGEST__MAX_CONNECTIONS": "40"}
    with (
        receiver_process(module, home=tmp_path, log_url=log_server.url, settings=settings) as running,
        unfinished(running, count=100, address=ELSEWHERE),
    ):
        statuses = {send_signed(running, home=tmp_path) for _ in range(20 * times)}

    assert statuses == ({202} if is_faithful else {503})


def settings_of(home: Path) -> dict[str, str]:
    return {"LOG__PREFIX": f"{home.name}:".lower(), **TIMEOUTS}


@contextmanager
def unfinished(running: ReceiverProcess, *, count: int, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Connections in the middle of their requests, of every kind."""
    with ExitStack() as stack:
        connections = []
        for number in range(count):
            opened = socket.create_connection(("127.0.0.1", running.port), timeout=10, source_address=(address, 0))
            connections.append(stack.enter_context(opened))
            with suppress(ConnectionError):
                connections[-1].sendall(UNFINISHED[number % len(UNFINISHED)])
        yield connections


def ended_within(seconds: float, *, connections: list[socket.socket]) -> bool:
    """Whether the receiver closes all of them in time."""
    deadline = time.monotonic() + seconds
    return all(is_ended_by(deadline, connection=connection) for connection in connections)


def is_ended_by(deadline: float, *, connection: socket.socket) -> bool:
    """What it says before is read over."""
    try:
        while True:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            if not connection.recv(65536):
                return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True
