"""Bodies that end in the middle, and bodies that are too large: neither reaches the log. The controls store them."""

from __future__ import annotations

import socket
import uuid
from pathlib import Path

import pytest
import yaml

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from tests.faults.hostile.verdict import bodies_on
from tests.faults.receiver_process import ReceiverProcess, receiver_process
from tests.infra.running.processes import run_module
from tests.ports import free_port

TOKEN = "a-token-0123456789-abcdef"
MAX_BYTES = 10_000
WHOLE = b'{"object_kind": "push", "whole": true}'


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param("ingest", True, id="real", marks=pytest.mark.fault("A5")),
        pytest.param("tests.faults.broken.receiver_stores_what_came", False, id="control", marks=pytest.mark.control("A5")),
    ],
)
def test_of_a_sender_that_goes_away_in_the_middle_nothing_is_stored(
    log_server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    log = write_home(tmp_path, url=log_server.url)
    with receiver_process(module, home=tmp_path, log_url=log.url, settings={}) as running:
        for number in range(20 * times):
            # A token proves nothing about the body, so that only the receiver's own care is in the way.
            with connect(running) as wire:
                wire.sendall(head(f"Content-Length: {len(WHOLE)}") + WHOLE[: number % len(WHOLE)])
            with connect(running) as wire:
                wire.sendall(head("Transfer-Encoding: chunked") + b"5\r\n%b\r\n" % WHOLE[:5])
        statuses = [status_of(running, head(f"Content-Length: {len(WHOLE)}") + WHOLE) for _ in range(5)]

    stored = set(bodies_on(log, home=tmp_path).values())
    assert statuses == [202] * 5
    assert (stored == {WHOLE}) is is_faithful


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param("ingest", True, id="real", marks=pytest.mark.fault("B15")),
        pytest.param("tests.faults.broken.receiver_takes_any_size", False, id="control", marks=pytest.mark.control("B15")),
    ],
)
def test_a_body_above_the_cap_is_413_and_never_reaches_the_log(
    log_server: EmbeddedServer, tmp_path: Path, module: str, is_faithful: bool
) -> None:
    log = write_home(tmp_path, url=log_server.url)
    large = b'{"a": "%b"}' % (b"x" * MAX_BYTES)
    with receiver_process(module, home=tmp_path, log_url=log.url, settings={}) as running:
        declared = status_of(running, head(f"Content-Length: {len(large)}") + large)
        in_chunks = status_of(running, head("Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(large), large))
        fitting = status_of(running, head(f"Content-Length: {MAX_BYTES}") + b"{%b}" % (b" " * (MAX_BYTES - 2)))

    sizes = {len(body) for body in bodies_on(log, home=tmp_path).values()}
    assert fitting == 202
    assert ((declared, in_chunks) == (413, 413)) is is_faithful
    assert (max(sizes) == MAX_BYTES) is is_faithful


@pytest.mark.fault("B15")
def test_a_receiver_does_not_start_over_a_log_that_takes_no_bodies_as_large_as_they_may_be(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password", options={"proto-max-bulk-len": "1048576"})
    write_home(tmp_path / "home", url=server.url)
    server.start()
    try:
        ended = run_module("ingest", home=tmp_path / "home", LOG__URL=server.url)
    finally:
        server.kill()

    assert ended.returncode == 2
    assert "proto-max-bulk-len is 1048576, so that it takes no event of a larger body" in ended.stderr


def write_home(home: Path, *, url: str) -> LogSettings:
    log = LogSettings(url=url, prefix=f"{home.name}:".lower())
    (home / "secrets").mkdir(mode=0o700, parents=True)
    (home / "secrets" / "token").touch(mode=0o600)
    (home / "secrets" / "token").write_text(TOKEN)
    source = {"scheme": "gitlab-token", "secrets": ["file:secrets/token"], "max_body_bytes": MAX_BYTES}
    content = {"log": {"prefix": log.prefix}, "tenants": {"demo": {"sources": {"gitlab": source}}}}
    (home / "hooklake.yaml").write_text(yaml.safe_dump(content))
    return log


def connect(running: ReceiverProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.port), timeout=20)


def head(framing: str) -> bytes:
    lines = ["POST /hooks/demo/gitlab HTTP/1.1", "Host: x", f"X-Gitlab-Token: {TOKEN}", f"X-Gitlab-Event-UUID: {uuid.uuid4()}"]
    return "\r\n".join([*lines, "Content-Type: application/json", "X-Gitlab-Event: Push Hook", framing, "", ""]).encode()


def status_of(running: ReceiverProcess, data: bytes) -> int:
    with connect(running) as wire:
        wire.sendall(data)
        return int(wire.recv(65536).split()[1])
