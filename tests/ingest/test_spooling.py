"""A log that is down, hangs, comes back, or may not hold events, for a receiver with its spool; each test has a server of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.spools import read_spools
from infra.streams.entries import as_fields
from infra.streams.keys import Keys
from infra.streams.outcomes import alias_of
from tests.infra.running.processes import run_module
from tests.infra.streams.raw import open_raw
from tests.ingest.receivers import DEADLINE_S, SOURCES, RunningReceiver, post, post_push, start_receiver, wait_until, write_home
from tests.ingest.spooling import segment_files, spooled_events
from tests.ports import free_port

TIMEOUT_MS = 1000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    own = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    own.start()
    yield own
    own.kill()


@pytest.fixture
def started(home: Path, server: EmbeddedServer) -> Iterator[list[RunningReceiver]]:
    write_home(home, log=log_of(server))
    running: list[RunningReceiver] = []
    yield running
    for receiver in running:
        receiver.stop()


def log_of(server: EmbeddedServer) -> LogSettings:
    return LogSettings(url=server.url, timeout_ms=TIMEOUT_MS)


def start(home: Path, started: list[RunningReceiver]) -> RunningReceiver:
    started.append(start_receiver(home))
    return started[-1]


def entries(server: EmbeddedServer, home: Path, *, of: str = "events") -> list[dict[bytes, bytes]]:
    log = log_of(server)
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    names = [[*keys.event_streams(shard)] if of == "events" else [keys.outcomes(shard)] for shard in keys.all_shards()]
    found: list[Any] = [entry for of_shard in names for name in of_shard for entry in client.xrange(name)]
    client.close()
    return [fields if isinstance(fields, dict) else as_fields(fields) for _, fields in found]


def ids_on(server: EmbeddedServer, home: Path) -> list[str]:
    return sorted(fields[b"id"].decode() for fields in entries(server, home))


def waiting(home: Path) -> int:
    return sum(state.events for state in read_spools(home))


def is_drained(home: Path) -> bool:
    return waiting(home) == 0 and not segment_files(home)


def is_kept_on_the_log(receiver: RunningReceiver) -> bool:
    answer = post_push(receiver.port)
    return answer.status == 202 and "spooled" not in answer.json


def test_what_comes_while_the_log_is_down_is_accepted_and_on_the_log_when_it_is_back(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    receiver = start(home, started)
    before = post_push(receiver.port)
    server.kill()

    during = [post_push(receiver.port) for _ in range(20)]
    kept = [event.id for event in spooled_events(home)]
    ready = post(receiver.port, body=b"", headers={}, path="/readyz", method="GET").status
    server.start()
    wait_until(lambda: is_drained(home), what="the spool is emptied")

    accepted = [answer.json["event_id"] for answer in [before, *during]]
    assert ({answer.status for answer in during}, {answer.json.get("spooled") for answer in during}) == ({202}, {True})
    assert (kept, ready) == (accepted[1:], 200)
    assert ids_on(server, home) == sorted(accepted)
    assert {fields[b"id"].decode() for fields in entries(server, home) if fields[b"recheck"] == b"1"} == set(accepted[1:])
    wait_until(lambda: is_kept_on_the_log(receiver), what="later events go straight to the log")
    assert [line for line in receiver.lines if line.get("level") == "error" or "exception" in line] == []


def test_the_parts_of_a_body_are_spooled_and_appended_together(home: Path, server: EmbeddedServer, started: list[RunningReceiver]) -> None:
    splitting = {"demo": {"sources": {"github": {**SOURCES["github"], "split": True}}}}
    write_home(home, log=log_of(server), tenants=splitting)
    server.kill()
    receiver = start(home, started)

    answer = post_push(receiver.port, body=b'[{"n": 1}, {"n": 2},{"n": 3}]', x_github_delivery="one")
    server.start()
    wait_until(lambda: is_drained(home), what="the spool is emptied")
    again = post_push(receiver.port, body=b'[{"n": 1}, {"n": 2},{"n": 3}]', x_github_delivery="one")

    assert (answer.status, answer.json["spooled"], answer.json["parts"]) == (202, True, 3)
    assert [(fields[b"payload"], fields[b"sequence"], fields[b"delivery_id"]) for fields in entries(server, home)] == [
        (b'{"n": 1}', b"1", b"one#1"), (b'{"n": 2}', b"2", b"one#2"), (b'{"n": 3}', b"3", b"one#3"),
    ]  # fmt: skip
    assert again.json == {"event_id": answer.json["event_id"], "duplicate": True, "parts": 3}


def test_a_receiver_starts_without_its_log_and_spools(home: Path, server: EmbeddedServer, started: list[RunningReceiver]) -> None:
    server.kill()
    receiver = start(home, started)

    answer = post_push(receiver.port)

    assert (answer.status, answer.json["spooled"]) == (202, True)
    server.start()
    wait_until(lambda: is_drained(home), what="the spool is emptied")
    assert ids_on(server, home) == [answer.json["event_id"]]


def test_a_log_that_hangs_is_waited_for_once(home: Path, server: EmbeddedServer, started: list[RunningReceiver]) -> None:
    receiver = start(home, started)
    assert post_push(receiver.port).status == 202
    os.kill(server.pid, signal.SIGSTOP)

    began = time.monotonic()
    first = post_push(receiver.port)
    waited_s = time.monotonic() - began
    others = [post_push(receiver.port) for _ in range(20)]
    rest_s = time.monotonic() - began - waited_s
    os.kill(server.pid, signal.SIGCONT)

    assert {answer.status for answer in [first, *others]} == {202}
    assert (waited_s < 5 * TIMEOUT_MS / 1000, rest_s < TIMEOUT_MS / 1000) == (True, True)
    wait_until(lambda: is_drained(home), what="the spool is emptied")
    # The first one was on its way when the log hung: whether it got there or not, it is there once.
    assert len(ids_on(server, home)) == 22


def test_a_delivery_that_is_repeated_while_the_log_is_down_is_one_event_with_an_alias(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    receiver = start(home, started)
    server.kill()
    first, second = (post_push(receiver.port, x_github_delivery="the-same").json["event_id"] for _ in range(2))

    server.start()
    wait_until(lambda: is_drained(home), what="the spool is emptied")

    assert ids_on(server, home) == [first]
    aliases = [alias_of(fields) for fields in entries(server, home, of="outcomes")]
    assert [(alias.event_id, alias.first_id, alias.tenant_id, alias.source) for alias in aliases if alias] == [
        (second, first, "demo", "github")
    ]


def test_a_full_spool_is_503_and_nothing_of_it_is_lost(home: Path, server: EmbeddedServer, started: list[RunningReceiver]) -> None:
    write_home(home, log=log_of(server), ingest={"port": 0, "ops_port": 0, "spool_max_bytes": 1024 * 1024})
    receiver = start(home, started)
    server.kill()
    body = b'{"filler": "' + b"x" * 150_000 + b'"}'

    answers = [post_push(receiver.port, body=body) for _ in range(10)]

    accepted = [answer.json["event_id"] for answer in answers if answer.status == 202]
    refused = [answer for answer in answers if answer.status != 202]
    assert len(accepted) == 6
    assert {(answer.status, answer.code, answer.headers["retry-after"]) for answer in refused} == {(503, "spool_full", "30")}
    assert post(receiver.port, body=b"", headers={}, path="/readyz", method="GET").status == 200  # a small one would fit
    server.start()
    wait_until(lambda: is_drained(home), what="the spool is emptied")
    assert ids_on(server, home) == sorted(accepted)


def test_what_a_killed_receiver_left_is_emptied_by_the_next_one_and_by_one_that_lives(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    living, killed = start(home, started), start(home, started)
    server.kill()
    accepted = [post_push(receiver.port).json["event_id"] for receiver in (living, killed, killed)]
    killed.process.kill()
    killed.process.wait(timeout=DEADLINE_S)

    server.start()
    wait_until(lambda: is_drained(home), what="the one that lives empties both")
    assert ids_on(server, home) == sorted(accepted)

    server.kill()
    accepted.append(post_push(living.port).json["event_id"])
    living.process.kill()
    living.process.wait(timeout=DEADLINE_S)
    server.start()
    start(home, started)
    wait_until(lambda: is_drained(home), what="the next one empties what it finds")
    assert ids_on(server, home) == sorted(accepted)


def test_an_outage_is_told_in_few_lines(home: Path, server: EmbeddedServer, started: list[RunningReceiver]) -> None:
    receiver = start(home, started)
    server.kill()

    for _ in range(300):
        assert post_push(receiver.port).status == 202
    receiver.stop()

    assert len(receiver.lines) < 15
    assert len(receiver.said("the log takes no events; spooling them")) == 1


def test_an_unfit_log_that_comes_back_is_given_nothing_until_it_is_fit(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    receiver = start(home, started)
    accepted = [post_push(receiver.port).json["event_id"]]
    server.kill()
    server.options["appendfsync"] = "everysec"

    starting = threading.Thread(target=server.start)
    starting.start()

    def is_told() -> bool:
        accepted.append(post_push(receiver.port).json["event_id"])
        return bool(receiver.said("the log may lose events; it is given none"))

    wait_until(is_told, what="it is told")
    starting.join()
    # Some of what was in the spool was sent to it by then, perhaps, and is in the spool still.
    assert set(accepted[1:]) <= {event.id for event in spooled_events(home)}
    answers = [post_push(receiver.port).json for _ in range(20)]
    later = [answer["event_id"] for answer in answers]

    shown = run_module("infra.running.status", home=home)

    assert all(answer["spooled"] for answer in answers)
    assert set(later).isdisjoint(ids_on(server, home))
    assert (shown.returncode, "appendfsync is everysec" in shown.stdout) == (1, True)
    accepted += later
    with closing(open_raw(LogSettings(url=server.url), home=home)) as operator:
        operator.config_set("appendfsync", "always")
    wait_until(lambda: is_drained(home), what="what came meanwhile is on the log")
    assert ids_on(server, home) == sorted(accepted)


def test_while_the_log_is_down_status_counts_what_the_receiver_keeps(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    receiver = start(home, started)
    wait_until(lambda: is_kept_on_the_log(receiver), what="the log takes an event")
    server.kill()
    assert [post_push(receiver.port).status for _ in range(7)] == [202] * 7

    shown = run_module("infra.running.status", home=home)

    assert shown.returncode == 3
    assert "spool of receiver-0: 7 events (" in shown.stdout
    assert "no receiver runs" not in shown.stdout


@pytest.mark.fault("B13")
def test_while_the_log_has_another_password_events_are_spooled_until_the_settings_have_it_too(
    home: Path, server: EmbeddedServer, started: list[RunningReceiver]
) -> None:
    receiver = start(home, started)
    accepted = [post_push(receiver.port).json["event_id"]]
    with closing(open_raw(log_of(server), home=home)) as operator:
        operator.config_set("requirepass", "another-password")
        operator.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server.password = "another-password"

    answers = [post_push(receiver.port) for _ in range(10)]
    wait_until(lambda: any("WRONGPASS" in line.get("reason", "") for line in receiver.lines), what="it is said why")
    write_home(home, log=log_of(server))
    receiver.process.send_signal(signal.SIGHUP)
    wait_until(lambda: is_drained(home), what="what came meanwhile is on the log")

    accepted += [answer.json["event_id"] for answer in answers]
    assert {answer.status for answer in answers} == {202}
    assert ids_on(server, home) == sorted(accepted)
    assert receiver.process.poll() is None
