"""Bodies that never end, small or large: whoever else sends is answered as ever while they last."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from tests.faults.genuine import DEADLINE_S, initialise_two_tenants, measured, send_in_pieces, send_signed
from tests.faults.receiver_process import REAL, ReceiverProcess, receiver_process
from tests.faults.test_connections import ELSEWHERE, settings_of, unfinished
from tests.infra.running.processes import until

NO_BUDGET = "tests.faults.broken.receiver_shares_no_budget"
ONE_BY_ONE = "tests.faults.broken.receiver_reads_one_by_one"
# Long enough that nothing ends before the others were answered.
PATIENT = {"INGEST__HEAD_TIMEOUT_MS": "60000", "INGEST__BODY_TIMEOUT_MS": "60000"}
KINDS = (send_signed, send_in_pieces)
LARGE_BYTES = 100_000
SLOW_BODIES = 8
BUDGET_BYTES = SLOW_BODIES * LARGE_BYTES
"""To the last byte, so that nothing at all has room beside them."""
WITHIN_SHARE = SLOW_BODIES // 4
"""So many of them fill the share of one address."""


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A6")),
        pytest.param(NO_BUDGET, False, id="control", marks=pytest.mark.control("A6")),
    ],
)
def test_large_bodies_that_one_address_never_ends_leave_room_for_those_of_others(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    initialise(tmp_path)
    settings = {**settings_of(tmp_path), **PATIENT, "INGEST__MAX_IN_FLIGHT_BYTES": str(BUDGET_BYTES)}
    with (
        receiver_process(module, home=tmp_path, log_url=log_server.url, settings=settings) as running,
        slow_bodies(running, address=ELSEWHERE) as connections,
    ):
        # Either it takes no more of them, or they fill it to the last byte.
        until(
            lambda: refused_of(connections) >= SLOW_BODIES - WITHIN_SHARE or send_signed(running, home=tmp_path) == 503,
            what="all that was sent is read",
        )
        sent = [send(running, home=tmp_path) for _ in range(10 * times) for send in KINDS]

        assert set(sent) == ({202} if is_faithful else {503})
        # Those that were let in are still there: it was not their end that made room.
        assert refused_of(connections) == (SLOW_BODIES - WITHIN_SHARE if is_faithful else 0)


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A6")),
        pytest.param(ONE_BY_ONE, False, id="control", marks=pytest.mark.control("A6")),
    ],
)
def test_the_events_of_another_tenant_take_no_longer_while_requests_do_not_end(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    initialise_two_tenants(tmp_path)
    settings = {**settings_of(tmp_path), **PATIENT}
    with receiver_process(module, home=tmp_path, log_url=log_server.url, settings=settings) as running:
        before = measured(running, sends=KINDS, home=tmp_path, count=10 * times)
        with unfinished(running, count=200 * times):
            # Whoever is held up is held up for as long as they last: a few show it.
            count, deadline_s = (10 * times, DEADLINE_S) if is_faithful else (3, 1.0)
            during = measured(running, sends=KINDS, home=tmp_path, count=count, deadline_s=deadline_s)

    assert before.statuses == {202}
    assert (during.statuses == {202}) is is_faithful
    assert during.is_held_up(before=before) is not is_faithful, f"{before.median_s} s before, {during.median_s} s during"


@contextmanager
def slow_bodies(running: ReceiverProcess, *, address: str) -> Iterator[list[socket.socket]]:
    """Bodies that lack their last byte."""
    head = f"POST /hooks/demo/github HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE_BYTES + 1}\r\n\r\n".encode()
    with ExitStack() as stack:
        connections = []
        for _ in range(SLOW_BODIES):
            opened = socket.create_connection(("127.0.0.1", running.port), timeout=DEADLINE_S, source_address=(address, 0))
            connections.append(stack.enter_context(opened))
            with suppress(ConnectionError):
                opened.sendall(head + LARGE_BYTES * b" ")
            opened.setblocking(False)
        yield connections


def refused_of(connections: list[socket.socket]) -> int:
    """How many were told 503 so far, and when to come again."""
    return sum(is_refused(connection) for connection in connections)


def is_refused(connection: socket.socket) -> bool:
    try:
        said = connection.recv(65536, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True  # It was answered and closed while it still sent, on a machine that is very slow.
    return not said or (said.startswith(b"HTTP/1.1 503 ") and b"retry-after" in said and b"from this address" in said)
