"""Raw bytes on the receiver's socket: whatever is sent, the answer is a 4xx or a closed connection, and nothing is stored."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from schemas.event import StreamEvent
from tests.ingest.receivers import DEADLINE_S, PATH, PUSH, RunningReceiver, post_push, signed_headers

Stored = Callable[[], dict[str, StreamEvent]]


@pytest.fixture
def wire(receiver: RunningReceiver) -> Iterator[socket.socket]:
    with closing(socket.create_connection(("127.0.0.1", receiver.port), timeout=10)) as connection:
        yield connection


def head(*lines: str, body: bytes = PUSH) -> bytes:
    signed = [f"{name}: {value}" for name, value in signed_headers(body).items()]
    return "\r\n".join([f"POST {PATH} HTTP/1.1", "Host: x", *signed, *lines, "", ""]).encode("latin-1")


def answer_of(wire: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """One answer off the wire; status 0 when the connection ends without one."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = wire.recv(65536)
        if not chunk:
            return 0, {}, received
        received += chunk
    lines, _, body = received.partition(b"\r\n\r\n")
    first, *rest = lines.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    while len(body) < int(headers.get("content-length", 0)):
        body += wire.recv(65536)
    return int(first.split()[1]), headers, body


def send_until_closed(wire: socket.socket) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        wire.sendall(b"x" * 65536)


def test_the_same_bytes_without_a_trick_are_accepted(wire: socket.socket) -> None:
    wire.sendall(head(f"Content-Length: {len(PUSH)}") + PUSH)

    assert answer_of(wire)[0] == 202


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([f"Content-Length: {len(PUSH)}", "Transfer-Encoding: chunked"], id="length and chunked"),
        pytest.param(["Transfer-Encoding: chunked", f"Content-Length: {len(PUSH)}"], id="chunked and length"),
        pytest.param([f"Content-Length: {len(PUSH)}", f"Content-Length: {len(PUSH) + 1}"], id="two lengths"),
        pytest.param([f"Content-Length: {len(PUSH)}", f"Content-Length: {len(PUSH)}"], id="the same length twice"),
        pytest.param(["Content-Length: -5"], id="negative length"),
        pytest.param([f"Content-Length: +{len(PUSH)}"], id="length with a sign"),
        pytest.param(["Content-Length: 1_000"], id="length with an underscore"),
        pytest.param([f"Content-Length: {10**30}"], id="length beyond 64 bits"),
        pytest.param(["Transfer-Encoding: gzip"], id="transfer encoding that has no end"),
        pytest.param([f"Content-Length: {len(PUSH)}", "X-Bad Name: 1"], id="space in a header name"),
        pytest.param([f"Content-Length: {len(PUSH)}", "X-Nul: a\x00b"], id="NUL in a header"),
        pytest.param([f"Content-Length: {len(PUSH)}", "X-GitHub-Event: ping"], id="two event types"),
        pytest.param([f"Content-Length: {len(PUSH)}", "X-Hub-Signature-256: sha256=00"], id="two signatures"),
        pytest.param([f"Content-Length: {len(PUSH)}", "Content-Type: text/plain"], id="two content types"),
        pytest.param([f"Content-Length: {len(PUSH)}", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"], id="h2c"),
        pytest.param([f"Content-Length: {len(PUSH)}", "Connection: Upgrade", "Upgrade: websocket"], id="websocket"),
    ],
)
def test_a_request_that_could_mean_two_things_is_refused(wire: socket.socket, stored: Stored, lines: list[str]) -> None:
    before = set(stored())

    wire.sendall(head(*lines) + PUSH)

    status, headers, body = answer_of(wire)
    assert (status, headers["content-type"], json.loads(body)["error"]["code"]) == (400, "application/json", "malformed_request")
    assert set(stored()) == before


def test_a_chunked_body_under_an_upgrade_is_refused(wire: socket.socket, stored: Stored) -> None:
    before = set(stored())

    wire.sendall(head("Transfer-Encoding: chunked", "Connection: Upgrade", "Upgrade: h2c") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(PUSH), PUSH))

    assert answer_of(wire)[0] == 400
    assert set(stored()) == before


def test_an_upgrade_header_that_asks_for_nothing_is_harmless(wire: socket.socket, stored: Stored) -> None:
    wire.sendall(head(f"Content-Length: {len(PUSH)}", "Upgrade: h2c") + PUSH)

    status, _, body = answer_of(wire)

    assert status == 202
    assert stored()[json.loads(body)["event_id"]].payload == PUSH


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"GET\r\n\r\n",
        b"HELO example.com\r\n\r\n",
        b"POST " + b"\xff" * 20 + b" HTTP/1.1\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        # Their bodies are still to come.
        b"POST http://example.com HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        b"POST /\xff HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_http_request_gets_400(wire: socket.socket, garbage: bytes) -> None:
    wire.sendall(garbage)

    status, _, body = answer_of(wire)
    assert status in (400, 404)
    assert b"error" in body


def test_a_broken_chunk_is_refused(wire: socket.socket, stored: Stored) -> None:
    before = set(stored())

    wire.sendall(head("Transfer-Encoding: chunked") + b"zz\r\nnot a chunk\r\n0\r\n\r\n")

    assert answer_of(wire)[0] == 400
    assert set(stored()) == before


def test_a_chunked_body_is_cut_off_at_the_cap(wire: socket.socket, stored: Stored) -> None:
    before = set(stored())
    chunk = b"%x\r\n%b\r\n" % (65536, b"x" * 65536)

    wire.sendall(head("Transfer-Encoding: chunked") + chunk * 4)

    assert answer_of(wire)[0] == 413
    assert set(stored()) == before


def test_a_declared_length_above_the_cap_is_refused_before_the_body_comes(wire: socket.socket) -> None:
    wire.sendall(head("Content-Length: 999999999"))

    assert answer_of(wire)[0] == 413


def test_a_sender_that_sends_all_of_a_body_that_is_too_large_reads_its_answer(wire: socket.socket) -> None:
    wire.sendall(head("Content-Length: 3000000"))
    wire.sendall(b"x" * 3_000_000)

    assert answer_of(wire)[0] == 413


def test_a_refused_body_that_does_not_end_is_not_read_for_ever(wire: socket.socket) -> None:
    wire.sendall(head("Content-Length: 999999999999"))
    assert answer_of(wire)[0] == 413

    with pytest.raises(ConnectionError):
        send_until_closed(wire)


def test_a_body_that_comes_too_slowly_gets_408(wire: socket.socket, stored: Stored) -> None:
    before = set(stored())

    wire.sendall(head(f"Content-Length: {len(PUSH)}") + PUSH[:-1])

    status, headers, _ = answer_of(wire)
    assert (status, headers["connection"]) == (408, "close")
    assert set(stored()) == before


def test_headers_that_come_too_slowly_get_408(wire: socket.socket) -> None:
    wire.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\n".encode())

    assert answer_of(wire)[0] == 408


def test_a_connection_that_says_nothing_is_closed(wire: socket.socket) -> None:
    assert wire.recv(1) == b""


@pytest.mark.parametrize("line", [b"X-Endless: ", b"X-A: 1\r\n"])
def test_headers_without_an_end_are_cut_off(wire: socket.socket, line: bytes) -> None:
    wire.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\n".encode() + line)
    filler = b"x" * 20_000 if line.endswith(b": ") else line * 2_500
    for _ in range(5):
        wire.sendall(filler)

    assert answer_of(wire)[0] == 431


def test_a_sender_that_goes_away_in_the_middle_leaves_nothing_behind(receiver: RunningReceiver, stored: Stored) -> None:
    before = set(stored())
    for _ in range(20):
        with closing(socket.create_connection(("127.0.0.1", receiver.port), timeout=10)) as wire:
            wire.sendall(head(f"Content-Length: {len(PUSH)}") + PUSH[:20])

    # A later request on another connection is answered after the receiver has seen those go.
    accepted = post_push(receiver.port)

    assert accepted.status == 202
    assert set(stored()) - before == {accepted.json["event_id"]}


def test_a_sender_may_ask_before_it_sends(wire: socket.socket) -> None:
    wire.sendall(head(f"Content-Length: {len(PUSH)}", "Expect: 100-continue"))
    assert wire.recv(65536).startswith(b"HTTP/1.1 100 ")

    wire.sendall(PUSH)

    assert answer_of(wire)[0] == 202


def test_both_ways_answer_with_the_date(wire: socket.socket) -> None:
    found = []
    for path in (PATH, f"{PATH}?long"):
        wire.sendall(head(f"Content-Length: {len(PUSH)}").replace(PATH.encode(), path.encode(), 1) + PUSH)
        found.append(answer_of(wire))

    assert [status for status, _, _ in found] == [202, 202]
    assert all("date" in headers for _, headers, _ in found)


def test_pipelined_requests_are_answered_in_order(wire: socket.socket) -> None:
    good = head(f"Content-Length: {len(PUSH)}") + PUSH
    wire.sendall(good + b"POST /hooks/demo/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + good)

    received = b""
    while received.count(b"HTTP/1.1 ") < 3 or not received.endswith(b"}"):
        received += wire.recv(65536)

    assert [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]] == [b"202", b"404", b"202"]


@pytest.mark.parametrize("query", ["", "?long"])
@pytest.mark.parametrize(
    ("rest", "status"),
    [
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ", 408, id="slow head"),
        pytest.param(b"no request\r\n\r\n", 400, id="malformed"),
    ],
)
def test_an_accepted_request_has_its_answer_before_the_next_one_is_refused(
    wire: socket.socket, stored: Stored, query: str, rest: bytes, status: int
) -> None:
    body = PUSH[:-1] + b" " * 120_000 + b"}"
    good = head(f"Content-Length: {len(body)}", body=body).replace(PATH.encode(), f"{PATH}{query}".encode(), 1) + body

    wire.sendall(good + rest)
    received = b"".join(iter(lambda: wire.recv(65536), b""))

    _, accepted, refused = received.split(b"HTTP/1.1 ")
    assert (accepted[:3], refused[:3]) == (b"202", b"%d" % status)
    assert json.loads(accepted.partition(b"\r\n\r\n")[2])["event_id"] in stored()


def test_nothing_of_all_this_was_an_error_of_ours(receiver: RunningReceiver) -> None:
    assert [line for line in receiver.lines if line.get("level") == "error" or "exception" in line or line["event"] == "not JSON"] == []
    assert post_push(receiver.port).status == 202
