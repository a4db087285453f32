"""A sender that never waits for answers, and reads none: what it sends is not kept, and others are answered."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from tests.faults.receiver_process import REAL, ReceiverProcess, post, receiver_process

NO_END = "tests.faults.broken.receiver_queues_without_end"
REQUEST = b"GET / HTTP/1.1\r\n\r\n"
SENT_BYTES = 3_000_000
"""By each connection: with what its answers take of the sockets' buffers, more than is read without anybody reading those."""
GROWN_KB = 50 * 1024


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("HOSTILE")),
        pytest.param(NO_END, False, id="control", marks=pytest.mark.control("HOSTILE")),
    ],
)
def test_requests_whose_answers_nobody_reads_do_not_fill_the_memory(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    initialise(tmp_path)
    settings = {"LOG__PREFIX": f"{tmp_path.name}:".lower()}
    with receiver_process(module, home=tmp_path, log_url=log_server.url, settings=settings) as running:
        post(running.hook, home=tmp_path, delivery="first")
        before_kb = running.memory_kb
        with sending_blindly(running, connections=4 * times if is_faithful else 1):
            statuses = {post(running.hook, home=tmp_path, delivery=f"d{number}").status_code for number in range(10 * times)}
            grown_kb = running.memory_kb - before_kb

    assert (grown_kb < GROWN_KB) is is_faithful, grown_kb
    assert statuses == {202}


@contextmanager
def sending_blindly(running: ReceiverProcess, *, connections: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(connections):
            sender = stack.enter_context(socket.socket())
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sender.settimeout(2)
            sender.connect(("127.0.0.1", running.port))
            with suppress(TimeoutError, ConnectionError):  # It is not read, or refused.
                sender.sendall(REQUEST * (SENT_BYTES // len(REQUEST)))
        yield
