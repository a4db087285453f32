"""Listening sockets, and a small application served from another process."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from infra.running.sockets import listen
from tests.ports import is_listening

ROOT = Path(__file__).parents[3]
# Answers after as many seconds as its path says.
PROGRAM = """
import asyncio, sys
from infra.running.serving import serve
from infra.running.serving_limits import ServingLimits
from infra.running.sockets import inherited

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown":
                return
    await asyncio.sleep(float(scope["path"][1:]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})

limits = ServingLimits(head_timeout_ms=1500, idle_timeout_ms=5000, grace_ms=3000, drain_ms=2000)
serve(app, listener=inherited(int(sys.argv[1])), limits=limits)
print("drained", flush=True)
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listen("127.0.0.1", port=0, setting="test") as listening:
        yield listening


@pytest.fixture
def server(listener: socket.socket) -> Iterator[subprocess.Popen[str]]:
    descriptor = listener.fileno()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(descriptor)], cwd=ROOT, pass_fds=(descriptor,), stdout=subprocess.PIPE, text=True
    )
    get(listener, "/0").close()
    yield process
    process.kill()
    process.communicate(timeout=10)


def get(listener: socket.socket, path: str) -> http.client.HTTPConnection:
    """A kept-alive connection whose first request is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=20)
    connection.request("GET", path)
    assert connection.getresponse().read() == b"ok"
    return connection


@pytest.mark.usefixtures("server")
def test_a_client_that_sends_no_more_is_still_answered(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname(), timeout=20) as connection:
        connection.sendall(b"GET /0.2 HTTP/1.1\r\nhost: a\r\n\r\n")

        connection.shutdown(socket.SHUT_WR)

        with connection.makefile("rb") as answer:
            assert answer.read().endswith(b"ok")


@pytest.mark.parametrize("is_kept_alive", [False, True])
def test_deadlines_that_ran_out_while_everything_stood_still_end_nobody(
    listener: socket.socket, server: subprocess.Popen[str], is_kept_alive: bool
) -> None:
    with closing(get(listener, "/0") if is_kept_alive else connected(listener)) as connection:
        get(listener, "/0").close()  # The first is accepted.

        server.send_signal(signal.SIGSTOP)
        time.sleep(6 if is_kept_alive else 3)  # Longer than an idle connection, or a head, may take.
        server.send_signal(signal.SIGCONT)
        time.sleep(0.3)  # A client that stood still as well has to find its turn.
        connection.request("GET", "/0")

        assert connection.getresponse().read() == b"ok"


def connected(listener: socket.socket) -> http.client.HTTPConnection:
    """A client that has said nothing yet."""
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=20)
    connection.connect()
    return connection


def test_sigterm_lets_a_running_request_finish_and_exits_with_0(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=20)
    connection.request("GET", "/1")
    get(listener, "/0").close()

    server.send_signal(signal.SIGTERM)

    response = connection.getresponse()
    assert (response.read(), response.headers["connection"]) == (b"ok", "close")
    assert server.wait(timeout=20) == 0
    connection.close()


def test_a_request_beyond_the_grace_does_not_hold_the_server(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=30)
    connection.request("GET", "/1000")
    get(listener, "/0").close()

    server.send_signal(signal.SIGTERM)

    assert server.wait(timeout=20) == 0
    connection.close()


def test_a_kept_alive_client_may_send_once_more_while_the_server_drains(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = get(listener, "/0")
    port = listener.getsockname()[1]
    listener.close()

    server.send_signal(signal.SIGTERM)
    while is_listening(port):
        time.sleep(0.005)
    connection.request("GET", "/0")
    response = connection.getresponse()

    assert (response.read(), response.headers["connection"]) == (b"ok", "close")
    assert server.wait(timeout=20) == 0
    connection.close()


def test_an_idle_client_does_not_hold_a_draining_server(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = get(listener, "/0")

    server.send_signal(signal.SIGTERM)

    assert connection.sock.recv(1) == b""
    assert server.wait(timeout=20) == 0
    connection.close()


def test_an_idle_connection_is_closed_after_its_time(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = get(listener, "/0")
    began = time.monotonic()

    assert connection.sock.recv(1) == b""
    assert time.monotonic() - began < 25
    assert server.poll() is None
    connection.close()


def test_a_client_that_reads_no_answers_is_not_kept_for_ever(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    with socket.create_connection(listener.getsockname(), timeout=1) as client:
        # Long enough that what one read brings of them may wait.
        send_until_nobody_reads(client, b"GET /0 HTTP/1.1\r\nhost: a\r\nx-long: %b\r\n\r\n" % (b"x" * 2000) * 10)

        end = time.monotonic() + 25  # five times what it has
        while is_held(client, server):
            assert time.monotonic() < end, "the server keeps the connection"
            time.sleep(0.05)
        assert server.poll() is None


def send_until_nobody_reads(client: socket.socket, data: bytes) -> None:
    with suppress(TimeoutError):
        while True:
            client.sendall(data)


def test_a_client_that_sends_an_empty_line_is_idle_all_the_same(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = get(listener, "/0")
    connection.sock.sendall(b"\r\n")

    connection.sock.settimeout(25)  # five times what it has
    assert connection.sock.recv(1) == b""
    assert server.poll() is None
    connection.close()


@pytest.mark.parametrize("is_first", [True, False])
def test_what_came_while_the_server_was_held_up_is_read_before_a_deadline_counts(
    listener: socket.socket, server: subprocess.Popen[str], is_first: bool
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=20)
    if is_first:
        connection.connect()
        wait_until_accepted(connection, server)
    else:
        connection = get(listener, "/0")
    server.send_signal(signal.SIGSTOP)
    try:
        connection.request("GET", "/0")
        time.sleep(3.0 if is_first else 6.0)  # Longer than a head may take, or a connection be idle: the time itself is what is tried.
    finally:
        server.send_signal(signal.SIGCONT)

    assert connection.getresponse().read() == b"ok"
    connection.close()


def wait_until_accepted(connection: http.client.HTTPConnection, server: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 20
    while not is_held(connection.sock, server):
        assert time.monotonic() < end, "the connection was not accepted in time"
        time.sleep(0.01)


def is_held(client: socket.socket, server: subprocess.Popen[str]) -> bool:
    """Whether the server's process has the other end of the connection."""
    port = client.getsockname()[1]
    found = {link.readlink().name for link in Path(f"/proc/{server.pid}/fd").iterdir() if link.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(int(row[2].rpartition(":")[2], 16) == port and f"socket:[{row[9]}]" in found for row in rows)


def test_sigusr1_leaves_an_idle_client_its_time(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = get(listener, "/0")
    port = listener.getsockname()[1]
    listener.close()

    server.send_signal(signal.SIGUSR1)
    while is_listening(port):
        time.sleep(0.005)
    time.sleep(2.5)  # Longer than a stopping server would wait.
    connection.request("GET", "/0")
    response = connection.getresponse()

    assert (response.read(), response.headers["connection"]) == (b"ok", "close")
    assert server.wait(timeout=20) == 0
    connection.close()


def test_sigterm_hurries_a_server_that_is_leaving(listener: socket.socket, server: subprocess.Popen[str]) -> None:
    connection = get(listener, "/0")
    port = listener.getsockname()[1]
    listener.close()
    server.send_signal(signal.SIGUSR1)
    while is_listening(port):
        time.sleep(0.005)
    began = time.monotonic()

    server.send_signal(signal.SIGTERM)

    assert connection.sock.recv(1) == b""
    assert time.monotonic() - began < 4  # Idle connections have 5 s otherwise.
    assert server.wait(timeout=20) == 0
    connection.close()
