"""Whatever keeps the log from taking events, the receiver goes on accepting them, and the log has each of them once afterwards.

One receiver and one server for all faults of a server that goes on running; the control's accepts as well, and keeps nothing.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from schemas.errors import StreamUnavailable
from tests.faults.disks import injected
from tests.faults.outage import Outage, outage
from tests.faults.receiver_process import REAL
from tests.infra.running.processes import until
from tests.infra.streams.raw import open_raw
from tests.ports import free_port

BROKEN = "tests.faults.broken.receiver_keeps_nothing"
_numbers = itertools.count()

pytestmark = pytest.mark.timeout(120)

Fault = Callable[[Outage], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    with outage(REAL, folder=tmp_path_factory.mktemp("real")) as at:
        yield at


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    with outage(BROKEN, folder=tmp_path_factory.mktemp("broken")) as at:
        yield at


@contextmanager
def killed(at: Outage) -> Iterator[None]:
    at.server.kill()
    try:
        yield
    finally:
        at.server.start()


@contextmanager
def hanging(at: Outage) -> Iterator[None]:
    os.kill(at.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(at.server.pid, signal.SIGCONT)


@contextmanager
def out_of_memory(at: Outage) -> Iterator[None]:
    with operator(at) as client:
        client.config_set("maxmemory", "1mb")
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")


@contextmanager
def read_only(at: Outage) -> Iterator[None]:
    """A primary that has too few replicas to write."""
    with operator(at) as client:
        client.config_set("min-replicas-to-write", "1")
        try:
            yield
        finally:
            client.config_set("min-replicas-to-write", "0")


@contextmanager
def without_rights(at: Outage) -> Iterator[None]:
    """The receiver's user may run no script any more, and its connections stay."""
    with operator(at) as client:
        client.execute_command("ACL", "SETUSER", "keeper", "on", ">another-password", "~*", "+@all")
        client.execute_command("ACL", "SETUSER", "default", "-eval", "-evalsha")
        try:
            yield
        finally:
            client.execute_command("AUTH", "keeper", "another-password")
            client.execute_command("ACL", "SETUSER", "default", "+eval", "+evalsha")


@contextmanager
def damaged(at: Outage) -> Iterator[None]:
    """A byte of its file was flipped, so the server does not start; somebody mends it."""
    at.server.kill()
    file = max((at.server.directory / "appendonlydir").glob("*.incr.aof"))
    data = file.read_bytes()
    flipped = bytearray(data)
    flipped[data.index(b"*", 10)] ^= 0x40
    file.write_bytes(flipped)
    with pytest.raises(StreamUnavailable):
        at.server.start()
    try:
        yield
    finally:
        file.write_bytes(data)
        at.server.start()


@contextmanager
def rewriting(at: Outage) -> Iterator[None]:
    """It dies in the middle of writing its file anew, when what it has is in three files."""
    with operator(at) as client:
        client.config_set("rdb-key-save-delay", "1000000")  # µs for each key
        client.bgrewriteaof()
        until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 1, what="it writes its file anew")
        at.send(f"meanwhile-{next(_numbers)}")
    at.server.kill()
    try:
        yield
    finally:
        at.server.start()


@contextmanager
def failing_to_sync(at: Outage) -> Iterator[None]:
    """Its disk says so once, and the server ends: what came before may be missing."""
    try:
        with injected(at.server.pid, "error=EIO:when=1"):
            yield
    finally:
        at.server.kill()
        at.server.start()


@contextmanager
def slow(at: Outage) -> Iterator[None]:
    """Its disk takes longer to sync than the receiver waits, and still syncs when the next ones come.

    It stores in the end what came before its sync; what comes meanwhile does not reach it in time, and is lost unless somebody keeps it.
    """
    with injected(at.server.pid, "delay_enter=5s"):
        yield


@contextmanager
def operator(at: Outage) -> Iterator[Any]:
    client = open_raw(LogSettings(url=at.server.url), home=at.home)
    try:
        yield client
    finally:
        client.close()


FAULTS = [
    pytest.param(killed, id="killed", marks=pytest.mark.fault("B1")),
    pytest.param(damaged, id="damaged", marks=pytest.mark.fault("B3")),
    pytest.param(rewriting, id="rewriting", marks=pytest.mark.fault("B3")),
    pytest.param(hanging, id="hanging", marks=pytest.mark.fault("B4")),
    pytest.param(slow, id="slow", marks=pytest.mark.fault("B5")),
    pytest.param(out_of_memory, id="out_of_memory", marks=pytest.mark.fault("B8")),
    pytest.param(failing_to_sync, id="failing_to_sync", marks=pytest.mark.fault("B11")),
    pytest.param(read_only, id="read_only", marks=pytest.mark.fault("B12")),
    pytest.param(without_rights, id="without_rights", marks=pytest.mark.fault("B13")),
]
CONTROLS = [
    pytest.param(killed, id="killed", marks=pytest.mark.control("B1")),
    pytest.param(damaged, id="damaged", marks=pytest.mark.control("B3")),
    pytest.param(rewriting, id="rewriting", marks=pytest.mark.control("B3")),
    pytest.param(hanging, id="hanging", marks=pytest.mark.control("B4")),
    pytest.param(slow, id="slow", marks=pytest.mark.control("B5")),
    pytest.param(out_of_memory, id="out_of_memory", marks=pytest.mark.control("B8")),
    pytest.param(failing_to_sync, id="failing_to_sync", marks=pytest.mark.control("B11")),
    pytest.param(read_only, id="read_only", marks=pytest.mark.control("B12")),
    pytest.param(without_rights, id="without_rights", marks=pytest.mark.control("B13")),
]


def accepted_during(fault: Fault, *, at: Outage, count: int) -> list[str]:
    """Deliveries that are sent before, during and after a fault; all of them have to be accepted."""
    deliveries = [f"{fault.__name__}-{next(_numbers)}" for _ in range(count)]
    half = count // 2
    at.send(deliveries[0])
    with fault(at):
        at.send(*deliveries[1:half])
    at.send(*deliveries[half:])
    at.drained()
    assert set(at.answers) == at.accepted
    return deliveries


@pytest.mark.parametrize("fault", FAULTS)
def test_all_that_is_sent_while_the_log_takes_nothing_is_on_it_once_afterwards(real: Outage, fault: Fault, times: int) -> None:
    deliveries = accepted_during(fault, at=real, count=20 * times)

    stored = real.stored()
    assert stored == dict.fromkeys(real.accepted, 1)
    assert real.spooled(*deliveries[1 : len(deliveries) // 2])
    until(lambda: not real.spooled(*_sent(real)), what="events go straight to the log again")


@pytest.mark.parametrize("fault", CONTROLS)
def test_a_receiver_that_keeps_nothing_has_lost_what_it_accepted(broken: Outage, fault: Fault) -> None:
    deliveries = accepted_during(fault, at=broken, count=20)

    stored = broken.stored()
    assert [delivery for delivery in deliveries if not stored[delivery]] != []


@pytest.mark.fault("B1")
def test_what_was_accepted_on_a_relaxed_log_outlives_a_kill_of_its_server(tmp_path: Path, times: int) -> None:
    """As far as it was written: it is with the kernel then, if not on the disk. What the server still had goes with it."""
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password", options={"appendfsync": "everysec"})
    server.start()
    with outage(REAL, folder=tmp_path, server=server, LOG__DURABILITY="relaxed") as at:
        for number in range(5 * times):
            at.send(f"before-{number}")
            until(lambda: has_written_all(at), what="the kernel has what was accepted")
            with killed(at):
                at.send(f"during-{number}")
        at.drained()

        assert at.accepted == set(at.answers)
        assert at.stored() == dict.fromkeys(at.accepted, 1)


def has_written_all(at: Outage) -> bool:
    """A server that syncs in the background does not write meanwhile, and answers all the same."""
    with operator(at) as client:
        found: dict[str, int] = client.info("persistence")
    return found["aof_buffer_length"] == found["aof_pending_bio_fsync"] == 0


HANGS_FOR_S = {1: 3, 5: 120}
"""By how much larger than at its smallest the test is."""
SENDERS = 8


@pytest.mark.fault("B4")
@pytest.mark.timeout(600)
def test_a_log_that_hangs_for_long_lets_nothing_pile_up_and_nobody_wait(tmp_path: Path, times: int) -> None:
    with outage(REAL, folder=tmp_path) as at:
        said = send_through_a_hang(at, seconds=HANGS_FOR_S[times])
        at.drained()
        stored = at.stored()
        until(lambda: not at.spooled(*_sent(at)), what="events go straight to the log again")

    assert {answer.status_code for answer in at.answers.values()} == {202}
    assert stored == dict.fromkeys(said.deliveries, 1)
    # Those that wait for the log when it begins to hang wait for `log.timeout_ms`, half a second, and nobody after them.
    assert said.longest_s < 5
    assert said.spooled > SENDERS * HANGS_FOR_S[times]
    # A connection for each sender; a thread for the spool, and those that look at the log, which are few however long it hangs.
    assert said.most_threads <= said.threads_before + 8
    assert said.most_open_files <= said.open_files_before + SENDERS + 16
    assert said.most_memory_kb <= said.memory_kb_before + 16 * 1024


@dataclass(slots=True)
class Said:
    """What a receiver looked like before its log hung, and at most while it did; and how it answered meanwhile."""

    threads_before: int
    open_files_before: int
    memory_kb_before: int
    most_threads: int = 0
    most_open_files: int = 0
    most_memory_kb: int = 0
    longest_s: float = 0
    spooled: int = 0
    deliveries: list[str] = field(default_factory=list)


def send_through_a_hang(at: Outage, *, seconds: float) -> Said:
    """Some senders that pause a little after each answer, from when the log hangs until it is back."""
    at.send(*(f"first-{number}" for number in range(20)))
    said = Said(at.receiver.threads, at.receiver.open_files, at.receiver.memory_kb)
    is_over = threading.Event()

    def send(sender: int) -> None:
        for number in itertools.count():
            if is_over.wait(0.02):
                return
            began = time.monotonic()
            at.send(f"{sender}-{number}")
            said.longest_s = max(said.longest_s, time.monotonic() - began)

    with ThreadPoolExecutor(SENDERS) as pool:
        sending = [pool.submit(send, sender) for sender in range(SENDERS)]
        try:
            with hanging(at):
                _watch(at, said=said, seconds=seconds)
            answered = len(at.answers)
            until(lambda: len(at.answers) >= answered + SENDERS, what="they send on when the log is back")
        finally:
            is_over.set()
    for one in sending:
        one.result()
    said.deliveries = list(at.answers)
    said.spooled = sum(at.spooled(delivery) for delivery in said.deliveries)
    return said


def _watch(at: Outage, *, said: Said, seconds: float) -> None:
    until_then = time.monotonic() + seconds
    while time.monotonic() < until_then:
        said.most_threads = max(said.most_threads, at.receiver.threads)
        said.most_open_files = max(said.most_open_files, at.receiver.open_files)
        said.most_memory_kb = max(said.most_memory_kb, at.receiver.memory_kb)
        time.sleep(0.1)


def _sent(at: Outage) -> list[str]:
    delivery = f"afterwards-{next(_numbers)}"
    at.send(delivery)
    return [delivery]
