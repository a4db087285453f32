"""A log that is down, comes back, or may not hold events, for a receiver without a spool; each test has a server of its own.

With a spool, see `test_spooling.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from tests.infra.streams.raw import open_raw
from tests.ingest.receivers import RunningReceiver, post, post_push, start_receiver, wait_until, write_home
from tests.ports import free_port

UNFIT = "the log may lose events; it is given none"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """Not started yet."""
    own = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    yield own
    own.stop()


@pytest.fixture
def started(home: Path, server: EmbeddedServer) -> Iterator[list[RunningReceiver]]:
    """Receivers that the test has started; they are stopped when it ends."""
    write_home(home, log=LogSettings(url=server.url, timeout_ms=1000), ingest={"port": 0, "ops_port": 0, "spool": False})
    running: list[RunningReceiver] = []
    yield running
    for receiver in running:
        receiver.stop()


def is_accepted(receiver: RunningReceiver) -> bool:
    return post_push(receiver.port).status == 202


def is_ready(receiver: RunningReceiver) -> bool:
    pages = [post(port, body=b"", headers={}, path="/readyz", method="GET").status for port in (receiver.port, receiver.ops_port)]
    return pages == [200, 200]


def test_a_receiver_starts_without_its_log_and_accepts_when_the_log_comes(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    receiver = start_receiver(home)
    started.append(receiver)

    answer = post_push(receiver.port)
    wrong = post_push(receiver.port, x_hub_signature_256="sha256=00")
    health = post(receiver.port, body=b"", headers={}, path="/healthz", method="GET")

    assert (answer.status, answer.code) == (503, "stream_unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert str(server.port) not in answer.body.decode()
    assert (wrong.status, health.status, is_ready(receiver)) == (401, 200, False)

    server.start()

    wait_until(lambda: is_accepted(receiver), what="an event is accepted without a restart")
    wait_until(lambda: is_ready(receiver), what="the receiver calls itself ready")


def test_a_log_that_dies_and_returns_is_used_again(home: Path, server: EmbeddedServer, started: list[RunningReceiver]) -> None:
    server.start()
    receiver = start_receiver(home)
    started.append(receiver)
    assert is_accepted(receiver)

    server.kill()
    during = [post_push(receiver.port) for _ in range(50)]
    wait_until(lambda: not is_ready(receiver), what="the receiver calls itself not ready")
    server.start()

    assert {answer.status for answer in during} == {503}
    assert all("retry-after" in answer.headers for answer in during)
    wait_until(lambda: is_accepted(receiver), what="an event is accepted without a restart")
    assert [line for line in receiver.lines if line.get("level") == "error" or "exception" in line] == []


def test_an_outage_does_not_fill_the_log_file(home: Path, server: EmbeddedServer, started: list[RunningReceiver]) -> None:
    receiver = start_receiver(home)
    started.append(receiver)

    for _ in range(300):
        assert post_push(receiver.port).status == 503
    receiver.stop()

    refusals = receiver.said("request refused")
    seconds = {line["timestamp"][:19] for line in refusals}
    assert 1 <= len(refusals) <= 5 * (len(seconds) + 1)
    assert not server.answers()


def test_an_unfit_log_that_comes_later_is_given_nothing_until_it_is_fit(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    server.options["appendfsync"] = "everysec"
    receiver = start_receiver(home)
    started.append(receiver)
    assert post_push(receiver.port).status == 503

    # Events keep coming while the server appears: none of them may be the one that is not synced.
    statuses = statuses_until_told_unfit(receiver, server=server)

    assert set(statuses) == {503}
    assert not is_ready(receiver)
    assert any("appendfsync is everysec" in line["reason"] for line in receiver.said(UNFIT))
    sync_always(server, home=home)
    wait_until(lambda: is_accepted(receiver), what="an event is accepted without a restart")


def test_a_log_that_comes_back_unfit_is_given_nothing_until_it_is_fit(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    server.start()
    receiver = start_receiver(home)
    started.append(receiver)
    assert is_accepted(receiver)
    server.kill()
    assert post_push(receiver.port).status == 503
    server.options["appendfsync"] = "everysec"

    statuses = statuses_until_told_unfit(receiver, server=server)

    assert set(statuses) == {503}
    sync_always(server, home=home)
    wait_until(lambda: is_accepted(receiver), what="an event is accepted without a restart")
    assert len(receiver.said(UNFIT)) == 1


def test_a_log_that_becomes_unfit_under_its_connection_is_found_out(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    server.start()
    receiver = start_receiver(home)
    started.append(receiver)
    assert is_accepted(receiver)

    with closing(open_raw(LogSettings(url=server.url), home=home)) as operator:
        operator.config_set("proto-max-bulk-len", "1048576")

    wait_until(lambda: not is_accepted(receiver), what="no event is accepted")
    assert any("proto-max-bulk-len is 1048576" in line["reason"] for line in receiver.said(UNFIT))


def statuses_until_told_unfit(receiver: RunningReceiver, *, server: EmbeddedServer) -> list[int]:
    """Of events that come while the server appears, and for a while afterwards."""
    starting = threading.Thread(target=server.start)
    starting.start()
    statuses: list[int] = []

    def is_told() -> bool:
        statuses.append(post_push(receiver.port).status)
        return bool(receiver.said(UNFIT))

    wait_until(is_told, what="it is told")
    starting.join()
    return [*statuses, *(post_push(receiver.port).status for _ in range(20))]


def sync_always(server: EmbeddedServer, *, home: Path) -> None:
    with closing(open_raw(LogSettings(url=server.url), home=home)) as operator:
        operator.config_set("appendfsync", "always")
